"""The two ways to arrive at a number, which must never stand in one table.

`full` is BEIR's and trec_eval's: the whole corpus is searched, the gain of NDCG is the grade, and its ideal ranking
holds every relevant document there is.

`paper` is that of Avey-B's paper (arXiv 2602.15814), there to be put beside its numbers: only the documents that occur
in the judgements of the split are searched, a grade counts as relevant or not, and the ideal ranking is made of what
was retrieved. So it never asks what was missed. Its metric has a name of its own, `paper-ndcg@10`.

For example, of two relevant documents one is found in place 3 and the other is not among the first ten. The gain is
1 / log2(3 + 1) = 0.5. `full` divides by what both would have gained in places 1 and 2, 1 + 1 / log2(3) = 1.631, and
gives 0.307; `paper` divides by what the one that was found would have gained in place 1, which is 1, and gives 0.500.
What is searched differs as well: of SciFact's 5,183 documents the test judgements name 283, so less is in the way.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

from aveyb_ir.data import Qrels

Protocol: TypeAlias = Literal["full", "paper"]

DEFAULT_METRICS = ("ndcg@10", "recall@100", "map", "mrr@10")
PAPER_METRICS = ("paper-ndcg@10",)

_DEV_SETS = ("msmarco",)  # BEIR reports these on their development queries


def usual_split(data: str) -> str:
    """Give the split that a collection's published numbers are about."""
    return "dev" if data in _DEV_SETS else "test"


def metrics_of(protocol: Protocol, metrics: Sequence[str] | None) -> Sequence[str]:
    """Give the metrics to compute: those asked for, or the protocol's usual ones.

    Raises:
        ValueError: an unknown protocol, no metric at all, or a metric of the other protocol.
    """
    if protocol not in get_args(Protocol):
        raise ValueError(f"protocol {protocol!r}; expected one of {', '.join(get_args(Protocol))}; choose one")
    if metrics is None:
        return PAPER_METRICS if protocol == "paper" else DEFAULT_METRICS
    if isinstance(metrics, str) or not metrics:
        raise ValueError(f"metrics {metrics!r}; expected a sequence of at least one name, such as ['ndcg@10']")
    for name in metrics:
        if name.startswith("paper-") != (protocol == "paper"):
            raise ValueError(
                f"metric {name!r} with protocol {protocol!r}; expected paper-ndcg@k with 'paper' and all others with "
                "'full', since their numbers cannot be compared; change one of the two"
            )
    return metrics


def pool_of(qrels: Qrels) -> set[str]:
    """All documents that occur in the judgements, relevant or not: the corpus of `paper`."""
    return {id_ for judged in qrels.values() for id_ in judged}

"""What reranking was worth, and the most it could be: no reranker finds what the first stage did not."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from aveyb_ir.data import OwnDocument
from aveyb_ir.evaluation.metrics import first_hits
from aveyb_ir.evaluation.runs import evaluate_run


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The most that reranking a first stage's best documents can reach, as means over all judged queries.

    Attributes:
        depth: How many documents of each query are reranked.
        recall: Share of the relevant documents among them, recall@depth.
        ndcg: NDCG@10 of a reranker that orders them by their grades.
    """

    depth: int
    recall: float
    ndcg: float

    def __str__(self) -> str:
        return f"at best {self.ndcg:.4f} with these candidates (recall@{self.depth} {self.recall:.4f})"


@dataclass(frozen=True, slots=True)
class RerankingQuality:
    """NDCG@10 before and after reranking, and what limits it.

    Attributes:
        before: NDCG@10 of the first stage.
        after: NDCG@10 of the reranked run.
        ceiling: The most it could be.
        num_queries: Over how many judged queries the means are.
        num_unanswered: How many of them the first stage left without a document; they count as 0.
    """

    before: float
    after: float
    ceiling: Ceiling
    num_queries: int
    num_unanswered: int = 0

    def __str__(self) -> str:
        unanswered = f" ({self.num_unanswered} without documents, counted as 0)" if self.num_unanswered else ""
        return (
            f"NDCG@10 {self.before:.4f} → {self.after:.4f} over {self.num_queries} queries{unanswered}; {self.ceiling}"
        )

    def to_json(self) -> dict[str, object]:
        """Give all of it as JSON values."""
        return asdict(self)


def reranking_ceiling(
    qrels: Mapping[str, Mapping[str, int]],
    run: Mapping[str, Mapping[str, float]],
    *,
    depth: int,
    own_document: OwnDocument = "auto",
) -> Ceiling:
    """Say how good the best possible order of each query's first `depth` documents is.

    Args:
        qrels: Judgements.
        run: Of the first stage.
        depth: How many documents of each query are reranked.
        own_document: As in `evaluate_run`.

    Raises:
        ValueError, DataError: As `evaluate_run`.
    """
    pool = first_hits({id: dict(hits) for id, hits in run.items()}, depth)
    ideal = {id: {hit: float(qrels.get(id, {}).get(hit, 0)) for hit in hits} for id, hits in pool.items()}
    found = evaluate_run(qrels, ideal, metrics=[f"recall@{depth}", "ndcg@10"], own_document=own_document)
    return Ceiling(depth, recall=found.metrics[f"recall@{depth}"], ndcg=found.metrics["ndcg@10"])


def reranking_quality(
    qrels: Mapping[str, Mapping[str, int]],
    before: Mapping[str, Mapping[str, float]],
    after: Mapping[str, Mapping[str, float]],
    *,
    depth: int,
    own_document: OwnDocument = "auto",
) -> RerankingQuality:
    """Measure a run and what reranking its first `depth` documents made of it; arguments as in `reranking_ceiling`.

    Raises:
        ValueError, DataError: As `evaluate_run`.
    """
    first, second = (
        evaluate_run(qrels, run, metrics=["ndcg@10"], own_document=own_document) for run in (before, after)
    )
    return RerankingQuality(
        before=first.metrics["ndcg@10"],
        after=second.metrics["ndcg@10"],
        ceiling=reranking_ceiling(qrels, before, depth=depth, own_document=own_document),
        num_queries=first.num_queries,
        num_unanswered=len(first.unanswered),
    )

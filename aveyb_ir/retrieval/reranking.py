"""A second, closer look at what a first stage found: candidates scored again by a model that reads their texts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.data import Run, listed, trec_order
from aveyb_ir.encoding import EncodingCounts
from aveyb_ir.errors import DataError, ModelError
from aveyb_ir.retrieval.fusion import scaled

# Characters of candidates in memory at a time; the documents of several queries together are fewer than their sum.
_BLOCK_CHARACTERS = 1 << 26


class Reranker(Protocol):
    """Scores documents for a query from their texts.

    Attributes:
        name: What the model was loaded from.
        counts: What it has read so far, and how much of that its limit cut off: texts, or pairs where it reads query
            and document together.
    """

    name: str
    counts: EncodingCounts

    @property
    def max_length(self) -> int | None:
        """Tokens of a text or a pair that it reads at the most; None where nothing is ever cut."""

    def scores(
        self,
        queries: Sequence[str],
        documents: Sequence[Sequence[str]],
        *,
        progress: Callable[[int], None] | None = None,
        log_cuts: bool = True,
    ) -> list[NDArray[np.float32]]:
        """Score each query's candidates; scores of one query can be compared, those of two need not.

        Args:
            queries: n texts.
            documents: For each query the texts of its candidates (`Document.full_text`), any number of them.
            progress: Called with the number of newly scored pairs of a query and a document.
            log_cuts: Log what a length limit cut; else it is only counted.

        Returns:
            One float32 array per query; higher is better.
        """


def rerank(
    queries: Mapping[str, str],
    run: Run,
    text_of: Callable[[Sequence[str]], Sequence[str]],
    reranker: Reranker,
    *,
    depth: int = 100,
    top_k: int | None = None,
    weight: float = 1.0,
    progress: Callable[[int], None] | None = None,
    log_cuts: bool = True,
) -> Run:
    """Put the best documents of a run into a better order; the run says which they are, for each query its own.

    A query's first `depth` documents are scored by the reranker. The others follow below them in their order, each
    1 lower than the one before, so no document is lost and the recall at any depth from `depth` on stays what it was.

    With `weight` 1 the scores are the reranker's own. Below 1 they are
    `weight * reranker + (1 - weight) * first stage`, each scaled within the query's candidates to 0 for the lowest and
    1 for the highest score; where all of a query's scores are equal, they say nothing and all become 1.

    Args:
        queries: Texts by query id, at least of the queries of the run.
        run: The first stage's answers; not changed.
        text_of: Gives the texts of documents by id, in their order, such as `Document.full_text` from an index.
        reranker: What scores.
        depth: Candidates per query.
        top_k: Documents kept per query, by default all of the run's.
        weight: Share of the reranker's score.
        progress: Called with the number of newly scored pairs of a query and a document.
        log_cuts: As for `Reranker.scores`.

    Returns:
        A run with the queries of `run`, hits best first.

    Raises:
        ValueError: `depth` or `top_k` is not a whole number from 1, or the weight not within 0 to 1.
        DataError: The text of a query is missing.
        ModelError: The reranker gave a score that is no finite number.
    """
    _check(depth, top_k, weight)
    if missing := [id for id in run if id not in queries]:
        raise DataError(
            f"The run has queries without a text: {listed(missing)}; expected a text for each of its {len(run)} "
            "queries; give the queries that the run was made for"
        )
    reranked: Run = {}
    for block in _blocks(run, text_of, depth):
        found = reranker.scores(
            [queries[id] for id in block],
            [texts for _, texts in block.values()],
            progress=progress,
            log_cuts=log_cuts,
        )
        for (id, (candidates, _)), scores in zip(block.items(), found, strict=True):
            _check_scores(reranker, id, candidates, scores)
            reranked[id] = _merged(run[id], dict(zip(candidates, scores.tolist(), strict=True)), top_k, weight)
    return reranked


def _check(depth: int, top_k: int | None, weight: float) -> None:
    for name, value in (("depth", depth), ("top_k", top_k)):
        if name == "top_k" and value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} is {value!r}; expected a whole number of documents from 1")
    if isinstance(weight, bool) or not 0 <= weight <= 1:
        raise ValueError(f"weight is {weight!r}; expected the reranker's share of the score, from 0 to 1")


def _blocks(
    run: Run, text_of: Callable[[Sequence[str]], Sequence[str]], depth: int
) -> Iterator[dict[str, tuple[list[str], Sequence[str]]]]:
    """Yield queries with ids and texts of their candidates, as many as may be in memory together."""
    block: dict[str, tuple[list[str], Sequence[str]]] = {}
    characters = 0
    for id, hits in run.items():
        candidates = list(islice(trec_order(hits), depth))
        texts = text_of(candidates) if candidates else []
        block[id] = candidates, texts
        characters += sum(map(len, texts))
        if characters > _BLOCK_CHARACTERS:
            yield block
            block, characters = {}, 0
    if block:
        yield block


def _check_scores(reranker: Reranker, query_id: str, candidates: Sequence[str], scores: NDArray[np.float32]) -> None:
    finite = np.isfinite(scores)
    if not finite.all():
        raise ModelError(
            f"{reranker.name} scored document {candidates[int(np.argmin(finite))]!r} for query {query_id!r} NaN or "
            "infinity; expected a finite number; look at the model's weights and precision"
        )


def _merged(hits: Mapping[str, float], scores: dict[str, float], top_k: int | None, weight: float) -> dict[str, float]:
    """Blend the candidates' scores, and put the documents that were not scored again below them."""
    if weight < 1:
        new, old = scaled(scores), scaled({id: hits[id] for id in scores})
        scores = {id: weight * new[id] + (1 - weight) * old[id] for id in scores}
    merged = {id: scores[id] for id in trec_order(scores)}
    rest = [id for id in trec_order(hits) if id not in scores]
    if rest:
        lowest = min(merged.values())
        step = max(1.0, 2 * float(np.spacing(np.float32(abs(lowest) + len(rest)))))  # so that float32 tells them apart
        merged |= {id: lowest - place * step for place, id in enumerate(rest, start=1)}
    return dict(islice(merged.items(), top_k))

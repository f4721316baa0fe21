"""The candidates for one query on their way through the stages of a search, each with what the stages said of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from aveyb_ir.retrieval.fusion import Fusion, fused

Span = tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A document that may become a hit.

    Attributes:
        row: Of the document in the index.
        id: Of the document.
        score: That of the latest stage.
        span: The characters that matched; None where the whole document did, or where no stage said.
        scores: By stage, of the stages that found the document.
        ranks: Likewise, from 1.
    """

    row: int
    id: str
    score: float
    span: Span
    scores: Mapping[str, float]
    ranks: Mapping[str, int]


def first_candidates(stage: str, found: Iterable[tuple[int, str, float, Span]]) -> list[Candidate]:
    """What a first stage found, best first: row, id, score and span of each."""
    return [
        Candidate(row, id, score, span, {stage: score}, {stage: rank})
        for rank, (row, id, score, span) in enumerate(found, start=1)
    ]


def fused_candidates(
    stage: str, rankings: Sequence[Sequence[Candidate]], *, method: Fusion, weights: Sequence[float]
) -> list[Candidate]:
    """One ranking of several; of equal scores the lower row comes first.

    A candidate has the span of the first ranking that knows one.
    """
    by_row: dict[int, Candidate] = {}
    for candidate in (candidate for ranking in rankings for candidate in ranking):
        known = by_row.setdefault(candidate.row, candidate)
        by_row[candidate.row] = replace(
            known,
            span=known.span or candidate.span,
            scores={**known.scores, **candidate.scores},
            ranks={**known.ranks, **candidate.ranks},
        )
    scores = fused(
        [{candidate.row: candidate.score for candidate in ranking} for ranking in rankings],
        method=method,
        weights=weights,
    )
    return reordered([by_row[row] for row in sorted(by_row)], scores, stage)


def reordered(
    candidates: Sequence[Candidate], scores: Mapping[int, float], stage: str | None = None
) -> list[Candidate]:
    """Rank candidates by new scores, by row; of equal ones the earlier candidate comes first.

    With a name for the stage, score and rank are added to what is known of a candidate.
    """
    best_first = sorted(candidates, key=lambda candidate: -scores[candidate.row])
    found = [replace(candidate, score=scores[candidate.row]) for candidate in best_first]
    if stage is None:
        return found
    return [
        replace(
            candidate,
            scores={**candidate.scores, stage: candidate.score},
            ranks={**candidate.ranks, stage: rank},
        )
        for rank, candidate in enumerate(found, start=1)
    ]

"""Rows of a query and its candidates, for tasks that compare candidates or judge each."""

import hashlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from aveyb_ir.data import TrainingRow, open_collection, read_training_rows, training_rows_from_beir
from aveyb_ir.data.wording import listed
from aveyb_ir.errors import DataError
from aveyb_ir.tasks import RowsSection

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Candidates:
    """A query, one of its positives, and its first negatives, with a teacher's scores where rows carry them.

    `documents` begins with the positive. `scores` has one for each document, or is empty.
    """

    query: str
    documents: tuple[str, ...]
    scores: tuple[float, ...]


def read_rows(section: RowsSection) -> list[TrainingRow]:
    """The rows that a recipe names.

    Raises:
        DataError: the files are missing or malformed, or there are no rows.
    """
    if section.pairs is not None:
        rows = read_training_rows(section.pairs, corpus=section.corpus)
    else:
        assert section.beir is not None  # a checked recipe has it where it has no pairs
        rows = training_rows_from_beir(open_collection(section.beir), section.split)
    if not rows:
        raise DataError(f"{source_of(section)}: got no rows, expected some; check that it is the right one")
    return rows


def source_of(section: RowsSection) -> str:
    """How messages name the rows."""
    return section.pairs or f"{section.beir} split {section.split}"


def candidates_of(rows: Sequence[TrainingRow], num_negatives: int, source: str) -> list[Candidates]:
    """One list of candidates for each positive of each row, all of one length.

    Rows with fewer negatives are left out, with a warning.

    Raises:
        DataError: no row has that many.
    """
    kept = [row for row in rows if len(row.negatives) >= num_negatives]
    if not kept:
        most = max(len(row.negatives) for row in rows)
        raise DataError(
            f"{source}: got at most {most} negatives in a row, expected data.negatives {num_negatives}; lower it, or "
            "mine negatives first (aveyb-ir mine)"
        )
    if len(kept) < len(rows):
        short = [row.line for row in rows if len(row.negatives) < num_negatives]
        logger.warning("%s: left out rows with fewer than %d negatives, lines %s", source, num_negatives, listed(short))
    return [
        Candidates(row.anchor, (positive, *row.negatives[:num_negatives]), _scores(row, place, num_negatives))
        for row in kept
        for place, positive in enumerate(row.positives)
    ]


def check_scored(rows: Sequence[TrainingRow], source: str) -> None:
    """Refuse rows that lack a teacher's scores.

    Raises:
        DataError: names the first such line.
    """
    for row in rows:
        if not (row.positive_scores and row.negative_scores):
            raise DataError(
                f"{source} line {row.line}: got no scores, expected pos_scores and neg_scores; "
                "name a teacher in the recipe, or have one score the rows"
            )


def fingerprint_of(rows: Iterable[TrainingRow]) -> str:
    """SHA-256 of texts and scores: equal for equal rows, whatever file they came from."""
    digest = hashlib.sha256()
    for row in rows:
        parts = (row.anchor, row.positives, row.negatives, row.positive_scores, row.negative_scores)
        digest.update(repr(parts).encode("utf-8", "backslashreplace"))
    return digest.hexdigest()


def _scores(row: TrainingRow, place: int, num_negatives: int) -> tuple[float, ...]:
    if not (row.positive_scores and row.negative_scores):
        return ()
    return (row.positive_scores[place], *row.negative_scores[:num_negatives])

"""Rows of a query and its candidates, for tasks that compare candidates or judge each.

Texts are on disk; what memory holds does not grow with their length.
"""

import hashlib
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import repeat
from math import nan
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.data import DiskTexts, TextTable, TrainingRow, report_dropped
from aveyb_ir.errors import DataError
from aveyb_ir.tasks import RowsSection
from aveyb_ir.training.pair_rows import KnownPositives, NumberedRows
from aveyb_ir.training.ragged import Numbers, Ragged
from aveyb_ir.training.sources import stream_rows

Scores = NDArray[np.float64]


@dataclass(frozen=True)
class RowSet:
    """Rows with numbers in place of texts; iterating gives each row with its texts.

    Memory holds about 12 bytes for each time that a row names a document, and 8 for each distinct text.

    Attributes:
        source: names them in messages.
        rows: their numbers.
        positive_scores: what a teacher said of each of `rows.positives.values`; NaN where the row has no scores.
        negative_scores: likewise.
        queries: the texts that `rows.anchors` numbers.
        documents: the texts that positives and negatives number.
    """

    source: str
    rows: NumberedRows
    positive_scores: Scores
    negative_scores: Scores
    queries: DiskTexts
    documents: DiskTexts

    @classmethod
    def of(cls, rows: Iterable[TrainingRow], source: str, folder: Path | None = None) -> "RowSet":
        """Number the texts of rows, which are read once; as rows of files do, each names a document once per list.

        Negatives that any row calls a positive of their query are dropped, with a warning.

        Args:
            rows: at least one.
            source: names them in messages.
            folder: on whose disk texts are kept; None: that for temporary files.
        """
        queries, documents = TextTable(folder), TextTable(folder)
        positive_scores, negative_scores = array("d"), array("d")
        numbered = NumberedRows.read(_noting(rows, positive_scores, negative_scores), queries, documents)
        assert len(positive_scores) == len(numbered.positives.values)  # rows of files name no document twice
        assert len(negative_scores) == len(numbered.negatives.values)
        wrong = KnownPositives([numbered], len(documents.texts)).wrong_negatives(numbered)
        report_dropped(source, numbered.lines[np.unique(numbered.negatives.owners()[wrong])].tolist())
        return cls(
            source,
            replace(numbered, negatives=numbered.negatives.where(~wrong)),
            np.asarray(positive_scores),
            np.asarray(negative_scores)[~wrong],
            queries.texts,
            documents.texts,
        )

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[TrainingRow]:
        rows = self.rows
        for row in range(len(self)):
            yield TrainingRow(
                self.queries[rows.anchors[row]],
                self._texts(rows.positives[row]),
                self._texts(rows.negatives[row]),
                int(rows.lines[row]),
                _where_scored(self.positive_scores[rows.positives.bounds[row] : rows.positives.bounds[row + 1]]),
                _where_scored(self.negative_scores[rows.negatives.bounds[row] : rows.negatives.bounds[row + 1]]),
            )

    def where(self, chosen: NDArray[np.bool_]) -> "RowSet":
        """The chosen rows."""
        rows = self.rows
        positives, negatives = chosen[rows.positives.owners()], chosen[rows.negatives.owners()]
        return replace(
            self,
            rows=NumberedRows(
                rows.lines[chosen],
                rows.anchors[chosen],
                Ragged.of(rows.positives.counts[chosen], rows.positives.values[positives]),
                Ragged.of(rows.negatives.counts[chosen], rows.negatives.values[negatives]),
            ),
            positive_scores=self.positive_scores[positives],
            negative_scores=self.negative_scores[negatives],
        )

    def _texts(self, documents: Numbers) -> tuple[str, ...]:
        return tuple(self.documents[document] for document in documents)


def read_rows(section: RowsSection, folder: Path | None = None) -> RowSet:
    """The rows that a recipe names, read as a stream.

    Args:
        section: of a recipe.
        folder: on whose disk texts are kept; None: that for temporary files.

    Raises:
        DataError: the files are missing or malformed, or there are no rows.
    """
    return RowSet.of(*stream_rows(section, folder), folder)


def check_scored(rows: RowSet) -> None:
    """Refuse rows that lack a teacher's scores.

    Raises:
        DataError: names the first such line.
    """
    positives, negatives = rows.rows.positives, rows.rows.negatives
    scored = negatives.counts > 0
    scored[positives.owners()[np.isnan(rows.positive_scores)]] = False
    scored[negatives.owners()[np.isnan(rows.negative_scores)]] = False
    for row in np.flatnonzero(~scored)[:1]:
        raise DataError(
            f"{rows.source} line {rows.rows.lines[row]}: got no scores, expected pos_scores and neg_scores; "
            "name a teacher in the recipe, or have one score the rows"
        )


def fingerprint_of(rows: Iterable[TrainingRow]) -> str:
    """SHA-256 of texts and scores: equal for equal rows, whatever file they came from."""
    digest = hashlib.sha256()
    for row in rows:
        parts = (row.anchor, row.positives, row.negatives, row.positive_scores, row.negative_scores)
        digest.update(repr(parts).encode("utf-8", "backslashreplace"))
    return digest.hexdigest()


def _noting(
    rows: Iterable[TrainingRow], positive_scores: "array[float]", negative_scores: "array[float]"
) -> Iterator[TrainingRow]:
    """The rows, whose scores are noted as they pass."""
    for row in rows:
        positive_scores.extend(row.positive_scores or repeat(nan, len(row.positives)))
        negative_scores.extend(row.negative_scores or repeat(nan, len(row.negatives)))
        yield row


def _where_scored(scores: Scores) -> tuple[float, ...]:
    return () if np.isnan(scores).any() else tuple(scores.tolist())

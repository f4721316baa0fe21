"""Training rows with numbers in place of texts, read once from a stream of any length."""

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aveyb_ir.data import TextTable, TrainingRow
from aveyb_ir.data.blocks import blocks
from aveyb_ir.training.ragged import Numbers, Ragged

_ROWS_AT_ONCE = 1 << 14


@dataclass(frozen=True)
class NumberedRows:
    """Rows of one data set; row i of each attribute is the same row.

    Attributes:
        lines: where each was read, int32.
        anchors: the number of its text among anchors, int32.
        positives: numbers of texts among documents, each once.
        negatives: likewise.
    """

    lines: Numbers
    anchors: Numbers
    positives: Ragged
    negatives: Ragged

    @classmethod
    def read(cls, rows: Iterable[TrainingRow], anchors: TextTable, documents: TextTable) -> "NumberedRows":
        """Number the texts of rows, which go to the tables; the rows are not kept."""
        lines, of_anchors = array("i"), array("i")
        positives, negatives = _Lists(), _Lists()
        for block in blocks(rows, _characters):
            lines.extend(row.line for row in block)
            of_anchors.frombytes(anchors.add([row.anchor for row in block]).tobytes())
            positives.add([dict.fromkeys(row.positives) for row in block], documents)
            negatives.add([dict.fromkeys(row.negatives) for row in block], documents)
        return cls(_numbers(lines), _numbers(of_anchors), positives.done(), negatives.done())

    def __len__(self) -> int:
        return len(self.anchors)


class KnownPositives:
    """Which texts any row calls a positive of an anchor's text.

    Args:
        sets: the rows.
        num_documents: distinct texts of documents.
    """

    def __init__(self, sets: Iterable[NumberedRows], num_documents: int) -> None:
        self._num_documents = num_documents
        keys = [self._keys(rows.anchors.repeat(rows.positives.counts), rows.positives.values) for rows in sets]
        self._known = np.unique(np.concatenate(keys))

    def by_anchor(self, num_anchors: int) -> Ragged:
        """The positives of each anchor."""
        counts = np.bincount(self._known // self._num_documents, minlength=num_anchors)
        return Ragged.of(counts, (self._known % self._num_documents).astype(np.int32))

    def usable_negatives(self, rows: NumberedRows, limit: int | None) -> tuple[Ragged, Numbers]:
        """The first negatives of each row, at most `limit`, without those that are a positive of its anchor.

        Also gives the lines of the rows that lost some so.
        """
        parts, lines = [], []
        for part, negatives, wrong in self._judged(rows):
            lines.append(rows.lines[part][np.unique(negatives.owners()[wrong])])
            right = negatives.where(~wrong)
            parts.append(right if limit is None else right.where(right.places() < limit))
        return Ragged.joined(parts), np.concatenate(lines)

    def wrong_negatives(self, rows: NumberedRows) -> npt.NDArray[np.bool_]:
        """Whether each of `rows.negatives.values` is a positive of the anchor of its row."""
        return np.concatenate([wrong for _, _, wrong in self._judged(rows)])

    def _judged(self, rows: NumberedRows) -> Iterator[tuple[slice, Ragged, npt.NDArray[np.bool_]]]:
        """Some rows at a time: which they are, their negatives, and whether each is a positive of its anchor."""
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            part = slice(start, min(start + _ROWS_AT_ONCE, len(rows)))
            negatives = rows.negatives.part(part.start, part.stop)
            yield part, negatives, self._holds(rows.anchors[part].repeat(negatives.counts), negatives.values)

    def _holds(self, anchors: Numbers, documents: Numbers) -> npt.NDArray[np.bool_]:
        keys = self._keys(anchors, documents)
        places = self._known.searchsorted(keys)
        found: npt.NDArray[np.bool_] = self._known[np.minimum(places, len(self._known) - 1)] == keys
        return found

    def _keys(self, anchors: Numbers, documents: Numbers) -> npt.NDArray[np.int64]:
        """One number for an anchor and a document, which sorts by anchor first."""
        return anchors.astype(np.int64) * self._num_documents + documents


class _Lists:
    """A `Ragged` that grows."""

    def __init__(self) -> None:
        self._counts, self._values = array("i"), array("i")

    def add(self, lists: list[dict[str, None]], table: TextTable) -> None:
        """Add a list of the numbers of each list of texts."""
        self._counts.extend(map(len, lists))
        self._values.frombytes(table.add([text for texts in lists for text in texts]).tobytes())

    def done(self) -> Ragged:
        return Ragged.of(_numbers(self._counts), _numbers(self._values))


def _numbers(values: "array[int]") -> Numbers:
    return np.frombuffer(values, np.int32) if values else np.zeros(0, np.int32)


def _characters(row: TrainingRow) -> int:
    return len(row.anchor) + sum(map(len, row.positives)) + sum(map(len, row.negatives))

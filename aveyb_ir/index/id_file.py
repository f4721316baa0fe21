"""The ids of a segment's documents in one mapped file: a hit's id is read without asking a database."""

from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.errors import IndexDamagedError
from aveyb_ir.index.durable import RESTORE

_NUMBER = np.dtype("<i8")


class IdFile:
    """Ids by row, read from `content`, an array of bytes that may be a memory map, of `num_documents` documents.

    It holds the rows, ascending, then where each id begins and the last one ends, then all ids end to end in UTF-8:
    16 bytes for each document beside its id.

    Raises IndexDamagedError, which names `path`, when the content cannot be that.
    """

    def __init__(self, path: Path, content: NDArray[np.uint8], num_documents: int) -> None:
        numbers = content[: (2 * num_documents + 1) * _NUMBER.itemsize]
        self._path = path
        if numbers.size % _NUMBER.itemsize or len(numbers.view(_NUMBER)) != 2 * num_documents + 1:
            raise self._damaged(f"{len(content)} bytes, too few for {num_documents} documents")
        self._rows, self._bounds = np.split(numbers.view(_NUMBER), [num_documents])
        self._text = content[numbers.size :].data
        if self._bounds[-1] != len(self._text):
            raise self._damaged(f"{len(self._text)} bytes of ids, expected {self._bounds[-1]}")

    @staticmethod
    def write(path: Path, ids: Iterable[tuple[int, str]]) -> None:
        """Write the ids of documents, given as (row, id) by ascending row."""
        rows, bounds, text = array("q"), array("q", [0]), bytearray()
        for row, id in ids:
            text += id.encode("utf-8")
            rows.append(row)
            bounds.append(len(text))
        numbers = np.asarray(rows + bounds, _NUMBER)
        np.save(path, np.concatenate([numbers.view(np.uint8), np.frombuffer(text, np.uint8)]), allow_pickle=False)

    def ids(self, rows: Sequence[int]) -> dict[int, str]:
        """The ids of these rows; rows that are not here are left out. Raises IndexDamagedError for broken text."""
        wanted = np.asarray(rows, np.int64)
        places = self._rows.searchsorted(wanted)
        is_here = self._rows.take(places, mode="clip") == wanted
        places = places[is_here]
        found = zip(
            wanted[is_here].tolist(), self._bounds[places].tolist(), self._bounds[places + 1].tolist(), strict=True
        )
        try:
            return {row: str(self._text[start:end], "utf-8") for row, start, end in found}
        except UnicodeDecodeError as error:
            raise self._damaged(f"an id that is no text ({error.reason})") from error

    def _damaged(self, what: str) -> IndexDamagedError:
        return IndexDamagedError(f"{self._path}: {what}; {RESTORE}")

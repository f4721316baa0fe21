"""Some documents and their vectors on disk, never changed, searched by many threads."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.data import Document
from aveyb_ir.errors import IndexDamagedError
from aveyb_ir.index.documents import DocumentTable
from aveyb_ir.index.durable import RESTORE
from aveyb_ir.index.faiss_file import FaissFile
from aveyb_ir.index.layout import Layout, SegmentLayout
from aveyb_ir.index.manifest import Manifest, SegmentInfo

PART = np.dtype([("row", "<i8"), ("start", "<i8"), ("end", "<i8")])
"""What a vector stands for: characters `start` to `end` of the document in `row`; -1, -1 for all of it."""

_BATCH_DOCUMENTS = 1024
_BLOCK_ROWS = 4096


class Batch(NamedTuple):
    """Documents with their rows, and their vectors with the parts these stand for."""

    rows: Sequence[int]
    documents: Sequence[Document]
    vectors: NDArray[np.float32]
    parts: NDArray[np.void]


class Nearest(NamedTuple):
    """The best documents for one query: score of the best vector, row, part; by score, then lower row first."""

    scores: NDArray[np.float32]
    parts: NDArray[np.void]

    def best(self, num: int) -> "Nearest":
        """The first `num` documents, each once, in their documented order."""
        order = np.lexsort((self.parts["start"], self.parts["row"], -self.scores))
        _, first = np.unique(self.parts["row"][order], return_index=True)
        kept = order[np.sort(first)[:num]]
        return Nearest(self.scores[kept], self.parts[kept])


class Segment:
    """A finished segment. `deleted` lists rows, ascending, that are no longer to be found, here or elsewhere.

    Raises IndexDamagedError when its files are not what `info` says, as far as sizes and counts tell.
    """

    def __init__(self, layout: SegmentLayout, info: SegmentInfo, dimension: int, deleted: NDArray[np.int64]) -> None:
        for name, file in info.files.items():
            file.check_size(layout.folder / name)
        self.info = info
        self.table = DocumentTable.open(layout.documents)
        _check_count(layout.documents, "documents", len(self.table), info.documents)
        self._vectors = _mapped(layout.embeddings, (info.vectors, dimension), np.dtype("<f4"))
        self._parts = _mapped(layout.parts, (info.vectors,), PART)
        live = None if self._untouched(deleted) else ~np.isin(self._parts["row"], deleted)
        self._live = live
        self.num_live = info.vectors if live is None else int(live.sum())
        self._faiss = FaissFile(layout.faiss, info.vectors, dimension, live)
        # Twice what a float32 inner product of unit vectors can be off, in whatever order FAISS adds up.
        self._margin = (dimension + 1) * 2.0**-23

    def search(self, queries: NDArray[np.float32], num: int) -> list[Nearest]:
        """The `num` best documents for each query, or all live ones; queries of shape (n, dimension), unit length."""
        if not self.num_live:
            return [Nearest(np.empty(0, np.float32), np.empty(0, PART)) for _ in queries]
        fetched = min(self.num_live, num + num // 4 + 32)
        scores, positions = self._faiss.nearest(queries, fetched)
        settle = partial(self._settle, num=num)
        return [settle(*triple) for triple in zip(queries, scores, positions, strict=True)]

    def live_rows(self) -> list[int]:
        """The rows of the documents that can be found, ascending."""
        rows = self._parts["row"]
        return [int(row) for row in np.unique(rows if self._live is None else rows[self._live])]

    def batches(self) -> Iterator[Batch]:
        """The live documents and their vectors, a bounded number at a time, by row."""
        positions = np.argsort(self._parts["row"], kind="stable")
        if self._live is not None:
            positions = positions[self._live[positions]]
        rows = self._parts["row"][positions]
        document_rows = np.unique(rows).tolist()
        for start in range(0, len(document_rows), _BATCH_DOCUMENTS):
            batch_rows = document_rows[start : start + _BATCH_DOCUMENTS]
            first, end = np.searchsorted(rows, (batch_rows[0], batch_rows[-1] + 1))
            chosen = positions[first:end]
            found = self.table.documents(batch_rows)
            documents = [found[row] for row in batch_rows]
            yield Batch(batch_rows, documents, self._vectors[chosen], self._parts[chosen])

    def _settle(
        self, query: NDArray[np.float32], scores: NDArray[np.float32], positions: NDArray[np.int64], num: int
    ) -> Nearest:
        # FAISS's scores decide which vectors are looked at, never the result: that rests on exact scores. So the
        # net is widened until what lies outside it is certainly worse than the last document inside.
        best = self._exact(query, positions[positions >= 0], num)
        while len(positions) < self.num_live and (
            len(best.scores) < num or scores[-1] >= best.scores[-1] - self._margin
        ):
            wider = min(self.num_live, 4 * len(positions))
            (scores,), (positions,) = self._faiss.nearest(query[None], wider)
            best = self._exact(query, positions[positions >= 0], num)
        return best

    def _exact(self, query: NDArray[np.float32], positions: NDArray[np.int64], num: int) -> Nearest:
        # Summed row by row in float64, so that a score is the same in whatever company it is computed.
        scores = np.empty(len(positions), np.float32)
        precise = query.astype(np.float64)
        for start in range(0, len(positions), _BLOCK_ROWS):
            block = self._vectors[positions[start : start + _BLOCK_ROWS]]
            scores[start : start + _BLOCK_ROWS] = (block * precise).sum(axis=1)
        return Nearest(scores, self._parts[positions]).best(num)

    def _untouched(self, deleted: NDArray[np.int64]) -> bool:
        first, end = np.searchsorted(deleted, (self.info.first_row, self.info.end_row))
        return bool(first == end)


def open_segments(layout: Layout, manifest: Manifest) -> tuple[list[Segment], NDArray[np.int64]]:
    """All segments of a published state, and the rows of the deleted documents that they still hold, ascending."""
    deleted: NDArray[np.int64] = np.empty(0, np.int64)
    if manifest.deleted:
        path = layout.root / manifest.deleted.name
        manifest.deleted.file.check_size(path)
        deleted = np.array(_mapped(path, (manifest.deleted.documents,), np.dtype("<i8")))
    dimension = manifest.encoder.dimension
    return [Segment(layout.segment(info.name), info, dimension, deleted) for info in manifest.segments], deleted


def _mapped(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise IndexDamagedError(f"{path}: cannot be read as an .npy array ({error}); {RESTORE}") from error
    if (array.shape, array.dtype) != (shape, dtype):
        raise IndexDamagedError(f"{path}: array of {array.dtype} {array.shape}, expected {dtype} {shape}; {RESTORE}")
    return np.asarray(array)


def _check_count(path: Path, what: str, got: int, expected: int) -> None:
    if got != expected:
        raise IndexDamagedError(f"{path}: {got} {what}, expected {expected}; {RESTORE}")

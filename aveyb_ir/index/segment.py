"""Some documents and their vectors on disk, never changed, searched by many threads."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.data import Document
from aveyb_ir.errors import IndexDamagedError
from aveyb_ir.index.allowed import Allowed
from aveyb_ir.index.documents import DocumentTable
from aveyb_ir.index.durable import RESTORE, check_folder
from aveyb_ir.index.exact_scan import ExactScan
from aveyb_ir.index.faiss_file import FaissFile
from aveyb_ir.index.id_file import IdFile
from aveyb_ir.index.layout import Layout, SegmentLayout
from aveyb_ir.index.manifest import Manifest, SegmentInfo
from aveyb_ir.index.nearest import PART, Nearest
from aveyb_ir.index.segment_search import SegmentSearch, VectorSearch
from aveyb_ir.index.spec import IndexSpec
from aveyb_ir.index.where import Where

_BATCH_DOCUMENTS = 1024


class Batch(NamedTuple):
    """Documents with their rows, and their vectors with the parts these stand for."""

    rows: Sequence[int]
    documents: Sequence[Document]
    vectors: NDArray[np.float32]
    parts: NDArray[np.void]


class Segment:
    """A finished segment. `deleted` lists rows, ascending, that are no longer to be found, here or elsewhere.

    With `on_gpu` FAISS searches there what it can; what is compared exactly stays on the CPU.

    Raises IndexDamagedError when its files are not what `info` says, as far as sizes, counts and some pages tell.
    """

    def __init__(
        self,
        layout: SegmentLayout,
        info: SegmentInfo,
        dimension: int,
        spec: IndexSpec,
        deleted: NDArray[np.int64],
        *,
        on_gpu: bool = False,
    ) -> None:
        check_folder(layout.folder)
        for name, file in info.files.items():
            file.check_pages(layout.folder / name)
        self.info = info
        self.folder = layout.folder
        self.table = DocumentTable.open(layout.documents)
        if info.files[layout.documents.name].pages is None:  # SQLite counts changes on its first page
            _check_count(layout.documents, "documents", len(self.table), info.documents)
        self._ids: IdFile | None = None
        if layout.ids.name in info.files:
            self._ids = IdFile(layout.ids, _mapped(layout.ids, None, np.dtype(np.uint8)), info.documents)
        self._vectors = _mapped(layout.embeddings, (info.vectors, dimension), np.dtype("<f4"))
        self._parts = _mapped(layout.parts, (info.vectors,), PART)
        self._spec = spec
        self._deleted = _between(deleted, info)
        self._live = ~np.isin(self._parts["row"], self._deleted) if len(self._deleted) else None
        self.num_live = info.vectors if self._live is None else int(self._live.sum())
        finder: VectorSearch = ExactScan(self._vectors)
        if not info.is_flat:
            finder = FaissFile(layout.faiss, info.vectors, dimension, spec, on_gpu=on_gpu)
        self._search = SegmentSearch(self._vectors, self._parts, finder, spec.candidates)
        self._unfiltered = None if self._live is None else Allowed(self._live)
        self._last: tuple[Where | None, Allowed | None] = (None, None)  # the latest condition, which often comes again

    def search(
        self, queries: NDArray[np.float32], num: int, where: Where | None = None, document_weight: float = 0.5
    ) -> list[Nearest]:
        """The `num` best documents for each query, or all live ones; queries of shape (n, dimension), unit length."""
        return self._search.search(queries, num, self._allowed(where), document_weight)

    def is_as(self, info: SegmentInfo, spec: IndexSpec, deleted: NDArray[np.int64]) -> bool:
        """Whether one made with these would be the same."""
        return (self.info, self._spec) == (info, spec) and np.array_equal(self._deleted, _between(deleted, info))

    def rows_here(self, rows: Iterable[int]) -> list[int]:
        """Those of these rows that this segment may hold, so that others need not be looked up in it."""
        return [row for row in rows if self.info.first_row <= row < self.info.end_row]

    def ids(self, rows: Sequence[int]) -> dict[int, str]:
        """The ids of these rows; rows that are not here are left out."""
        return self.table.ids(rows) if self._ids is None else self._ids.ids(rows)

    def live_rows(self) -> list[int]:
        """The rows of the documents that can be found, ascending."""
        rows = self._parts["row"]
        return [int(row) for row in np.unique(rows if self._live is None else rows[self._live])]

    def stored_rows(self) -> NDArray[np.int64]:
        """The rows of all its documents, ascending, those that are deleted among them: they never change."""
        return np.unique(self._parts["row"])

    def is_live(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these rows of it hold a document that can be found."""
        return ~np.isin(rows, self._deleted)

    def stored_documents(self) -> Iterator[Document]:
        """The documents of `stored_rows`, a bounded number of them in memory."""
        rows = self.stored_rows().tolist()
        for start in range(0, len(rows), _BATCH_DOCUMENTS):
            batch = rows[start : start + _BATCH_DOCUMENTS]
            found = self.table.documents(batch)
            yield from (found[row] for row in batch)

    def vectors(self, row: int) -> NDArray[np.float32]:
        """The vectors of the document in a row, shape (parts, dimension); none if it is not here."""
        found: NDArray[np.float32] = self._vectors[self._parts["row"] == row]
        return found

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

    def _allowed(self, where: Where | None) -> Allowed | None:
        if where is None:
            return self._unfiltered
        last, allowed = self._last  # read at once, so that threads with other conditions do no harm
        if last != where:
            mask = np.isin(self._parts["row"], self.table.matching(where))
            allowed = Allowed(mask if self._live is None else mask & self._live)
            self._last = (where, allowed)
        return allowed


def open_segments(
    layout: Layout, manifest: Manifest, known: Sequence[Segment] = (), *, on_gpu: bool = False
) -> tuple[list[Segment], NDArray[np.int64]]:
    """All segments of a published state, and the rows of the deleted documents that they still hold, ascending.

    Of those that are `known`, open from another state, the ones in which nothing is different are used again.
    """
    deleted: NDArray[np.int64] = np.empty(0, np.int64)
    if manifest.deleted:
        path = layout.root / manifest.deleted.name
        manifest.deleted.file.check_pages(path)
        deleted = np.array(_mapped(path, (manifest.deleted.documents,), np.dtype("<i8")))
    dimension, spec = manifest.encoder.dimension, manifest.spec
    segments = [
        next((segment for segment in known if segment.is_as(info, spec, deleted)), None)
        or Segment(layout.segment(info.name), info, dimension, spec, deleted, on_gpu=on_gpu)
        for info in manifest.segments
    ]
    return segments, deleted


def _between(rows: NDArray[np.int64], info: SegmentInfo) -> NDArray[np.int64]:
    """Those of ascending rows that a segment may hold."""
    first, end = np.searchsorted(rows, (info.first_row, info.end_row))
    return rows[first:end]


def _mapped(path: Path, shape: tuple[int, ...] | None, dtype: np.dtype[Any]) -> NDArray[Any]:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise IndexDamagedError(f"{path}: cannot be read as an .npy array ({error}); {RESTORE}") from error
    shape = shape or (array.size,)
    if (array.shape, array.dtype) != (shape, dtype):
        raise IndexDamagedError(f"{path}: array of {array.dtype} {array.shape}, expected {dtype} {shape}; {RESTORE}")
    return np.asarray(array)


def _check_count(path: Path, what: str, got: int, expected: int) -> None:
    if got != expected:
        raise IndexDamagedError(f"{path}: {got} {what}, expected {expected}; {RESTORE}")

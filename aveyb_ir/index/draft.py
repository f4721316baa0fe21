"""The next state of an index while it is being put together, and the step that makes it the published one."""

import logging
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from io import BytesIO

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.errors import DataError
from aveyb_ir.index.documents import DocumentTable, document_digest, live_rows
from aveyb_ir.index.durable import FileInfo, replace_file
from aveyb_ir.index.faiss_gpu import FaissDevice
from aveyb_ir.index.layout import Layout
from aveyb_ir.index.manifest import FORMAT, DeletedInfo, Manifest, SegmentInfo
from aveyb_ir.index.named_specs import Spec, settled
from aveyb_ir.index.segment import Batch, Segment, open_segments
from aveyb_ir.index.segment_writer import SegmentWriter
from aveyb_ir.index.spec import IndexSpec

_logger = logging.getLogger(__name__)


class Draft:
    """A published state, `base`, and what is added to it and deleted from it.

    New documents go into one new segment. Nothing that is published changes before `publish`, whose one decisive
    step is the replacement of the manifest; files that no manifest names are removed after it.
    """

    def __init__(self, layout: Layout, base: Manifest, spec: Spec, faiss_device: FaissDevice) -> None:
        self._layout = layout
        self._base = base
        self._spec = spec
        self._faiss_device = faiss_device
        self._segments, deleted = open_segments(layout, base)
        self._old_deleted = frozenset(deleted.tolist())
        self._deleted = set(self._old_deleted)
        self._new: SegmentWriter | None = None
        self._compact = False
        self._fingerprint = int(base.corpus_fingerprint, 16)
        self.next_row = base.next_row
        self.dimension = base.encoder.dimension

    def rows(self, ids: Sequence[str]) -> dict[str, int]:
        """The rows of those documents that are there."""
        return live_rows(self._tables(), ids, self._deleted)

    def append(self, batch: Batch) -> None:
        """Add documents, whose rows must begin at `next_row`."""
        digests = [document_digest(document) for document in batch.documents]
        self._segment_writer().append(batch)
        self.next_row += len(batch.documents)
        for digest in digests:
            self._fingerprint ^= digest

    def remove(self, rows: Iterable[int]) -> None:
        """Delete the documents of these rows."""
        rows = list(rows)
        for table in self._tables():
            for document in table.documents(rows).values():
                self._fingerprint ^= document_digest(document)
        self._deleted.update(rows)

    def rewrite(self, spec: Spec | None) -> None:
        """Write all of it into the new segment, to another specification if one is given."""
        self._compact = True
        self._spec = spec or self._spec

    def publish(self) -> None:
        """Make this the published state if it differs.

        Raises DataError when a new index would have no documents.
        """
        if not self._base.generation and len(self._deleted) == self.next_row:
            raise DataError(
                f"no documents for the new index {self._layout.root}; expected at least one: check the corpus"
            )
        has_one = len(self._segments) + (self._new is not None) <= 1
        if has_one and not self._deleted and (self._spec, self._base.format) == (self._base.spec, FORMAT):
            self._compact = False  # nothing to gain
        if self._new is None and self._deleted == self._old_deleted and not self._compact:
            return
        segments, deleted = self._written()
        manifest = replace(
            self._base,
            format=FORMAT,
            updated=timestamp(),
            generation=self._base.generation + 1,
            next_row=self.next_row,
            spec=self._spec if isinstance(self._spec, IndexSpec) else self._base.spec,
            corpus_fingerprint=f"{self._fingerprint:064x}",
            segments=segments,
            deleted=self._deleted_file(deleted),
        )
        manifest.write(self._layout)
        _remove_unnamed(self._layout, manifest)

    def discard(self) -> None:
        """Remove what was written and not published."""
        if self._new is not None:
            self._new.discard()
            self._new = None

    def _written(self) -> tuple[tuple[SegmentInfo, ...], NDArray[np.int64]]:
        """Write the new segment; give all segments, and those deleted rows that they still hold."""
        deleted = np.array(sorted(self._deleted), "<i8")
        kept, merged = self._split()
        for info in merged:
            folder = self._layout.segment(info.name)
            for batch in Segment(folder, info, self.dimension, self._base.spec, deleted).batches():
                self._segment_writer().append(batch)
        first_row = merged[0].first_row if merged else self._base.next_row
        deleted = deleted[(deleted < first_row) | (deleted >= self._base.next_row)]
        if self._new is None:
            return kept, deleted
        self._spec = settled(self._spec, self._new.num_vectors, self.dimension)
        device = self._faiss_device
        new = self._new.finish(first_row, self.next_row, self._spec, is_addition=bool(kept), device=device)
        self._new = None
        return (*kept, new), deleted

    def _split(self) -> tuple[tuple[SegmentInfo, ...], tuple[SegmentInfo, ...]]:
        """The segments that stay, and the last ones, which are merged with the new one.

        Those are merged that are no bigger than what comes, so that ever so many small additions leave a number of
        segments, and rewrite each document a number of times, that is logarithmic in the size of the index.
        """
        size = self._new.num_vectors if self._new else 0
        border = len(self._base.segments)
        while border and (self._compact or self._base.segments[border - 1].vectors <= size):
            border -= 1
            size += self._base.segments[border].vectors
        return self._base.segments[:border], self._base.segments[border:]

    def _deleted_file(self, rows: NDArray[np.int64]) -> DeletedInfo | None:
        if not len(rows):
            return None
        path = self._layout.root / f"deleted-{self._layout.next_number():06d}.npy"
        content = BytesIO()
        np.save(content, rows, allow_pickle=False)
        replace_file(path, content.getvalue())
        return DeletedInfo(path.name, len(rows), FileInfo.of(path))

    def _segment_writer(self) -> SegmentWriter:
        if self._new is None:
            self._new = SegmentWriter(self._layout, self.dimension)
        return self._new

    def _tables(self) -> list[DocumentTable]:
        tables = [segment.table for segment in self._segments]
        return tables if self._new is None else [*tables, self._new.table]


def timestamp() -> str:
    """The current time in UTC, as manifests write it."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _remove_unnamed(layout: Layout, manifest: Manifest) -> None:
    for path in layout.unnamed_files(manifest.top_names()):
        try:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        except OSError as error:
            # Already published, and harmless: no reader looks at it, and the next writer tries again.
            _logger.warning("%s is no longer needed but cannot be removed (%s)", path, error)

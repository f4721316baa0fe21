"""Reading an index directory: search, documents, facts and checks."""

import logging
import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.data import Document
from aveyb_ir.errors import IndexDamagedError, IndexMismatchError
from aveyb_ir.index.documents import document_digest, live_rows
from aveyb_ir.index.durable import RESTORE
from aveyb_ir.index.faiss_gpu import FaissDevice, uses_gpu
from aveyb_ir.index.identity import EncoderIdentity
from aveyb_ir.index.layout import Layout
from aveyb_ir.index.manifest import Granularity, Manifest
from aveyb_ir.index.nearest import Nearest, checked_top_k, checked_weight, merged
from aveyb_ir.index.segment import Segment, open_segments
from aveyb_ir.index.vectors import unit_vectors
from aveyb_ir.index.where import Where

_logger = logging.getLogger(__name__)


class Hit(NamedTuple):
    """A document that was found.

    `score` is the cosine between the query and the document's best vector; `span` tells which characters of
    `Document.full_text` that vector stands for, None for all of them.
    """

    id: str
    score: float
    row: int
    span: tuple[int, int] | None


class IndexDir:
    """One published state of an index directory, open for reading.

    It never changes: searches in any number of threads see this state and nothing else, whatever writers publish
    meanwhile. `latest` gives the newest state. A document keeps its row, its position in the order of insertion, as
    long as it lives, and no other document ever gets that row.
    """

    def __init__(
        self, layout: Layout, manifest: Manifest, known: Sequence[Segment] = (), *, on_gpu: bool = False
    ) -> None:
        self._layout = layout
        self._manifest = manifest
        self._on_gpu = on_gpu
        self._segments, deleted = open_segments(layout, manifest, known, on_gpu=on_gpu)
        self._deleted = frozenset(deleted.tolist())

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        expected_encoder: EncoderIdentity | None = None,
        faiss_device: FaissDevice = "cpu",
    ) -> "IndexDir":
        """Open the published state of the index at `path`.

        With `faiss_device` "cuda", or "auto" where FAISS sees a GPU, a copy of each IVF index there answers searches
        without conditions. It may find other near vectors than the CPU does, and others in another batch; they are
        scored and ordered exactly all the same. What FAISS does not know on a GPU stays on the CPU, with a warning.

        Raises IndexDirError where there is no index, IndexDamagedError when files are missing, cut, miscounted or
        exchanged for others (`verify` checks every byte), IndexMismatchError when `expected_encoder` is not the one it
        was built with, ValueError for a `faiss_device` that is unknown or not there.
        """
        return cls._opened(Layout(Path(path).absolute()), expected_encoder, (), uses_gpu(faiss_device))

    @classmethod
    def _opened(
        cls, layout: Layout, expected: EncoderIdentity | None, known: Sequence[Segment], on_gpu: bool
    ) -> "IndexDir":
        manifest = Manifest.read(layout)
        if expected is not None:
            check_encoder(layout, manifest, expected)
        try:
            return cls(layout, manifest, known, on_gpu=on_gpu)
        except (IndexDamagedError, FileNotFoundError):
            # A writer may have published and cleaned up between the reading of the manifest and of its files.
            if Manifest.read(layout) == manifest:
                raise
            return cls._opened(layout, expected, known, on_gpu)

    def latest(self) -> "IndexDir":
        """This index if nothing was published since, else the newest state, opened.

        Raises like `open`, which expects the encoder of this index.
        """
        if self._manifest.is_current(self._layout) or Manifest.read(self._layout) == self._manifest:
            return self
        return self._opened(self._layout, self.encoder, self._segments, self._on_gpu)

    @property
    def encoder(self) -> EncoderIdentity:
        """The encoder that made the embeddings, and must make those of queries."""
        return self._manifest.encoder

    @property
    def granularity(self) -> Granularity:
        """What has vectors here: each document, each chunk of it, or both."""
        return self._manifest.granularity

    def search(
        self, queries: Any, top_k: int, *, where: str | None = None, document_weight: float = 0.5
    ) -> list[list[Hit]]:
        """The `top_k` documents nearest to each query, or all there are if fewer.

        Hits come by score, highest first; equal scores by row, lower first, also where `top_k` cuts through them. A
        query's hits and scores do not depend on the other queries. `queries` is a float matrix (n, dimension) of any
        float type, or nested lists; it is normalized in a copy, and a zero vector scores 0 with every document.

        A document has the score of its best chunk. Where the whole document has a vector too, that one's score counts
        for `document_weight` in the mean of both, and the hit still names its best chunk. `where` is a condition on
        metadata, such as "year >= 2020 and lang = 'en'"; `aveyb_ir.index.where` has its grammar. An approximate spec
        may miss near documents, but scores what it finds exactly, and looks wider until it has enough.

        Raises ValueError for a `top_k` that is no whole number from 1, a weight outside 0 to 1 or a broken condition,
        TypeError for what is not a matrix of floats, IndexMismatchError for another dimension, DataError for NaN or
        infinity.
        """
        top_k = checked_top_k(top_k)
        document_weight = checked_weight(document_weight)
        condition = None if where is None else Where.parse(where)
        vectors = unit_vectors(queries, self.encoder.dimension, lambda i: f"query number {i}")
        found = [segment.search(vectors, top_k, condition, document_weight) for segment in self._segments]
        if len(found) == 1:
            return self._hits(found[0])
        return self._hits([merged([results[i] for results in found]).first(top_k) for i in range(len(vectors))])

    def documents(self, rows: Sequence[int]) -> list[Document]:
        """The documents of these rows, in this order. Raises ValueError for a row that holds none."""
        wanted = [row for row in rows if row not in self._deleted]
        found: dict[int, Document] = {}
        for segment in self._segments:
            if here := segment.rows_here(wanted):
                found |= segment.table.documents(here)
        _require_all(rows, found, "row", self._layout)
        return [found[row] for row in rows]

    def vectors(self, row: int) -> NDArray[np.float32]:
        """The vectors of one document, shape (parts, dimension). Raises ValueError for a row that holds none."""
        found = [] if row in self._deleted else [segment.vectors(row) for segment in self._segments]
        matrix = np.concatenate([np.empty((0, self.encoder.dimension), np.float32), *found])
        _require_all([row], {row: matrix} if len(matrix) else {}, "row", self._layout)
        return matrix

    def rows(self, ids: Sequence[str]) -> list[int]:
        """The rows of the documents with these ids, in this order. Raises ValueError for an id that is not here."""
        found = live_rows([segment.table for segment in self._segments], ids, self._deleted)
        _require_all(ids, found, "id", self._layout)
        return [found[id] for id in ids]

    def ids(self) -> list[str]:
        """The ids of all documents, by row. Raises IndexDamagedError when a vector has no document."""
        ids: list[str] = []
        for segment in self._segments:
            rows = segment.live_rows()
            found = segment.ids(rows)
            if len(found) != len(rows):
                raise self._damaged(f"{len(rows) - len(found)} of {len(rows)} vectors have no document")
            ids += [found[row] for row in rows]
        return ids

    def ids_of(self, rows: Sequence[int]) -> list[str]:
        """The ids of the documents in these rows, in this order. Raises ValueError for a row that holds none."""
        wanted = [row for row in rows if row not in self._deleted]
        found: dict[int, str] = {}
        for segment in self._segments:
            if here := segment.rows_here(wanted):
                found |= segment.ids(here)
        _require_all(rows, found, "row", self._layout)
        return [found[row] for row in rows]

    def matching(self, where: str) -> NDArray[np.int64]:
        """The rows of the documents that meet a condition, as in `search`, ascending. Raises ValueError as it does."""
        condition = Where.parse(where)
        found = [segment.table.matching(condition) for segment in self._segments]
        live = [rows[segment.is_live(rows)] for segment, rows in zip(self._segments, found, strict=True)]
        return np.concatenate([np.empty(0, np.int64), *live])

    @property
    def segments(self) -> Sequence[Segment]:
        """What it is made of, in the order of rows: pieces that never change, so what is derived of one stays true."""
        return tuple(self._segments)

    def __iter__(self) -> Iterator[Document]:
        for segment in self._segments:
            for batch in segment.batches():
                yield from batch.documents

    def __len__(self) -> int:
        return self._manifest.num_documents

    def info(self) -> dict[str, Any]:
        """What the index is: encoder, counts, sizes and dates, ready for JSON."""
        manifest = self._manifest
        return {
            "path": str(self._layout.root),
            "format": manifest.format,
            "package_version": manifest.package_version,
            "created": manifest.created,
            "updated": manifest.updated,
            "generation": manifest.generation,
            "encoder": {
                "name": self.encoder.name,
                "fingerprint": self.encoder.fingerprint,
                "details": dict(self.encoder.details),
            },
            "dimension": self.encoder.dimension,
            "metric": manifest.metric,
            "spec": manifest.spec.name,
            "spec_details": manifest.spec.model_dump(),
            "granularity": manifest.granularity,
            "documents": len(self),
            "vectors": sum(segment.num_live for segment in self._segments),
            "deleted": manifest.num_deleted,
            "segments": len(self._segments),
            "factories": sorted({info.factory for info in manifest.segments}),
            "bytes": sum(file.bytes for file in manifest.named_files().values()),
            "faiss_bytes": sum(info.faiss_bytes for info in manifest.segments),
            "corpus_fingerprint": manifest.corpus_fingerprint,
        }

    def verify(self) -> None:
        """Read every byte of the index, and see that every vector has its document and every id one document.

        Raises IndexDamagedError at the first thing that is not what was published.
        """
        for name, file in self._manifest.named_files().items():
            file.check_content(self._layout.root / name)
            _logger.info("%s: %d bytes as published", name, file.bytes)
        ids = self.ids()
        if len(set(ids)) != len(self):
            raise self._damaged(f"{len(set(ids))} ids for {len(self)} documents")
        fingerprint = 0
        for id, document in zip(ids, self, strict=True):
            if document.id != id:
                raise self._damaged(f"document {document.id!r} is called {id!r} among the ids")
            fingerprint ^= document_digest(document)
        if f"{fingerprint:064x}" != self._manifest.corpus_fingerprint:
            raise self._damaged("its documents are not those of its corpus fingerprint")

    def _hits(self, results: list[Nearest]) -> list[list[Hit]]:
        rows = sorted({row for result in results for row in result.parts["row"].tolist()})
        ids: dict[int, str] = {}
        for segment in self._segments:
            if here := segment.rows_here(rows):
                ids |= segment.ids(here)
        if len(ids) != len(rows):
            raise self._damaged(f"{len(rows) - len(ids)} of {len(rows)} vectors have no document")
        hit = partial(tuple.__new__, Hit)  # what Hit itself calls, without its frame of Python for each of many
        return [
            [
                hit((ids[row], score, row, None if start < 0 else (start, end)))
                for score, (row, start, end) in zip(result.scores.tolist(), result.parts.tolist(), strict=True)
            ]
            for result in results
        ]

    def _damaged(self, what: str) -> IndexDamagedError:
        return IndexDamagedError(f"{self._layout.root}: {what}; {RESTORE}")


def check_encoder(layout: Layout, manifest: Manifest, expected: EncoderIdentity) -> None:
    """Raise IndexMismatchError unless the index was built with this encoder."""
    if not manifest.encoder.matches(expected):
        raise IndexMismatchError(
            f"{layout.root} was built with encoder {manifest.encoder.name!r}, not with {expected.name!r}: "
            f"{manifest.encoder.differences(expected)}; use the encoder it was built with or build the index again"
        )


def _require_all(wanted: Sequence[Any], found: dict[Any, Any], what: str, layout: Layout) -> None:
    missing = [item for item in wanted if item not in found]
    if missing:
        named = ", ".join(map(repr, missing[:5])) + (", ..." if len(missing) > 5 else "")
        raise ValueError(
            f"{len(missing)} {what}(s) are not in the index {layout.root}: {named}; expected those of its documents"
        )

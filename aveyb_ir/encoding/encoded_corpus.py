"""Reads the vectors of a corpus from disk, shard by shard."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.encoding.encoder import EncodingCounts
from aveyb_ir.encoding.granularity import Span, spans_by_document, whole_texts
from aveyb_ir.encoding.store_files import StoreLayout, check_content, map_array, read_ids
from aveyb_ir.encoding.store_manifest import StoreManifest
from aveyb_ir.errors import DataError


@dataclass(frozen=True)
class EncodedShard:
    """A finished part of a corpus.

    Attributes:
        ids: Of its documents.
        vectors: (vectors, d) float32, unit; those of a document lie together. Mapped from disk.
        counts: (documents,) int64 vectors of each document.
        spans: (vectors, 2) int64 characters of the document's `full_text` that each vector stands for; -1, -1 for the
            whole document.
    """

    ids: list[str]
    vectors: NDArray[np.float32]
    counts: NDArray[np.int64]
    spans: NDArray[np.int64]

    def spans_by_document(self) -> list[list[Span | None]]:
        """For each document what its vectors stand for: (start, end), or None for the whole."""
        return spans_by_document(self.counts, self.spans)


class EncodedCorpus:
    """Reads a complete store.

    Attributes:
        granularity: What has a vector: each "document", each "chunk", or "both".
        encoder_fingerprint: Of the encoder that made the vectors.
        dimension: Numbers per vector.
        num_documents: In all shards.
        num_vectors: In all shards.
        counts: Texts, tokens and texts cut, of all shards.

    Raises:
        DataError: No store there, one that is not complete, or a broken manifest.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._layout = StoreLayout(Path(path))
        self._manifest = manifest = StoreManifest.read(self._layout)
        if not manifest.complete:
            raise DataError(
                f"{path} is not complete: {len(manifest.shards)} shards are finished; run the encoding again to go on."
            )
        self.granularity = manifest.origin.granularity
        self.encoder_fingerprint = manifest.origin.encoder
        self.dimension = manifest.origin.dimension
        self.num_documents = sum(shard.documents for shard in manifest.shards)
        self.num_vectors = sum(shard.vectors for shard in manifest.shards)
        self.counts = EncodingCounts()
        for shard in manifest.shards:
            self.counts.add(shard.seen)

    def shards(self) -> Iterator[EncodedShard]:
        """Yield the shards in the order of the corpus, one in memory at a time. Raises DataError for a damaged file."""
        for number in range(len(self._manifest.shards)):
            yield read_shard(self._layout, self._manifest, number)


def read_shard(layout: StoreLayout, manifest: StoreManifest, number: int) -> EncodedShard:
    """Read a finished shard, its vectors as a map of their file. Raises DataError for a file with other content."""
    record = manifest.shards[number]
    with_spans = manifest.origin.granularity != "document"
    for path in layout.of_shard(number, with_spans=with_spans):
        check_content(path, record.checksums.get(path.name, "none"))
    ids = read_ids(layout.ids(number), record.documents)
    vectors = map_array(layout.vectors(number), record.vectors, manifest.origin.dimension)
    counts, spans = whole_texts(record.documents)
    if with_spans:
        parts = map_array(layout.spans(number), record.vectors, 3)
        counts = np.bincount(parts[:, 0], minlength=record.documents)
        spans = np.asarray(parts[:, 1:])
    return EncodedShard(ids, vectors, counts, spans)

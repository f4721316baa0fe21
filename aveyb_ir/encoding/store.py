"""Vectors of a corpus on disk, written shard by shard so that a killed run goes on where it stopped."""

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np

from aveyb_ir.data import Document
from aveyb_ir.encoding.blocks import Block, read_blocks
from aveyb_ir.encoding.devices import choose_device
from aveyb_ir.encoding.encoded_corpus import EncodedCorpus, EncodedShard, read_shard
from aveyb_ir.encoding.encoder import Encoder, EncodingCounts
from aveyb_ir.encoding.granularity import EncodedTexts, Granularity, check_granularity, encode_texts
from aveyb_ir.encoding.progress import ProgressCallback, ProgressMeter
from aveyb_ir.encoding.store_files import StoreLayout, checksum, map_array, reporting, write_array, write_ids
from aveyb_ir.encoding.store_manifest import FORMAT, Origin, ShardRecord, StoreManifest
from aveyb_ir.encoding.workers import encode_in_workers
from aveyb_ir.errors import DataError

_log = logging.getLogger(__name__)

SHARD_DOCUMENTS = 4096
SHARD_CHARACTERS = 4_000_000


def encode_to_store(
    path: str | os.PathLike[str],
    documents: Iterable[Document],
    encoder: Encoder,
    *,
    granularity: Granularity = "document",
    shard_documents: int = SHARD_DOCUMENTS,
    shard_characters: int = SHARD_CHARACTERS,
    devices: Sequence[str] | None = None,
    progress: ProgressCallback | None = None,
    total_documents: int | None = None,
    total_characters: int | None = None,
) -> EncodedCorpus:
    """Encode a corpus into a folder, and go on with it when it was begun there.

    A run that was killed, however, leaves the shards it had finished, and the same call goes on with the next one: the
    files are the same, byte for byte, as those of a run without interruption on the same machine with the same number
    of threads. The documents of finished shards are read again and compared by hash.

    When memory runs out, the shard at hand is computed anew with half the token budget, and later ones begin with that.
    Each shard's budget is recorded, because it decides the last bits of the vectors: a run goes on with the budget of
    its last shard, whatever memory is free now. Memory holds one shard, and with `devices` one more for each.

    Args:
        path: Folder to make.
        documents: Any iterable, read once.
        encoder: Its `token_budget` is the store's afterwards.
        granularity: What has a vector: each "document", each "chunk" (Avey-B only), or "both".
        shard_documents: Documents of a shard at the most.
        shard_characters: A shard ends with the document that reaches these.
        devices: Encode in one process for each, such as ["cuda:0", "cuda:1"] or ["cpu", "cpu"], which load the
            encoder's model for themselves. Scripts need `if __name__ == "__main__":` then.
        progress: Called after each batch (with `devices` after each shard).
        total_documents: Size of the corpus, for the remaining time.
        total_characters: Size of the corpus, for a better one.

    Raises:
        AveybError: A text does not fit into memory even alone, or a process died.
        DataError: The folder was begun with another encoder, corpus, precision or setting, is damaged or cannot be
            written, or another process is writing there.
        ValueError: An impossible argument.
    """
    store = EncoderStore(
        path,
        encoder,
        granularity=granularity,
        shard_documents=shard_documents,
        shard_characters=shard_characters,
        devices=devices,
    )
    meter = ProgressMeter(progress, total_documents, total_characters)
    for _ in store.encode(documents, meter):
        pass
    return EncodedCorpus(path)


class EncoderStore:
    """Encodes to a folder like `encode_to_store`, and hands each shard out as soon as it is safe."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        encoder: Encoder,
        *,
        granularity: Granularity = "document",
        shard_documents: int = SHARD_DOCUMENTS,
        shard_characters: int = SHARD_CHARACTERS,
        devices: Sequence[str] | None = None,
    ) -> None:
        check_granularity(granularity)
        for name, value in (("shard_documents", shard_documents), ("shard_characters", shard_characters)):
            if value < 1:
                raise ValueError(f"{name} is {value}; expected at least 1.")
        if devices is not None and not devices:
            raise ValueError("devices is empty; expected at least one, or None to encode in this process.")
        self._layout = StoreLayout(Path(path))
        self._encoder = encoder
        self._devices = devices
        places = {encoder.model.device} if devices is None else set(map(choose_device, devices))
        self._manifest = StoreManifest(
            FORMAT, False, Origin.of(encoder, places, granularity, shard_documents, shard_characters)
        )

    def encode(
        self, documents: Iterable[Document], meter: ProgressMeter | None = None
    ) -> Iterator[tuple[list[Document], EncodedShard]]:
        """Yield the documents of each shard with their vectors, finished shards of an earlier run included.

        Raises as `encode_to_store`.
        """
        meter = meter or ProgressMeter()
        origin = self._manifest.origin
        blocks = read_blocks(documents, max_documents=origin.shard_documents, max_characters=origin.shard_characters)
        with self._opened():
            yield from self._finished(blocks, meter)
            if self._manifest.complete:
                self._refuse_more(next(blocks, None))
                return
            first = next(blocks, None)
            if first is not None:
                meter.start()
                for block, encoded in self._encoded(chain([first], blocks), meter):
                    yield block.documents, self._add(block, encoded)
                    self._count(block, encoded.seen, meter, new=True)
            self._manifest = replace(self._manifest, complete=True)
            self._manifest.write(self._layout)
            self._log_cuts()

    @contextmanager
    def _opened(self) -> Iterator[None]:
        """Hold the folder; a run that finishes no shard leaves none."""
        with reporting(self._layout.root):
            self._layout.make()
        with self._layout.locked():
            try:
                if self._layout.manifest.exists():
                    self._resume()
                yield
            finally:
                if not self._layout.manifest.exists():
                    self._layout.remove()

    def _resume(self) -> None:
        begun = StoreManifest.read(self._layout)
        now = self._manifest.origin
        if self._encoder.requested_token_budget is None:
            now = replace(now, token_budget=begun.origin.token_budget)
        begun.check_origin(self._layout, now)
        self._manifest = begun
        self._encoder.token_budget = begun.shards[-1].token_budget if begun.shards else begun.origin.token_budget
        if not begun.complete:
            _log.info("%s: %d finished shards are used again.", self._layout.root, len(begun.shards))

    def _finished(self, blocks: Iterator[Block], meter: ProgressMeter) -> Iterator[tuple[list[Document], EncodedShard]]:
        """Yield what an earlier run finished, once its documents are seen to be the same."""
        num_before = 0
        for number, record in enumerate(self._manifest.shards):
            block = next(blocks, None)
            if block is None or block.corpus_hash != record.corpus_hash:
                found = "the corpus ends before them" if block is None else "they are others now"
                raise DataError(
                    f"{self._layout.root} holds the vectors of documents {num_before + 1} to "
                    f"{num_before + record.documents}, but {found}; expected the corpus that it was begun with. Give "
                    "that corpus, or remove the folder to begin anew."
                )
            num_before += record.documents
            yield block.documents, read_shard(self._layout, self._manifest, number)
            self._count(block, record.seen, meter, new=False)

    def _refuse_more(self, block: Block | None) -> None:
        if block is not None:
            raise DataError(
                f"{self._layout.root} is complete, but the corpus goes on with document {block.documents[0].id!r}; "
                "expected the corpus that it was made of. Give that corpus, or remove the folder to begin anew."
            )

    def _encoded(self, blocks: Iterator[Block], meter: ProgressMeter) -> Iterator[tuple[Block, EncodedTexts]]:
        encoder, granularity = self._encoder, self._manifest.origin.granularity
        if self._devices is not None:
            yield from encode_in_workers(encoder, self._devices, blocks, granularity, encoder.token_budget)
            return
        for block in blocks:
            yield block, encode_texts(encoder, block.texts, granularity, meter.batches_of(block.texts))

    def _add(self, block: Block, encoded: EncodedTexts) -> EncodedShard:
        """Put a shard on disk and list it."""
        layout, ids = self._layout, [document.id for document in block.documents]
        with_spans = self._manifest.origin.granularity != "document"
        with reporting(layout.root):
            write_array(layout.vectors(block.number), encoded.vectors)
            write_ids(layout.ids(block.number), ids)
            if with_spans:
                owners = np.repeat(np.arange(len(ids)), encoded.counts)
                write_array(layout.spans(block.number), np.column_stack([owners, encoded.spans]))
            record = ShardRecord(
                documents=len(ids),
                vectors=len(encoded.vectors),
                token_budget=encoded.token_budget,
                corpus_hash=block.corpus_hash,
                seen=encoded.seen,
                checksums={path.name: checksum(path) for path in layout.of_shard(block.number, with_spans=with_spans)},
            )
            self._manifest = replace(self._manifest, shards=(*self._manifest.shards, record))
            self._manifest.write(layout)
        vectors = map_array(layout.vectors(block.number), len(encoded.vectors), self._manifest.origin.dimension)
        return EncodedShard(ids, vectors, encoded.counts, encoded.spans)

    def _log_cuts(self) -> None:
        total = EncodingCounts()
        for shard in self._manifest.shards:
            total.add(shard.seen)
        if total.texts_cut:
            _log.warning(total.cuts(self._encoder.max_length))

    def _count(self, block: Block, seen: EncodingCounts, meter: ProgressMeter, *, new: bool) -> None:
        self._encoder.counts.add(seen)
        meter.finish_block(block.texts, seen.tokens_used if new else None)

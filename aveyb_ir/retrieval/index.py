"""An index directory together with the encoder that made it: build, open, add, delete."""

import logging
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from aveyb_ir.data import Document
from aveyb_ir.encoding import (
    Encoder,
    EncoderStore,
    EncodingCounts,
    EncodingProgress,
    Granularity,
    ProgressMeter,
    encode_texts,
)
from aveyb_ir.errors import DataError, IndexDirError, IndexMismatchError, ModelError
from aveyb_ir.index import (
    AutoSpec,
    EncoderIdentity,
    FaissDevice,
    IndexDir,
    IndexSpec,
    IndexWriter,
    check_spec,
    load_spec,
)
from aveyb_ir.retrieval.document_stream import (
    BLOCK_CHARACTERS,
    BLOCK_DOCUMENTS,
    blocks_of,
    enough_of,
    shown,
    stream_of,
)

_log = logging.getLogger(__name__)

# Least cosine between a vector and the same one made again, perhaps in another precision or on other hardware.
_SAME = 0.99

Progress = Callable[[EncodingProgress], None]


class Index:
    """A collection that can be searched and changed.

    Made by `Index.build` or `Index.open`. Reading goes through `directory`, a state that never changes; after a change
    this object shows the new state.
    """

    def __init__(self, directory: IndexDir, encoder: Encoder) -> None:
        self.directory = directory
        self.encoder = encoder

    @classmethod
    def build(
        cls,
        path: str | os.PathLike[str],
        documents: Iterable[Document] | str | os.PathLike[str],
        *,
        encoder: Encoder | str | os.PathLike[str],
        spec: str | os.PathLike[str] | IndexSpec | AutoSpec = "flat",
        granularity: Granularity = "document",
        overwrite: bool = False,
        faiss_device: FaissDevice = "auto",
        devices: Sequence[str] | None = None,
        progress: Progress | None = None,
        total_documents: int | None = None,
    ) -> "Index":
        """Encode documents and write them to a new index directory; nothing is there before all is.

        A build that was killed leaves what it had encoded in `encoding.partial/` inside the directory, and the same
        call goes on from there; with another encoder or corpus it is refused until that folder is removed. Publishing
        the index removes it. Memory holds one block of documents, whatever the size of the corpus.

        Args:
            path: The directory to make.
            documents: Any iterable of documents (read once, in blocks), or the path of a BEIR folder or jsonl file.
            encoder: An Encoder, or the folder or Hub name of a model.
            spec: How vectors are stored and searched: "auto", the name of a built-in specification, a YAML file, or a
                FAISS factory string; see `indexes/`.
            granularity: What has a vector: each "document", each "chunk" of it, or "both". Chunks take an Avey-B.
            overwrite: Replace an index that is there; it stays whole until the new one is complete.
            faiss_device: Where FAISS trains and fills its index: "cpu", "cuda", or "auto" for GPUs where it sees any.
            devices: Encode in one process for each, such as ["cuda:0", "cuda:1"]; see `encode_to_store`.
            progress: Called after each batch (with `devices` after each block).
            total_documents: Size of the corpus, for the remaining time; that of a sized collection is known.

        Raises:
            AveybError: A text does not fit into memory even alone, or one of the processes died.
            DataError: A broken document, a repeated id, no documents at all, or not the corpus or encoder that a killed
                build was begun with.
            IndexDirError: The directory is taken or cannot be written.
            ModelError: The encoder cannot be loaded.
            RecipeError: A broken specification file.
            ValueError: A spec that is unknown or impossible for this dimension or so few documents, a `faiss_device`
                that is unknown or not there, or chunks of a model that has none. How many chunks there are shows only
                at the end: where they are too few for the spec, they are compared exactly and a warning says so.
        """
        checked = load_spec(spec)
        if total_documents is None and isinstance(documents, Collection) and not isinstance(documents, str):
            total_documents = len(documents)
        stream = stream_of(documents)
        first = next(stream, None)  # a missing or broken corpus is found before a model is loaded
        if first is None:
            raise DataError(f"{shown(documents)} has no documents; expected at least one to build an index from.")
        # A taken directory or an impossible spec is refused before anything is encoded.
        encoder = _encoder(encoder)
        identity = identity_of(encoder)
        if isinstance(checked, IndexSpec):
            check_spec(checked, identity.dimension)
        if isinstance(checked, IndexSpec) and granularity == "document":
            stream = enough_of(first, stream, checked.min_vectors(identity.dimension), checked.name, documents)
        with IndexWriter.create(
            path, identity, spec=checked, granularity=granularity, overwrite=overwrite, faiss_device=faiss_device
        ) as writer:
            store = EncoderStore(
                writer.encoding_folder,
                encoder,
                granularity=granularity,
                shard_documents=BLOCK_DOCUMENTS,
                shard_characters=BLOCK_CHARACTERS,
                devices=devices,
            )
            for block, shard in store.encode(chain([first], stream), ProgressMeter(progress, total_documents)):
                writer.add(block, shard.vectors, shard.spans_by_document())
        return cls(IndexDir.open(path), encoder)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        encoder: Encoder | str | os.PathLike[str] | None = None,
        device: str | None = None,
        dtype: str | None = None,
        faiss_device: FaissDevice = "cpu",
    ) -> "Index":
        """Open an index with the encoder it names, or with a given one that must be the same.

        An encoder that is loaded here, as `Encoder` does with `device` and `dtype`, gets the length limit of the index.
        `faiss_device` is where FAISS searches: "cpu", "cuda", or "auto" for a GPU that FAISS sees; see `IndexDir.open`.

        Raises:
            IndexDirError: No index there, a damaged one, or one of another encoder.
            ModelError: The encoder cannot be loaded.
            ValueError: An impossible device or dtype, or one beside an Encoder, which has its own.
        """
        loaded = _loaded(IndexDir.open(path), encoder, device, dtype)
        opened = IndexDir.open(path, expected_encoder=identity_of(loaded), faiss_device=faiss_device)
        return cls(opened, loaded)

    def add(self, documents: Iterable[Document] | str | os.PathLike[str], *, replace: bool = False) -> int:
        """Add documents and return how many; with `replace`, documents of known ids take the place of the old ones.

        Raises:
            DataError: A broken document, or an id that is there already (without `replace`); nothing is added then.
            IndexDirError: The directory cannot be written, or another process is writing.
        """
        added, seen = 0, EncodingCounts()
        with self._writer() as writer:
            change = writer.upsert if replace else writer.add
            stream = stream_of(documents)
            first = next(stream, None)
            for block in blocks_of(first, stream) if first is not None else ():
                if not replace:
                    writer.check_new(block)
                texts = [document.full_text for document in block]
                encoded = encode_texts(self.encoder, texts, self.directory.granularity)
                change(block, encoded.vectors, encoded.spans_by_document())
                added += len(block)
                seen.add(encoded.seen)
        self.encoder.counts.add(seen)
        if seen.texts_cut:
            _log.warning(seen.cuts(self.encoder.max_length))
        self.directory = self.directory.latest()
        return added

    def delete(self, ids: Sequence[str]) -> None:
        """Delete documents by id. Raises ValueError, and deletes nothing, when one is not there."""
        with self._writer() as writer:
            writer.delete(ids)
        self.directory = self.directory.latest()

    def compact(
        self,
        *,
        spec: str | os.PathLike[str] | IndexSpec | AutoSpec | None = None,
        faiss_device: FaissDevice = "auto",
    ) -> None:
        """Rewrite the index without what was deleted, and to another specification if one is given.

        FAISS builds on `faiss_device`, as in `build`.
        """
        with self._writer(faiss_device) as writer:
            writer.compact(spec=spec)
        self.directory = self.directory.latest()

    def verify(self, *, sample: int = 32) -> float:
        """Check every byte, every id, and that the encoder still makes the same vectors.

        Args:
            sample: Documents that are encoded again, the same ones each time.

        Returns:
            The least cosine between a stored vector and the same one made again; 1 for a sample of none.

        Raises:
            IndexDamagedError: Something is not what was published.
            IndexMismatchError: A vector made again is another one.
        """
        self.directory.verify()
        chosen = np.random.default_rng(0).permutation(self.directory.rows(self.directory.ids()))[:sample].tolist()
        least = 1.0
        for row, document in zip(chosen, self.directory.documents(chosen), strict=True):
            again = encode_texts(self.encoder, [document.full_text], self.directory.granularity).vectors
            stored = self.directory.vectors(row)
            cosine = float((stored * again).sum(axis=1).min()) if stored.shape == again.shape else -1.0
            if cosine < _SAME and stored.any():
                raise IndexMismatchError(
                    f"document {document.id!r}: its stored vector has cosine {cosine:.4f} with the one that "
                    f"{self.encoder.name} makes now, expected at least {_SAME}; build the index again"
                )
            least = min(least, cosine if stored.any() else 1.0)
        return least

    def refresh(self) -> None:
        """Show the newest state, which another process may have published."""
        self.directory = self.directory.latest()

    def info(self) -> dict[str, Any]:
        """Give counts, sizes, encoder and spec, ready for JSON."""
        return self.directory.info()

    def __len__(self) -> int:
        return len(self.directory)

    def _writer(self, faiss_device: FaissDevice = "auto") -> IndexWriter:
        path, identity = self.directory.info()["path"], identity_of(self.encoder)
        return IndexWriter.open(path, expected_encoder=identity, faiss_device=faiss_device)


def identity_of(encoder: Encoder) -> EncoderIdentity:
    """Describe an encoder as an index directory remembers it; a local model by its absolute folder."""
    name = str(Path(encoder.name).resolve()) if Path(encoder.name).is_dir() else encoder.name
    return EncoderIdentity(name, encoder.fingerprint, encoder.dimension, encoder.details)


def _encoder(encoder: Encoder | str | os.PathLike[str]) -> Encoder:
    return encoder if isinstance(encoder, Encoder) else Encoder(os.fspath(encoder))


def _loaded(
    directory: IndexDir, encoder: Encoder | str | os.PathLike[str] | None, device: str | None, dtype: str | None
) -> Encoder:
    if isinstance(encoder, Encoder):
        if device is not None or dtype is not None:
            raise ValueError(
                f"device {device!r} and dtype {dtype!r} beside an Encoder, expected None for both: it has its own; "
                "give them to the Encoder"
            )
        return encoder
    try:
        loaded = Encoder(os.fspath(encoder or directory.encoder.name), device=device, dtype=dtype)
    except ModelError as error:
        if encoder is not None:
            raise
        raise IndexDirError(
            f"The index names the encoder {directory.encoder.name!r}, which cannot be loaded here ({error}); "
            "give the encoder's folder or Hub name."
        ) from error
    limit = directory.encoder.details.get("max_length")
    if limit is not None and (loaded.max_length is None or limit < loaded.max_length):
        loaded.model.max_seq_length = limit
    if (dimension := directory.encoder.details.get("truncate_dim")) is not None:
        loaded.model.truncate_dim = dimension
    return loaded

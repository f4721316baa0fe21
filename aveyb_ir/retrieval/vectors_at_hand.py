"""Vectors that an earlier evaluation or mining made, for those that follow: another split, metric, protocol or depth.

    DIR/COLLECTION/FINGERPRINT/                 the store of the whole corpus, which a killed run goes on with
    DIR/COLLECTION/FINGERPRINT-judged-SPLIT/    that of the judged documents, where only these were asked for
    DIR/COLLECTION/FINGERPRINT-queries-HASH.npy vectors of queries, by a hash of their texts and the precision; beside
                                                it its checksum, in a file whose name ends in .npy.blake2b

The fingerprint is the encoder's: what changes vectors changes it, so one folder serves any number of models.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.data import Document, replacing
from aveyb_ir.encoding import Encoder, EncoderStore, checksum
from aveyb_ir.errors import DataError
from aveyb_ir.retrieval.exact import EncodedBlock


class VectorsAtHand:
    """The vectors of one collection from one encoder, made when they are first asked for.

    Args:
        folder: Where they are kept, with those of other collections and encoders.
        data: Name of the collection.
        encoder: Makes them.

    Raises:
        DataError: `folder` is something else.
    """

    def __init__(self, folder: Path, data: str, encoder: Encoder) -> None:
        if folder.exists() and not folder.is_dir():
            raise DataError(f"{folder} is no folder; expected one for vectors, or a name that is free; choose another")
        self._encoder = encoder
        self._whole = folder / data / encoder.fingerprint

    def documents(
        self, documents: Iterable[Document], pool: Collection[str] | None, split: str
    ) -> Iterator[EncodedBlock]:
        """Yield a corpus in blocks, or of it what is in `pool`, which is encoded alone unless all has been begun.

        Raises:
            DataError: the folder holds the vectors of another corpus, is damaged or cannot be written.
        """
        if pool is not None and not self._whole.exists():
            judged = (document for document in documents if document.id in pool)
            store = EncoderStore(self._beside(f"judged-{split}"), self._encoder)
            yield from ((block, shard.vectors) for block, shard in store.encode(judged))
            return
        for block, shard in EncoderStore(self._whole, self._encoder).encode(documents):
            kept = [i for i, document in enumerate(block) if pool is None or document.id in pool]
            if len(kept) == len(block):
                yield block, shard.vectors
            elif kept:
                yield [block[i] for i in kept], shard.vectors[kept]

    def queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Give the vectors of queries, (queries, d).

        Raises:
            DataError: the file is not what was written, or cannot be written.
        """
        content = json.dumps([str(self._encoder.model.dtype), *texts]).encode("ascii")
        file = self._beside(f"queries-{hashlib.blake2b(content, digest_size=8).hexdigest()}.npy")
        if not (file.exists() and _checksum_file(file).exists()):  # one alone is half of what was to be written
            _save(file, self._encoder.encode_queries(texts))
        vectors = _load(file)
        if vectors.shape != (len(texts), self._encoder.dimension) or vectors.dtype != np.float32:
            raise DataError(
                f"{file} holds {vectors.dtype} of shape {vectors.shape}; expected float32 of "
                f"{(len(texts), self._encoder.dimension)}; remove the file"
            )
        return vectors

    def _beside(self, end: str) -> Path:
        return self._whole.with_name(f"{self._whole.name}-{end}")


def _checksum_file(file: Path) -> Path:
    return file.with_name(f"{file.name}.blake2b")


def _save(file: Path, vectors: NDArray[np.float32]) -> None:
    try:
        with replacing(file) as partial:
            with partial.open("wb") as opened:
                np.save(opened, vectors, allow_pickle=False)
            with replacing(_checksum_file(file)) as partial_checksum:
                partial_checksum.write_text(f"{checksum(partial)}\n", encoding="ascii")
    except OSError as error:
        raise DataError(f"{file} cannot be written ({error}); expected a folder with room; choose another") from error


def _load(file: Path) -> NDArray[np.float32]:
    try:
        found, expected = checksum(file), _checksum_file(file).read_text(encoding="ascii").strip()
        if found != expected:
            raise ValueError(f"BLAKE2b {found}, not {expected}")
        vectors: NDArray[np.float32] = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(
            f"{file} has not the content that was written ({error}); expected vectors; remove the file"
        ) from error
    return vectors

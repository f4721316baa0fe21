"""What a teacher says of the rows: vectors of their texts, or scores of their pairs, kept for the next run."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sentence_transformers import CrossEncoder
from torch import nn
from transformers.utils.logging import tqdm

from aveyb_ir.data import Document
from aveyb_ir.data.blocks import blocks
from aveyb_ir.data.disk_rows import as_bytes
from aveyb_ir.encoding import Encoder
from aveyb_ir.encoding.cross_encoders import check_one_score, load_cross_encoder
from aveyb_ir.encoding.fingerprint import hash_weights
from aveyb_ir.errors import DataError
from aveyb_ir.retrieval.vectors_at_hand import VectorsAtHand
from aveyb_ir.tasks import TeacherSection
from aveyb_ir.training.distillation_candidates import Candidates
from aveyb_ir.training.progress import on_terminal


@dataclass(frozen=True)
class TeacherVectors:
    """A bi-encoder's vectors of the distinct texts of candidates: row after row the queries, then the documents.

    Attributes:
        blocks: the vectors, (n, d) each: all queries, in memory; then documents, mapped from disk.
        fingerprint: of the teacher.
    """

    blocks: tuple[NDArray[np.float32], ...]
    fingerprint: str

    @property
    def num_queries(self) -> int:
        """Rows of queries, which come before those of documents."""
        return len(self.blocks[0])

    @property
    def width(self) -> int:
        """Numbers of a vector."""
        return int(self.blocks[0].shape[1])

    def __getitem__(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """The vectors (n, d) of n rows."""
        ends = np.cumsum([len(block) for block in self.blocks])
        block_of = np.searchsorted(ends, rows, side="right")
        found = np.empty((len(rows), self.width), dtype=np.float32)
        for number in np.unique(block_of):
            here = block_of == number
            found[here] = self.blocks[number][rows[here] - (ends[number] - len(self.blocks[number]))]
        return found

    def rows_of(self, candidates: Candidates) -> NDArray[np.int64]:
        """Rows of the query and of each document of each list, (lists, 1 + documents)."""
        rows = np.column_stack([candidates.queries, candidates.documents]).astype(np.int64)
        rows[:, 1:] += self.num_queries
        return rows


def teacher_vectors(
    section: TeacherSection, candidates: Candidates, folder: Path, device: str | None
) -> TeacherVectors:
    """Encode every distinct query and document once, or go on with what `folder` holds of that.

    The queries are in memory meanwhile; documents pass as a stream.

    Raises:
        ModelError: the teacher cannot be loaded.
        DataError: the folder is damaged or cannot be written.
    """
    encoder = Encoder(section.model, device=device, dtype="float32", max_length=section.max_length)
    documents = candidates.document_texts
    kept = VectorsAtHand(folder, _digest(documents), encoder)
    queries = kept.queries(list(candidates.query_texts))
    named = (Document(str(number), text) for number, text in enumerate(documents))
    mapped = (vectors for _, vectors in kept.documents(named, None, "train"))
    return TeacherVectors((queries, *mapped), encoder.fingerprint)


def bi_encoder_scores(vectors: TeacherVectors, candidates: Candidates) -> NDArray[np.float32]:
    """Cosines of each query and its documents, (lists, documents)."""
    scores = np.empty(candidates.documents.shape, dtype=np.float32)
    for of_list, rows in zip(scores, vectors.rows_of(candidates), strict=True):
        found = vectors[rows]
        of_list[:] = found[1:] @ found[0]
    return scores


def cross_encoder_scores(
    section: TeacherSection, candidates: Candidates, folder: Path, device: str | None
) -> tuple[NDArray[np.float32], str]:
    """Logits of each query and its documents, (lists, documents), and the teacher's fingerprint.

    They are kept in `folder` by teacher, length limit and texts, and read again where all are the same.

    Raises:
        ModelError: the teacher cannot be loaded, or has more than one label.
        DataError: the kept file is damaged or cannot be written.
    """
    teacher = load_cross_encoder(section.model, "teacher.model", device=device, max_length=section.max_length)
    check_one_score(teacher, "teacher.model")
    fingerprint = hash_weights(teacher)
    key = _digest(chain([fingerprint, str(section.max_length)], chain.from_iterable(candidates.pairs())))
    file, shape = folder / f"scores-{key}.npy", candidates.documents.shape
    if not file.exists():
        _save(file, _scores(teacher, candidates.pairs(), candidates.documents.size).reshape(shape))
    return _read(file, shape), fingerprint


def _scores(teacher: CrossEncoder, pairs: Iterable[tuple[str, str]], total: int) -> NDArray[np.float32]:
    """Logits of so many pairs, of which a block is in memory."""
    scores = []
    with tqdm(total=total, desc="Pairs scored by the teacher", disable=not on_terminal()) as bar:
        for block in blocks(pairs, lambda pair: len(pair[0]) + len(pair[1])):
            scores.append(teacher.predict(block, activation_fn=nn.Identity(), show_progress_bar=False))
            bar.update(len(block))
    return np.concatenate(scores, dtype=np.float32)


def _save(file: Path, scores: NDArray[np.float32]) -> None:
    partial = file.with_name(f".{file.name}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        np.save(partial, scores, allow_pickle=False)
        partial.replace(file)
    except OSError as error:
        raise DataError(f"{file} cannot be written ({error}); expected a folder with room; choose another") from error


def _read(file: Path, shape: tuple[int, ...]) -> NDArray[np.float32]:
    try:
        scores: NDArray[np.float32] = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{file} cannot be read ({error}); expected a teacher's scores; remove the file") from error
    if scores.shape != shape:
        raise DataError(f"{file} holds scores of shape {scores.shape}; expected {shape}; remove the file")
    return scores


def _digest(parts: Iterable[str]) -> str:
    digest = hashlib.blake2b(digest_size=12)
    for part in parts:
        data = as_bytes(part)
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()

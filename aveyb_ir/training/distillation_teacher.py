"""What a teacher says of the rows: vectors of their texts, or scores of their pairs, kept for the next run."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import nn

from aveyb_ir.data import Document
from aveyb_ir.encoding import Encoder
from aveyb_ir.encoding.cross_encoders import check_one_score, load_cross_encoder
from aveyb_ir.encoding.fingerprint import hash_weights
from aveyb_ir.errors import DataError
from aveyb_ir.retrieval.vectors_at_hand import VectorsAtHand
from aveyb_ir.tasks import TeacherSection
from aveyb_ir.training.progress import on_terminal
from aveyb_ir.training.rows import Candidates


@dataclass(frozen=True)
class TeacherVectors:
    """A bi-encoder's vectors of all queries and documents of the rows; memory holds which row is whose.

    Attributes:
        query_rows: row of each query's vector.
        document_rows: row of each document's vector.
        blocks: the vectors, (n, d) each, mapped from disk.
        fingerprint: of the teacher.
    """

    query_rows: dict[str, int]
    document_rows: dict[str, int]
    blocks: tuple[NDArray[np.float32], ...]
    fingerprint: str

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

    def rows_of(self, candidates: Candidates) -> list[int]:
        """Rows of the query and of each document."""
        return [self.query_rows[candidates.query], *(self.document_rows[text] for text in candidates.documents)]


def teacher_vectors(
    section: TeacherSection, candidates: Sequence[Candidates], folder: Path, device: str | None
) -> TeacherVectors:
    """Encode every distinct query and document once, or go on with what `folder` holds of that.

    Raises:
        ModelError: the teacher cannot be loaded.
        DataError: the folder is damaged or cannot be written.
    """
    encoder = Encoder(section.model, device=device, dtype="float32", max_length=section.max_length)
    queries = list(dict.fromkeys(one.query for one in candidates))
    documents = list(dict.fromkeys(text for one in candidates for text in one.documents))
    kept = VectorsAtHand(folder, _digest(documents), encoder)
    blocks = [kept.queries(queries)]
    named = (Document(str(number), text) for number, text in enumerate(documents))
    blocks += [vectors for _, vectors in kept.documents(named, None, "train")]
    return TeacherVectors(
        query_rows={text: row for row, text in enumerate(queries)},
        document_rows={text: row for row, text in enumerate(documents, start=len(queries))},
        blocks=tuple(blocks),
        fingerprint=encoder.fingerprint,
    )


def bi_encoder_scores(vectors: TeacherVectors, candidates: Sequence[Candidates]) -> NDArray[np.float32]:
    """Cosines of each query and its documents, (rows, documents)."""
    scores = []
    for one in candidates:
        query, *documents = vectors[np.array(vectors.rows_of(one))]
        scores.append(np.stack(documents) @ query)
    return np.stack(scores)


def cross_encoder_scores(
    section: TeacherSection, candidates: Sequence[Candidates], folder: Path, device: str | None
) -> tuple[NDArray[np.float32], str]:
    """Logits of each query and its documents, (rows, documents), and the teacher's fingerprint.

    They are kept in `folder` by teacher, length limit and texts, and read again where all are the same.

    Raises:
        ModelError: the teacher cannot be loaded, or has more than one label.
        DataError: the kept file is damaged or cannot be written.
    """
    teacher = load_cross_encoder(section.model, "teacher.model", device=device, max_length=section.max_length)
    check_one_score(teacher, "teacher.model")
    fingerprint = hash_weights(teacher)
    pairs = [(one.query, text) for one in candidates for text in one.documents]
    key = _digest([fingerprint, str(section.max_length), *(part for pair in pairs for part in pair)])
    file = folder / f"scores-{key}.npy"
    shape = (len(candidates), len(candidates[0].documents))
    if not file.exists():
        scores = teacher.predict(pairs, activation_fn=nn.Identity(), show_progress_bar=on_terminal())
        _save(file, np.asarray(scores, dtype=np.float32).reshape(shape))
    return _read(file, shape), fingerprint


def _save(file: Path, scores: NDArray[np.float32]) -> None:
    partial = file.with_name(f".{file.name}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        np.save(partial, scores, allow_pickle=False)
        partial.replace(file)
    except OSError as error:
        raise DataError(f"{file} cannot be written ({error}); expected a folder with room; choose another") from error


def _read(file: Path, shape: tuple[int, int]) -> NDArray[np.float32]:
    try:
        scores: NDArray[np.float32] = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{file} cannot be read ({error}); expected a teacher's scores; remove the file") from error
    if scores.shape != shape:
        raise DataError(f"{file} holds scores of shape {scores.shape}; expected {shape}; remove the file")
    return scores


def _digest(parts: Sequence[str]) -> str:
    digest = hashlib.blake2b(digest_size=12)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()

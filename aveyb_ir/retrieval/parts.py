"""What an index stores of each document: one vector, one for each chunk, or both."""

from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.data import Document

Granularity = Literal["document", "chunk", "both"]
Span = tuple[int, int]


class TextParts(Protocol):
    """A text's vector (d,), and those of its chunks (chunks, d) with the characters they stand for."""

    @property
    def vector(self) -> NDArray[np.float32]: ...  # noqa: D102 - the class says it
    @property
    def chunk_vectors(self) -> NDArray[np.float32]: ...  # noqa: D102
    @property
    def spans(self) -> Sequence[Span]: ...  # noqa: D102


class PartEncoder(Protocol):
    """What can fill an index: encode_chunks is called only for chunks."""

    def encode_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Give unit vectors, shape (texts, d)."""

    def encode_chunks(self, texts: Sequence[str]) -> Sequence[TextParts]:
        """Give each text's vector and those of its chunks. Raises ValueError when the model has no chunks."""


def encode_parts(
    encoder: PartEncoder, documents: Sequence[Document], granularity: Granularity
) -> tuple[NDArray[np.float32], list[list[Span | None]] | None]:
    """Encode documents as `IndexWriter.add` takes them: vectors, and for each document what its vectors stand for.

    A document without any chunk, because it has no text, is stored whole. None for the spans says that all are.
    """
    texts = [document.full_text for document in documents]
    if granularity == "document":
        return encoder.encode_documents(texts), None
    vectors: list[NDArray[np.float32]] = []
    spans: list[list[Span | None]] = []
    for found in encoder.encode_chunks(texts):
        whole = granularity == "both" or not found.spans
        vectors += [found.vector[None]] * whole + [found.chunk_vectors]
        spans.append([None] * whole + list(found.spans))
    return np.concatenate(vectors), spans

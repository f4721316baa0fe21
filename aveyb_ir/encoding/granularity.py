"""What of a text has a vector: the whole, each chunk of it, or both."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.encoding.encoder import Encoder, EncodingCounts, OnBatch

Granularity = Literal["document", "chunk", "both"]
Span = tuple[int, int]

_WHOLE = (-1, -1)


@dataclass(frozen=True)
class EncodedTexts:
    """Vectors of texts, one or more for each.

    Attributes:
        vectors: (vectors, d) float32, unit; those of a text lie together.
        counts: (texts,) int64 vectors of each text.
        spans: (vectors, 2) int64, the characters each vector stands for; -1, -1 for a whole text.
        token_budget: Tokens per batch with which they were computed.
        seen: What was read.
    """

    vectors: NDArray[np.float32]
    counts: NDArray[np.int64]
    spans: NDArray[np.int64]
    token_budget: int
    seen: EncodingCounts

    def spans_by_document(self) -> list[list[Span | None]]:
        """For each text what its vectors stand for: (start, end), or None for the whole."""
        return spans_by_document(self.counts, self.spans)


def check_granularity(granularity: str) -> None:
    """Raise ValueError unless vectors can be made of that."""
    if granularity not in get_args(Granularity):
        raise ValueError(f"granularity is {granularity!r}; expected one of {', '.join(get_args(Granularity))}.")


def encode_texts(
    encoder: Encoder, texts: Sequence[str], granularity: Granularity, on_batch: OnBatch | None = None
) -> EncodedTexts:
    """Encode documents; with chunks, a text that has none is encoded whole. Texts that are cut are counted only.

    Raises:
        AveybError: A text does not fit into memory even alone.
        ValueError: Chunks of a model that has none.
    """
    counted, encoder.counts = encoder.counts, EncodingCounts()
    if granularity == "document":
        vectors = encoder.encode(texts, "document", on_batch=on_batch, log_cuts=False)
        counts, spans = whole_texts(len(texts))
    else:
        vectors, counts, spans = _chunks(encoder, texts, granularity, on_batch)
    seen, encoder.counts = encoder.counts, counted
    return EncodedTexts(vectors, counts, spans, encoder.token_budget, seen)


def whole_texts(num_texts: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Counts and spans of texts that have one vector each."""
    return np.ones(num_texts, dtype=np.int64), np.full((num_texts, 2), -1, dtype=np.int64)


def spans_by_document(counts: NDArray[np.int64], spans: NDArray[np.int64]) -> list[list[Span | None]]:
    """Spans of vectors, (vectors, 2), as one list for each text, which has `counts` of them; None for -1, -1."""
    flat = [None if start < 0 else (start, end) for start, end in spans.tolist()]
    ends = np.cumsum(counts).tolist()
    return [flat[end - count : end] for end, count in zip(ends, counts.tolist(), strict=True)]


def _chunks(
    encoder: Encoder, texts: Sequence[str], granularity: Granularity, on_batch: OnBatch | None
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
    vectors: list[NDArray[np.float32]] = []
    spans: list[list[Span]] = []
    for found in encoder.encode_chunks(texts, on_batch=on_batch, log_cuts=False):
        whole = granularity == "both" or not found.spans
        vectors += [found.vector[None]] * whole + [found.chunk_vectors]
        spans.append([_WHOLE] * whole + found.spans)
    counts = np.array([len(of_text) for of_text in spans], dtype=np.int64)
    flat = [span for of_text in spans for span in of_text]
    return np.concatenate(vectors), counts, np.array(flat, dtype=np.int64).reshape(-1, 2)

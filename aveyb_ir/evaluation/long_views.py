"""A long document seen whole and by its best chunk, from one pass of the encoder."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.encoding import Encoder, EncodingCounts, Granularity
from aveyb_ir.encoding.forward import WholeForward, choose_forward
from aveyb_ir.encoding.granularity import Span, encode_texts

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Views:
    """How queries score documents.

    Attributes:
        scores: (queries, documents) float32 by view: "document" and, for models that have chunks, "chunk", the score of
            the best one.
        best_spans: (queries, documents, 2) int64 characters of the best chunk; empty without chunks.
        seen: What was read of the documents.
    """

    scores: dict[str, NDArray[np.float32]]
    best_spans: NDArray[np.int64]
    seen: EncodingCounts

    def found_in_place(self, spans: Sequence[Span]) -> float:
        """Share of queries whose best chunk of the document of the same number overlaps that document's span."""
        best = self.best_spans[np.arange(len(spans)), np.arange(len(spans))]
        wanted = np.array(spans)
        return float(np.mean((best[:, 0] < wanted[:, 1]) & (best[:, 1] > wanted[:, 0])))


def views_of(encoder: Encoder, granularity: Granularity) -> Granularity:
    """What can be measured of what was asked for: "both" becomes "document" for a model without chunks, and is logged.

    Raises:
        ValueError: Chunks alone of a model that has none.
    """
    if granularity == "document" or isinstance(choose_forward(encoder.model), WholeForward):
        return granularity
    if granularity == "chunk":
        raise ValueError(f"granularity is 'chunk', but {encoder.name} has no chunks; use document or both.")
    _log.info("%s has no chunks; it is measured by whole documents only", encoder.name)
    return "document"


def encode_views(
    encoder: Encoder, queries: NDArray[np.float32], texts: Sequence[str], granularity: Granularity
) -> Views:
    """Encode documents and score them for encoded queries, (queries, d)."""
    if not texts:
        empty = np.zeros((len(queries), 0), dtype=np.float32)
        names = ("document", "chunk") if granularity == "both" else (granularity,)
        return Views(dict.fromkeys(names, empty), np.zeros((len(queries), 0, 2), np.int64), EncodingCounts())
    encoded = encode_texts(encoder, texts, granularity)
    scores = queries @ encoded.vectors.T
    firsts = np.cumsum(encoded.counts) - encoded.counts
    if granularity == "document":
        return Views({"document": scores}, np.zeros((len(queries), 0, 2), np.int64), encoded.seen)
    found = {"document": scores[:, firsts]} if granularity == "both" else {}
    best_spans = np.zeros((len(queries), len(texts), 2), dtype=np.int64)
    best = np.zeros((len(queries), len(texts)), dtype=np.float32)
    for number, (first, count) in enumerate(zip(firsts, encoded.counts, strict=True)):
        first += granularity == "both" and count > 1  # the whole text's vector, unless it is all there is
        inside = scores[:, first : firsts[number] + count]
        best[:, number] = inside.max(axis=1)
        best_spans[:, number] = encoded.spans[first + inside.argmax(axis=1)]
    return Views({**found, "chunk": best}, best_spans, encoded.seen)

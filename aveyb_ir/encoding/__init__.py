"""Texts to vectors."""

from aveyb_ir.encoding.encoder import ChunkedText, Encoder, EncodingCounts
from aveyb_ir.encoding.loading import load_sentence_transformer

__all__ = ["ChunkedText", "Encoder", "EncodingCounts", "load_sentence_transformer"]

"""Texts to vectors."""

from aveyb_ir.encoding.encoder import Encoder, EncodingCounts
from aveyb_ir.encoding.loading import load_sentence_transformer

__all__ = ["Encoder", "EncodingCounts", "load_sentence_transformer"]

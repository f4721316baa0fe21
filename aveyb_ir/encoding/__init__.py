"""Texts to vectors."""

from .encoder import Encoder, EncodingCounts

__all__ = ["Encoder", "EncodingCounts"]

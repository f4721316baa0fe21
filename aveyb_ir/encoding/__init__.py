"""Texts to vectors."""

from aveyb_ir.encoding.encoded_corpus import EncodedCorpus, EncodedShard
from aveyb_ir.encoding.encoder import ChunkedText, Encoder, EncodingCounts
from aveyb_ir.encoding.granularity import Granularity
from aveyb_ir.encoding.loading import load_sentence_transformer
from aveyb_ir.encoding.progress import EncodingProgress, ProgressMeter
from aveyb_ir.encoding.store import EncoderStore, encode_to_store

__all__ = [
    "ChunkedText",
    "EncodedCorpus",
    "EncodedShard",
    "Encoder",
    "EncoderStore",
    "EncodingCounts",
    "EncodingProgress",
    "Granularity",
    "ProgressMeter",
    "encode_to_store",
    "load_sentence_transformer",
]

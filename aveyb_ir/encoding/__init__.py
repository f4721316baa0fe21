"""Texts to vectors."""

from aveyb_ir.encoding.devices import choose_dtype, cpu_has_fast
from aveyb_ir.encoding.encoded_corpus import EncodedCorpus, EncodedShard
from aveyb_ir.encoding.encoder import ChunkedText, Encoder, EncodingCounts
from aveyb_ir.encoding.granularity import Granularity, encode_texts
from aveyb_ir.encoding.loading import load_sentence_transformer
from aveyb_ir.encoding.memory import free_bytes
from aveyb_ir.encoding.onnx_export import OnnxExport, export_onnx
from aveyb_ir.encoding.onnx_queries import OnnxQueryEncoder, QueryEncoder
from aveyb_ir.encoding.progress import EncodingProgress, ProgressMeter
from aveyb_ir.encoding.rates import EncodingRates, measure_rates
from aveyb_ir.encoding.store import EncoderStore, encode_to_store
from aveyb_ir.encoding.store_files import checksum
from aveyb_ir.encoding.survey import CorpusSurvey, Estimate, survey_corpus
from aveyb_ir.encoding.token_counts import token_counts

__all__ = [
    "ChunkedText",
    "CorpusSurvey",
    "EncodedCorpus",
    "EncodedShard",
    "Encoder",
    "EncoderStore",
    "EncodingCounts",
    "EncodingProgress",
    "EncodingRates",
    "Estimate",
    "Granularity",
    "OnnxExport",
    "OnnxQueryEncoder",
    "ProgressMeter",
    "QueryEncoder",
    "checksum",
    "choose_dtype",
    "cpu_has_fast",
    "encode_texts",
    "encode_to_store",
    "export_onnx",
    "free_bytes",
    "load_sentence_transformer",
    "measure_rates",
    "survey_corpus",
    "token_counts",
]

"""Embeddings, ids and texts on disk, and the nearest documents to a query; knows nothing of text models."""

from aveyb_ir.index.faiss_facts import FaissFacts, faiss_facts
from aveyb_ir.index.faiss_gpu import FaissDevice
from aveyb_ir.index.footprint import faiss_bytes
from aveyb_ir.index.identity import EncoderIdentity
from aveyb_ir.index.incoming import check_documents
from aveyb_ir.index.named_specs import AutoSpec, load_spec
from aveyb_ir.index.nearest import checked_top_k
from aveyb_ir.index.reader import Hit, IndexDir
from aveyb_ir.index.segment import Segment
from aveyb_ir.index.spec import BUILT_IN, IndexSpec
from aveyb_ir.index.spec_check import check_spec
from aveyb_ir.index.vectors import inner_products
from aveyb_ir.index.writer import IndexWriter

__all__ = [
    "BUILT_IN",
    "AutoSpec",
    "EncoderIdentity",
    "FaissDevice",
    "FaissFacts",
    "Hit",
    "IndexDir",
    "IndexSpec",
    "IndexWriter",
    "Segment",
    "check_documents",
    "check_spec",
    "checked_top_k",
    "faiss_bytes",
    "faiss_facts",
    "inner_products",
    "load_spec",
]

"""Embeddings, ids and texts on disk, and the nearest documents to a query; knows nothing of text models."""

from aveyb_ir.index.identity import EncoderIdentity
from aveyb_ir.index.reader import Hit, IndexDir
from aveyb_ir.index.writer import IndexWriter

__all__ = ["EncoderIdentity", "Hit", "IndexDir", "IndexWriter"]

"""Corpora, queries, judgements, runs and training pairs: what is read from files and written to them."""

from aveyb_ir.data.documents import Document, Query

__all__ = ["Document", "Query"]

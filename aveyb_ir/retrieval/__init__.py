"""From a query to hits."""

from aveyb_ir.retrieval.bm25 import Bm25
from aveyb_ir.retrieval.exact import Answers, EncodedBlock, exact_search, search_vectors
from aveyb_ir.retrieval.hits import Hit
from aveyb_ir.retrieval.index import Index
from aveyb_ir.retrieval.retriever import Retriever

__all__ = ["Answers", "Bm25", "EncodedBlock", "Hit", "Index", "Retriever", "exact_search", "search_vectors"]

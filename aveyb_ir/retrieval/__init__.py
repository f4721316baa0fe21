"""From a query to hits."""

from aveyb_ir.retrieval.bm25 import Bm25
from aveyb_ir.retrieval.exact import Answers, EncodedBlock, exact_search, search_vectors
from aveyb_ir.retrieval.hits import Hit
from aveyb_ir.retrieval.index import Index
from aveyb_ir.retrieval.index_plan import Plan, plan
from aveyb_ir.retrieval.retriever import Retriever
from aveyb_ir.retrieval.vectors_at_hand import VectorsAtHand

__all__ = [
    "Answers",
    "Bm25",
    "EncodedBlock",
    "Hit",
    "Index",
    "Plan",
    "Retriever",
    "VectorsAtHand",
    "exact_search",
    "plan",
    "search_vectors",
]

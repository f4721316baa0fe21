"""From a query to hits."""

from aveyb_ir.retrieval.exact import exact_search
from aveyb_ir.retrieval.hits import Hit
from aveyb_ir.retrieval.index import Index
from aveyb_ir.retrieval.retriever import Retriever

__all__ = ["Hit", "Index", "Retriever", "exact_search"]

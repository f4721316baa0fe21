"""From a query to hits."""

from .exact import exact_search
from .hits import Hit
from .index import Index
from .retriever import Retriever

__all__ = ["Hit", "Index", "Retriever", "exact_search"]

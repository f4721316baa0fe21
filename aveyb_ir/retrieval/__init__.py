"""From a query to hits."""

from aveyb_ir.retrieval.bm25 import Bm25
from aveyb_ir.retrieval.candidate_texts import texts_from
from aveyb_ir.retrieval.cross_encoder_reranker import CrossEncoderReranker
from aveyb_ir.retrieval.exact import Answers, EncodedBlock, exact_search, search_vectors
from aveyb_ir.retrieval.explanation import Explanation, Part, RetrievedChunk
from aveyb_ir.retrieval.explanation_numbers import explain
from aveyb_ir.retrieval.fusion import Fusion, fuse
from aveyb_ir.retrieval.hits import Hit
from aveyb_ir.retrieval.index import Index
from aveyb_ir.retrieval.index_plan import Plan, plan
from aveyb_ir.retrieval.late_interaction import LateInteraction, TokenMatch
from aveyb_ir.retrieval.reranker_loading import load_reranker
from aveyb_ir.retrieval.reranking import Reranker, rerank
from aveyb_ir.retrieval.retriever import Retriever
from aveyb_ir.retrieval.stages import Mode
from aveyb_ir.retrieval.vectors_at_hand import VectorsAtHand

__all__ = [
    "Answers",
    "Bm25",
    "CrossEncoderReranker",
    "EncodedBlock",
    "Explanation",
    "Fusion",
    "Hit",
    "Index",
    "LateInteraction",
    "Mode",
    "Part",
    "Plan",
    "Reranker",
    "RetrievedChunk",
    "Retriever",
    "TokenMatch",
    "VectorsAtHand",
    "exact_search",
    "explain",
    "fuse",
    "load_reranker",
    "plan",
    "rerank",
    "search_vectors",
    "texts_from",
]

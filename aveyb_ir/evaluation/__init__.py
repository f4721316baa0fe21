"""Judgements and answers in, trustworthy numbers out.

The names load on first use: reading runs and reports, and comparing them, imports no torch.
"""

from typing import TYPE_CHECKING

from aveyb_ir._lazy import lazy_names

if TYPE_CHECKING:
    from aveyb_ir.data import OwnDocument
    from aveyb_ir.evaluation.averages import mean_of
    from aveyb_ir.evaluation.comparison import Comparison, compare
    from aveyb_ir.evaluation.first_tokens_quality import FirstTokens, first_tokens
    from aveyb_ir.evaluation.first_tokens_report import first_tokens_table, save_first_tokens
    from aveyb_ir.evaluation.needle_quality import NeedleReport, needle
    from aveyb_ir.evaluation.needle_report import needle_table, save_needle
    from aveyb_ir.evaluation.protocols import DEFAULT_METRICS, PAPER_METRICS, Protocol, usual_split
    from aveyb_ir.evaluation.reranked_quality import Ceiling, RerankingQuality, reranking_ceiling, reranking_quality
    from aveyb_ir.evaluation.result import Evaluation
    from aveyb_ir.evaluation.retrieval_quality import evaluate
    from aveyb_ir.evaluation.runs import evaluate_run
    from aveyb_ir.evaluation.spec_quality import SpecQuality, index_recall

__all__ = [
    "DEFAULT_METRICS",
    "PAPER_METRICS",
    "Ceiling",
    "Comparison",
    "Evaluation",
    "FirstTokens",
    "NeedleReport",
    "OwnDocument",
    "Protocol",
    "RerankingQuality",
    "SpecQuality",
    "compare",
    "evaluate",
    "evaluate_run",
    "first_tokens",
    "first_tokens_table",
    "index_recall",
    "mean_of",
    "needle",
    "needle_table",
    "reranking_ceiling",
    "reranking_quality",
    "save_first_tokens",
    "save_needle",
    "usual_split",
]

_MODULE_OF = {
    "mean_of": "averages",
    "Comparison": "comparison",
    "compare": "comparison",
    "FirstTokens": "first_tokens_quality",
    "first_tokens": "first_tokens_quality",
    "first_tokens_table": "first_tokens_report",
    "save_first_tokens": "first_tokens_report",
    "NeedleReport": "needle_quality",
    "needle": "needle_quality",
    "needle_table": "needle_report",
    "save_needle": "needle_report",
    "DEFAULT_METRICS": "protocols",
    "PAPER_METRICS": "protocols",
    "Protocol": "protocols",
    "usual_split": "protocols",
    "Ceiling": "reranked_quality",
    "RerankingQuality": "reranked_quality",
    "reranking_ceiling": "reranked_quality",
    "reranking_quality": "reranked_quality",
    "Evaluation": "result",
    "OwnDocument": "result",
    "evaluate": "retrieval_quality",
    "evaluate_run": "runs",
    "SpecQuality": "spec_quality",
    "index_recall": "spec_quality",
}

__getattr__, __dir__ = lazy_names(__name__, _MODULE_OF)

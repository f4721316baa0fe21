"""Judgements and answers in, trustworthy numbers out."""

from aveyb_ir.data import OwnDocument
from aveyb_ir.evaluation.averages import mean_of
from aveyb_ir.evaluation.comparison import Comparison, compare
from aveyb_ir.evaluation.first_tokens_quality import FirstTokens, first_tokens
from aveyb_ir.evaluation.first_tokens_report import first_tokens_table, save_first_tokens
from aveyb_ir.evaluation.needle_quality import NeedleReport, needle
from aveyb_ir.evaluation.needle_report import needle_table, save_needle
from aveyb_ir.evaluation.protocols import DEFAULT_METRICS, PAPER_METRICS, Protocol
from aveyb_ir.evaluation.result import Evaluation
from aveyb_ir.evaluation.retrieval_quality import evaluate, usual_split
from aveyb_ir.evaluation.runs import evaluate_run
from aveyb_ir.evaluation.spec_quality import SpecQuality, index_recall

__all__ = [
    "DEFAULT_METRICS",
    "PAPER_METRICS",
    "Comparison",
    "Evaluation",
    "FirstTokens",
    "NeedleReport",
    "OwnDocument",
    "Protocol",
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
    "save_first_tokens",
    "save_needle",
    "usual_split",
]

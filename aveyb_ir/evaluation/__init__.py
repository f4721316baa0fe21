"""Judgements and answers in, trustworthy numbers out."""

from aveyb_ir.data import OwnDocument
from aveyb_ir.evaluation.comparison import Comparison, compare
from aveyb_ir.evaluation.comparison_scores import Measured
from aveyb_ir.evaluation.protocols import DEFAULT_METRICS, PAPER_METRICS, Protocol
from aveyb_ir.evaluation.result import Evaluation
from aveyb_ir.evaluation.retrieval_quality import evaluate, evaluate_with_run
from aveyb_ir.evaluation.runs import evaluate_run
from aveyb_ir.evaluation.spec_quality import SpecQuality, index_recall

__all__ = [
    "DEFAULT_METRICS",
    "PAPER_METRICS",
    "Comparison",
    "Evaluation",
    "Measured",
    "OwnDocument",
    "Protocol",
    "SpecQuality",
    "compare",
    "evaluate",
    "evaluate_run",
    "evaluate_with_run",
    "index_recall",
]

"""Judgements and answers in, trustworthy numbers out."""

from aveyb_ir.data import OwnDocument
from aveyb_ir.evaluation.averages import mean_of
from aveyb_ir.evaluation.comparison import Comparison, compare
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
    "OwnDocument",
    "Protocol",
    "SpecQuality",
    "compare",
    "evaluate",
    "evaluate_run",
    "index_recall",
    "mean_of",
    "usual_split",
]

"""From a recipe and data to a better model."""

from aveyb_ir.training.any_task import build_start, train_task
from aveyb_ir.training.checkpoints import can_resume
from aveyb_ir.training.contrastive import TrainingResult, train
from aveyb_ir.training.cross_encoder import train_reranker
from aveyb_ir.training.distillation import distill
from aveyb_ir.training.mining import MiningResult, mine
from aveyb_ir.training.model import build_sentence_transformer
from aveyb_ir.training.plan import TrainingPlan, plan_training
from aveyb_ir.training.pretraining import pretrain
from aveyb_ir.training.task_run import TaskResult
from aveyb_ir.training.tokenizer import train_tokenizer

__all__ = [
    "MiningResult",
    "TaskResult",
    "TrainingPlan",
    "TrainingResult",
    "build_sentence_transformer",
    "build_start",
    "can_resume",
    "distill",
    "mine",
    "plan_training",
    "pretrain",
    "train",
    "train_reranker",
    "train_task",
    "train_tokenizer",
]

"""From a recipe and data to a better model."""

from aveyb_ir.training.checkpoints import can_resume
from aveyb_ir.training.contrastive import TrainingResult, build_start, train
from aveyb_ir.training.mining import MiningResult, mine
from aveyb_ir.training.model import build_sentence_transformer
from aveyb_ir.training.sources import training_data_fingerprint
from aveyb_ir.training.tokenizer import train_tokenizer

__all__ = [
    "MiningResult",
    "TrainingResult",
    "build_sentence_transformer",
    "build_start",
    "can_resume",
    "mine",
    "train",
    "train_tokenizer",
    "training_data_fingerprint",
]

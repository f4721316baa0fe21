"""From a recipe and data to a better model."""

from aveyb_ir.training.contrastive import TrainingResult, build_start, train
from aveyb_ir.training.model import build_sentence_transformer
from aveyb_ir.training.tokenizer import train_tokenizer

__all__ = ["TrainingResult", "build_sentence_transformer", "build_start", "train", "train_tokenizer"]

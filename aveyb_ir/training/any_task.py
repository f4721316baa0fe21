"""One entrance for recipes of every task."""

from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer

from aveyb_ir.config import Recipe
from aveyb_ir.tasks import AnyRecipe, DistillRecipe, PretrainRecipe, RerankerRecipe
from aveyb_ir.training.contrastive import TrainingResult, train, untrained_retriever
from aveyb_ir.training.cross_encoder import train_reranker
from aveyb_ir.training.distillation import distill, untrained_student
from aveyb_ir.training.pretraining import pretrain
from aveyb_ir.training.progress import loading_bars
from aveyb_ir.training.task_run import TaskResult


def train_task(
    recipe: AnyRecipe,
    *,
    output: str | Path | None = None,
    overwrite: bool = False,
    resume: bool = False,
    device: str | None = None,
) -> TrainingResult | TaskResult:
    """Do what a recipe of any task says: `train`, `pretrain`, `distill` or `train_reranker`, which explain the rest."""
    options: dict[str, Any] = {"output": output, "overwrite": overwrite, "resume": resume, "device": device}
    if isinstance(recipe, PretrainRecipe):
        return pretrain(recipe, **options)
    if isinstance(recipe, DistillRecipe):
        return distill(recipe, **options)
    if isinstance(recipe, RerankerRecipe):
        return train_reranker(recipe, **options)
    return train(recipe, **options)


def build_start(recipe: Recipe | DistillRecipe) -> SentenceTransformer:
    """Build the retriever that `train` or `distill` starts from, as it is before its first lesson; raises like them."""
    with loading_bars():
        return untrained_student(recipe) if isinstance(recipe, DistillRecipe) else untrained_retriever(recipe)

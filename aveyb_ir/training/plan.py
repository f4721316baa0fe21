"""What training by a recipe will take, from its data and a few of its own steps."""

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from aveyb_ir.config import Recipe
from aveyb_ir.encoding.survey import Estimate
from aveyb_ir.training.contrastive import train


@dataclass(frozen=True)
class TrainingPlan:
    """What a run would take.

    Attributes:
        rows: Pairs of one epoch.
        batch_size: Pairs of a batch at the most.
        batches: Of an epoch.
        steps: Updates of the weights in the whole run.
        measured_steps: Trained to find tokens and speed.
        tokens_per_step: Padding not counted, the mean of the measured steps.
        tokens_per_epoch: By that mean.
        tokens: Of the whole run, by that mean.
        tokens_per_second: The median of the measured steps but the first, which warms up.
        seconds: Of all steps, by the median, fastest and slowest of these; loading, evaluating and saving are not in
            it.
    """

    rows: int
    batch_size: int
    batches: int
    steps: int
    measured_steps: int
    tokens_per_step: float
    tokens_per_epoch: float
    tokens: float
    tokens_per_second: float
    seconds: Estimate

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries and numbers."""
        return asdict(self)


def plan_training(recipe: Recipe, *, measured_steps: int = 4) -> TrainingPlan:
    """Train the first steps of a recipe, throw the model away, and say what the whole run would take.

    Batches are dealt at random, so those of the first steps are like all others.

    Args:
        recipe: A checked recipe.
        measured_steps: Steps to train.

    Raises:
        ValueError: Fewer than 2 steps.
        AveybError: As `train`.
    """
    if measured_steps < 2:
        raise ValueError(f"measured_steps is {measured_steps}; expected at least 2, since the first warms up; raise it")
    section = recipe.train
    with TemporaryDirectory(prefix="aveyb-plan-") as folder:
        result = train(_beginning(recipe, measured_steps), output=Path(folder) / "model")
        lines = [json.loads(line) for line in result.loss_log.read_text(encoding="utf-8").splitlines()]
    speeds = [line["tokens_per_second"] for line in lines if "tokens_per_second" in line][1:]
    batches = math.ceil(result.num_rows / section.batch_size)
    updates = math.ceil(batches / section.gradient_accumulation_steps)
    steps = section.max_steps if section.epochs is None else math.ceil(section.epochs * updates)
    assert steps is not None  # a checked recipe has one of the two
    tokens_per_step = result.tokens_per_second * result.seconds / result.num_steps
    tokens = steps * tokens_per_step
    return TrainingPlan(
        rows=result.num_rows,
        batch_size=section.batch_size,
        batches=batches,
        steps=steps,
        measured_steps=result.num_steps,
        tokens_per_step=tokens_per_step,
        tokens_per_epoch=updates * tokens_per_step,
        tokens=tokens,
        tokens_per_second=float(np.median(speeds)),
        seconds=Estimate(tokens / float(np.median(speeds)), tokens / max(speeds), tokens / min(speeds)),
    )


def _beginning(recipe: Recipe, steps: int) -> Recipe:
    """The recipe cut to its first steps, each logged, without evaluations and checkpoints."""
    first = {"max_steps": steps, "epochs": None, "logging_steps": 1, "save_steps": None, "eval_steps": None}
    return recipe.model_copy(
        update={
            "train": recipe.train.model_copy(update=first),
            "data": recipe.data.model_copy(update={"eval_split": None}),
        }
    )

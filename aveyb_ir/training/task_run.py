"""What every task but the contrastive one does around its trainer: check, train, publish the folder."""

import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from transformers import Trainer, set_seed

from aveyb_ir.errors import RecipeError
from aveyb_ir.training.arguments import check_device
from aveyb_ir.training.checkpoints import RECIPE_FILE, RecipeT, with_device, with_output, working_folder
from aveyb_ir.training.contrastive import LOSS_FILE
from aveyb_ir.training.curve import CURVE_FILE, plot_curve
from aveyb_ir.training.output import RECORD_FILE, check_output, published_folder
from aveyb_ir.training.processes import Processes
from aveyb_ir.training.progress import LossLog, loading_bars
from aveyb_ir.training.record import environment, write_json, write_text
from aveyb_ir.training.seals import last_whole_checkpoint

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What a finished run made and measured.

    Attributes:
        output: the model folder.
        loss_log: JSON Lines of step, loss, learning_rate, grad_norm and tokens_per_second; or of an evaluation.
        num_rows: pieces or rows trained on, in one epoch.
        num_steps: updates of the weights.
        final_loss: mean of the steps since the line of the loss log before the last.
        seconds: of training, without loading and saving; of a resumed run, since it resumed.
        tokens_per_second: over these seconds, padding not counted.
        metrics: of the finished model, by name; empty where the task has none.
    """

    output: Path
    loss_log: Path
    num_rows: int
    num_steps: int
    final_loss: float
    seconds: float
    tokens_per_second: float
    metrics: dict[str, float]


@dataclass(frozen=True)
class Task:
    """A trainer that is ready, and what to do with its model.

    Attributes:
        trainer: trains in place; writes to the loss log it was given.
        num_rows: pieces or rows of an epoch.
        save: writes the model into a folder.
        facts: what else `training.json` records, such as a fingerprint of the data.
        measure: evaluates the finished model.
    """

    trainer: Trainer
    num_rows: int
    save: Callable[[Path], None]
    facts: dict[str, Any]
    measure: Callable[[], dict[str, float]] = field(default=dict)


Prepare = Callable[[RecipeT, LossLog, Path], Task]
"""Builds the task of a recipe, with the log to write to and the folder for checkpoints."""


def run_task(
    recipe: RecipeT,
    prepare: Prepare[RecipeT],
    *,
    output: str | Path | None,
    overwrite: bool,
    resume: bool,
    device: str | None,
) -> TaskResult:
    """Prepare, train, and publish the result with its recipe, record, loss log and picture of it.

    Raises:
        ValueError: no output is named, or it cannot be used as the arguments say, or an unknown device.
        RecipeError: the recipe does not fit this machine, the loss is not finite, or `resume` finds another recipe.
    """
    recipe, folder = with_output(with_device(recipe, device), output)
    check_device(recipe.train.device, recipe.train.dtype)
    if (count := Processes.here().count) > 1:
        raise RecipeError(f"task: got {count} processes, expected one; only contrastive training shares its batches")
    check_output(folder, overwrite=overwrite, resume=resume)
    with loading_bars(), published_folder(folder) as partial, working_folder(recipe, folder, resume) as working:
        set_seed(recipe.train.seed)
        log = LossLog(partial / LOSS_FILE)
        task = prepare(recipe, log, working)
        start = time.perf_counter()
        task.trainer.train(resume_from_checkpoint=str(last_whole_checkpoint(working)) if resume else None)
        seconds = time.perf_counter() - start
        result = _measured(folder, task, log, seconds)
        task.save(partial)
        plot_curve(partial / CURVE_FILE, log.lines(), None)
        write_text(partial / RECIPE_FILE, recipe.to_yaml())
        write_json(partial / RECORD_FILE, _record(recipe.train.seed, result, task))
    logger.info("wrote %s: loss %.4f after %d steps", folder, result.final_loss, result.num_steps)
    return result


def _measured(folder: Path, task: Task, log: LossLog, seconds: float) -> TaskResult:
    return TaskResult(
        output=folder,
        loss_log=folder / LOSS_FILE,
        num_rows=task.num_rows,
        num_steps=task.trainer.state.global_step,
        final_loss=log.losses[-1],
        seconds=round(seconds, 3),
        tokens_per_second=round(log.num_tokens / seconds, 1),
        metrics=task.measure(),
    )


def _record(seed: int, result: TaskResult, task: Task) -> dict[str, Any]:
    measured = asdict(result)
    del measured["output"], measured["loss_log"]
    return {"seed": seed, **measured, **task.facts, **environment()}

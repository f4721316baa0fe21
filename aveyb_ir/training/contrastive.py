"""Fine-tune a retriever: a recipe and its data in, a Sentence Transformers folder out."""

import logging
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer
from transformers import set_seed
from transformers.trainer_utils import get_last_checkpoint

from aveyb_ir.config import Recipe
from aveyb_ir.errors import RecipeError
from aveyb_ir.training.batches import BalancedBatchSampler
from aveyb_ir.training.collate import PairCollator
from aveyb_ir.training.loss import NEGATIVE
from aveyb_ir.training.model import build_sentence_transformer
from aveyb_ir.training.output import RECORD_FILE, check_output, checkpoints_folder, published_folder
from aveyb_ir.training.pairs import TrainingSet
from aveyb_ir.training.progress import LossLog, loading_bars
from aveyb_ir.training.record import environment, write_json, write_text
from aveyb_ir.training.sources import load_evaluator, load_training_set, tokenizer_texts
from aveyb_ir.training.trainer import ContrastiveTrainer, Schedule, check_device

logger = logging.getLogger(__name__)

RECIPE_FILE = "recipe.yaml"
LOSS_FILE = "loss.jsonl"


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """What a finished run made and measured.

    Attributes:
        output: the model folder.
        loss_log: JSON Lines of step, loss, learning_rate, grad_norm and tokens_per_second.
        num_rows: anchors with one positive each that were trained on, in one epoch.
        num_steps: updates of the weights.
        final_loss: mean of the steps since the line of the loss log before the last.
        seconds: of training, without loading and saving; of a resumed run, since it resumed.
        tokens_per_second: over these seconds, padding not counted.
    """

    output: Path
    loss_log: Path
    num_rows: int
    num_steps: int
    final_loss: float
    seconds: float
    tokens_per_second: float


def train(
    recipe: Recipe, *, output: str | Path | None = None, overwrite: bool = False, resume: bool = False
) -> TrainingResult:
    """Train as a recipe says and write the model folder, whole or not at all.

    The folder loads with `SentenceTransformer(output)` and also holds the recipe with every default written out
    (`recipe.yaml`), the loss log (`loss.jsonl`) and `training.json`: seed, versions, git commit, counts, time and the
    fingerprint of the data. Checkpoints go to `OUTPUT.checkpoints`. On CPU the same recipe and data give the same
    weights.

    Every positive of every row is a training pair. Negatives of an anchor are the other documents of its batch,
    explicit negatives of other pairs included, except those that are a known positive of the anchor in any row.
    Batches are dealt out evenly, so five pairs at a batch size of 4 make batches of 3 and 2; a pair that still meets no
    negative borrows one document from the rest of the data.

    Args:
        recipe: a checked recipe, see `load_recipe`.
        output: replaces `recipe.train.output`.
        overwrite: replace an earlier result and drop its checkpoints; what is there stays until the run has succeeded.
        resume: go on from the last checkpoint of an unfinished run of the same recipe.

    Raises:
        ValueError: no output is named, or it cannot be used as the arguments say.
        DataError: the data is malformed, or some anchor can have no negative.
        ModelError: the model to start from cannot be loaded.
        RecipeError: the recipe does not fit this machine, the loss is not finite, or `resume` finds another recipe.
    """
    recipe, folder = _with_output(recipe, output)
    check_output(folder, overwrite=overwrite, resume=resume)
    check_device(recipe.train.device)
    training_set = load_training_set(recipe.data)
    evaluator = load_evaluator(recipe.data, recipe.train.mini_batch_size)
    with loading_bars(), published_folder(folder) as partial, _working_folder(recipe, folder, resume) as working:
        set_seed(recipe.train.seed)
        model = _start(recipe, training_set)
        collator = PairCollator(model, training_set)
        log = LossLog(partial / LOSS_FILE)
        trainer = ContrastiveTrainer(model, recipe.train, collator, log, working, evaluator)
        _announce(recipe, collator)
        start = time.perf_counter()
        trainer.train(resume_from_checkpoint=get_last_checkpoint(str(working)) if resume else None)
        result = _measured(folder, trainer, log, time.perf_counter() - start)
        model.save_pretrained(str(partial))
        write_text(partial / RECIPE_FILE, recipe.to_yaml())
        write_json(partial / RECORD_FILE, _record(recipe, result, training_set))
    logger.info("wrote %s: loss %.4f after %d steps", folder, result.final_loss, result.num_steps)
    return result


def build_start(recipe: Recipe) -> SentenceTransformer:
    """Build the model that `train` starts from, as it is before the first step; raises like `train`."""
    with loading_bars():
        return _start(recipe, load_training_set(recipe.data))


def _start(recipe: Recipe, training_set: TrainingSet) -> SentenceTransformer:
    return build_sentence_transformer(
        recipe.model,
        tokenizer_texts(recipe.data, training_set),
        seed=recipe.train.seed,
        device=None if recipe.train.device == "auto" else recipe.train.device,
    )


def _with_output(recipe: Recipe, output: str | Path | None) -> tuple[Recipe, Path]:
    if output is not None:
        section = recipe.train.model_copy(update={"output": str(Path(output).absolute())})
        recipe = recipe.model_copy(update={"train": section})
    if recipe.train.output is None:
        raise ValueError("output: got none, expected a folder; pass output or set train.output in the recipe")
    return recipe, Path(recipe.train.output)


@contextmanager
def _working_folder(recipe: Recipe, output: Path, resume: bool) -> Iterator[Path]:
    """Where the trainer keeps its checkpoints, with the recipe they belong to; a passing folder if it keeps none."""
    checkpoints = checkpoints_folder(output)
    if resume:
        _check_resumable(recipe, checkpoints)
    elif checkpoints.exists():
        shutil.rmtree(checkpoints)
    if recipe.train.save_steps is None:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
    else:
        checkpoints.mkdir(parents=True, exist_ok=True)
        write_text(checkpoints / RECIPE_FILE, recipe.to_yaml())
        yield checkpoints


def can_resume(recipe: Recipe, *, output: str | Path | None = None) -> bool:
    """Whether an unfinished run of this recipe left a checkpoint that `train` with `resume` would go on from."""
    recipe, folder = _with_output(recipe, output)
    checkpoints = checkpoints_folder(folder)
    return _has_checkpoint(checkpoints) and _is_of(recipe, checkpoints)


def _has_checkpoint(checkpoints: Path) -> bool:
    return (checkpoints / RECIPE_FILE).is_file() and get_last_checkpoint(str(checkpoints)) is not None


def _is_of(recipe: Recipe, checkpoints: Path) -> bool:
    return (checkpoints / RECIPE_FILE).read_text(encoding="utf-8") == recipe.to_yaml()


def _check_resumable(recipe: Recipe, checkpoints: Path) -> None:
    if not _has_checkpoint(checkpoints):
        raise ValueError(f"resume: got no checkpoint in {checkpoints}, expected one; train without resume")
    if not _is_of(recipe, checkpoints):
        raise RecipeError(
            f"{checkpoints / RECIPE_FILE}: got checkpoints of another recipe, expected this one; "
            "use that recipe, or train without resume and with overwrite"
        )


def _announce(recipe: Recipe, collator: PairCollator) -> None:
    """Log what decides the cost and the quality of the run, by its first batch."""
    training_set, section = collator.training_set, recipe.train
    schedule = Schedule.of(section, len(training_set))
    first = next(iter(BalancedBatchSampler(training_set, section.batch_size, section.seed)))
    batch = collator([{"pair": pair} for pair in first])
    logger.info(
        "%d rows, %d explicit negatives, %d batches of up to %d; the first has %.1f negatives per query, %d tokens",
        len(training_set),
        training_set.num_negatives,
        schedule.num_batches,
        len(first),
        (batch["label"] == NEGATIVE).sum().item() / len(first),
        batch["num_tokens"],
    )
    logger.info(
        "%d steps of %d batches, warm-up of %d steps",
        schedule.num_steps,
        section.gradient_accumulation_steps,
        schedule.num_warmup_steps,
    )
    for name, table in (("queries", collator.anchors), ("documents", collator.documents)):
        if table.num_cut:
            logger.warning("%d of %d %s are cut at the length limit", table.num_cut, len(table.lengths), name)


def _measured(folder: Path, trainer: ContrastiveTrainer, log: LossLog, seconds: float) -> TrainingResult:
    return TrainingResult(
        output=folder,
        loss_log=folder / LOSS_FILE,
        num_rows=len(trainer.data_collator.training_set),
        num_steps=trainer.state.global_step,
        final_loss=log.losses[-1],
        seconds=round(seconds, 3),
        tokens_per_second=round(log.num_tokens / seconds, 1),
    )


def _record(recipe: Recipe, result: TrainingResult, training_set: TrainingSet) -> dict[str, Any]:
    measured = asdict(result)
    del measured["output"], measured["loss_log"]
    return {"seed": recipe.train.seed, **measured, "data_fingerprint": training_set.fingerprint, **environment()}

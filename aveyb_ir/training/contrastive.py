"""Fine-tune a retriever: a recipe and its data in, a Sentence Transformers folder out."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sentence_transformers import SentenceTransformer
from transformers import set_seed

from aveyb_ir.config import Recipe
from aveyb_ir.training.announcement import ExpectedTime, announce
from aveyb_ir.training.arguments import check_device
from aveyb_ir.training.checkpoints import RECIPE_FILE, with_device, with_output, working_folder
from aveyb_ir.training.collate import PairCollator
from aveyb_ir.training.curve import CURVE_FILE, plot_curve
from aveyb_ir.training.development import DevelopmentSet
from aveyb_ir.training.lora import ADAPTER_FOLDER, LoraAdditions
from aveyb_ir.training.model import build_sentence_transformer
from aveyb_ir.training.output import RECORD_FILE, check_output, checkpoints_folder, data_folder, published_folder
from aveyb_ir.training.pairs import TrainingSet
from aveyb_ir.training.processes import Processes, joined_processes
from aveyb_ir.training.progress import LossLog, loading_bars
from aveyb_ir.training.record import environment, write_json, write_text
from aveyb_ir.training.seals import last_whole_checkpoint
from aveyb_ir.training.selection import BestWeights
from aveyb_ir.training.sources import load_development_set, load_training_set, tokenizer_texts
from aveyb_ir.training.trainer import ContrastiveTrainer

logger = logging.getLogger(__name__)

LOSS_FILE = "loss.jsonl"
_BEST_FILE = "best.safetensors"


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """What a finished run made and measured.

    Attributes:
        output: the model folder.
        loss_log: JSON Lines of step, loss, learning_rate, grad_norm and tokens_per_second, or of evaluations.
        num_rows: anchors with one positive each that were trained on, of all data sets.
        num_steps: updates of the weights.
        final_loss: mean of the steps since the line of the loss log before the last.
        seconds: of training and its evaluations, without loading and saving; of a resumed run, since it resumed.
        tokens_per_second: over these seconds, padding not counted, of all processes.
        best_step: after which the best evaluation was made; None without evaluations.
        best_ndcg: its NDCG@10.
        kept_step: whose weights are in the folder.
    """

    output: Path
    loss_log: Path
    num_rows: int
    num_steps: int
    final_loss: float
    seconds: float
    tokens_per_second: float
    best_step: int | None
    best_ndcg: float | None
    kept_step: int


def train(
    recipe: Recipe,
    *,
    output: str | Path | None = None,
    overwrite: bool = False,
    resume: bool = False,
    device: str | None = None,
) -> TrainingResult:
    """Train as a recipe says and write the model folder, whole or not at all.

    The folder loads with `SentenceTransformer(output)` and also holds the recipe with every default written out
    (`recipe.yaml`), the loss log (`loss.jsonl`), its picture (`curve.png`) and `training.json`: seed, versions, git
    commit, counts, time and the fingerprint of the data. Checkpoints go to `OUTPUT.checkpoints`. On CPU the same recipe
    and data give the same weights.

    Every positive of every row is a training pair. Negatives of an anchor are the other documents of its batch,
    explicit negatives of other pairs included, except those that are a known positive of the anchor in any row.
    Batches are dealt out evenly, so five pairs at a batch size of 4 make batches of 3 and 2; a pair that still meets no
    negative borrows one document from the rest of the data.

    Started by torchrun or accelerate, the processes share each batch, and loss and gradients are those of one process;
    evaluations run in the main one while the others wait.

    Args:
        recipe: a checked recipe, see `load_recipe`.
        output: replaces `recipe.train.output`.
        overwrite: replace an earlier result and drop its checkpoints; what is there stays until the run has succeeded.
        resume: go on from the last whole checkpoint of an unfinished run of the same recipe.
        device: replaces `recipe.train.device`.

    Raises:
        ValueError: no output is named, or it cannot be used as the arguments say, or an unknown device.
        DataError: the data is malformed, or some anchor can have no negative.
        ModelError: the model to start from cannot be loaded.
        RecipeError: the recipe does not fit this machine, the loss is not finite, or `resume` finds another recipe.
        MissingExtraError: the recipe wants peft or TensorBoard, and it is not installed.
    """
    recipe, folder = with_output(with_device(recipe, device), output)
    check_device(recipe.train.device, recipe.train.dtype)
    check_output(folder, overwrite=overwrite, resume=resume)
    evaluator = load_development_set(recipe.data)
    training_set = load_training_set(recipe.data, data_folder(folder))
    set_seed(recipe.train.seed)
    with loading_bars():
        model = _start(recipe, training_set)  # alone, since only the first of joined processes may save models
        with joined_processes(recipe.train.device) as processes:
            processes.wait()  # until all have seen the folders as they were
            with _folders(recipe, folder, resume, processes) as (partial, working):
                result = _run(recipe, folder, training_set, model, evaluator, processes, partial, working, resume)
            processes.wait()
    return result


@contextmanager
def _folders(recipe: Recipe, output: Path, resume: bool, processes: Processes) -> Iterator[tuple[Path, Path]]:
    """Where this process writes its result and finds checkpoints; only the main process' result is published."""
    if processes.is_main:
        with published_folder(output) as partial, working_folder(recipe, output, resume) as working:
            processes.wait()
            yield partial, working
    else:
        processes.wait()
        with TemporaryDirectory() as passing:
            yield Path(passing), Path(passing) if recipe.train.save_steps is None else checkpoints_folder(output)


def _run(
    recipe: Recipe,
    folder: Path,
    training_set: TrainingSet,
    model: SentenceTransformer,
    evaluator: DevelopmentSet | None,
    processes: Processes,
    partial: Path,
    working: Path,
    resume: bool,
) -> TrainingResult:
    additions = None if recipe.train.lora is None else LoraAdditions(model, recipe.train.lora)
    collator = PairCollator(model, training_set, processes)
    log = LossLog(partial / LOSS_FILE)
    trainer = ContrastiveTrainer(model, recipe.train, collator, log, working, evaluator)
    patience = recipe.train.early_stopping_patience
    selection = BestWeights(working / _BEST_FILE, patience=patience, is_main=processes.is_main)
    if evaluator is not None:
        trainer.add_callback(selection)
        trainer.args.eval_on_start = not resume
    if processes.is_main:
        announce(recipe, collator)
        trainer.add_callback(ExpectedTime)
    start = time.perf_counter()
    trainer.train(resume_from_checkpoint=str(last_whole_checkpoint(working)) if resume else None)
    seconds = time.perf_counter() - start
    keeps_best = selection.best is not None and recipe.train.keep == "best"
    result = _measured(folder, trainer, log, seconds, selection.best, keeps_best)
    if processes.is_main:
        if keeps_best:
            selection.restore(model)
        _write(partial, recipe, result, model, additions, log, training_set)
        logger.info("wrote %s: loss %.4f after %d steps", folder, result.final_loss, result.num_steps)
    return result


def _write(
    partial: Path,
    recipe: Recipe,
    result: TrainingResult,
    model: SentenceTransformer,
    additions: LoraAdditions | None,
    log: LossLog,
    training_set: TrainingSet,
) -> None:
    if additions is not None:
        assert recipe.train.lora is not None  # it says that there are additions
        if recipe.train.lora.keep_adapter:
            additions.save(partial / ADAPTER_FOLDER)
        additions.merge()
    model.save_pretrained(str(partial))
    plot_curve(partial / CURVE_FILE, log.lines(), result.best_step)
    write_text(partial / RECIPE_FILE, recipe.to_yaml())
    write_json(partial / RECORD_FILE, _record(recipe, result, training_set))


def untrained_retriever(recipe: Recipe) -> SentenceTransformer:
    """The model that `train` starts from. Raises like `train`."""
    return _start(recipe, load_training_set(recipe.data))


def _start(recipe: Recipe, training_set: TrainingSet) -> SentenceTransformer:
    # The trainer moves the model of each of several processes to a GPU of its own.
    device = recipe.train.place if Processes.here().count == 1 else "cpu"
    return build_sentence_transformer(
        recipe.model,
        tokenizer_texts(recipe.data, training_set),
        seed=recipe.train.seed,
        device=device,
    )


def _measured(
    folder: Path,
    trainer: ContrastiveTrainer,
    log: LossLog,
    seconds: float,
    best: tuple[int, float] | None,
    keeps_best: bool,
) -> TrainingResult:
    best_step, best_ndcg = (None, None) if best is None else best
    return TrainingResult(
        output=folder,
        loss_log=folder / LOSS_FILE,
        num_rows=len(trainer.data_collator.training_set),
        num_steps=trainer.state.global_step,
        final_loss=log.losses[-1],
        seconds=round(seconds, 3),
        tokens_per_second=round(log.num_tokens / seconds, 1),
        best_step=best_step,
        best_ndcg=best_ndcg,
        kept_step=best_step if keeps_best and best_step is not None else trainer.state.global_step,
    )


def _record(recipe: Recipe, result: TrainingResult, training_set: TrainingSet) -> dict[str, Any]:
    measured = asdict(result)
    del measured["output"], measured["loss_log"]
    return {"seed": recipe.train.seed, **measured, "data_fingerprint": training_set.fingerprint, **environment()}

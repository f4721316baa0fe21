"""Masked language modelling: plain text in, a model out that knows the language and can be fine-tuned."""

import hashlib
import logging
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer, PreTrainedModel

import aveyb_ir.models  # noqa: F401 (registers Avey-B with transformers)
from aveyb_ir.config import Backbone
from aveyb_ir.encoding.loading import locate
from aveyb_ir.errors import DataError, ModelError, RecipeError
from aveyb_ir.tasks import PretrainRecipe
from aveyb_ir.training.arguments import Schedule
from aveyb_ir.training.fresh import save_fresh_backbone
from aveyb_ir.training.pretraining_batches import MaskedBatches, Masker
from aveyb_ir.training.pretraining_pieces import Pieces, cut_into_pieces
from aveyb_ir.training.pretraining_texts import is_held_out, read_texts
from aveyb_ir.training.pretraining_trainer import PretrainingTrainer
from aveyb_ir.training.progress import LossLog
from aveyb_ir.training.task_run import Task, TaskResult, run_task

logger = logging.getLogger(__name__)


def pretrain(
    recipe: PretrainRecipe,
    *,
    output: str | Path | None = None,
    overwrite: bool = False,
    resume: bool = False,
    device: str | None = None,
) -> TaskResult:
    """Train a masked language model as a recipe says and write the model folder, whole or not at all.

    The folder is one of transformers: `AutoModelForMaskedLM.from_pretrained(output)` reads it with its head,
    `model.start` of another recipe and `SentenceTransformer(output)` without. It also holds `recipe.yaml`, the loss log
    with accuracies (`loss.jsonl`), its picture (`curve.png`) and `training.json`. On CPU the same recipe and texts give
    the same weights, and a resumed run the same as one without interruption.

    Texts are cut into pieces that are packed into batches by their number of tokens; no piece sees another. Token ids
    are kept on disk while the run lasts, so that texts may be larger than memory.

    Args:
        recipe: a checked recipe, see `load_task`.
        output: replaces `recipe.train.output`.
        overwrite: replace an earlier result and drop its checkpoints; what is there stays until the run has succeeded.
        resume: go on from the last whole checkpoint of an unfinished run of the same recipe.
        device: replaces `recipe.train.device`.

    Raises:
        ValueError: no output is named, or it cannot be used as the arguments say, or an unknown device.
        DataError: the texts are malformed, or none are left to train on or to hold out.
        ModelError: the model to start from cannot be loaded, or its tokenizer has no mask symbol.
        RecipeError: the recipe does not fit this machine or model, or the loss is not finite.
    """
    return run_task(recipe, _prepare, output=output, overwrite=overwrite, resume=resume, device=device)


def _prepare(recipe: PretrainRecipe, log: LossLog, working: Path) -> Task:
    data, section = recipe.data, recipe.train
    model, tokenizer = _start(recipe.model, read_texts(data.texts), section.seed)
    _check_length(model, data.piece_length)
    masker = Masker(tokenizer, data.mask_rate)
    texts = _Counted(read_texts(data.texts))
    pieces = _pieces(recipe, texts, tokenizer, working / "tokens.bin", held_out=False)
    options: dict[str, Any] = {"pad_id": tokenizer.pad_token_id or 0, "seed": section.seed}
    schedule = Schedule.over(section, MaskedBatches(pieces, masker, section.batch_tokens, **options).num_batches)
    run_length = schedule.num_steps * section.gradient_accumulation_steps
    batches = MaskedBatches(pieces, masker, section.batch_tokens, run_length=run_length, **options)
    measured = None
    if data.held_out:
        others = _pieces(recipe, read_texts(data.texts), tokenizer, working / "held_out.bin", held_out=True)
        measured = MaskedBatches(others, masker, section.batch_tokens, shuffled=False, **options)
    logger.info(
        "%d texts; %d pieces with %d tokens to train on, %d batches an epoch; %d steps",
        texts.count,
        len(pieces),
        pieces.lengths.sum(),
        schedule.num_batches,
        schedule.num_steps,
    )
    trainer = PretrainingTrainer(model, section, batches, measured, log, working)

    def measure() -> dict[str, float]:
        trainer.evaluate()
        return trainer.held_out_metrics()

    def save(folder: Path) -> None:
        model.save_pretrained(str(folder))
        tokenizer.save_pretrained(str(folder))

    return Task(trainer, len(pieces), save, {"data_fingerprint": texts.fingerprint}, measure)


class _Counted:
    """Passes texts on, and knows afterwards how many there were and what identifies them."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts, self._digest = texts, hashlib.sha256()
        self.count = 0

    def __iter__(self) -> Iterator[str]:
        for text in self._texts:
            data = text.encode("utf-8", "surrogatepass")
            self._digest.update(len(data).to_bytes(8, "little") + data)
            self.count += 1
            yield text

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the texts so far."""
        return self._digest.hexdigest()


def _pieces(recipe: PretrainRecipe, texts: Iterable[str], tokenizer: Any, file: Path, *, held_out: bool) -> Pieces:
    data = recipe.data
    own = (text for text in texts if is_held_out(text, data.held_out) == held_out)
    pieces = cut_into_pieces(own, tokenizer, data.piece_length, file)
    if not pieces:
        part = "held out" if held_out else "left to train on"
        raise DataError(
            f"{data.texts}: got no texts {part} at data.held_out {data.held_out}, expected some; "
            "give more texts or another share"
        )
    return pieces


def _start(section: Backbone, texts_for_tokenizer: Iterable[str], seed: int) -> tuple[PreTrainedModel, Any]:
    if section.start is not None:
        return _load(section.start)
    with tempfile.TemporaryDirectory() as folder:
        save_fresh_backbone(folder, section, texts_for_tokenizer, seed=seed)
        return _load(folder)


def _load(name: str) -> tuple[PreTrainedModel, Any]:
    # Training keeps its weights in float32, whatever the checkpoint was stored in.
    try:
        place = locate(name)
        model = AutoModelForMaskedLM.from_pretrained(place, dtype=torch.float32)
        return model, AutoTokenizer.from_pretrained(place)
    except (ModelError, OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ModelError(
            f"model.start: got {name!r}, expected a model folder or Hub name with a tokenizer, of an architecture for "
            f"masked language modelling; check the path or the network ({reason})"
        ) from error


def _check_length(model: PreTrainedModel, length: int) -> None:
    limit = getattr(model.config, "max_position_embeddings", None)
    if limit is not None and length > limit:
        raise RecipeError(
            f"data.piece_length: got {length}, expected at most the {limit} tokens that the model can read; lower it"
        )

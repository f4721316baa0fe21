"""Train a reranker: a cross-encoder that reads a query and a document together and scores the pair."""

import logging
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from datasets import Dataset
from sentence_transformers import CrossEncoder
from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss, LambdaLoss, ListNetLoss, RankNetLoss
from torch import nn

from aveyb_ir.data import TrainingRow
from aveyb_ir.encoding.cross_encoders import load_cross_encoder
from aveyb_ir.errors import DataError, RecipeError
from aveyb_ir.models import AveyBConfig
from aveyb_ir.tasks import RerankerModel, RerankerRecipe, RerankerTrainSection
from aveyb_ir.training.fresh import save_fresh_backbone
from aveyb_ir.training.model import set_length_limit
from aveyb_ir.training.progress import LossLog
from aveyb_ir.training.row_trainer import CrossEncoderRowTrainer
from aveyb_ir.training.rows import fingerprint_of, read_rows, source_of
from aveyb_ir.training.task_run import Task, TaskResult, run_task

logger = logging.getLogger(__name__)


def train_reranker(
    recipe: RerankerRecipe,
    *,
    output: str | Path | None = None,
    overwrite: bool = False,
    resume: bool = False,
    device: str | None = None,
) -> TaskResult:
    """Train a cross-encoder as a recipe says and write its folder, whole or not at all.

    `CrossEncoder(output)` of Sentence Transformers reads the folder, and so does whatever reranks here.

    Positives of a row are relevant, its first `data.negatives` negatives are not. The list losses see all candidates of
    a row at once, `bce` each pair alone. Where the start has no head for one score, that begins with random weights.

    Args:
        recipe: a checked recipe, see `load_task`.
        output: replaces `recipe.train.output`.
        overwrite: replace an earlier result and drop its checkpoints; what is there stays until the run has succeeded.
        resume: go on from the last whole checkpoint of an unfinished run of the same recipe.
        device: replaces `recipe.train.device`.

    Raises:
        ValueError: no output is named, or it cannot be used as the arguments say, or an unknown device.
        DataError: the rows are malformed, or none has a negative.
        ModelError: the model to start from cannot be loaded.
        RecipeError: the recipe does not fit this machine, or the loss is not finite.
    """
    return run_task(recipe, _prepare, output=output, overwrite=overwrite, resume=resume, device=device)


def _prepare(recipe: RerankerRecipe, log: LossLog, working: Path) -> Task:
    source = source_of(recipe.data)
    rows = [row for row in read_rows(recipe.data) if row.negatives]
    if not rows:
        raise DataError(f"{source}: got no row with a negative, expected some; mine negatives first (aveyb-ir mine)")
    texts = (text for row in rows for text in (row.anchor, *row.positives, *row.negatives))
    model = _start(recipe, texts)
    dataset = (_pairs if recipe.train.loss == "bce" else _lists)(rows, recipe.data.negatives)
    trainer = CrossEncoderRowTrainer(model, recipe.train, dataset, _loss(model, recipe.train), log, working)
    logger.info("%d queries, %d examples, loss %s", len(rows), len(dataset), recipe.train.loss)
    facts = {"data_fingerprint": fingerprint_of(rows)}
    return Task(trainer, len(dataset), lambda folder: model.save_pretrained(str(folder)), facts)


def _start(recipe: RerankerRecipe, texts_for_tokenizer: Iterable[str]) -> CrossEncoder:
    device = recipe.train.place
    if recipe.model.start is not None:
        return _load(recipe.model.start, recipe.model, device)
    with tempfile.TemporaryDirectory() as folder:
        save_fresh_backbone(folder, recipe.model, texts_for_tokenizer, seed=recipe.train.seed)
        return _load(folder, recipe.model, device)


def _load(name: str, section: RerankerModel, device: str | None) -> CrossEncoder:
    model = load_cross_encoder(
        name,
        "model.start",
        num_labels=1,
        max_length=section.max_length,
        device=device,
        # Training keeps its weights in float32, whatever the checkpoint was stored in.
        model_kwargs={"dtype": torch.float32},
    )
    set_length_limit(model, section.max_length)
    if section.pin_first_chunk is not None:
        _pin_first_chunk(model, section.pin_first_chunk)
    return model


def _pin_first_chunk(model: CrossEncoder, pinned: bool) -> None:
    if model.config.model_type != AveyBConfig.model_type or (pinned and not model.config.k):
        raise RecipeError(
            f"model.pin_first_chunk: got a {model.config.model_type} without chunks that see others, expected an "
            "Avey-B with k from 1; remove model.pin_first_chunk"
        )
    model.config.pin_first_chunk = pinned


def _loss(model: CrossEncoder, section: RerankerTrainSection) -> nn.Module:
    list_losses = {"lambda": LambdaLoss, "ranknet": RankNetLoss, "listnet": ListNetLoss}
    loss: nn.Module
    if section.loss == "bce":
        loss = BinaryCrossEntropyLoss(model)
    else:
        loss = list_losses[section.loss](model, mini_batch_size=section.mini_batch_size)
    return loss


def _pairs(rows: Sequence[TrainingRow], max_negatives: int | None) -> Dataset:
    triples = [
        (row.anchor, text, label)
        for row in rows
        for label, texts in ((1.0, row.positives), (0.0, row.negatives[:max_negatives]))
        for text in texts
    ]
    queries, documents, labels = zip(*triples, strict=True)
    return Dataset.from_dict({"query": queries, "document": documents, "label": labels})


def _lists(rows: Sequence[TrainingRow], max_negatives: int | None) -> Dataset:
    lists = [(row.anchor, row.positives, row.negatives[:max_negatives]) for row in rows]
    return Dataset.from_dict(
        {
            "query": [query for query, _, _ in lists],
            "documents": [[*positives, *negatives] for _, positives, negatives in lists],
            "label": [[1.0] * len(positives) + [0.0] * len(negatives) for _, positives, negatives in lists],
        }
    )

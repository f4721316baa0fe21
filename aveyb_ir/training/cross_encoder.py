"""Train a reranker: a cross-encoder that reads a query and a document together and scores the pair."""

import logging
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from datasets import Dataset
from sentence_transformers import CrossEncoder
from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss, LambdaLoss, ListNetLoss, RankNetLoss
from torch import nn

from aveyb_ir.encoding.cross_encoders import load_cross_encoder
from aveyb_ir.errors import DataError, RecipeError
from aveyb_ir.models import AveyBConfig
from aveyb_ir.tasks import RerankerModel, RerankerRecipe, RerankerTrainSection
from aveyb_ir.training.fresh import save_fresh_backbone
from aveyb_ir.training.model import set_length_limit
from aveyb_ir.training.output import data_folder
from aveyb_ir.training.progress import LossLog
from aveyb_ir.training.row_trainer import CrossEncoderRowTrainer, Examples
from aveyb_ir.training.rows import RowSet, fingerprint_of, read_rows
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
    assert recipe.train.output is not None  # of a recipe that is run
    read = read_rows(recipe.data, data_folder(Path(recipe.train.output)))
    rows = read.where(read.rows.negatives.counts > 0)
    if not len(rows):
        raise DataError(
            f"{rows.source}: got no row with a negative, expected some; mine negatives first (aveyb-ir mine)"
        )
    texts = (text for row in rows for text in (row.anchor, *row.positives, *row.negatives))
    model = _start(recipe, texts)
    examples = _examples(rows, recipe.data.negatives, in_lists=recipe.train.loss != "bce")
    trainer = CrossEncoderRowTrainer(model, recipe.train, examples, _loss(model, recipe.train), log, working)
    logger.info("%d queries, %d examples, loss %s", len(rows), len(examples.columns), recipe.train.loss)
    facts = {"data_fingerprint": fingerprint_of(rows)}
    return Task(trainer, len(examples.columns), lambda folder: model.save_pretrained(str(folder)), facts)


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


def _examples(rows: RowSet, max_negatives: int | None, *, in_lists: bool) -> Examples:
    """Each row as a list of its positives, labelled 1, and its first negatives, labelled 0; or each of these alone."""
    queries, positives, negatives = rows.rows.anchors, rows.rows.positives, rows.rows.negatives
    if max_negatives is not None:
        negatives = negatives.where(negatives.places() < max_negatives)
    documents = positives.followed_by(negatives)
    labels = positives.filled(1).followed_by(negatives.filled(0)).values.astype(np.float32)
    columns = {"query": queries.repeat(documents.counts), "document": documents.values, "label": labels}
    if in_lists:
        of_lists = (pa.LargeListArray.from_arrays(documents.bounds, values) for values in (documents.values, labels))
        columns = dict(zip(("query", "documents", "label"), (queries, *of_lists), strict=True))
    return Examples(Dataset.from_dict(columns), rows.queries, rows.documents)

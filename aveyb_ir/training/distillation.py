"""Distillation: a retriever learns from the scores or the vectors of a better, slower model."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from torch import nn

from aveyb_ir.encoding.tokenization import tokenize
from aveyb_ir.errors import RecipeError
from aveyb_ir.tasks import DistillRecipe
from aveyb_ir.training.distillation_loss import EmbeddingDistillationLoss, principal_axes, score_loss, turned_to
from aveyb_ir.training.distillation_teacher import (
    TeacherVectors,
    bi_encoder_scores,
    cross_encoder_scores,
    teacher_vectors,
)
from aveyb_ir.training.embedding_fit import fit_embeddings
from aveyb_ir.training.model import build_sentence_transformer
from aveyb_ir.training.progress import LossLog
from aveyb_ir.training.row_trainer import RetrieverRowTrainer
from aveyb_ir.training.rows import Candidates, candidates_of, check_scored, fingerprint_of, read_rows, source_of
from aveyb_ir.training.task_run import Task, TaskResult, run_task

logger = logging.getLogger(__name__)

_TEACHER_FOLDER = "teacher"
_TEXTS_TO_TURN_BY = 4096
_TEXTS_AT_ONCE = 64


def distill(
    recipe: DistillRecipe,
    *,
    output: str | Path | None = None,
    overwrite: bool = False,
    resume: bool = False,
    device: str | None = None,
) -> TaskResult:
    """Train a student as a recipe says and write a Sentence Transformers folder, whole or not at all.

    What the teacher says is computed once, before the first step: the scores of a cross-encoder, or the vectors of a
    bi-encoder, whose cosines are its scores. It is kept in `teacher.kept`, else for as long as the run's checkpoints.
    Without a teacher the rows carry scores.

    Each positive of a row makes a list of it and the first `data.negatives` negatives; rows with fewer are left out
    with a warning.

    Args:
        recipe: a checked recipe, see `load_task`.
        output: replaces `recipe.train.output`.
        overwrite: replace an earlier result and drop its checkpoints; what is there stays until the run has succeeded.
        resume: go on from the last whole checkpoint of an unfinished run of the same recipe.
        device: replaces `recipe.train.device`.

    Raises:
        ValueError: no output is named, or it cannot be used as the arguments say, or an unknown device.
        DataError: the rows are malformed, lack scores where there is no teacher, or have too few negatives.
        ModelError: student or teacher cannot be loaded.
        RecipeError: the recipe does not fit this machine or the widths of the models, or the loss is not finite.
    """
    return run_task(recipe, _prepare, output=output, overwrite=overwrite, resume=resume, device=device)


def _prepare(recipe: DistillRecipe, log: LossLog, working: Path) -> Task:
    source = source_of(recipe.data)
    rows = read_rows(recipe.data)
    if recipe.teacher is None:
        check_scored(rows, source)
    candidates = candidates_of(rows, recipe.data.negatives or 0, source)
    model = _student(recipe, candidates)
    labels, loss, teacher = _lesson(recipe, model, candidates, working)
    trainer = RetrieverRowTrainer(model, recipe.train, _dataset(candidates, labels), loss, log, working)
    logger.info(
        "%d lists of 1 query and %d documents, loss %s, teacher %s",
        len(candidates),
        len(candidates[0].documents),
        recipe.distill.loss,
        "the rows' scores" if recipe.teacher is None else recipe.teacher.model,
    )
    facts = {"data_fingerprint": fingerprint_of(rows), "teacher_fingerprint": teacher}
    return Task(trainer, len(candidates), lambda folder: model.save_pretrained(str(folder)), facts)


def untrained_student(recipe: DistillRecipe) -> SentenceTransformer:
    """The model that `distill` starts from, before what its teacher says is fitted. Raises like `distill`."""
    candidates = candidates_of(read_rows(recipe.data), recipe.data.negatives or 0, source_of(recipe.data))
    return _student(recipe, candidates)


def _student(recipe: DistillRecipe, candidates: Sequence[Candidates]) -> SentenceTransformer:
    texts = (text for one in candidates for text in (one.query, *one.documents))
    return build_sentence_transformer(recipe.model, texts, seed=recipe.train.seed, device=recipe.train.place)


def _lesson(
    recipe: DistillRecipe, model: SentenceTransformer, candidates: Sequence[Candidates], working: Path
) -> tuple[NDArray[Any], nn.Module, str | None]:
    """A label for each row, the loss that understands them, and the teacher's fingerprint."""
    loss = score_loss(model, recipe.distill)
    teacher = recipe.teacher
    if teacher is None:
        return np.array([one.scores for one in candidates], dtype=np.float32), loss, None
    folder = working / _TEACHER_FOLDER if teacher.kept is None else Path(teacher.kept)
    if teacher.kind == "cross_encoder":
        scores, fingerprint = cross_encoder_scores(teacher, candidates, folder, recipe.train.place)
        return scores, loss, fingerprint
    vectors = teacher_vectors(teacher, candidates, folder, recipe.train.place)
    if recipe.distill.loss != "embedding":
        return bi_encoder_scores(vectors, candidates), loss, vectors.fingerprint
    labels = np.array([vectors.rows_of(one) for one in candidates], dtype=np.int64)
    return labels, _embedding_loss(recipe, model, vectors), vectors.fingerprint


def _embedding_loss(
    recipe: DistillRecipe, model: SentenceTransformer, vectors: TeacherVectors
) -> EmbeddingDistillationLoss:
    section, width = recipe.distill, model.get_embedding_dimension()
    assert width is not None  # a model with pooling has one
    if section.projection == "pca" and vectors.width < width:
        raise RecipeError(
            f"distill.projection: got pca for a teacher of {vectors.width} dimensions and a student of {width}, "
            "expected a teacher at least as wide; set distill.projection to learned"
        )
    axes = _axes(model, vectors, width) if section.projection == "pca" else None
    if axes is not None and section.fit_embeddings is not None:
        _fit_embeddings(model, vectors, axes, section.fit_embeddings)
    return EmbeddingDistillationLoss(
        model,
        vectors.__getitem__,
        axes=axes,
        teacher_width=vectors.width,
        scale=section.scale,
        similarity_weight=section.similarity_weight,
    )


def _axes(model: SentenceTransformer, vectors: TeacherVectors, width: int) -> NDArray[np.float32]:
    """The teacher's principal axes, turned so that the targets lie as near to the student's start as they can."""
    axes = principal_axes(vectors.blocks, width)
    texts = list(vectors.document_rows)[:: -(-len(vectors.document_rows) // _TEXTS_TO_TURN_BY)]
    rows = np.array([vectors.document_rows[text] for text in texts], dtype=np.int64)
    student = model.encode(
        texts, prompt=model.prompts.get("document", ""), batch_size=_TEXTS_AT_ONCE, show_progress_bar=False
    )
    return axes @ turned_to(student, vectors[rows] @ axes)


def _fit_embeddings(
    model: SentenceTransformer, vectors: TeacherVectors, axes: NDArray[np.float32], penalty: float
) -> None:
    """Move the model's token embeddings to where the means of texts are nearest to the teacher's vectors."""
    prompts = [model.prompts.get(role, "") for role in ("query", "document")]
    texts = [f"{prompts[0]}{text}" for text in vectors.query_rows]
    texts += [f"{prompts[1]}{text}" for text in vectors.document_rows]
    rows = np.array([*vectors.query_rows.values(), *vectors.document_rows.values()], dtype=np.int64)
    targets_ND = vectors[rows] @ axes
    targets_ND /= np.linalg.norm(targets_ND, axis=1, keepdims=True)
    token_lists = tokenize(model.tokenizer, texts, model.max_seq_length).token_ids
    table = model[0].auto_model.get_input_embeddings().weight
    fitted = fit_embeddings(table.detach().cpu().numpy(), token_lists, targets_ND, penalty=penalty)
    with torch.no_grad():
        table.copy_(torch.from_numpy(fitted))
    logger.info("token embeddings fitted to the teacher's vectors of %d texts", len(texts))


def _dataset(candidates: Sequence[Candidates], labels: NDArray[Any]) -> Dataset:
    columns: dict[str, Any] = {"query": [one.query for one in candidates]}
    for place in range(len(candidates[0].documents)):
        name = "positive" if place == 0 else f"negative_{place}"
        columns[name] = [one.documents[place] for one in candidates]
    return Dataset.from_dict({**columns, "label": labels.tolist()})

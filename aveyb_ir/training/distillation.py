"""Distillation: a retriever learns from the scores or the vectors of a better, slower model."""

import logging
from array import array
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from torch import nn

from aveyb_ir.data.blocks import blocks
from aveyb_ir.encoding.tokenization import tokenize
from aveyb_ir.errors import RecipeError
from aveyb_ir.tasks import DistillRecipe
from aveyb_ir.training.distillation_candidates import Candidates, candidates_of
from aveyb_ir.training.distillation_loss import EmbeddingDistillationLoss, principal_axes, score_loss, turned_to
from aveyb_ir.training.distillation_teacher import (
    TeacherVectors,
    bi_encoder_scores,
    cross_encoder_scores,
    teacher_vectors,
)
from aveyb_ir.training.embedding_fit import fit_embeddings
from aveyb_ir.training.model import build_sentence_transformer
from aveyb_ir.training.output import data_folder
from aveyb_ir.training.progress import LossLog
from aveyb_ir.training.ragged import Ragged
from aveyb_ir.training.row_trainer import Examples, RetrieverRowTrainer
from aveyb_ir.training.rows import check_scored, fingerprint_of, read_rows
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
    assert recipe.train.output is not None  # of a recipe that is run
    rows = read_rows(recipe.data, data_folder(Path(recipe.train.output)))
    if recipe.teacher is None:
        check_scored(rows)
    candidates = candidates_of(rows, recipe.data.negatives or 0)
    model = _student(recipe, candidates)
    labels, loss, teacher = _lesson(recipe, model, candidates, working)
    trainer = RetrieverRowTrainer(model, recipe.train, _examples(candidates, labels), loss, log, working)
    logger.info(
        "%d lists of 1 query and %d documents, loss %s, teacher %s",
        *candidates.documents.shape,
        recipe.distill.loss,
        "the rows' scores" if recipe.teacher is None else recipe.teacher.model,
    )
    facts = {"data_fingerprint": fingerprint_of(rows), "teacher_fingerprint": teacher}
    return Task(trainer, len(candidates), lambda folder: model.save_pretrained(str(folder)), facts)


def untrained_student(recipe: DistillRecipe) -> SentenceTransformer:
    """The model that `distill` starts from, before what its teacher says is fitted. Raises like `distill`."""
    return _student(recipe, candidates_of(read_rows(recipe.data), recipe.data.negatives or 0))


def _student(recipe: DistillRecipe, candidates: Candidates) -> SentenceTransformer:
    texts = candidates.texts()
    return build_sentence_transformer(recipe.model, texts, seed=recipe.train.seed, device=recipe.train.place)


def _lesson(
    recipe: DistillRecipe, model: SentenceTransformer, candidates: Candidates, working: Path
) -> tuple[NDArray[Any], nn.Module, str | None]:
    """A label for each list, the loss that understands them, and the teacher's fingerprint."""
    loss = score_loss(model, recipe.distill)
    teacher = recipe.teacher
    if teacher is None:
        return candidates.scores, loss, None
    folder = working / _TEACHER_FOLDER if teacher.kept is None else Path(teacher.kept)
    if teacher.kind == "cross_encoder":
        scores, fingerprint = cross_encoder_scores(teacher, candidates, folder, recipe.train.place)
        return scores, loss, fingerprint
    vectors = teacher_vectors(teacher, candidates, folder, recipe.train.place)
    if recipe.distill.loss != "embedding":
        return bi_encoder_scores(vectors, candidates), loss, vectors.fingerprint
    return vectors.rows_of(candidates), _embedding_loss(recipe, model, candidates, vectors), vectors.fingerprint


def _embedding_loss(
    recipe: DistillRecipe, model: SentenceTransformer, candidates: Candidates, vectors: TeacherVectors
) -> EmbeddingDistillationLoss:
    section, width = recipe.distill, model.get_embedding_dimension()
    assert width is not None  # a model with pooling has one
    if section.projection == "pca" and vectors.width < width:
        raise RecipeError(
            f"distill.projection: got pca for a teacher of {vectors.width} dimensions and a student of {width}, "
            "expected a teacher at least as wide; set distill.projection to learned"
        )
    axes = _axes(model, candidates, vectors, width) if section.projection == "pca" else None
    if axes is not None and section.fit_embeddings is not None:
        _fit_embeddings(model, candidates, vectors, axes, section.fit_embeddings)
    return EmbeddingDistillationLoss(
        model,
        vectors.__getitem__,
        axes=axes,
        teacher_width=vectors.width,
        scale=section.scale,
        similarity_weight=section.similarity_weight,
    )


def _axes(
    model: SentenceTransformer, candidates: Candidates, vectors: TeacherVectors, width: int
) -> NDArray[np.float32]:
    """The teacher's principal axes, turned so that the targets lie as near to the student's start as they can.

    At most `_TEXTS_TO_TURN_BY` texts are in memory.
    """
    axes, documents = principal_axes(vectors.blocks, width), candidates.document_texts
    some = np.arange(0, len(documents), -(-len(documents) // _TEXTS_TO_TURN_BY))
    student = model.encode(
        [documents[number] for number in some.tolist()],
        prompt=model.prompts.get("document", ""),
        batch_size=_TEXTS_AT_ONCE,
        show_progress_bar=False,
    )
    return axes @ turned_to(student, vectors[vectors.num_queries + some] @ axes)


def _fit_embeddings(
    model: SentenceTransformer,
    candidates: Candidates,
    vectors: TeacherVectors,
    axes: NDArray[np.float32],
    penalty: float,
) -> None:
    """Move the model's token embeddings to where the means of texts are nearest to the teacher's vectors.

    Memory holds 4 bytes for each token of the distinct texts, their targets, and what `fit_embeddings` says.
    """
    targets_ND = np.concatenate([block @ axes for block in vectors.blocks])
    targets_ND /= np.linalg.norm(targets_ND, axis=1, keepdims=True)
    table = model[0].auto_model.get_input_embeddings().weight
    tokens = _tokens(model, candidates)
    fitted = fit_embeddings(table.detach().cpu().numpy(), tokens, targets_ND, penalty=penalty)
    with torch.no_grad():
        table.copy_(torch.from_numpy(fitted))
    logger.info("token embeddings fitted to the teacher's vectors of %d texts", len(tokens))


def _tokens(model: SentenceTransformer, candidates: Candidates) -> Ragged:
    """Token ids of the distinct queries and then of the documents, each after its prompt."""
    lengths, ids = array("i"), array("i")
    for role, texts in (("query", candidates.query_texts), ("document", candidates.document_texts)):
        prompt = model.prompts.get(role, "")
        for block in blocks(texts, len):
            prompted = [f"{prompt}{text}" for text in block]
            for of_text in tokenize(model.tokenizer, prompted, model.max_seq_length).token_ids:
                lengths.append(len(of_text))
                ids.frombytes(of_text.tobytes())
    return Ragged.of(np.asarray(lengths), np.asarray(ids))


def _examples(candidates: Candidates, labels: NDArray[Any]) -> Examples:
    columns = {"query": candidates.queries}
    for place, documents in enumerate(candidates.documents.T):
        columns["positive" if place == 0 else f"negative_{place}"] = documents
    dataset = Dataset.from_dict({**columns, "label": labels})
    return Examples(dataset, candidates.query_texts, candidates.document_texts)

"""What can be trained beside a contrastive retriever, and how a recipe says so: by its key `task`.

A recipe without it is a `Recipe` of `aveyb_ir.config`. The others have sections of their own, checked as strictly.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from aveyb_ir.checked_yaml import Section, read_recipe, shown, validated
from aveyb_ir.config import Backbone, ModelSection, Optimization, Recipe, RecipeFile, check_corpus
from aveyb_ir.errors import RecipeError

__all__ = [
    "AnyRecipe",
    "DistillRecipe",
    "DistillSection",
    "PretrainRecipe",
    "PretrainTrainSection",
    "RerankerModel",
    "RerankerRecipe",
    "RerankerTrainSection",
    "RowTrainSection",
    "RowsSection",
    "TeacherSection",
    "TextsSection",
    "checked_task",
    "load_task",
]

_SEE = "recipes/README.md lists the fields"


class TextsSection(Section):
    """Plain text to learn the language from."""

    texts: str = Field(description="corpus, file or data set of texts; see recipes/README.md")
    held_out: float = Field(0.0, ge=0, lt=1, description="share of the documents kept for the perplexity")
    piece_length: PositiveInt = Field(2048, description="tokens of a piece; a longer text goes on in the next piece")
    mask_rate: float = Field(0.2, gt=0, lt=1, description="share of the tokens to predict")


class PretrainTrainSection(Optimization):
    """How a masked language model is trained."""

    batch_tokens: PositiveInt = Field(16384, description="tokens of a batch, about; texts are packed, not padded")
    eval_steps: PositiveInt | None = Field(None, description="steps between perplexities; absent: only at the end")


class PretrainRecipe(RecipeFile):
    """Masked language modelling, from random weights or as continued pretraining."""

    task: Literal["pretrain"] = "pretrain"
    model: Backbone
    data: TextsSection
    train: PretrainTrainSection

    @model_validator(mode="after")
    def _check(self) -> "PretrainRecipe":
        if self.train.eval_steps is not None and not self.data.held_out:
            raise ValueError("`train.eval_steps` without `data.held_out`; set a share such as 0.01, or remove it")
        return self


class RowsSection(Section):
    """Queries with their positives and, mostly, negatives."""

    beir: str | None = Field(None, description="folder in BEIR layout, or a data set on the Hub such as `BeIR/nq`")
    split: str = Field("train", description="judgements of `beir` to train on")
    pairs: str | None = Field(None, description="rows from a file or the Hub, instead of `beir`")
    corpus: str | None = Field(None, description="documents that `pairs` names by id, from a file, folder or the Hub")
    negatives: PositiveInt | None = Field(None, description="explicit negatives used per row, the first; absent: all")

    @model_validator(mode="after")
    def _check(self) -> "RowsSection":
        if (self.beir is None) == (self.pairs is None):
            raise ValueError("exactly one of `beir` and `pairs` expected; set one of them")
        check_corpus(self.corpus, self.pairs)
        return self


class RowTrainSection(Optimization):
    """How a model is trained on rows of one query and its candidates."""

    batch_size: PositiveInt = Field(32, description="rows of a batch")
    embedding_learning_rate: PositiveFloat | None = Field(None, description="the same for token embeddings only")


class TeacherSection(Section):
    """Which model to learn from, and where what it said is kept."""

    model: str = Field(description="cross-encoder or Sentence Transformers folder, or Hub name")
    kind: Literal["bi_encoder", "cross_encoder"] = Field("bi_encoder", description="which of the two it is")
    kept: str | None = Field(None, description="folder for its vectors or scores, read again next time")
    max_length: PositiveInt | None = Field(None, description="tokens the teacher reads of a text; absent: all it can")


class DistillSection(Section):
    """What the student takes over from its teacher."""

    loss: Literal["margin_mse", "kl", "embedding"] = Field(
        "kl", description="score differences, score distributions, or the vectors themselves"
    )
    scale: PositiveFloat = Field(20.0, description="factor on the student's cosine, to compare it with scores")
    teacher_temperature: PositiveFloat = Field(1.0, description="kl: the teacher's scores are divided by it")
    projection: Literal["pca", "learned"] = Field(
        "pca", description="embedding: how widths meet; pca narrows the teacher, learned widens the student"
    )
    similarity_weight: float = Field(1.0, ge=0, description="embedding: weight of the similarities within a batch")
    fit_embeddings: PositiveFloat | None = Field(
        None,
        description="embedding: first have least squares, with this penalty, draw means of token embeddings to the "
        "teacher's vectors; for a fresh model, best with model.embeddings_from",
    )


class DistillRecipe(RecipeFile):
    """A retriever that learns from a teacher's scores or vectors."""

    task: Literal["distill"] = "distill"
    model: ModelSection
    data: RowsSection
    teacher: TeacherSection | None = Field(None, description="absent: the rows carry scores")
    distill: DistillSection
    train: RowTrainSection

    @model_validator(mode="after")
    def _check(self) -> "DistillRecipe":
        if self.distill.loss == "embedding" and (self.teacher is None or self.teacher.kind != "bi_encoder"):
            raise ValueError("`distill.loss` embedding without a bi_encoder as `teacher`; name one, or another loss")
        if self.distill.fit_embeddings is not None and (self.distill.loss, self.distill.projection) != (
            "embedding",
            "pca",
        ):
            raise ValueError("`distill.fit_embeddings` without targets to fit; set loss embedding and projection pca")
        if self.distill.loss != "embedding" and self.data.negatives is None:
            raise ValueError(f"{self.distill.loss} without `data.negatives`, of which every row has as many; set it")
        return self


class RerankerTrainSection(RowTrainSection):
    """How a cross-encoder is trained."""

    loss: Literal["bce", "lambda", "ranknet", "listnet"] = Field(
        "bce", description="each pair alone, or a query's candidates as a list"
    )
    mini_batch_size: PositiveInt = Field(32, description="pairs computed at once by the list losses")


class RerankerModel(Backbone):
    """The backbone of a cross-encoder; where it has no head for scores, one starts from random weights."""

    max_length: PositiveInt | None = Field(
        None, description="tokens kept of query and document together; absent: all the model can read"
    )
    pin_first_chunk: bool | None = Field(
        None, description="of an Avey-B: all of a document sees the first chunk, so the query; absent: as `start` is"
    )


class RerankerRecipe(RecipeFile):
    """A cross-encoder that reads a query and a document together."""

    task: Literal["reranker"] = "reranker"
    model: RerankerModel
    data: RowsSection
    train: RerankerTrainSection


AnyRecipe: TypeAlias = Recipe | PretrainRecipe | DistillRecipe | RerankerRecipe

_TASKS: dict[str, type[AnyRecipe]] = {
    "contrastive": Recipe,
    "pretrain": PretrainRecipe,
    "distill": DistillRecipe,
    "reranker": RerankerRecipe,
}


def load_task(path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> AnyRecipe:
    """Read and check a recipe of any task; without the key `task` it is a contrastive one.

    Args:
        path: the YAML file.
        overrides: settings such as `train.batch_size=32` that replace or add a value; the part after `=` is YAML.

    Raises:
        RecipeError: unreadable file, unknown task or key, or impossible value; one message with all of them.
        ValueError: an override that is not of the form `section.key=value`.
    """
    values = read_recipe(path, overrides, "a recipe", PretrainRecipe)
    return checked_task(values, f"{path} with overrides" if overrides else str(path))


def checked_task(values: Mapping[str, Any], source: str) -> AnyRecipe:
    """The recipe of any task that these values make.

    Args:
        values: as read from YAML; without the key `task` of a contrastive recipe.
        source: names them in messages.

    Raises:
        RecipeError: unknown task or key, or impossible value; one message with all of them.
    """
    task = values.get("task", "contrastive")
    if task not in _TASKS:
        raise RecipeError(f"{source}: task: got {shown(task)}, expected one of {', '.join(_TASKS)}; correct it")
    without = {name: value for name, value in values.items() if name != "task" or task != "contrastive"}
    return validated(_TASKS[task], without, source, _SEE)

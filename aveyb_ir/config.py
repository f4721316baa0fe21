"""Training recipes: YAML files checked field by field before anything expensive starts.

A recipe has three sections, `model`, `data` and `train`. Values are checked strictly (a quoted number is not a
number) and every mistake in a file is reported at once, each by its dotted key.

Paths: a value that starts with `./` or `../` is taken from the folder of the recipe, so that a recipe and its data can
move together; any other relative path is taken from the working directory, as on the command line. Overrides come from
the command line and are always taken from the working directory.
"""

import os
from collections.abc import Sequence
from typing import Literal, TypeVar

import yaml
from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from aveyb_ir.checked_yaml import Section, read_recipe, validated

__all__ = [
    "DataSection",
    "FreshModel",
    "ModelSection",
    "Prompts",
    "Recipe",
    "TokenizerTraining",
    "TrainSection",
    "load_recipe",
]

_SectionT = TypeVar("_SectionT", bound=Section)


class FreshModel(Section):
    """Shape of an Avey-B that starts from random weights; the vocabulary size is the tokenizer's."""

    d_embed: PositiveInt = Field(description="width of a token embedding, and of the vector of a text")
    n_layers: PositiveInt = Field(description="layers; odd ones are dynamic, so 2 is the least that is Avey-B")
    chunk_size: PositiveInt = Field(description="tokens in a chunk")
    k: int = Field(3, ge=0, description="earlier chunks that the ranker adds to a chunk")
    tail: Literal["zero", "mask"] = Field("mask", description="what the empty end of a last chunk does; mask is faster")
    initializer_range: PositiveFloat = Field(0.02, description="standard deviation of the first token embeddings")


class TokenizerTraining(Section):
    """How a tokenizer is learnt from the texts of the training data."""

    vocab_size: int = Field(ge=261, description="upper limit; 256 bytes and 5 special tokens are always in it")
    lowercase: bool = Field(True, description="fold case before splitting")


class Prompts(Section):
    """What is put before a text, by its role; saved with the model."""

    query: str = ""
    document: str = ""


class ModelSection(Section):
    """Where the weights and the tokenizer come from, and how token states become one vector."""

    start: str | None = Field(None, description="model folder or Hub name to start from")
    fresh: FreshModel | None = Field(None, description="an Avey-B with random weights, instead of `start`")
    fresh_transformer: dict[str, str | int | float | bool] | None = Field(
        None, description="another architecture with random weights: its model_type and fields of its config"
    )
    tokenizer: str | None = Field(None, description="tokenizer folder or Hub name; `start` has its own")
    train_tokenizer: TokenizerTraining | None = Field(None, description="learn a tokenizer, instead of `tokenizer`")
    prompts: Prompts | None = Field(None, description="absent: those of `start`, or none")
    max_length: PositiveInt | None = Field(None, description="tokens kept of a text; absent: all the model can read")
    pooling: Literal["mean", "cls"] = Field("mean", description="cls sees only the first chunk of an Avey-B")

    @model_validator(mode="after")
    def _check(self) -> "ModelSection":
        _exactly_one(self, "start", "fresh", "fresh_transformer")
        if self.start is None:
            _exactly_one(self, "tokenizer", "train_tokenizer")
        elif self.tokenizer is not None or self.train_tokenizer is not None:
            raise ValueError("a tokenizer together with `start`, whose own must be kept; remove it, or use `fresh`")
        if self.fresh_transformer is not None and "model_type" not in self.fresh_transformer:
            raise ValueError("`fresh_transformer` without `model_type`; name the architecture, such as modernbert")
        return self


class DataSection(Section):
    """Which texts belong together."""

    beir: str | None = Field(None, description="folder in BEIR layout, or a data set on the Hub such as `BeIR/nq`")
    split: str = Field("train", description="judgements of `beir` to train on")
    eval_split: str | None = Field(None, description="judgements of `beir` that `train.eval_steps` evaluates on")
    pairs: str | None = Field(None, description="anchors and positives, from a file or the Hub, instead of `beir`")
    negatives: int | None = Field(None, ge=0, description="explicit negatives used per row, the first; absent: all")

    @model_validator(mode="after")
    def _check(self) -> "DataSection":
        _exactly_one(self, "beir", "pairs")
        if self.eval_split is not None and self.beir is None:
            raise ValueError("`eval_split` without `beir`, which has the splits; set `beir` or remove `eval_split`")
        return self


class TrainSection(Section):
    """How long, how fast and where; names are those of Sentence Transformers and transformers."""

    output: str | None = Field(None, description="folder the trained model is written to")
    epochs: PositiveFloat | None = Field(None, description="passes over the rows")
    max_steps: PositiveInt | None = Field(None, description="updates of the weights, instead of `epochs`")
    batch_size: PositiveInt = Field(64, description="rows that are each other's negatives, at most")
    mini_batch_size: PositiveInt = Field(64, description="texts in memory at once; does not change the result")
    gradient_accumulation_steps: PositiveInt = Field(1, description="batches per update")
    scale: PositiveFloat = Field(20.0, description="factor on the cosine; 1 / temperature")
    learning_rate: PositiveFloat = Field(1e-4, description="highest learning rate")
    embedding_learning_rate: PositiveFloat | None = Field(None, description="the same for token embeddings only")
    lr_scheduler_type: Literal["linear", "cosine", "constant", "constant_with_warmup"] = "linear"
    warmup_ratio: float = Field(0.1, ge=0, le=1, description="share of the steps with a rising learning rate")
    weight_decay: float = Field(0.01, ge=0)
    adam_beta1: float = Field(0.9, ge=0, lt=1)
    adam_beta2: float = Field(0.999, ge=0, lt=1)
    adam_epsilon: PositiveFloat = 1e-8
    max_grad_norm: float = Field(1.0, ge=0, description="gradients are scaled down to this norm; 0 leaves them")
    seed: int = Field(42, ge=0, lt=2**32)
    dtype: Literal["float32", "bfloat16"] = Field("float32", description="bfloat16: mixed precision")
    device: Literal["auto", "cpu", "cuda"] = "auto"
    gradient_checkpointing: bool = False
    logging_steps: PositiveInt = Field(10, description="steps between lines of loss.jsonl")
    save_steps: PositiveInt | None = Field(None, description="steps between checkpoints; absent: none are kept")
    save_total_limit: PositiveInt = Field(2, description="checkpoints kept, the newest")
    eval_steps: PositiveInt | None = Field(None, description="steps between evaluations on `data.eval_split`")

    @model_validator(mode="after")
    def _check(self) -> "TrainSection":
        return _exactly_one(self, "epochs", "max_steps")


class Recipe(Section):
    """Everything a training run is told, checked."""

    model: ModelSection
    data: DataSection
    train: TrainSection

    @model_validator(mode="after")
    def _check(self) -> "Recipe":
        if (self.train.eval_steps is None) != (self.data.eval_split is None):
            raise ValueError("only one of `train.eval_steps` and `data.eval_split`; set both or neither")
        return self

    def to_yaml(self) -> str:
        """The recipe with every default written out, as text that `load_recipe` reads back to an equal recipe."""
        values = self.model_dump(exclude_none=True)
        return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)


def load_recipe(path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> Recipe:
    """Read and check a recipe.

    Args:
        path: the YAML file.
        overrides: settings such as `train.batch_size=32` that replace or add a value; the part after `=` is YAML.

    Raises:
        RecipeError: unreadable file, unknown key or impossible value; one message with all of them.
        ValueError: an override that is not of the form `section.key=value`.
    """
    values = read_recipe(path, overrides, "a recipe", Recipe)
    source = f"{path} with overrides" if overrides else str(path)
    return validated(Recipe, values, source, "recipes/README.md lists the fields")


def _exactly_one(section: _SectionT, *names: str) -> _SectionT:
    given = [name for name in names if getattr(section, name) is not None]
    if len(given) != 1:
        found = "both of" if given else "neither of" if len(names) == 2 else "none of"
        raise ValueError(f"{found} {' and '.join(f'`{name}`' for name in given or names)}; set exactly one of them")
    return section

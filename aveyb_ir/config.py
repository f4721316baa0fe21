"""Training recipes: YAML files checked field by field before anything expensive starts.

A recipe has three sections, `model`, `data` and `train`. Values are checked strictly (a quoted number is not a
number) and every mistake in a file is reported at once, each by its dotted key.

Paths: a value that starts with `./` or `../` is taken from the folder of the recipe, so that a recipe and its data can
move together; any other relative path is taken from the working directory, as on the command line. Overrides come from
the command line and are always taken from the working directory.
"""

import os
from collections.abc import Sequence
from typing import Literal, TypeAlias, TypeVar, get_args

import yaml
from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from aveyb_ir.checked_yaml import Section, read_recipe, validated

__all__ = [
    "DEVICES",
    "Backbone",
    "DataSection",
    "DataSet",
    "FreshModel",
    "Lora",
    "ModelSection",
    "Optimization",
    "Prompts",
    "Recipe",
    "RecipeFile",
    "TokenizerTraining",
    "TrainSection",
    "load_recipe",
]

Device: TypeAlias = Literal["auto", "cpu", "cuda"]
DEVICES: tuple[str, ...] = get_args(Device)

_SectionT = TypeVar("_SectionT", bound=Section)


class FreshModel(Section):
    """Shape of an Avey-B that starts from random weights; the vocabulary size is the tokenizer's."""

    d_embed: PositiveInt = Field(description="width of a token embedding, and of the vector of a text")
    n_layers: PositiveInt = Field(description="layers; odd ones are dynamic, so 2 is the least that is Avey-B")
    chunk_size: PositiveInt = Field(description="tokens in a chunk")
    k: int = Field(3, ge=0, description="earlier chunks that the ranker adds to a chunk")
    tail: Literal["zero", "mask"] = Field("mask", description="what the empty end of a last chunk does; mask is faster")
    initializer_range: PositiveFloat = Field(0.02, description="standard deviation of the first token embeddings")
    pin_first_chunk: bool = Field(False, description="bring a text's first chunk to all others, whatever its score")

    @model_validator(mode="after")
    def _check(self) -> "FreshModel":
        if self.pin_first_chunk and not self.k:
            raise ValueError("`pin_first_chunk` with `k` 0, which brings no chunk to another; set `k` from 1")
        return self


class TokenizerTraining(Section):
    """How a tokenizer is learnt from the texts of the training data."""

    vocab_size: int = Field(ge=261, description="upper limit; 256 bytes and 5 special tokens are always in it")
    lowercase: bool = Field(True, description="fold case before splitting")


class Prompts(Section):
    """What is put before a text, by its role; saved with the model."""

    query: str = ""
    document: str = ""


class Backbone(Section):
    """Where the weights and the tokenizer come from."""

    start: str | None = Field(None, description="model folder or Hub name to start from")
    fresh: FreshModel | None = Field(None, description="an Avey-B with random weights, instead of `start`")
    fresh_transformer: dict[str, str | int | float | bool] | None = Field(
        None, description="another architecture with random weights: its model_type and fields of its config"
    )
    tokenizer: str | None = Field(None, description="tokenizer folder or Hub name; `start` has its own")
    train_tokenizer: TokenizerTraining | None = Field(None, description="learn a tokenizer, instead of `tokenizer`")
    embeddings_from: str | None = Field(
        None, description="bi-encoder that the tokenizer and first token embeddings are from, instead of `tokenizer`"
    )
    embeddings: Literal["alone", "table"] = Field(
        "alone", description="of `embeddings_from`: what it says of each token alone, or its own table as it is"
    )

    @model_validator(mode="after")
    def _check_origin(self) -> "Backbone":
        _exactly_one(self, "start", "fresh", "fresh_transformer")
        origins = ("tokenizer", "train_tokenizer", "embeddings_from")
        if self.start is None:
            _exactly_one(self, *origins)
        elif any(getattr(self, origin) is not None for origin in origins):
            raise ValueError("a tokenizer together with `start`, whose own must be kept; remove it, or use `fresh`")
        if self.embeddings != "alone" and self.embeddings_from is None:
            raise ValueError("`embeddings` without `embeddings_from`, of which it speaks; set it beside, or remove it")
        if self.fresh_transformer is not None and "model_type" not in self.fresh_transformer:
            raise ValueError("`fresh_transformer` without `model_type`; name the architecture, such as modernbert")
        return self


class Lora(Section):
    """Low-rank adaptation (Hu et al. 2021, arXiv 2106.09685); names are those of peft."""

    r: PositiveInt = Field(16, description="rank")
    lora_alpha: PositiveInt = Field(32, description="the addition is scaled by lora_alpha / r")
    lora_dropout: float = Field(0.0, ge=0, lt=1)
    target_modules: list[str] | None = Field(
        None, min_length=1, description="ends of their names; absent: enricher and fuser of an Avey-B, else all linear"
    )
    keep_adapter: bool = Field(False, description="write the additions also by themselves, as peft reads them")


class ModelSection(Backbone):
    """A backbone, and how its token states become one vector."""

    prompts: Prompts | None = Field(None, description="absent: those of `start`, or none")
    max_length: PositiveInt | None = Field(None, description="tokens kept of a text; absent: all the model can read")
    append_eos: bool = Field(False, description="put the tokenizer's end symbol after every text; saved with it")
    pooling: Literal["mean", "cls"] | None = Field(None, description="absent: that of `start`, or mean")


class DataSet(Section):
    """One data set to train on."""

    beir: str | None = Field(None, description="folder in BEIR layout, or a data set on the Hub such as `BeIR/nq`")
    split: str = Field("train", description="judgements of `beir` to train on")
    pairs: str | None = Field(None, description="anchors and positives, from a file or the Hub, instead of `beir`")
    corpus: str | None = Field(None, description="documents that `pairs` names by id, from a file, folder or the Hub")
    negatives: int | None = Field(None, ge=0, description="explicit negatives used per row, the first; absent: all")
    prompts: Prompts | None = Field(None, description="put before its texts; absent: those of the model")
    weight: PositiveFloat = Field(1.0, description="share of an epoch where `mixing` is weighted")

    @model_validator(mode="after")
    def _check(self) -> "DataSet":
        _exactly_one(self, "beir", "pairs")
        check_corpus(self.corpus, self.pairs)
        return self


class DataSection(Section):
    """Which texts belong together, and which tell how good the model is."""

    beir: str | None = Field(None, description="folder in BEIR layout, or a data set on the Hub such as `BeIR/nq`")
    split: str = Field("train", description="judgements of `beir` to train on")
    pairs: str | None = Field(None, description="anchors and positives, from a file or the Hub, instead of `beir`")
    corpus: str | None = Field(None, description="documents that `pairs` names by id, from a file, folder or the Hub")
    negatives: int | None = Field(None, ge=0, description="explicit negatives used per row, the first; absent: all")
    sets: list[DataSet] | None = Field(None, min_length=1, description="several data sets, instead of `beir`")
    mixing: Literal["proportional", "round_robin", "weighted"] = Field(
        "proportional", description="how `sets` share an epoch"
    )
    batches: Literal["mixed", "single"] = Field("mixed", description="single: each batch is of one of `sets`")
    eval_split: str | None = Field(None, description="judgements that `train.eval_steps` evaluates on")
    eval_beir: str | None = Field(None, description="collection of `eval_split`; absent: `beir`")
    eval_documents: PositiveInt | None = Field(
        None, description="documents searched in an evaluation: the judged and the first others; absent: all"
    )

    @model_validator(mode="after")
    def _check(self) -> "DataSection":
        _exactly_one(self, "beir", "pairs", "sets")
        check_corpus(self.corpus, self.pairs)
        if self.eval_split is not None and self.eval_collection is None:
            raise ValueError("`eval_split` without `eval_beir`, whose split it is; set `eval_beir` or `beir`")
        return self

    @property
    def eval_collection(self) -> str | None:
        """The collection that evaluations search."""
        return self.eval_beir or self.beir

    @property
    def training_sets(self) -> list[DataSet]:
        """What is trained on, whether it was given as one data set or as several."""
        one = DataSet.model_construct(
            beir=self.beir,
            split=self.split,
            pairs=self.pairs,
            corpus=self.corpus,
            negatives=self.negatives,
            prompts=None,
            weight=1.0,
        )
        return self.sets or [one]


class Optimization(Section):
    """How long, how fast and where any model is trained; names are those of transformers."""

    output: str | None = Field(None, description="folder the trained model is written to")
    epochs: PositiveFloat | None = Field(None, description="passes over the rows")
    max_steps: PositiveInt | None = Field(None, description="updates of the weights, instead of `epochs`")
    gradient_accumulation_steps: PositiveInt = Field(1, description="batches per update")
    learning_rate: PositiveFloat = Field(1e-4, description="highest learning rate")
    lr_scheduler_type: Literal["linear", "cosine", "constant", "constant_with_warmup"] = "linear"
    warmup_ratio: float = Field(0.1, ge=0, le=1, description="share of the steps with a rising learning rate")
    weight_decay: float = Field(0.01, ge=0)
    adam_beta1: float = Field(0.9, ge=0, lt=1)
    adam_beta2: float = Field(0.999, ge=0, lt=1)
    adam_epsilon: PositiveFloat = 1e-8
    max_grad_norm: float = Field(1.0, ge=0, description="gradients are scaled down to this norm; 0 leaves them")
    seed: int = Field(42, ge=0, lt=2**32)
    dtype: Literal["float32", "bfloat16"] = Field("float32", description="bfloat16: mixed precision")
    device: Device = "auto"
    gradient_checkpointing: bool = False
    logging_steps: PositiveInt = Field(10, description="steps between lines of loss.jsonl")
    save_steps: PositiveInt | None = Field(None, description="steps between checkpoints; absent: none are kept")
    save_total_limit: PositiveInt = Field(2, description="checkpoints kept, the newest")

    @property
    def place(self) -> str | None:
        """The device as Sentence Transformers takes it: None leaves the choice to it."""
        return None if self.device == "auto" else self.device

    @model_validator(mode="after")
    def _check_duration(self) -> "Optimization":
        return _exactly_one(self, "epochs", "max_steps")


class TrainSection(Optimization):
    """How a retriever is fine-tuned contrastively."""

    batch_size: PositiveInt = Field(64, description="rows that are each other's negatives, at most, on all GPUs")
    mini_batch_size: PositiveInt = Field(64, description="texts in memory at once; does not change the result")
    mini_batch_tokens: PositiveInt | None = Field(None, description="tokens in memory at once, instead of texts")
    both_directions: bool = Field(False, description="also find each positive's anchor among the others")
    matryoshka_dimensions: list[PositiveInt] | None = Field(
        None, min_length=1, description="train vectors that may be cut to these lengths; absent: whole ones only"
    )
    scale: PositiveFloat = Field(20.0, description="factor on the cosine; 1 / temperature")
    embedding_learning_rate: PositiveFloat | None = Field(None, description="the same for token embeddings only")
    eval_steps: PositiveInt | None = Field(None, description="steps between evaluations on `data.eval_split`")
    keep: Literal["best", "last"] = Field("best", description="weights of the best evaluation, or of the last step")
    early_stopping_patience: PositiveInt | None = Field(
        None, description="evaluations without a better one after which training ends"
    )
    lora: Lora | None = Field(None, description="train low-rank additions to some matrices, and nothing else")
    tensorboard: str | None = Field(None, description="folder for TensorBoard's event files; absent: none are written")


class RecipeFile(Section):
    """Base of every recipe that training reads."""

    def to_yaml(self) -> str:
        """The recipe with every default written out, as text that reads back to an equal recipe."""
        values = self.model_dump(exclude_none=True)
        return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)


class Recipe(RecipeFile):
    """Everything a training run is told, checked."""

    model: ModelSection
    data: DataSection
    train: TrainSection

    @model_validator(mode="after")
    def _check(self) -> "Recipe":
        if (self.train.eval_steps is None) != (self.data.eval_split is None):
            raise ValueError("only one of `train.eval_steps` and `data.eval_split`; set both or neither")
        if self.train.early_stopping_patience is not None and self.train.eval_steps is None:
            raise ValueError("`train.early_stopping_patience` without evaluations; set `train.eval_steps`")
        return self


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
        raise ValueError(
            f"{found} {' and '.join(f'`{name}`' for name in given or names)}; set exactly one of them, null unsets one"
        )
    return section


def check_corpus(corpus: str | None, pairs: str | None) -> None:
    """Raise ValueError for a corpus without rows that name its documents."""
    if corpus is not None and pairs is None:
        raise ValueError("`corpus` without `pairs`, whose rows name its documents; set `pairs` beside it, or remove it")

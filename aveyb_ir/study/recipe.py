"""What a study compares: architectures, seeds and collections, with everything else held equal."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from aveyb_ir.checked_yaml import Section, read_recipe, validated
from aveyb_ir.config import Recipe

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SEE = "recipes/README.md lists the fields"


class EvaluationSet(Section):
    """One collection that every model is evaluated on."""

    data: str = Field(description="folder in BEIR layout, or Hub name such as BeIR/nq")
    split: str = Field("test", description="which judgements")


class Selection(Section):
    """How each system gets the learning rate that suits it, so that none is held back by another's."""

    learning_rates: list[PositiveFloat] = Field(min_length=1, description="tried with the first seed")
    data: str = Field(description="collection that decides, by NDCG@10")
    split: str = Field("dev", description="which judgements; not those of the study's result")


class Speed(Section):
    """What is measured beside quality, side by side in one run."""

    lengths: list[PositiveInt] = Field([128, 512, 2048], description="tokens of a text; one text at a time")
    repeats: PositiveInt = Field(3, description="rounds; medians are reported")
    documents: PositiveInt = Field(1000, description="first documents of the first collection: docs/s and index size")
    queries: PositiveInt = Field(100, description="queries asked one by one, for the latency")


def _usual_speed() -> Speed:
    return Speed.model_validate({})


class StudyRecipe(Section):
    """A comparison of architectures under one training recipe, checked.

    `systems` maps each label to the part of `training.model` in which that system differs; what is trained on, for how
    long and how is `training`, the same for all.
    """

    systems: dict[str, dict[str, Any]] = Field(min_length=1, description="label: its part of the model section")
    training: dict[str, dict[str, Any]] = Field(description="a training recipe without what `systems` sets")
    seeds: list[int] = Field(min_length=1, description="one model of each system is trained with each")
    evaluation: list[EvaluationSet] = Field(min_length=1, description="collections")
    protocols: list[Literal["full", "paper"]] = Field(["full"], min_length=1, description="see `aveyb-ir evaluate`")
    selection: Selection | None = Field(None, description="absent: all use `training.train.learning_rate`")
    parameter_tolerance: PositiveFloat | None = Field(
        0.1, description="largest difference of parameters beside embeddings, as a share; null: any"
    )
    bm25: bool = Field(True, description="add the lexical baseline")
    speed: Speed | None = Field(default_factory=_usual_speed, description="null: not measured")
    output: str | None = Field(None, description="folder the study is written to")

    @model_validator(mode="after")
    def _check(self) -> "StudyRecipe":
        for label in self.systems:
            if not _LABEL.fullmatch(label) or label == "bm25":
                raise ValueError(f"system {label!r}; expected letters, digits, '._-' and not bm25; rename it")
        # Folders of models are called by their learning rates.
        rates = [f"{rate:g}" for rate in self.selection.learning_rates] if self.selection else []
        for what, values in (("seeds", self.seeds), ("protocols", self.protocols), ("learning rates", rates)):
            if len(set(values)) != len(values):
                raise ValueError(f"{what} {values}, expected different ones; remove the repeated")
        measured = [(one.data, one.split) for one in self.evaluation]
        if self.selection and (self.selection.data, self.selection.split) in measured:
            raise ValueError(
                f"selection by {self.selection.split} of {self.selection.data}, evaluated on as well; expected "
                "other judgements, since what is chosen by a number cannot be measured by it; set selection.split"
            )
        names = [(Path(one.data).name, one.split) for one in self.evaluation]
        if len(set(names)) != len(names):
            raise ValueError(f"collections called {names}, expected different names; rename a folder")
        return self

    def training_recipe(self, label: str, *, seed: int, learning_rate: float | None = None) -> Recipe:
        """The recipe of one training run.

        Raises:
            RecipeError: The parts do not make a valid recipe; the message names the system.
        """
        values = {name: dict(section) for name, section in self.training.items()}
        values.setdefault("model", {}).update(self.systems[label])
        values.setdefault("train", {})["seed"] = seed
        if learning_rate is not None:
            values["train"]["learning_rate"] = learning_rate
        return validated(Recipe, values, f"system {label}", _SEE)

    def to_yaml(self) -> str:
        """The study with every default written out."""
        return yaml.safe_dump(self.model_dump(exclude_none=True), sort_keys=False, allow_unicode=True)


def load_study(path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> StudyRecipe:
    """Read and check a study; paths that start with a dot are taken from its folder.

    Raises:
        RecipeError: Unreadable file, unknown key or impossible value, in the study or in any of its training recipes.
        ValueError: An override that is not of the form `section.key=value`.
    """
    values = read_recipe(path, overrides, "a study recipe", StudyRecipe)
    study = validated(StudyRecipe, values, f"{path} with overrides" if overrides else str(path), _SEE)
    for label in study.systems:
        study.training_recipe(label, seed=study.seeds[0])
    return study

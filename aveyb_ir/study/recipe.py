"""What a study compares: architectures, seeds and collections, with everything else held equal."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import yaml
from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from aveyb_ir.checked_yaml import Section, read_recipe, validated
from aveyb_ir.config import Recipe
from aveyb_ir.errors import RecipeError
from aveyb_ir.tasks import DistillRecipe, checked_task

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SEE = "recipes/README.md lists the fields"

RetrieverRecipe: TypeAlias = Recipe | DistillRecipe
"""Makes what a study evaluates."""


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
    long and how is `training`, the same for all: a contrastive recipe, or one of `task: distill`.
    """

    systems: dict[str, dict[str, Any]] = Field(min_length=1, description="label: its part of the model section")
    training: dict[str, Any] = Field(description="a training recipe without what `systems` sets")
    seeds: list[int] = Field(min_length=1, description="one model of each system is trained with each")
    evaluation: list[EvaluationSet] = Field(min_length=1, description="collections")
    protocols: list[Literal["full", "paper"]] = Field(["full"], min_length=1, description="see `aveyb-ir evaluate`")
    selection: Selection | None = Field(None, description="absent: all use `training.train.learning_rate`")
    parameter_tolerance: PositiveFloat | None = Field(
        0.1, description="largest difference of parameters beside embeddings, as a share; null: any"
    )
    references: dict[str, str] = Field(
        default_factory=dict, description="label: model folder or Hub name, evaluated and timed as it is"
    )
    bm25: bool = Field(True, description="add the lexical baseline")
    speed: Speed | None = Field(default_factory=_usual_speed, description="null: not measured")
    output: str | None = Field(None, description="folder the study is written to")

    @model_validator(mode="after")
    def _check(self) -> "StudyRecipe":
        for label in (*self.systems, *self.references):
            if not _LABEL.fullmatch(label) or label == "bm25":
                raise ValueError(f"system {label!r}; expected letters, digits, '._-' and not bm25; rename it")
        if both := sorted(self.systems.keys() & self.references.keys()):
            raise ValueError(f"{both[0]} is a system and a reference; expected different labels; rename one")
        for name in ("model", "data", "train"):
            if not isinstance(self.training.get(name, {}), dict):
                raise ValueError(f"training.{name}: got {self.training[name]!r}, expected fields; indent them below it")
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

    def training_recipe(self, label: str, *, seed: int, learning_rate: float | None = None) -> RetrieverRecipe:
        """The recipe of one training run.

        Raises:
            RecipeError: The parts do not make a valid recipe of a retriever; the message names the system.
        """
        sections = {name: dict(self.training.get(name, {})) for name in ("model", "train")}
        sections["model"] |= self.systems[label]
        sections["train"]["seed"] = seed
        if learning_rate is not None:
            sections["train"]["learning_rate"] = learning_rate
        recipe = checked_task({**self.training, **sections}, f"system {label}")
        if not isinstance(recipe, RetrieverRecipe):
            raise RecipeError(
                f"training.task: got {recipe.task}, expected contrastive or distill, which make retrievers; change it"
            )
        return recipe

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

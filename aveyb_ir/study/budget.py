"""Whether systems are of like size, counted before anything is trained."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from aveyb_ir.errors import RecipeError
from aveyb_ir.study.recipe import RetrieverRecipe
from aveyb_ir.training import build_start

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Parameters:
    """How many parameters a model has.

    Attributes:
        total: All.
        beside_embeddings: Without token, position and type embeddings, which cost no arithmetic.
    """

    total: int
    beside_embeddings: int


def count_parameters(recipe: RetrieverRecipe) -> Parameters:
    """Build the model that training starts from, and count. Raises like `build_start`."""
    section = recipe.model
    if section.embeddings_from is not None:  # the numbers in them, which take a while, change no count
        section = section.model_copy(update={"embeddings_from": None, "tokenizer": section.embeddings_from})
    return count_of(build_start(recipe.model_copy(update={"model": section})))


def count_of(model: nn.Module) -> Parameters:
    """The parameters of a model."""
    total = sum(parameter.numel() for parameter in model.parameters())
    tables = [module for module in model.modules() if type(module).__name__.endswith("Embedding")]
    embedding = sum(weight.numel() for table in tables for weight in table.parameters(recurse=False))
    return Parameters(total, total - embedding)


def check_budget(parameters: Mapping[str, Parameters], tolerance: float | None) -> None:
    """Refuse to compare systems whose parameters beside embeddings differ by more than a share of the smallest's.

    Raises:
        RecipeError: They do; names all counts.
    """
    counts = {label: found.beside_embeddings for label, found in parameters.items()}
    shown = ", ".join(f"{label} {count:,}" for label, count in counts.items())
    logger.info("parameters beside embeddings: %s", shown)
    if tolerance is not None and max(counts.values()) > (1 + tolerance) * min(counts.values()):
        raise RecipeError(
            f"systems: got {shown} parameters beside embeddings, expected a difference of at most {tolerance:.0%}; "
            "change their sizes, or set parameter_tolerance to null to compare them all the same"
        )

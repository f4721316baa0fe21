"""Where a run keeps its checkpoints, with the recipe that they belong to."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from aveyb_ir.config import DEVICES, Recipe
from aveyb_ir.errors import RecipeError
from aveyb_ir.tasks import AnyRecipe, DistillRecipe, PretrainRecipe, RerankerRecipe
from aveyb_ir.training.output import checkpoints_folder
from aveyb_ir.training.record import write_text
from aveyb_ir.training.seals import last_whole_checkpoint, remove_torn_checkpoints

RECIPE_FILE = "recipe.yaml"

RecipeT = TypeVar("RecipeT", Recipe, PretrainRecipe, DistillRecipe, RerankerRecipe, AnyRecipe)


def with_output(recipe: RecipeT, output: str | Path | None) -> tuple[RecipeT, Path]:
    """The recipe with `output` in place of its own, and the folder. Raises ValueError if neither names one."""
    if output is not None:
        section = recipe.train.model_copy(update={"output": str(Path(output).absolute())})
        recipe = recipe.model_copy(update={"train": section})
    if recipe.train.output is None:
        raise ValueError("output: got none, expected a folder; pass output or set train.output in the recipe")
    return recipe, Path(recipe.train.output)


def with_device(recipe: RecipeT, device: str | None) -> RecipeT:
    """The recipe with `device` in place of its own. Raises ValueError for one that recipes do not know."""
    if device is None:
        return recipe
    if device not in DEVICES:
        raise ValueError(f"device: got {device!r}, expected one of {', '.join(DEVICES)}; a GPU is chosen by torchrun")
    return recipe.model_copy(update={"train": recipe.train.model_copy(update={"device": device})})


@contextmanager
def working_folder(recipe: AnyRecipe, output: Path, resume: bool) -> Iterator[Path]:
    """Where the trainer keeps its checkpoints, with the recipe they belong to; a passing folder if it keeps none."""
    checkpoints = checkpoints_folder(output)
    if resume:
        _check_resumable(recipe, checkpoints)
        remove_torn_checkpoints(checkpoints)
    elif checkpoints.exists():
        shutil.rmtree(checkpoints)
    if recipe.train.save_steps is None:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
    else:
        checkpoints.mkdir(parents=True, exist_ok=True)
        write_text(checkpoints / RECIPE_FILE, recipe.to_yaml())
        yield checkpoints


def can_resume(recipe: RecipeT, *, output: str | Path | None = None) -> bool:
    """Whether an unfinished run of this recipe left a checkpoint that `train` with `resume` would go on from."""
    recipe, folder = with_output(recipe, output)
    checkpoints = checkpoints_folder(folder)
    return _has_checkpoint(checkpoints) and _is_of(recipe, checkpoints)


def _has_checkpoint(checkpoints: Path) -> bool:
    return (checkpoints / RECIPE_FILE).is_file() and last_whole_checkpoint(checkpoints) is not None


def _is_of(recipe: AnyRecipe, checkpoints: Path) -> bool:
    return (checkpoints / RECIPE_FILE).read_text(encoding="utf-8") == recipe.to_yaml()


def _check_resumable(recipe: AnyRecipe, checkpoints: Path) -> None:
    if not _has_checkpoint(checkpoints):
        raise ValueError(f"resume: got no checkpoint in {checkpoints}, expected one; train without resume")
    if not _is_of(recipe, checkpoints):
        raise RecipeError(
            f"{checkpoints / RECIPE_FILE}: got checkpoints of another recipe, expected this one; "
            "use that recipe, or train without resume and with overwrite"
        )

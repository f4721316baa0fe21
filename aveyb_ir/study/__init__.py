"""Architectures compared on equal terms: trained alike, evaluated alike, timed side by side."""

from typing import TYPE_CHECKING

from aveyb_ir._lazy import lazy_names
from aveyb_ir.study.recipe import StudyRecipe, load_study

if TYPE_CHECKING:
    from aveyb_ir.study.run import Study, study

__all__ = ["Study", "StudyRecipe", "load_study", "study"]

# A recipe is checked before what trains and evaluates is imported.
__getattr__, __dir__ = lazy_names(__name__, {"Study": "run", "study": "run"})

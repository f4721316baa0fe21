"""Architectures compared on equal terms: trained alike, evaluated alike, timed side by side."""

from aveyb_ir.study.recipe import StudyRecipe, load_study
from aveyb_ir.study.run import Study, study

__all__ = ["Study", "StudyRecipe", "load_study", "study"]

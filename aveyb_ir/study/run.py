"""The study: every system trained alike, evaluated alike, compared, and timed side by side."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from aveyb_ir.data import write_lines
from aveyb_ir.encoding import load_sentence_transformer
from aveyb_ir.errors import DataError
from aveyb_ir.evaluation import Comparison, Evaluation, Protocol, compare
from aveyb_ir.study.budget import Parameters, check_budget, count_of, count_parameters
from aveyb_ir.study.cells import Cell, report_of
from aveyb_ir.study.recipe import EvaluationSet, StudyRecipe
from aveyb_ir.study.speed import measure_speed

logger = logging.getLogger(__name__)

RECIPE_FILE = "study.yaml"
_BM25 = "bm25"


@dataclass(frozen=True)
class Study:
    """What a study found.

    Attributes:
        folder: Where it lies: `cells/` with models and reports, and a folder `report-PROTOCOL` of each comparison.
        comparisons: By protocol; never in one table.
        learning_rates: What each system was trained with.
        parameters: Of each system.
    """

    folder: Path
    comparisons: Mapping[Protocol, Comparison]
    learning_rates: Mapping[str, float]
    parameters: Mapping[str, Parameters]


def study(recipe: StudyRecipe, *, output: str | Path | None = None) -> Study:
    """Run a study to its end, or go on with one that was interrupted; what is done is not done again.

    Each system is trained with every seed by the same recipe, with the learning rate that suits it best if the recipe
    says how to select one, and evaluated on every collection; references are evaluated as they are. Work counts as done
    only as long as what it was made from is unchanged: recipe and training data for a model, model and collection for
    an evaluation.

    Args:
        recipe: See `load_study`.
        output: Replaces `recipe.output`.

    Raises:
        DataError: Broken data, or a folder that holds something else.
        ModelError: A model to start from, or a reference, cannot be loaded.
        RecipeError: A training recipe does not fit this machine, or the systems differ too much in size.
        ValueError: No output is named.
    """
    if output is None and recipe.output is None:
        raise ValueError("output: got none, expected a folder; pass output or set output in the study recipe")
    folder = Path(output if output is not None else str(recipe.output))
    _begin(folder, recipe)
    parameters = {
        label: count_parameters(recipe.training_recipe(label, seed=recipe.seeds[0])) for label in recipe.systems
    }
    check_budget(parameters, recipe.parameter_tolerance)
    references = {label: count_of(load_sentence_transformer(model)) for label, model in recipe.references.items()}
    work = _Work(recipe, folder)
    cells = {label: work.trained(label) for label in recipe.systems}
    reports = work.reports(cells)
    extras = _extras(recipe, cells, parameters | references, folder)
    comparisons = {protocol: _compared(recipe, found, extras) for protocol, found in reports.items()}
    for protocol, comparison in comparisons.items():
        comparison.write(folder / f"report-{protocol}")
    learning_rates = {label: of_label[0].recipe.train.learning_rate for label, of_label in cells.items()}
    return Study(folder, comparisons, learning_rates, parameters)


def _begin(folder: Path, recipe: StudyRecipe) -> None:
    if folder.exists() and not (folder / RECIPE_FILE).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(
            f"{folder}: holds something else, expected a new folder or one with {RECIPE_FILE}; choose another"
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_lines(folder / RECIPE_FILE, recipe.to_yaml().split("\n"))


class _Work:
    """Trains and evaluates cell after cell, and knows which are done."""

    def __init__(self, recipe: StudyRecipe, folder: Path) -> None:
        self._recipe, self._folder = recipe, folder
        rates = len(recipe.selection.learning_rates) if recipe.selection else 1
        self._num_cells = len(recipe.systems) * (rates + len(recipe.seeds) - 1)
        self._done: set[str] = set()

    def trained(self, label: str) -> list[Cell]:
        """A system's models, one for each seed, with the learning rate that suits it."""
        rate = self._chosen_learning_rate(label)
        return [self._trained(label, seed, rate) for seed in self._recipe.seeds]

    def reports(self, cells: Mapping[str, Sequence[Cell]]) -> dict[Protocol, list[tuple[str, Path]]]:
        """By protocol, label and report of every system, seed and collection."""
        found: dict[Protocol, list[tuple[str, Path]]] = {protocol: [] for protocol in self._recipe.protocols}
        wanted = [(protocol, one) for one in self._recipe.evaluation for protocol in found]
        for label, of_label in cells.items():
            for cell in of_label:
                for protocol, one in wanted:
                    found[protocol].append((label, cell.evaluate(one, protocol)))
                cell.forget_vectors()
        as_they_are = {**self._recipe.references, **({_BM25: _BM25} if self._recipe.bm25 else {})}
        for label, model in as_they_are.items():
            for protocol, one in wanted:
                report = report_of(model, label, one, protocol, self._folder / "cells" / label)
                found[protocol].append((label, report))
        return found

    def _chosen_learning_rate(self, label: str) -> float | None:
        """The rate whose model of the first seed is best on the judgements that are kept for selecting."""
        if self._recipe.selection is None:
            return None
        held_out = EvaluationSet(data=self._recipe.selection.data, split=self._recipe.selection.split)
        rates, seed = self._recipe.selection.learning_rates, self._recipe.seeds[0]
        cells = {rate: self._trained(label, seed, rate) for rate in rates}
        reports = {rate: Evaluation.read(cell.evaluate(held_out, "full")) for rate, cell in cells.items()}
        quality = {rate: report.metrics["ndcg@10"] for rate, report in reports.items()}
        best = max(quality, key=lambda rate: quality[rate])
        for rate in quality.keys() - {best}:
            cells[rate].forget_vectors()
        found = ", ".join(f"{rate:g}: {value:.4f}" for rate, value in quality.items())
        logger.info("%s: learning rate %g, by NDCG@10 on %s %s (%s)", label, best, held_out.data, held_out.split, found)
        if len(quality) > 1 and best in (min(quality), max(quality)):
            logger.warning("%s: the best learning rate, %g, is at the edge of what was tried", label, best)
        return best

    def _trained(self, label: str, seed: int, learning_rate: float | None) -> Cell:
        training = self._recipe.training_recipe(label, seed=seed, learning_rate=learning_rate)
        name = f"{label}-lr{training.train.learning_rate:g}-seed{seed}"
        cell = Cell(label, training, self._folder / "cells" / name)
        if not cell.is_trained():
            logger.info("training %s, model %d of %d", name, len(self._done) + 1, self._num_cells)
            cell.train()
        self._done.add(name)
        return cell


def _extras(
    recipe: StudyRecipe, cells: Mapping[str, Sequence[Cell]], parameters: Mapping[str, Parameters], folder: Path
) -> dict[str, dict[str, float]]:
    """What stands beside the quality of each system: size, learning rate, speed."""
    extras = {
        label: {"parameters (M)": counted.total / 1e6, "without embeddings (M)": counted.beside_embeddings / 1e6}
        for label, counted in parameters.items()
    }
    for label, of_label in cells.items():
        extras[label]["learning rate"] = of_label[0].recipe.train.learning_rate
    if recipe.speed is not None:
        models = {label: str(of_label[0].model) for label, of_label in cells.items()} | recipe.references
        for label, columns in measure_speed(models, recipe.speed, recipe.evaluation[0], folder / "speed.json").items():
            extras[label] |= columns
    return extras


def _compared(
    recipe: StudyRecipe, reports: Sequence[tuple[str, Path]], extras: Mapping[str, Mapping[str, float]]
) -> Comparison:
    return compare(
        [f"{label}={path}" for label, path in reports],
        data=[one.data for one in recipe.evaluation],
        extras=extras,
        all_pairs=False,
    )

"""Systems side by side: who is better, by how much, how sure that is, and on which queries."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from aveyb_ir.data import listed, write_lines
from aveyb_ir.errors import DataError
from aveyb_ir.evaluation.comparison_data import ComparedData, Source
from aveyb_ir.evaluation.comparison_differences import Difference, find_differences, pairs_of
from aveyb_ir.evaluation.comparison_notes import data_notes, method_notes
from aveyb_ir.evaluation.comparison_page import to_html
from aveyb_ir.evaluation.comparison_queries import Material, QueryDifference, extreme_queries
from aveyb_ir.evaluation.comparison_scores import Score, SetScores, collect, common_metrics
from aveyb_ir.evaluation.comparison_sources import Judge
from aveyb_ir.evaluation.comparison_tables import queries_csv, scores_csv, to_markdown, to_tex
from aveyb_ir.evaluation.protocols import Protocol
from aveyb_ir.evaluation.result import Evaluation

FORMAT = "aveyb-ir comparison 1"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything a comparison report says; tables, pages and files are made of it alone.

    Attributes:
        systems: Labels, in the order they were given.
        baseline: The one that others are compared with.
        metric: The one that is tested.
        metrics: All that every system has, `metric` among them.
        protocol: How all numbers came about; see `aveyb_ir.evaluation.protocols`.
        sets: The values of all systems, query by query.
        differences: Pairs of systems on each set, and on the mean over sets.
        queries: The worst and the best queries of each pair on each set.
        extras: `{system: {column: number}}` that a caller wants to see beside the quality, such as tokens per second.
        notes: What a reader must know, a sentence each.
        permutations: Of the randomization tests.
        resamples: Of the bootstrap.
        seed: Of both.
    """

    systems: tuple[str, ...]
    baseline: str
    metric: str
    metrics: tuple[str, ...]
    protocol: Protocol
    sets: tuple[SetScores, ...]
    differences: tuple[Difference, ...] = ()
    queries: tuple[QueryDifference, ...] = ()
    extras: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    permutations: int = 100_000
    resamples: int = 10_000
    seed: int = 0

    @property
    def shared(self) -> tuple[SetScores, ...]:
        """The sets that every system was measured on."""
        return tuple(one for one in self.sets if all(system in one.values for system in self.systems))

    def score(self, system: str, data: str | None = None, metric: str | None = None) -> Score | None:
        """Give a system's score on a set, or by default its mean over the shared sets; None where there is none.

        One shared set among others is no mean.
        """
        metric = metric or self.metric
        if data is not None:
            return next(one for one in self.sets if one.data == data).score(system, metric)
        if len(self.shared) < min(2, len(self.sets)):
            return None
        scores = [score for one in self.shared if (score := one.score(system, metric)) is not None]
        if len({len(score.seeds) for score in scores}) > 1:
            return Score((fmean(score.mean for score in scores),))
        return Score(tuple(map(fmean, zip(*(score.seeds for score in scores), strict=True)))) if scores else None

    def difference(self, system: str, data: str | None = None) -> Difference | None:
        """Find a system's difference to the baseline on a set, or on the mean; None where it was not tested."""
        return next(
            (d for d in self.differences if (d.system, d.against, d.data) == (system, self.baseline, data)), None
        )

    def to_markdown(self, *, queries: bool = True) -> str:
        """Tables and notes to read in a terminal, a pull request or a log, and the queries that made the difference."""
        return to_markdown(self, queries=queries)

    def to_json(self) -> dict[str, Any]:
        """Everything for programs, as plain dictionaries, lists and numbers.

        `systems`, `baseline`, `metric`, `metrics`, `protocol`, `extras`, `notes`, `permutations`, `resamples`, `seed`
        are the attributes. `scores` has a row for each system, set (null: the mean over `shared_sets`) and metric, with
        the `mean` over seeds, its `sd` (null for one seed) and the value of each of the `seeds`. `differences` and
        `queries` are lists of `Difference` and `QueryDifference`. `sets` gives for each set its `split`, its `queries`
        and, under `values`, `{system: {metric: [seed][query]}}` in the order of `queries`.
        """
        return {
            "format": FORMAT,
            "systems": list(self.systems),
            "baseline": self.baseline,
            "metric": self.metric,
            "metrics": list(self.metrics),
            "protocol": self.protocol,
            "shared_sets": [one.data for one in self.shared],
            "scores": self._scores(),
            "differences": [{**asdict(one), "significant": one.significant} for one in self.differences],
            "queries": [asdict(one) for one in self.queries],
            "extras": {system: dict(columns) for system, columns in self.extras.items()},
            "notes": list(self.notes),
            "permutations": self.permutations,
            "resamples": self.resamples,
            "seed": self.seed,
            "sets": {
                one.data: {
                    "split": one.split,
                    "queries": list(one.query_ids),
                    "values": {
                        system: {metric: values.tolist() for metric, values in by_metric.items()}
                        for system, by_metric in one.values.items()
                    },
                }
                for one in self.sets
            },
        }

    def _scores(self) -> list[dict[str, Any]]:
        found = [
            (system, data, metric, self.score(system, data, metric))
            for data in [*(one.data for one in self.sets), None]
            for metric in self.metrics
            for system in self.systems
        ]
        return [
            {"system": system, "data": data, "metric": metric, "mean": s.mean, "sd": s.sd, "seeds": list(s.seeds)}
            for system, data, metric, s in found
            if s is not None
        ]

    def write(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write the report in every form into a folder, and return the files.

        `report.html` is one page to read and to send on, `report.md` the same as text, `report.tex` its table for a
        paper, `report.csv` and `per_query.csv` hold one value a row, `report.json` is `to_json`.

        Raises:
            DataError: A file cannot be written.
        """
        texts = {
            "report.html": to_html(self),
            "report.md": self.to_markdown(),
            "report.csv": scores_csv(self),
            "per_query.csv": queries_csv(self),
            "report.json": json.dumps(self.to_json(), ensure_ascii=False, allow_nan=False),
            "report.tex": to_tex(self),
        }
        for name, text in texts.items():
            write_lines(Path(folder) / name, text.removesuffix("\n").split("\n"))
        return [Path(folder) / name for name in texts]


def compare(
    systems: Sequence[Evaluation | str | os.PathLike[str]],
    *,
    data: Sequence[Source] = (),
    split: str | None = None,
    protocol: Protocol = "full",
    metric: str | None = None,
    baseline: str | None = None,
    all_pairs: bool = False,
    extras: Mapping[str, Mapping[str, float]] | None = None,
    permutations: int = 100_000,
    resamples: int = 10_000,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """Compare systems on the same queries, with tests, intervals and the queries that made the difference.

    Args:
        systems: Evaluations, or paths as `[label=]path`: a report, a folder of reports, a run, a model, or the word
            bm25. The label of an evaluation is its name. Several of one label and one set are seeds of one system.
        data: Collections, or where they are: models and runs are evaluated on them, and texts of queries and documents
            come from them.
        split: Judgements that models and runs are evaluated by; by default each set's usual ones.
        protocol: How models and runs are evaluated.
        metric: What is tested; by default the first that all evaluations have.
        baseline: Label that all are compared with; by default the first system's.
        all_pairs: Compare all with all.
        extras: `{label: {column: number}}` to show beside the quality.
        permutations: Of each randomization test.
        resamples: Of each bootstrap interval.
        seed: Of both.
        progress: Called with a line before each evaluation of a model.

    Raises:
        DataError: Something cannot be read, protocols, splits or judged queries are not the same, or a system shares no
            set with the baseline.
        ValueError: Fewer than two systems, a label, metric or data set that nothing has, the same system twice under
            one label, or different ones that are called alike without a label.
    """
    texts = {one.name: one for one in map(ComparedData.open, data)}
    evaluations = Judge(texts, split, protocol, progress).evaluations(systems)
    labels = tuple(dict.fromkeys(one.name for one in evaluations))
    if len(labels) < 2:
        raise ValueError(f"systems {listed(labels) or 'none'}; expected at least two labels; name them label=path")
    sets, metrics = collect(evaluations), common_metrics(evaluations)
    _check_shared(sets, labels, _one_of("baseline", baseline, labels))
    for names, what, choices in (
        (extras or {}, "label in extras", labels),
        (texts, "data", [one.data for one in sets]),
    ):
        for name in names:
            _one_of(what, name, choices)
    untested = Comparison(
        systems=labels,
        baseline=_one_of("baseline", baseline, labels),
        metric=_one_of("metric", metric, metrics),
        metrics=metrics,
        protocol=evaluations[0].protocol,
        sets=sets,
        extras=extras or {},
        permutations=permutations,
        resamples=resamples,
        seed=seed,
    )
    pairs = pairs_of(labels, untested.baseline, all_pairs=all_pairs)
    comparison = replace(
        untested,
        differences=find_differences(
            sets, untested.shared, pairs, untested.metric, permutations=permutations, resamples=resamples, seed=seed
        ),
        queries=_queries(untested, pairs, texts, evaluations),
    )
    return replace(comparison, notes=(*data_notes(evaluations), *method_notes(comparison)))


def _check_shared(sets: Sequence[SetScores], labels: Sequence[str], baseline: str) -> None:
    of = {label: [one.data for one in sets if label in one.values] for label in labels}
    for label in labels:
        if not set(of[label]) & set(of[baseline]):
            raise DataError(
                f"{baseline} was measured on {listed(of[baseline])} and {label} on {listed(of[label])}; expected a set "
                "in common; evaluate both on the same data"
            )


def _one_of(what: str, given: str | None, choices: Sequence[str]) -> str:
    if given is None:
        return choices[0]
    if given not in choices:
        raise ValueError(f"{what} {given!r}; expected one of {listed(choices)}; choose one")
    return given


def _queries(
    comparison: Comparison,
    pairs: Sequence[tuple[str, str]],
    texts: Mapping[str, ComparedData],
    evaluations: Sequence[Evaluation],
) -> tuple[QueryDifference, ...]:
    """The extreme queries of all sets, pair by pair."""
    found: list[QueryDifference] = []
    for one in comparison.sets:
        here = [evaluation for evaluation in evaluations if evaluation.data == one.data]
        found += extreme_queries(one, pairs, comparison.metric, _material(one, texts.get(one.data), here))
    return tuple(sorted(found, key=lambda query: pairs.index((query.system, query.against))))


def _material(one: SetScores, data: ComparedData | None, evaluations: Sequence[Evaluation]) -> Material:
    runs = {evaluation.name: evaluation.run for evaluation in reversed(evaluations) if evaluation.run}
    in_parts = len(one.parts) > 1
    if data is None:
        return Material(runs=runs, in_parts=in_parts)
    return Material(data.queries(), data.qrels(one.split), data.documents(), runs, in_parts)

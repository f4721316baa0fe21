"""Which numbers may stand in one table: every system's values, query by query, on sets that are the same for all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.data import listed
from aveyb_ir.errors import DataError
from aveyb_ir.evaluation.result import Evaluation


@dataclass(frozen=True, slots=True)
class Score:
    """One system's value of one metric: each seed's, their mean, and how far they scatter."""

    seeds: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean over seeds."""
        return fmean(self.seeds)

    @property
    def sd(self) -> float | None:
        """Standard deviation over seeds, with n - 1; None for a single seed, of which nothing is known."""
        return stdev(self.seeds) if len(self.seeds) > 1 else None


@dataclass(frozen=True, slots=True)
class SetScores:
    """All systems on one set.

    Attributes:
        data: Name of the set.
        split: Whose judgements.
        query_ids: The judged queries, the same for all systems.
        parts: (queries,) rows of each part; one part holds all, unless the set is an average of parts, as CQADupStack.
        values: `{system: {metric: (seeds, queries) float64}}`; a system that was not measured here is not in it.
    """

    data: str
    split: str
    query_ids: tuple[str, ...]
    parts: tuple[NDArray[np.int64], ...]
    values: Mapping[str, Mapping[str, NDArray[np.float64]]]

    def score(self, system: str, metric: str) -> Score | None:
        """Give a system's mean over queries (of parts: over their means) for each seed; None if there is none."""
        return Score(self.seeds(system, metric)) if system in self.values else None

    def seeds(self, system: str, metric: str) -> tuple[float, ...]:
        """Each seed's mean."""
        values = self.values[system][metric]
        return tuple(np.mean([values[:, rows].mean(axis=1) for rows in self.parts], axis=0).tolist())

    def of_queries(self, system: str, metric: str) -> NDArray[np.float64]:
        """A system's value for each query, averaged over seeds: (queries,)."""
        average: NDArray[np.float64] = self.values[system][metric].mean(axis=0)
        return average


def collect(evaluations: Sequence[Evaluation]) -> tuple[SetScores, ...]:
    """Sort evaluations by set, in the order the sets come up.

    Raises:
        DataError: different protocols, splits or judged queries of one set, or no metric that all have.
    """
    _same(evaluations, "protocol", lambda one: one.protocol, "compare each protocol by itself")
    metrics = common_metrics(evaluations)
    sets: dict[str, list[Evaluation]] = {}
    for one in evaluations:
        sets.setdefault(one.data, []).append(one)
    return tuple(_set_scores(data, members, metrics) for data, members in sets.items())


def common_metrics(evaluations: Sequence[Evaluation]) -> tuple[str, ...]:
    """Give the metrics that every evaluation has, in the first one's order.

    Raises:
        DataError: there is none.
    """
    names = [name for name in evaluations[0].metrics if all(name in one.metrics for one in evaluations)]
    if not names:
        found = listed([f"{one.name}: {', '.join(one.metrics)}" for one in evaluations], separator="; ")
        raise DataError(f"no metric is common to all ({found}); expected at least one; evaluate again with the same")
    return tuple(names)


def _set_scores(data: str, members: Sequence[Evaluation], metrics: Sequence[str]) -> SetScores:
    _same(members, f"split of {data}", lambda one: one.split, "evaluate all on the same split")
    first = members[0]
    query_ids = tuple(first.per_query)
    for one in members[1:]:
        _same_queries(data, first, one)
    systems = dict.fromkeys(one.name for one in members)
    return SetScores(
        data=data,
        split=first.split,
        query_ids=query_ids,
        parts=_parts(first),
        values={system: _values([m for m in members if m.name == system], metrics, query_ids) for system in systems},
    )


def _parts(evaluation: Evaluation) -> tuple[NDArray[np.int64], ...]:
    ids = list(evaluation.per_query)
    groups = [[row for row, id in enumerate(ids) if id.startswith(f"{part}/")] for part in evaluation.parts]
    return tuple(np.array(rows, dtype=np.int64) for rows in groups or [list(range(len(ids)))])


def _values(
    seeds: Sequence[Evaluation], metrics: Sequence[str], query_ids: Sequence[str]
) -> dict[str, NDArray[np.float64]]:
    return {
        metric: np.array([[one.per_query[id][metric] for id in query_ids] for one in seeds], dtype=np.float64)
        for metric in metrics
    }


def _same(evaluations: Sequence[Evaluation], what: str, get: Any, advice: str) -> None:
    first = evaluations[0]
    for one in evaluations[1:]:
        if get(one) != get(first):
            raise DataError(
                f"{what} is {get(first)!r} for {first.name} and {get(one)!r} for {one.name}; "
                f"expected one {what.split()[0]}, since the numbers mean different things; {advice}"
            )


def _same_queries(data: str, first: Evaluation, other: Evaluation) -> None:
    ours, theirs = first.per_query.keys(), other.per_query.keys()
    if ours != theirs:
        differing = "; ".join(
            _only(one.name, ids) for one, ids in ((first, ours - theirs), (other, theirs - ours)) if ids
        )
        raise DataError(
            f"{data} has {len(ours)} judged queries for {first.name} and {len(theirs)} for {other.name} "
            f"({differing}); expected the same ones; evaluate both with the same judgements"
        )


def _only(system: str, ids: set[str]) -> str:
    return f"only {system}: {listed(sorted(ids))}"

"""The queries on which two systems are furthest apart, with what each of them found and should have found."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from textwrap import shorten

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.data import Qrels, Run, trec_order
from aveyb_ir.evaluation.comparison_differences import differences_by_query
from aveyb_ir.evaluation.comparison_scores import SetScores

SHOWN_QUERIES = 10
"""So many of the worst and so many of the best queries of each pair of systems on each set."""

_SHOWN_RELEVANT = 5
_SHOWN_CHARACTERS = 320


@dataclass(frozen=True, slots=True)
class Found:
    """A document that a system put first, or should have found.

    Attributes:
        id: Its id.
        grade: What the judgements say; None if they are silent or not at hand.
        text: The beginning of title and text; None without its corpus.
        ranks: Its place, from 1, with each system whose run is at hand; None where it is not among the hits.
    """

    id: str
    grade: int | None
    text: str | None
    ranks: Mapping[str, int | None]


@dataclass(frozen=True, slots=True)
class QueryDifference:
    """One query on which a system does much better or worse than another.

    Attributes:
        system: As in `Difference`.
        against: As in `Difference`.
        data: The set.
        query_id: The query's id.
        text: The query; None without its collection.
        difference: The system's value minus the other's, each a mean over seeds.
        values: The value of every system that was measured on the set.
        top: What each system whose run is at hand put first; None if it found nothing.
        relevant: Relevant documents, best grade first and then the best found; at most five.
        num_relevant: How many there are; None if the judgements are not at hand.
    """

    system: str
    against: str
    data: str
    query_id: str
    text: str | None
    difference: float
    values: Mapping[str, float]
    top: Mapping[str, Found | None] = field(default_factory=dict)
    relevant: tuple[Found, ...] = ()
    num_relevant: int | None = None


@dataclass(frozen=True, slots=True)
class Material:
    """What there is to show about the queries of one set.

    Attributes:
        queries: Texts by id.
        qrels: Judgements.
        documents: Opens the corpus as pairs of id and text, to be read once.
        runs: One run of each system that has any. In a set of parts their ids of documents lack the `part/` that ids
            of its queries and documents begin with otherwise.
        in_parts: Whether the set comes in parts.
    """

    queries: Mapping[str, str] = field(default_factory=dict)
    qrels: Qrels = field(default_factory=dict)
    documents: Iterable[tuple[str, str]] = ()
    runs: Mapping[str, Run] = field(default_factory=dict)
    in_parts: bool = False

    def ranking(self, system: str, query_id: str) -> list[str]:
        """Ids of a system's hits for a query, best first."""
        part = query_id.partition("/")[0] + "/" if self.in_parts else ""
        return [part + id for id in trec_order(self.runs[system].get(query_id, {}))]


def extreme_queries(
    scores: SetScores, pairs: Sequence[tuple[str, str]], metric: str, material: Material
) -> list[QueryDifference]:
    """Pick for each pair the queries of its largest losses, worst first, and then of its largest gains, best first."""
    pairs = [pair for pair in pairs if all(system in scores.values for system in pair)]
    if not pairs:
        return []
    values = {system: scores.of_queries(system, metric) for system in scores.values}
    differences = differences_by_query(scores, pairs, metric)
    picked = [(pair, row) for column, pair in enumerate(pairs) for row in _extremes(differences[:, column])]
    shown = _Shown(material, {scores.query_ids[row] for _, row in picked})
    return [
        QueryDifference(
            system=pair[0],
            against=pair[1],
            data=scores.data,
            query_id=scores.query_ids[row],
            text=material.queries.get(scores.query_ids[row]),
            difference=float(differences[row, pairs.index(pair)]),
            values={system: float(found[row]) for system, found in values.items()},
            top=shown.top(scores.query_ids[row]),
            relevant=shown.relevant(scores.query_ids[row]),
            num_relevant=len(_relevant_ids(material.qrels[scores.query_ids[row]])) if material.qrels else None,
        )
        for pair, row in picked
    ]


def _extremes(differences: NDArray[np.float64]) -> list[int]:
    worst = np.argsort(differences, kind="stable")[:SHOWN_QUERIES].tolist()
    best = np.argsort(-differences, kind="stable")[:SHOWN_QUERIES].tolist()
    return [row for row in worst if differences[row] < 0] + [row for row in best if differences[row] > 0]


class _Shown:
    """Documents to show for some queries; the corpus is read once for the texts of them all."""

    def __init__(self, material: Material, query_ids: Iterable[str]) -> None:
        self._material = material
        self._order = cache(material.ranking)
        self._texts: dict[str, str] = {}
        wanted = {id for query_id in query_ids for id in self._wanted(query_id)}
        if wanted:
            self._texts = {id: _beginning(text) for id, text in material.documents if id in wanted}

    def top(self, query_id: str) -> dict[str, Found | None]:
        first = {system: self._order(system, query_id)[:1] for system in self._material.runs}
        return {system: self._found(query_id, ids[0]) if ids else None for system, ids in first.items()}

    def relevant(self, query_id: str) -> tuple[Found, ...]:
        return tuple(self._found(query_id, id) for id in self._relevant(query_id))

    def _wanted(self, query_id: str) -> Iterable[str]:
        tops = (self._order(system, query_id)[:1] for system in self._material.runs)
        return chain(self._relevant(query_id), *tops)

    def _relevant(self, query_id: str) -> list[str]:
        judged = self._material.qrels.get(query_id, {})
        best = {id: min((r for r in self._ranks(query_id, id).values() if r), default=np.inf) for id in judged}
        return sorted(_relevant_ids(judged), key=lambda id: (-judged[id], best[id], id))[:_SHOWN_RELEVANT]

    def _found(self, query_id: str, id: str) -> Found:
        grade = self._material.qrels.get(query_id, {}).get(id)
        return Found(id, grade, self._texts.get(id), self._ranks(query_id, id))

    def _ranks(self, query_id: str, id: str) -> dict[str, int | None]:
        orders = {system: self._order(system, query_id) for system in self._material.runs}
        return {system: order.index(id) + 1 if id in order else None for system, order in orders.items()}


def _relevant_ids(judged: Mapping[str, int]) -> list[str]:
    return [id for id, grade in judged.items() if grade >= 1]


def _beginning(text: str) -> str:
    return shorten(text, _SHOWN_CHARACTERS, placeholder=" …")

"""What an evaluation found, and what a reader must know before quoting it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aveyb_ir.data import listed


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The value of each metric, and how it came about.

    Attributes:
        metrics: the mean of each metric over all `num_queries` judged queries.
        per_query: `{query_id: {metric: value}}` for the judged queries.
        num_queries: how many queries have judgements.
        unanswered: judged queries without a hit in the run; they count as 0.
        without_relevant: judged queries of which no document has a grade of 1 or more; they count as 0.
        own_documents_ignored: hits left out because their id is the id of the query itself.
        unjudged_queries: how many queries of the run have no judgements; they are not scored.
    """

    metrics: Mapping[str, float]
    per_query: Mapping[str, Mapping[str, float]]
    num_queries: int
    unanswered: tuple[str, ...] = ()
    without_relevant: tuple[str, ...] = ()
    own_documents_ignored: int = 0
    unjudged_queries: int = 0

    def to_json(self, *, per_query: bool = False) -> dict[str, Any]:
        """Everything as plain dictionaries, lists and numbers; the values of single queries only if asked for."""
        summary: dict[str, Any] = {
            "metrics": dict(self.metrics),
            "num_queries": self.num_queries,
            "unanswered": list(self.unanswered),
            "without_relevant": list(self.without_relevant),
            "own_documents_ignored": self.own_documents_ignored,
            "unjudged_queries": self.unjudged_queries,
        }
        if per_query:
            summary["per_query"] = {query_id: dict(values) for query_id, values in self.per_query.items()}
        return summary

    def notes(self) -> list[str]:
        """One line for a human on each thing that the numbers alone do not show; none if there is nothing."""
        notes = []
        if self.own_documents_ignored:
            notes.append(f"own document ignored: {self.own_documents_ignored} (hits with the id of their query)")
        if self.unanswered:
            notes.append(f"no hits, counted as 0: {len(self.unanswered)} queries ({listed(self.unanswered)})")
        if self.without_relevant:
            found = listed(self.without_relevant)
            notes.append(f"no relevant document, counted as 0: {len(self.without_relevant)} queries ({found})")
        if self.unjudged_queries:
            notes.append(f"not judged, not scored: {self.unjudged_queries} queries of the run")
        return notes

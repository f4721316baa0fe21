"""What an evaluation found, and what a reader must know before quoting it."""

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from aveyb_ir.data import OwnDocument, Run, listed
from aveyb_ir.evaluation.protocols import Protocol
from aveyb_ir.evaluation.report_file import read_report, write_report

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_CUTOFF = re.compile("@([0-9]+)$")


def check_label(what: str, label: str) -> None:
    """Raise ValueError for a label that would move the cursor of a terminal or break a line of a table."""
    if _CONTROL.search(label):
        raise ValueError(f"{what} {label!r} has a control character; expected text of one line; choose another")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The value of each metric, and how it came about.

    Attributes:
        name: label of the system.
        data: name of the collection.
        split: whose judgements were used.
        protocol: "full" or "paper"; see `aveyb_ir.evaluation.protocols`.
        metrics: the mean of each metric over all `num_queries` judged queries; with `parts`, over the parts.
        per_query: `{query_id: {metric: value}}` for the judged queries; with `parts`, ids are `part/query_id`.
        num_queries: how many queries have judgements.
        num_documents: how many documents were searched; None for a run from elsewhere.
        top_k: hits per query that were asked for; None for a run from elsewhere.
        own_document: the rule about the document with the query's own id, as it was asked for.
        own_documents_ignored: hits left out because their id is the id of the query itself.
        hits_outside_pool: hits of a run left out because `paper` knows only the judged documents.
        unanswered: judged queries without a hit; they count as 0.
        without_relevant: judged queries of which no document has a grade of 1 or more; they count as 0.
        unjudged_queries: how many queries of the run have no judgements; they are not scored.
        parts: `{part: {metric: mean}}` of a collection in parts, as CQADupStack is; empty for others.
        system: what gave the answers: of a model its name, fingerprint, precision and details, of BM25 its parameters,
            of an index its folder and specification; empty for a run from elsewhere.
        run: `{query_id: {document_id: score}}`, the hits that were scored; not part of the report.
    """

    name: str
    data: str
    split: str
    protocol: Protocol
    metrics: Mapping[str, float]
    per_query: Mapping[str, Mapping[str, float]]
    num_queries: int
    num_documents: int | None = None
    top_k: int | None = None
    own_document: OwnDocument = "auto"
    own_documents_ignored: int = 0
    hits_outside_pool: int = 0
    unanswered: tuple[str, ...] = ()
    without_relevant: tuple[str, ...] = ()
    unjudged_queries: int = 0
    parts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    system: Mapping[str, Any] = field(default_factory=dict)
    run: Run = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        for what in ("name", "data", "split"):
            check_label(what, getattr(self, what))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write all of it as JSON, the values of single queries included; `Evaluation.read` gives an equal one.

        Raises:
            DataError: the file cannot be written.
        """
        write_report(path, self.to_json(per_query=True))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "Evaluation":
        """Read and check what `write` wrote.

        Raises:
            DataError: the file is missing, no evaluation, of another format, or its means are not those of its queries.
        """
        return read_report(path, cls)

    def to_json(self, *, per_query: bool = False) -> dict[str, Any]:
        """Everything as plain dictionaries, lists and numbers; the values of single queries only if asked for."""
        summary = asdict(replace(self, run={}))
        values = summary.pop("per_query")
        del summary["run"]
        return {**summary, "per_query": values} if per_query else summary

    def notes(self) -> list[str]:
        """One line for a human on each thing that the numbers alone do not show; none if there is nothing."""
        notes = []
        if self.protocol == "paper":
            notes.append(
                "the paper's protocol: only judged documents are searched, grades count as yes or no, and the ideal "
                "ranking holds only what was retrieved (1 of 2 found, in place 3, gives 0.500; ndcg@10 gives 0.307)"
            )
        if deeper := [name for name in self.metrics if self.top_k is not None and _cutoff(name) > self.top_k]:
            notes.append(f"top_k is {self.top_k}, so {listed(deeper)} can find no more hits than that")
        if self.hits_outside_pool:
            notes.append(f"not judged for any query, dropped: {self.hits_outside_pool} hits")
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


def _cutoff(metric: str) -> int:
    found = _CUTOFF.search(metric)
    return int(found[1]) if found else 0

"""Judgements and a run in, numbers out."""

from collections.abc import Collection, Mapping, Sequence
from statistics import fmean

from aveyb_ir.data import OwnDocument, Qrels, Run, check_own_document, checked_qrels, checked_run
from aveyb_ir.errors import DataError
from aveyb_ir.evaluation.metrics import first_hits, parse_metric, score_queries
from aveyb_ir.evaluation.protocols import Protocol, metrics_of, pool_of
from aveyb_ir.evaluation.result import Evaluation


def evaluate_run(
    qrels: Mapping[str, Mapping[str, int]],
    run: Mapping[str, Mapping[str, float]],
    *,
    metrics: Sequence[str] | None = None,
    top_k: int | None = None,
    own_document: OwnDocument = "auto",
    protocol: Protocol = "full",
    name: str = "run",
    data: str = "",
    split: str = "",
) -> Evaluation:
    """Measure a run against judgements exactly as trec_eval does; neither argument is changed.

    Means are over all judged queries, so a query that was not answered, or that nothing answers, counts as 0, as in
    BEIR's published numbers. `parse_metric` says which metrics there are; those that are usual for the protocol are
    computed if none are named.

    Where queries are themselves documents, as in ArguAna, a query finds itself first. `own_document` says what becomes
    of a hit whose id is its query's id: `"ignore"` leaves it out, `"keep"` scores it, and `"auto"` leaves it out
    unless the judgements call some query's own id relevant, which shows that equal ids mean nothing there (Cranfield
    counts both its queries and its documents from 1).

    With `protocol="paper"` hits that no query's judgements name are dropped before anything is scored, which gives what
    a search of the judged documents alone would have given, as long as the run goes deep enough; see
    `aveyb_ir.evaluation.protocols`. `top_k` hits of what is then left of a query's are scored, by default all. `name`,
    `data` and `split` are labels of the result.

    Raises:
        ValueError: an unknown metric, protocol or `own_document`, no metric at all, or one of the other protocol; a
            `top_k` below 1, or a label with control characters.
        DataError: an id, grade or score cannot be evaluated, or no query is judged, or none of the run's.
    """
    check_own_document(own_document)
    check_top_k(top_k)
    parsed = [parse_metric(metric) for metric in metrics_of(protocol, metrics)]
    judgements = {query_id: judged for query_id, judged in checked_qrels(qrels).items() if judged}
    answers = checked_run(run)
    _check_overlap(judgements, answers)
    answered = {query_id: answers[query_id] for query_id in judgements if answers.get(query_id)}
    in_pool = _within(answered, pool_of(judgements)) if protocol == "paper" else answered
    leave_own = own_document == "ignore" or (own_document == "auto" and not _own_documents_answer(judgements))
    allowed = _without_own_documents(in_pool) if leave_own else in_pool
    scored = first_hits(allowed, top_k)
    per_query = score_queries(judgements, scored, parsed)
    return Evaluation(
        name=name,
        data=data,
        split=split,
        protocol=protocol,
        metrics={metric.name: fmean(values[metric.name] for values in per_query.values()) for metric in parsed},
        per_query=per_query,
        num_queries=len(judgements),
        top_k=top_k,
        own_document=own_document,
        own_documents_ignored=_num_hits(in_pool) - _num_hits(allowed),
        hits_outside_pool=_num_hits(answered) - _num_hits(in_pool),
        unanswered=tuple(query_id for query_id in judgements if query_id not in answered),
        without_relevant=tuple(query_id for query_id, judged in judgements.items() if max(judged.values()) < 1),
        unjudged_queries=sum(query_id not in judgements for query_id in answers),
        run=scored,
    )


def check_top_k(top_k: int | None) -> None:
    """Raise ValueError for a number of hits below 1."""
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k is {top_k}; expected at least 1; raise it")


def _check_overlap(judgements: Qrels, answers: Run) -> None:
    if not judgements:
        raise DataError("no query has a judgement; expected at least one; check the qrels file")
    if not any(query_id in judgements for query_id in answers):
        found = f"such as {next(iter(answers))!r}" if answers else "for it is empty"
        raise DataError(
            f"the run answers none of the {len(judgements)} judged queries, {found}; "
            f"expected ids such as {next(iter(judgements))!r}; check that run and qrels belong together"
        )


def _own_documents_answer(judgements: Qrels) -> bool:
    return any(judged.get(query_id, 0) >= 1 for query_id, judged in judgements.items())


def _without_own_documents(run: Run) -> Run:
    return {query_id: {id_: score for id_, score in hits.items() if id_ != query_id} for query_id, hits in run.items()}


def _within(run: Run, pool: Collection[str]) -> Run:
    return {query_id: {id_: hits[id_] for id_ in hits if id_ in pool} for query_id, hits in run.items()}


def _num_hits(run: Run) -> int:
    return sum(len(hits) for hits in run.values())

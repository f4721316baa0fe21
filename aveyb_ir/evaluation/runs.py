"""Judgements and a run in, numbers out."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Literal, TypeAlias, get_args

from aveyb_ir.data import Qrels, Run, checked_qrels, checked_run
from aveyb_ir.errors import DataError
from aveyb_ir.evaluation.metrics import parse_metric, score_queries
from aveyb_ir.evaluation.result import Evaluation

OwnDocument: TypeAlias = Literal["auto", "ignore", "keep"]

DEFAULT_METRICS = ("ndcg@10", "recall@100", "map", "mrr@10")


def evaluate_run(
    qrels: Mapping[str, Mapping[str, int]],
    run: Mapping[str, Mapping[str, float]],
    *,
    metrics: Sequence[str] = DEFAULT_METRICS,
    own_document: OwnDocument = "auto",
) -> Evaluation:
    """Measure a run against judgements exactly as trec_eval does; neither argument is changed.

    Means are over all judged queries, so a query that was not answered, or that nothing answers, counts as 0, as in
    BEIR's published numbers. `parse_metric` says which metrics there are.

    Where queries are themselves documents, as in ArguAna, a query finds itself first. `own_document` says what becomes
    of a hit whose id is its query's id: `"ignore"` leaves it out, `"keep"` scores it, and `"auto"` leaves it out
    unless the judgements call some query's own id relevant, which shows that equal ids mean nothing there (Cranfield
    counts both its queries and its documents from 1).

    Raises:
        ValueError: an unknown metric or `own_document`, or no metric at all.
        DataError: an id, grade or score cannot be evaluated, or no query is judged, or none of the run's.
    """
    if own_document not in get_args(OwnDocument):
        raise ValueError(f"own_document {own_document!r}; expected one of {', '.join(get_args(OwnDocument))}")
    if isinstance(metrics, str) or not metrics:
        raise ValueError(f"metrics {metrics!r}; expected a sequence of at least one name, such as ['ndcg@10']")
    parsed = [parse_metric(name) for name in metrics]
    judgements = {query_id: judged for query_id, judged in checked_qrels(qrels).items() if judged}
    answers = checked_run(run)
    _check_overlap(judgements, answers)
    scored = {query_id: answers[query_id] for query_id in judgements if answers.get(query_id)}
    if own_document == "ignore" or (own_document == "auto" and not _own_documents_answer(judgements)):
        scored_without_own = _without_own_documents(scored)
    else:
        scored_without_own = scored
    per_query = score_queries(judgements, scored_without_own, parsed)
    return Evaluation(
        metrics={metric.name: fmean(values[metric.name] for values in per_query.values()) for metric in parsed},
        per_query=per_query,
        num_queries=len(judgements),
        unanswered=tuple(query_id for query_id in judgements if query_id not in scored),
        without_relevant=tuple(query_id for query_id, judged in judgements.items() if max(judged.values()) < 1),
        own_documents_ignored=_num_hits(scored) - _num_hits(scored_without_own),
        unjudged_queries=sum(query_id not in judgements for query_id in answers),
    )


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


def _num_hits(run: Run) -> int:
    return sum(len(hits) for hits in run.values())

"""Retrieval metrics by name, every number computed by trec_eval through pytrec_eval."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import pytrec_eval

from aveyb_ir.data import Qrels, Run, trec_order

# Our names and trec_eval's, which are other ones when only the first k hits count.
_WHOLE_MEASURES = {"ndcg": "ndcg", "map": "map", "mrr": "recip_rank"}
_CUT_MEASURES = {"ndcg": "ndcg_cut", "map": "map_cut", "precision": "P", "recall": "recall", "success": "success"}
_NAME = re.compile(r"([a-z]+)(?:@([1-9][0-9]{0,8}))?")


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric as trec_eval knows it.

    `depth` is where the run is cut beforehand: only the reciprocal rank needs it, for which trec_eval has no cutoff.
    """

    name: str
    measure: str
    depth: int | None = None

    @property
    def result_key(self) -> str:
        """The name under which pytrec_eval returns the value."""
        return self.measure.replace(".", "_")


def parse_metric(name: str) -> Metric:
    """Understand a metric's name, such as `ndcg@10`, `recall@100`, `precision@5`, `success@1`, `map` or `mrr@10`.

    Raises:
        ValueError: there is no such metric; the message lists those there are.
    """
    if match := _NAME.fullmatch(name):
        base, cutoff = match.groups()
        if cutoff is None and base in _WHOLE_MEASURES:
            return Metric(name, _WHOLE_MEASURES[base])
        if cutoff and base == "mrr":
            return Metric(name, "recip_rank", depth=int(cutoff))
        if cutoff and base in _CUT_MEASURES:
            return Metric(name, f"{_CUT_MEASURES[base]}.{cutoff}")
    choices = sorted([*_WHOLE_MEASURES, "mrr@k", *(f"{base}@k" for base in _CUT_MEASURES)])
    raise ValueError(f"metric {name!r}; expected one of {', '.join(choices)} with k from 1; choose one")


def score_queries(qrels: Qrels, run: Run, metrics: Sequence[Metric]) -> dict[str, dict[str, float]]:
    """Score every query of `qrels` by every metric: `{query_id: {metric name: value}}`.

    Hits count in `trec_order`. The gain of NDCG is the grade itself, and none for grades of 0 or less; the other
    metrics take grades from 1 as relevant. A query without hits, or without a relevant document, scores 0.
    Both arguments must have been through `checked_qrels` and `checked_run`: pytrec_eval can crash on what those reject.
    """
    values: defaultdict[str, dict[str, float]] = defaultdict(dict)
    metrics_at: defaultdict[int | None, list[Metric]] = defaultdict(list)
    for metric in metrics:
        metrics_at[metric.depth].append(metric)
    for depth, group in metrics_at.items():
        evaluator = pytrec_eval.RelevanceEvaluator(qrels, {metric.measure for metric in group})
        for query_id, found in evaluator.evaluate(_cut(run, depth)).items():
            values[query_id].update((metric.name, found[metric.result_key]) for metric in group)
    return {query_id: {metric.name: values[query_id].get(metric.name, 0.0) for metric in metrics} for query_id in qrels}


def _cut(run: Run, depth: int | None) -> Run:
    if depth is None:
        return run
    return {query_id: {id_: hits[id_] for id_ in trec_order(hits)[:depth]} for query_id, hits in run.items()}

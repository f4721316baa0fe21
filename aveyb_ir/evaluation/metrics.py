"""Retrieval metrics by name, computed by trec_eval through pytrec_eval, and the one of Avey-B's paper."""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pytrec_eval

from aveyb_ir.data import Qrels, Run, trec_order

# Our names and trec_eval's, which are other ones when only the first k hits count.
_WHOLE_MEASURES = {"ndcg": "ndcg", "map": "map", "mrr": "recip_rank"}
_CUT_MEASURES = {"ndcg": "ndcg_cut", "map": "map_cut", "precision": "P", "recall": "recall", "success": "success"}
_PAPER = "paper-ndcg"
_NAME = re.compile(r"([a-z-]+)(?:@([1-9][0-9]{0,8}))?")


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric as trec_eval knows it, or the paper's.

    `depth` is where the run is cut beforehand: the reciprocal rank needs it, for which trec_eval has no cutoff, and the
    paper's metric.
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

    `paper-ndcg@10` is NDCG@10 as Avey-B's paper counts it; see `aveyb_ir.evaluation.protocols`.

    Raises:
        ValueError: there is no such metric; the message lists those there are.
    """
    if match := _NAME.fullmatch(name):
        base, cutoff = match.groups()
        if cutoff is None and base in _WHOLE_MEASURES:
            return Metric(name, _WHOLE_MEASURES[base])
        if cutoff and base == "mrr":
            return Metric(name, "recip_rank", depth=int(cutoff))
        if cutoff and base == _PAPER:
            return Metric(name, _PAPER, depth=int(cutoff))
        if cutoff and base in _CUT_MEASURES:
            return Metric(name, f"{_CUT_MEASURES[base]}.{cutoff}")
    choices = sorted([*_WHOLE_MEASURES, "mrr@k", f"{_PAPER}@k", *(f"{base}@k" for base in _CUT_MEASURES)])
    raise ValueError(f"metric {name!r}; expected one of {', '.join(choices)} with k from 1; choose one")


def score_queries(qrels: Qrels, run: Run, metrics: Sequence[Metric]) -> dict[str, dict[str, float]]:
    """Score every query of `qrels` by every metric: `{query_id: {metric name: value}}`.

    Hits count in `trec_order`. The gain of NDCG is the grade itself, and none for grades of 0 or less; the other
    metrics, the paper's among them, take grades from 1 as relevant. A query without hits, or without a relevant
    document, scores 0.
    Both arguments must have been through `checked_qrels` and `checked_run`: pytrec_eval can crash on what those reject.
    """
    values: defaultdict[str, dict[str, float]] = defaultdict(dict)
    metrics_at: defaultdict[int | None, list[Metric]] = defaultdict(list)
    for metric in metrics:
        metrics_at[metric.depth].append(metric)
    for depth, group in metrics_at.items():
        shown = first_hits(run, depth)
        trec, paper = ([metric for metric in group if (metric.measure == _PAPER) is own] for own in (False, True))
        if trec:
            evaluator = pytrec_eval.RelevanceEvaluator(qrels, {metric.measure for metric in trec})
            for query_id, found in evaluator.evaluate(shown).items():
                values[query_id].update((metric.name, found[metric.result_key]) for metric in trec)
        for metric in paper:
            for query_id, hits in shown.items():
                values[query_id][metric.name] = _paper_ndcg(qrels[query_id], hits)
    return {query_id: {metric.name: values[query_id].get(metric.name, 0.0) for metric in metrics} for query_id in qrels}


def first_hits(run: Run, depth: int | None) -> Run:
    """Cut a run to its first hits in `trec_order`; None keeps all."""
    if depth is None:
        return run
    return {query_id: {id_: hits[id_] for id_ in trec_order(hits)[:depth]} for query_id, hits in run.items()}


def _paper_ndcg(judged: Mapping[str, int], hits: Mapping[str, float]) -> float:
    """Discounted gains of the relevant hits over those of as many hits from the first place on."""
    ranks = [rank for rank, id_ in enumerate(trec_order(hits), start=1) if judged.get(id_, 0) >= 1]
    best = _discounted(range(1, len(ranks) + 1))
    return _discounted(ranks) / best if best else 0.0


def _discounted(ranks: Iterable[int]) -> float:
    return sum(1 / math.log2(rank + 1) for rank in ranks)

"""Means over collections: the parts of one that counts as a single line, and the sets of a table."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from aveyb_ir.evaluation.result import Evaluation


def average_of_parts(evaluations: Sequence[Evaluation]) -> Evaluation:
    """Make one evaluation of a system's on the parts of a collection, as BEIR counts CQADupStack's twelve forums.

    Its metrics are means over the parts, whatever their size. Parts are named `collection/part`; ids of queries become
    `part/query_id`.
    """
    first = evaluations[0]
    part_of = {evaluation.data.rpartition("/")[2]: evaluation for evaluation in evaluations}
    counts = [evaluation.num_documents for evaluation in evaluations]
    return replace(
        first,
        data=first.data.rpartition("/")[0],
        metrics=mean_of(evaluations),
        per_query={f"{part}/{id}": values for part, one in part_of.items() for id, values in one.per_query.items()},
        run={f"{part}/{id}": hits for part, one in part_of.items() for id, hits in one.run.items()},
        num_queries=sum(evaluation.num_queries for evaluation in evaluations),
        num_documents=sum(count for count in counts if count is not None),
        own_documents_ignored=sum(evaluation.own_documents_ignored for evaluation in evaluations),
        hits_outside_pool=sum(evaluation.hits_outside_pool for evaluation in evaluations),
        unjudged_queries=sum(evaluation.unjudged_queries for evaluation in evaluations),
        unanswered=tuple(f"{part}/{id}" for part, one in part_of.items() for id in one.unanswered),
        without_relevant=tuple(f"{part}/{id}" for part, one in part_of.items() for id in one.without_relevant),
        parts={part: dict(one.metrics) for part, one in part_of.items()},
    )


def mean_of(evaluations: Sequence[Evaluation]) -> dict[str, float]:
    """Give the mean of each metric over collections, each of the same weight.

    Raises:
        ValueError: there are none, or they differ in metrics or protocol, so that a mean would say nothing.
    """
    kinds = {(evaluation.protocol, tuple(evaluation.metrics)) for evaluation in evaluations}
    if len(kinds) != 1:
        found = "; ".join(f"{protocol}: {', '.join(metrics)}" for protocol, metrics in sorted(kinds)) or "none"
        raise ValueError(f"evaluations of {found}; expected one protocol and the same metrics; evaluate all alike")
    return {name: fmean(evaluation.metrics[name] for evaluation in evaluations) for name in evaluations[0].metrics}

"""Several rankings of the same documents made into one, by rank or by score."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Literal, TypeAlias, TypeVar, get_args

import numpy as np

from aveyb_ir.data import Run, checked_run, trec_order
from aveyb_ir.index import checked_top_k

Fusion: TypeAlias = Literal["rrf", "weighted"]

_K = TypeVar("_K", bound=Hashable)
RRF_K = 60
_LEAST_WEIGHT, _MOST_WEIGHT = 1e-6, 1e6  # scores are 32 bits wide; others would drown in them
_MOST_DEPTH = 2**32


def fuse(
    runs: Sequence[Mapping[str, Mapping[str, float]]],
    *,
    method: Fusion = "rrf",
    weights: Sequence[float] | None = None,
    depth: int = 1000,
    top_k: int | None = None,
    rrf_k: int = RRF_K,
) -> Run:
    """Fuse runs, for each query by what the runs found for it.

    A query that is not in every run is fused from those it is in. Of each run a query's first `depth` documents count,
    ranked as trec_eval ranks them; `fused` says what becomes of them.

    Args:
        runs: At least two.
        method: "rrf" or "weighted"; see `fused`.
        weights: One for each run, by default 1 for all.
        depth: Documents of each run that count, or all if there are fewer.
        top_k: Documents kept per query, at most `depth`, and that many by default.
        rrf_k: How little the first ranks count above later ones.

    Returns:
        A run with every query of any of them, in the order in which they are first met, hits best first.

    Raises:
        ValueError: Fewer than two runs, an unknown method, a weight that is no number from 0, none above 0 or not one
            for each run, or a depth or `top_k` that is no whole number from 1 or a depth below `top_k`.
        DataError: A score is no finite number.
    """
    if len(runs) < 2:
        raise ValueError(f"{len(runs)} runs to fuse; expected at least two; give more")
    weights = checked_weights(weights, len(runs))
    check_method(method)
    rrf_k = checked_count("rrf_k", rrf_k)
    top_k = min(checked_count("depth", depth) if top_k is None else checked_top_k(top_k), _MOST_DEPTH)
    depth = min(checked_depth(depth, top_k), _MOST_DEPTH)
    runs = [checked_run(run) for run in runs]
    queries = dict.fromkeys(query_id for run in runs for query_id in run)
    result: Run = {}
    for query_id in queries:
        rankings = [
            {id: run[query_id][id] for id in islice(trec_order(run[query_id]), depth)} if query_id in run else {}
            for run in runs
        ]
        scores = fused(rankings, method=method, weights=weights, rrf_k=rrf_k)
        result[query_id] = {id: scores[id] for id in islice(trec_order(scores), top_k)}
    return result


def fused(
    rankings: Sequence[Mapping[_K, float]], *, method: Fusion, weights: Sequence[float], rrf_k: int = RRF_K
) -> dict[_K, float]:
    """Score the documents of one query's rankings, each given best first; in no particular order.

    "rrf" is reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009): a document's score is the sum of
    weight / (rrf_k + rank) over the rankings it is in, ranks from 1. "weighted" is the weighted mean of a document's
    scores, each scaled within its ranking to 0 for the lowest and 1 for the highest; where all scores of a ranking are
    equal they become 1. By either, a ranking that a document is not in adds 0 to its score. Scores are rounded to 32
    bits, in which runs are compared.
    """
    total = sum(weights)
    scores: dict[_K, float] = {}
    for ranking, weight in zip(rankings, weights, strict=True):
        if method == "rrf":
            parts = {id: weight / (rrf_k + rank) for rank, id in enumerate(ranking, start=1)}
        else:
            parts = {id: weight / total * scaled for id, scaled in scaled(ranking).items()}
        for id, part in parts.items():
            scores[id] = scores.get(id, 0.0) + part
    return {id: float(np.float32(score)) for id, score in scores.items()}


def check_method(method: str) -> None:
    """Raise ValueError unless there is such a method of fusion."""
    if method not in get_args(Fusion):
        raise ValueError(f"fusion is {method!r}; expected one of {', '.join(get_args(Fusion))}; choose one")


def checked_weights(weights: Sequence[float] | None, num: int) -> list[float]:
    """One weight for each of `num` rankings. Raises ValueError for what cannot be."""
    weights = [1.0] * num if weights is None else list(weights) if isinstance(weights, Iterable) else [weights]
    if len(weights) != num or not all(map(_is_weight, weights)) or not any(weights):
        raise ValueError(
            f"weights are {weights}; expected {num} numbers, each 0 or from {_LEAST_WEIGHT} to {_MOST_WEIGHT}, "
            "one of them above 0; give one for each"
        )
    return [float(weight) for weight in weights]


def checked_depth(depth: int | None, top_k: int) -> int:
    """How many hits of each ranking count: `depth`, or where it is None 100, and never fewer than are wanted.

    Raises ValueError for what is not a whole number from `top_k`.
    """
    if depth is None:
        return max(100, top_k)
    depth = checked_count("depth", depth)
    if depth < top_k:
        raise ValueError(f"depth is {depth}, expected at least top_k, {top_k}: look deeper, or ask for fewer hits")
    return depth


def checked_count(name: str, value: object) -> int:
    """A whole number from 1. Raises ValueError that names it."""
    try:
        return checked_top_k(value)
    except ValueError:
        raise ValueError(f"{name} is {value!r}, expected a whole number from 1: give one") from None


def _is_weight(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating, np.integer)):
        return False
    return value == 0 or bool(_LEAST_WEIGHT <= value <= _MOST_WEIGHT)


def scaled(ranking: Mapping[_K, float]) -> dict[_K, float]:
    """Scores of one query as shares of the way from its lowest, 0, to its highest, 1; 1 where all are equal."""
    lowest, highest = min(ranking.values(), default=0.0), max(ranking.values(), default=0.0)
    width = highest - lowest
    return {id: (score - lowest) / width if width else 1.0 for id, score in ranking.items()}

"""Fusion as its formulas read, by hand and by a plain loop."""

import numpy as np
import pytest

from aveyb_ir.data import trec_order
from aveyb_ir.errors import DataError
from aveyb_ir.retrieval.fusion import checked_depth, fuse

DENSE = {"q": {"a": 0.9, "b": 0.7, "c": 0.5}, "only dense": {"a": 1.0}}
WORDS = {"q": {"b": 12.0, "d": 3.0}, "only words": {"d": 2.0, "a": 1.0}, "nothing": {}}


def test_reciprocal_ranks_are_summed():
    found = fuse([DENSE, WORDS])["q"]
    expected = {"b": 1 / 62 + 1 / 61, "a": 1 / 61, "d": 1 / 62, "c": 1 / 63}
    assert found == pytest.approx(expected, rel=1e-6)
    assert list(found) == ["b", "a", "d", "c"]
    weighted = fuse([DENSE, WORDS], weights=[1, 3], rrf_k=1)["q"]
    assert weighted == pytest.approx({"b": 1 / 3 + 3 / 2, "d": 3 / 3, "a": 1 / 2, "c": 1 / 4}, rel=1e-6)


def test_scores_are_scaled_within_a_query_and_averaged_by_weight():
    found = fuse([DENSE, WORDS], method="weighted", weights=[3, 1])
    assert found["q"] == pytest.approx({"a": 0.75, "b": 0.75 * 0.5 + 0.25, "c": 0, "d": 0}, abs=1e-6)
    assert found["only dense"] == {"a": 0.75}  # a ranking of equal scores counts whole, and not as if it were absent
    assert found["only words"] == {"d": 0.25, "a": 0.0}


def test_queries_of_any_run_are_kept_in_order():
    assert list(fuse([DENSE, WORDS])) == ["q", "only dense", "only words", "nothing"]
    assert fuse([DENSE, WORDS])["nothing"] == {}


def test_depth_counts_what_each_run_ranks_high_and_top_k_cuts_after():
    assert list(fuse([DENSE, WORDS], depth=3, top_k=1)["q"]) == ["b"]
    shallow = fuse([DENSE, WORDS], depth=1)["q"]
    assert shallow == {"b": pytest.approx(1 / 61)}, "no more than depth; of equal scores the one trec_eval has first"


@pytest.mark.parametrize("method", ["rrf", "weighted"])
@pytest.mark.parametrize("num_runs", [2, 3])
def test_a_plain_loop_agrees(method, num_runs):
    rng = np.random.default_rng(0)
    runs = [
        {
            f"q{q}": {f"d{d}": float(np.float32(rng.normal())) for d in rng.choice(40, 15, replace=False)}
            for q in range(8)
        }
        for _ in range(num_runs)
    ]
    weights = rng.uniform(0.1, 2, num_runs).tolist()
    found = fuse(runs, method=method, weights=weights, depth=10)
    for q, hits in found.items():
        expected = dict.fromkeys((d for run in runs for d in trec_order(run[q])[:10]), 0.0)
        for run, weight in zip(runs, weights, strict=True):
            top = trec_order(run[q])[:10]
            best, worst = run[q][top[0]], run[q][top[-1]]
            for rank, d in enumerate(top, start=1):
                share = weight / (60 + rank)
                scaled = weight * (run[q][d] - worst) / (best - worst) / sum(weights)
                expected[d] += share if method == "rrf" else scaled
        best_ten = sorted(expected.values(), reverse=True)[:10]
        assert list(hits.values()) == pytest.approx(best_ten, rel=1e-5, abs=1e-7)
        assert hits == pytest.approx({d: expected[d] for d in hits}, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "max"}, "fusion is 'max'; expected one of rrf, weighted"),
        ({"weights": [1]}, r"weights are \[1\]; expected 2 numbers"),
        ({"weights": [0, 0]}, "one of them above"),
        ({"weights": [1, -1]}, "expected 2 numbers, each 0 or from"),
        ({"weights": [1, float("nan")]}, "expected 2 numbers, each 0 or from"),
        ({"weights": [1e308, 1e308]}, "expected 2 numbers, each 0 or from"),
        ({"weights": [1e-300, 1]}, "expected 2 numbers, each 0 or from"),
        ({"weights": [10**400, 1]}, "expected 2 numbers, each 0 or from"),
        ({"weights": 3}, r"weights are \[3\]; expected 2 numbers"),
        ({"weights": [1, True]}, "expected 2 numbers, each 0 or from"),
        ({"depth": 0}, "depth is 0, expected a whole number from 1"),
        ({"depth": None}, "depth is None"),
        ({"depth": 2.5}, "depth is 2.5"),
        ({"top_k": True}, "top_k is True, expected a whole number from 1"),
        ({"depth": 3, "top_k": 4}, "depth is 3, expected at least top_k, 4"),
        ({"rrf_k": -1}, "rrf_k is -1"),
    ],
)
def test_impossible_arguments_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        fuse([DENSE, WORDS], **options)


def test_one_run_is_nothing_to_fuse_and_depth_has_a_default():
    with pytest.raises(ValueError, match="1 runs to fuse; expected at least two"):
        fuse([DENSE])
    assert [checked_depth(None, top_k) for top_k in (1, 100, 101)] == [100, 100, 101]


@pytest.mark.parametrize("score", [float("nan"), float("inf"), "1"])
def test_scores_of_the_runs_are_checked(score):
    with pytest.raises(DataError, match="query 'q'"):
        fuse([DENSE, {"q": {"a": score}}])


def test_any_depth_is_deep_enough():
    assert fuse([DENSE, WORDS], depth=10**30) == fuse([DENSE, WORDS])

"""The tests behind a comparison against independent counts, and what they do on data whose truth is known."""

import tracemalloc
from collections import Counter
from itertools import product

import numpy as np
import pytest

from aveyb_ir.evaluation.significance import EXACT_QUERIES, bootstrap_interval, holm, randomization_test


def counted(strata: list[list[int]], weights: list[float]) -> float:
    """The share of sign assignments that reach the observed statistic, one assignment after the other."""
    total = sum(weights)
    shares = [w / total * d / len(stratum) for stratum, w in zip(strata, weights, strict=True) for d in stratum]
    observed = abs(sum(shares))
    sums = [
        abs(sum(s * x for s, x in zip(signs, shares, strict=True))) for signs in product((1, -1), repeat=len(shares))
    ]
    return sum(value >= observed - 1e-9 for value in sums) / len(sums)


def convolved(differences: list[int]) -> float:
    """The same share for whole numbers, from the distribution of their signed sum."""
    sums = Counter({0: 1})
    for difference in differences:
        sums = sum((Counter({s + sign * difference: n for s, n in sums.items()}) for sign in (1, -1)), Counter())
    observed = abs(sum(differences))
    return sum(n for s, n in sums.items() if abs(s) >= observed) / sum(sums.values())


@pytest.mark.parametrize("seed", range(6))
def test_few_queries_are_counted_exactly(seed):
    random = np.random.default_rng(seed)
    sizes = [(9,), (1,), (4, 6), (2, 3, 5), (11,), (3, 7)][seed]
    strata = [random.integers(-3, 4, size=size).tolist() for size in sizes]
    weights = random.uniform(0.5, 2, size=len(sizes)).tolist()
    arrays = [np.array(stratum, dtype=np.float64)[:, None] for stratum in strata]
    (p,) = randomization_test(arrays, weights=weights)
    assert p == pytest.approx(counted(strata, weights), abs=1e-12)


def test_many_queries_are_sampled_closely():
    random = np.random.default_rng(0)
    differences = random.integers(-4, 6, size=(60, 5))
    found = randomization_test([differences.astype(np.float64)], permutations=100_000)
    for column, p in enumerate(found):
        true = convolved(differences[:, column].tolist())
        assert abs(p - true) < 4 * (true * (1 - true) / 100_000) ** 0.5 + 2e-5, (column, p, true)


def test_queries_without_a_difference_change_nothing():
    differences = np.array([0.3, -0.1, 0.25, 0.4, 0.2])[:, None]
    padded = np.concatenate([differences, np.zeros((500, 1))])
    assert len(padded) > EXACT_QUERIES
    assert randomization_test([padded]) == randomization_test([differences]) == counted([[30, -10, 25, 40, 20]], [1.0])
    assert randomization_test([np.zeros((40, 2))]).tolist() == [1.0, 1.0]


def test_comparisons_made_together_are_those_made_alone():
    columns = np.random.default_rng(1).normal(0.1, 1, size=(50, 3))
    columns[6:, 1] = 0  # this one is exact
    together = randomization_test([columns], permutations=5000)
    for column in range(3):
        assert together[column] == randomization_test([columns[:, [column]]], permutations=5000)


def test_a_p_value_is_never_zero_and_swapping_systems_keeps_it():
    differences = np.linspace(0.5, 1, 40)[:, None]
    assert randomization_test([differences], permutations=999) == 1 / 1000
    assert randomization_test([-differences], permutations=999) == 1 / 1000


def share_of_false_alarms_and_unevenness(shift: float) -> tuple[float, float]:
    """On 1,000 simulated data sets of 40 skewed, tied differences: p below 0.05, and the ECDF's largest deviation."""
    random = np.random.default_rng(5)
    gains = random.exponential(size=(40, 1000)) * random.choice([-1, 0, 1], p=[0.4, 0.2, 0.4], size=(40, 1000)) + shift
    p_values = np.sort(randomization_test([gains], permutations=4000, seed=6))
    return float(np.mean(p_values < 0.05)), float(np.max(np.abs(p_values - np.arange(1, 1001) / 1000)))


def test_p_values_are_uniform_where_nothing_differs():
    false_alarms, unevenness = share_of_false_alarms_and_unevenness(0.0)
    assert 0.03 < false_alarms < 0.07
    assert unevenness < 1.63 / 1000**0.5  # Kolmogorov-Smirnov at 1 %


def test_real_differences_are_found():
    """The negative control of uniformity, and the power of the test."""
    found, unevenness = share_of_false_alarms_and_unevenness(0.8)
    assert found > 0.95
    assert unevenness > 0.5


def test_the_interval_covers_the_truth_as_often_as_it_says():
    random = np.random.default_rng(2)
    strata = [random.normal(0.3, 1, size=(120, 300)), random.normal(-0.1, 2, size=(80, 300))]
    low, high = bootstrap_interval(strata, weights=[3, 1], resamples=1000).T
    covered = np.mean((low <= 0.2) & (high >= 0.2))  # 3/4 · 0.3 - 1/4 · 0.1
    assert 0.91 < covered < 0.98
    narrow_low, narrow_high = bootstrap_interval(strata, weights=[3, 1], resamples=1000, level=0.5).T
    assert 0.4 < np.mean((narrow_low <= 0.2) & (narrow_high >= 0.2)) < 0.6


def test_the_interval_of_equal_differences_is_a_point():
    assert bootstrap_interval([np.full((30, 1), 0.25)], resamples=50).tolist() == [[0.25, 0.25]]


def test_a_seed_repeats_and_another_differs():
    columns = np.random.default_rng(3).normal(size=(60, 1))
    for function in (randomization_test, bootstrap_interval):
        assert np.array_equal(function([columns], seed=4), function([columns], seed=4))
        assert not np.array_equal(function([columns], seed=4), function([columns], seed=5))


def test_memory_stays_bounded():
    columns = np.random.default_rng(4).normal(size=(7000, 2))
    tracemalloc.start()
    randomization_test([columns], permutations=4000)
    bootstrap_interval([columns], resamples=2000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 150e6  # all signs at once would be 224 MB, all draws 112 MB and their counts as much again


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.5]) == [1.0, 1.0]
    assert holm([0.04]) == [0.04]
    assert holm([]) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"strata": []}, "at least one"),
        ({"strata": [np.zeros((0, 2))]}, "(0, 2)"),
        ({"strata": [np.zeros((3, 2)), np.zeros((3, 1))]}, "(3, 1)"),
        ({"strata": [np.zeros(3)]}, "(queries, comparisons)"),
        ({"strata": [np.zeros((3, 1))], "weights": [1, 2]}, "for 1 strata"),
        ({"strata": [np.zeros((3, 1))], "weights": [0]}, "positive"),
    ],
)
def test_impossible_arguments_are_refused(arguments, said):
    for function in (randomization_test, bootstrap_interval):
        with pytest.raises(ValueError, match=r"expected") as error:
            function(**arguments)
        assert said in str(error.value)


def test_impossible_counts_are_refused():
    with pytest.raises(ValueError, match="permutations is 0"):
        randomization_test([np.zeros((3, 1))], permutations=0)
    with pytest.raises(ValueError, match="resamples is 0"):
        bootstrap_interval([np.zeros((3, 1))], resamples=0)
    with pytest.raises(ValueError, match=r"level 95"):
        bootstrap_interval([np.zeros((3, 1))], level=95)

"""The best of a stream, whatever its order."""

import numpy as np
import pytest

from aveyb_ir.retrieval.best_hits import BestHits

ODD = [0.0, -0.0, 1.0, -1.0, 1e-45, -1e-45, 3.4e38, -3.4e38, 0.1, -0.1]


@pytest.mark.parametrize("top_k", [1, 7, 400])
@pytest.mark.parametrize("portion", [1, 13, 400])
def test_equals_sorting_all(top_k, portion):
    rng = np.random.default_rng(0)
    scores = rng.choice(np.array(ODD, dtype=np.float32), (4, 400))
    best = BestHits(4, top_k)
    for start in range(0, 400, portion):
        rows, columns = np.nonzero(np.ones((4, len(scores[0, start : start + portion])), dtype=bool))
        best.add(rows, columns + start, scores[rows, columns + start])
    for row in range(4):
        order = np.lexsort((np.arange(400), -scores[row]))[:top_k]
        positions, found = best.of(row)
        np.testing.assert_array_equal(positions, order)
        np.testing.assert_array_equal(found, scores[row][order])
        assert best.least[row] == (scores[row][order[-1]] if top_k <= 400 else -np.inf)


def test_the_order_of_arrival_does_not_matter():
    """Hits of one score that come last still go before later documents."""
    best = BestHits(1, 2)
    for position in (9, 4, 2**32 - 2, 5):
        best.add(np.array([0]), np.array([position]), np.array([0.5], dtype=np.float32))
    assert best.of(0)[0].tolist() == [4, 5]


def test_queries_may_have_few_hits_or_none():
    best = BestHits(3, 2)
    best.add(np.array([0, 2, 2, 2]), np.array([1, 1, 2, 3]), np.array([-5, 1, 3, 2], dtype=np.float32))
    assert [best.of(row)[0].tolist() for row in range(3)] == [[1], [], [2, 3]]
    assert best.least.tolist() == [-np.inf, -np.inf, 2]

"""The most that reranking can reach."""

import pytest

from aveyb_ir.evaluation import evaluate_run, reranking_ceiling, reranking_quality

QRELS = {"q1": {"a": 2, "b": 1, "z": 1}, "q2": {"c": 1, "d": 0}, "q3": {"e": 1}}
RUN = {"q1": {"x": 5.0, "b": 4.0, "a": 3.0, "z": 2.0}, "q2": {"d": 2.0, "c": 1.0}}


def test_the_ceiling_is_the_best_order_of_the_candidates():
    ceiling = reranking_ceiling(QRELS, RUN, depth=3)
    best = {"q1": {"a": 3, "b": 2, "x": 1}, "q2": {"c": 2, "d": 1}}
    assert ceiling.ndcg == evaluate_run(QRELS, best, metrics=["ndcg@10"]).metrics["ndcg@10"]
    assert ceiling.recall == pytest.approx((2 / 3 + 1 + 0) / 3)
    assert ceiling.ndcg < reranking_ceiling(QRELS, RUN, depth=4).ndcg  # z comes in
    assert str(ceiling) == f"at best {ceiling.ndcg:.4f} with these candidates (recall@3 0.5556)"


def test_no_order_of_the_candidates_is_better():
    ceiling = reranking_ceiling(QRELS, RUN, depth=2)
    for first in (1.0, -1.0):
        after = {"q1": {"x": first, "b": 0.0}, "q2": {"d": first, "c": 0.0}}
        quality = reranking_quality(QRELS, RUN, after, depth=2)
        assert quality.after <= quality.ceiling.ndcg
        assert quality.ceiling == ceiling
        assert quality.before == evaluate_run(QRELS, RUN, metrics=["ndcg@10"]).metrics["ndcg@10"]
    assert quality.after == ceiling.ndcg  # the second order is the best one
    assert "over 3 queries (1 without documents, counted as 0); at best" in str(quality)


def test_a_query_s_own_document_is_no_candidate():
    qrels, run = {"q": {"a": 1, "b": 1}}, {"q": {"q": 3.0, "a": 2.0}}
    assert reranking_ceiling(qrels, run, depth=2).recall == 0.5
    assert reranking_ceiling(qrels, run, depth=2).ndcg == pytest.approx(1 / 1.6309, abs=1e-4)

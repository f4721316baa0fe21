"""Every number against an independent implementation, on random runs full of ties."""

import random
from collections.abc import Callable

import numpy as np
import pytest
import pytrec_eval

from aveyb_ir.data import Qrels, Run
from aveyb_ir.evaluation import evaluate_run


def random_judgements_and_run(seed: int) -> tuple[Qrels, Run]:
    """Few distinct scores, so that most hits are tied, some only to 32 bits; all kinds of grades; odd ids."""
    source = random.Random(seed)
    documents = [f"{source.choice('aZé9-')}{number}" for number in range(60)]
    qrels = {
        f"q{query}": {id_: source.choice([-2, 0, 0, 1, 2, 3]) for id_ in source.sample(documents, 12)}
        for query in range(15)
    }
    run = {
        f"q{query}": {
            id_: source.choice([-1.5, 0.0, 2.0, 2.0 + 1e-12, 1e-30, 1e30]) for id_ in source.sample(documents, 40)
        }
        for query in range(12)
    }
    return qrels, run


def gains(judged: dict[str, int], hits: dict[str, float]) -> list[int]:
    """Grades in rank order: score as a 32-bit float, then id by its UTF-8 bytes, both descending."""
    ranking = sorted(hits, key=lambda id_: (np.float32(hits[id_]), id_.encode()), reverse=True)
    return [max(judged.get(id_, 0), 0) for id_ in ranking]


def ndcg(gained: list[int], ideal: list[int], k: int) -> float:
    discounts = 1 / np.log2(np.arange(2, k + 2))
    best = float(np.dot(ideal[:k], discounts[: len(ideal[:k])]))
    return float(np.dot(gained[:k], discounts[: len(gained[:k])])) / best if best else 0.0


def average_precision(gained: list[int], ideal: list[int], k: int) -> float:
    relevant = np.asarray(gained[:k]) > 0
    precisions = np.cumsum(relevant) / np.arange(1, len(relevant) + 1)
    return float(np.sum(precisions * relevant) / len(ideal)) if ideal else 0.0


def reciprocal_rank(gained: list[int], ideal: list[int], k: int) -> float:
    return next((1 / rank for rank, gain in enumerate(gained[:k], start=1) if gain > 0), 0.0)


def precision(gained: list[int], ideal: list[int], k: int) -> float:
    return float(np.count_nonzero(gained[:k])) / k


def recall(gained: list[int], ideal: list[int], k: int) -> float:
    return float(np.count_nonzero(gained[:k])) / len(ideal) if ideal else 0.0


def success(gained: list[int], ideal: list[int], k: int) -> float:
    return float(any(gained[:k]))


ORACLES: dict[str, Callable[[list[int], list[int], int], float]] = {
    "ndcg": ndcg,
    "map": average_precision,
    "mrr": reciprocal_rank,
    "precision": precision,
    "recall": recall,
    "success": success,
}


@pytest.mark.parametrize("seed", range(5))
def test_all_metrics_agree_with_numpy(seed: int) -> None:
    qrels, run = random_judgements_and_run(seed)
    names = [f"{base}@{k}" for base in ORACLES for k in (1, 3, 10, 100)]
    evaluation = evaluate_run(qrels, run, metrics=[*names, "ndcg", "map", "mrr"])
    for query_id, judged in qrels.items():
        gained = gains(judged, run.get(query_id, {}))
        ideal = sorted((grade for grade in judged.values() if grade > 0), reverse=True)
        for name, value in evaluation.per_query[query_id].items():
            base, _, k = name.partition("@")
            assert value == pytest.approx(ORACLES[base](gained, ideal, int(k or 100)), abs=1e-12), (query_id, name)
    assert list(evaluation.metrics) == [*names, "ndcg", "map", "mrr"]
    for name, mean in evaluation.metrics.items():
        assert mean == pytest.approx(np.mean([values[name] for values in evaluation.per_query.values()]))


def test_the_values_are_those_of_pytrec_eval() -> None:
    qrels, run = random_judgements_and_run(7)
    evaluation = evaluate_run(qrels, run, metrics=["ndcg@10", "recall@20", "map", "mrr"])
    found = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10", "recall.20", "map", "recip_rank"}).evaluate(run)
    for query_id in run:
        assert list(evaluation.per_query[query_id].values()) == [
            found[query_id][key] for key in ("ndcg_cut_10", "recall_20", "map", "recip_rank")
        ]


def test_the_order_of_tied_hits_matters() -> None:
    """The negative control: with ties broken the other way the oracle no longer agrees."""
    assert evaluate_run({"q": {"a": 1}}, {"q": {"a": 1.0, "z": 1.0}}).metrics["mrr@10"] == 0.5
    assert evaluate_run({"q": {"z": 1}}, {"q": {"a": 1.0, "z": 1.0}}).metrics["mrr@10"] == 1.0


@pytest.mark.parametrize(("rank", "value"), [(1, 1.0), (10, 0.1), (11, 0.0)])
def test_the_reciprocal_rank_is_cut_where_it_says(rank: int, value: float) -> None:
    hits = {f"d{number}": -float(number) for number in range(1, 21)}
    evaluation = evaluate_run({"q": {f"d{rank}": 1}}, {"q": hits}, metrics=["mrr@10", "mrr"])
    assert evaluation.metrics["mrr@10"] == value
    assert evaluation.metrics["mrr"] == 1 / rank


def paper_ndcg(judged: dict[str, int], hits: dict[str, float], pool: set[str], k: int) -> float:
    """From its definition: binary gains of the first k of the pool, over the same gains sorted."""
    gained = [int(gain >= 1) for gain in gains(judged, {id_: hits[id_] for id_ in hits if id_ in pool})][:k]
    return ndcg(gained, sorted(gained, reverse=True), k)


@pytest.mark.parametrize("seed", range(5))
def test_the_papers_metric_agrees_with_numpy(seed: int) -> None:
    qrels, run = random_judgements_and_run(seed)
    for hits in run.values():
        hits["in no judgement"] = 1e31
    pool = {id_ for judged in qrels.values() for id_ in judged}
    names = [f"paper-ndcg@{k}" for k in (1, 3, 10, 100)]
    evaluation = evaluate_run(qrels, run, metrics=names, protocol="paper")
    for query_id, judged in qrels.items():
        for k, value in zip((1, 3, 10, 100), evaluation.per_query[query_id].values(), strict=True):
            assert value == pytest.approx(paper_ndcg(judged, run.get(query_id, {}), pool, k), abs=1e-12)
    dropped = sum(id_ not in pool for hits in run.values() for id_ in hits)
    assert evaluation.hits_outside_pool == dropped >= 12
    assert evaluation.protocol == "paper"


def test_the_worked_example_of_the_two_protocols() -> None:
    """Two relevant documents, one found in place 3: 0.307 and 0.500, as the documentation says."""
    qrels, run = {"q": {"found": 2, "missed": 1, "x": 0, "y": 0}}, {"q": {"x": 3.0, "y": 2.0, "found": 1.0}}
    graded = {"q": {**qrels["q"], "found": 1}}
    full = evaluate_run(graded, run, metrics=["ndcg@10"])
    paper = evaluate_run(qrels, run, protocol="paper")
    assert full.metrics == pytest.approx({"ndcg@10": 0.307}, abs=5e-4)
    assert paper.metrics == pytest.approx({"paper-ndcg@10": 0.5})
    assert "1 of 2 found, in place 3, gives 0.500; ndcg@10 gives 0.307" in paper.notes()[0]

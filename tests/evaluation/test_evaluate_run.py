"""What counts in an evaluation, what does not, and what is reported about it."""

import copy
import json
from pathlib import Path

import pytest

from aveyb_ir.data import read_qrels, read_run
from aveyb_ir.errors import DataError
from aveyb_ir.evaluation import evaluate_run

CASES = Path(__file__).parent / "cases"
ARGUANA = read_qrels(CASES / "own-document" / "qrels.tsv"), read_run(CASES / "own-document" / "run.json")
GRADED = read_qrels(CASES / "zero-negative-graded" / "qrels.tsv"), read_run(CASES / "zero-negative-graded" / "run.json")


def ndcg(*arguments: object, **options: object) -> dict[str, float]:
    evaluation = evaluate_run(*arguments, metrics=["ndcg@10"], **options)  # type: ignore[arg-type]
    return {query_id: round(values["ndcg@10"], 5) for query_id, values in evaluation.per_query.items()}


def test_only_the_own_document_of_each_query_is_ignored() -> None:
    assert ndcg(*ARGUANA) == {"arg-1": 0.63093, "arg-2": 1.0}
    evaluation = evaluate_run(*ARGUANA)
    assert evaluation.metrics["ndcg@10"] == pytest.approx(0.81546, abs=5e-6)
    assert evaluation.own_documents_ignored == 2
    assert evaluation.notes() == ["own document ignored: 2 (hits with the id of their query)"]


def test_keeping_the_own_document_gives_another_number() -> None:
    assert ndcg(*ARGUANA, own_document="keep") == {"arg-1": 0.5, "arg-2": 0.63093}
    assert evaluate_run(*ARGUANA, own_document="keep").own_documents_ignored == 0


def test_equal_ids_mean_nothing_where_one_is_judged_relevant() -> None:
    qrels = {"1": {"184": 1}, "2": {"2": 1}}
    run = {"1": {"1": 2.0, "184": 1.0}, "2": {"1": 2.0, "2": 1.0}}
    assert ndcg(qrels, run) == {"1": 0.63093, "2": 0.63093}
    assert ndcg(qrels, run, own_document="ignore") == {"1": 1.0, "2": 0.0}
    qrels["2"]["2"] = 0
    assert evaluate_run(qrels, run).own_documents_ignored == 2


def test_the_gain_is_the_grade_and_grades_below_one_gain_nothing() -> None:
    assert ndcg(*GRADED) == {"q1": 0.63093, "q2": 0.79671, "q3": 0.0, "q4": 0.0}
    evaluation = evaluate_run(*GRADED)
    assert evaluation.metrics["ndcg@10"] == pytest.approx(0.35691, abs=5e-6)
    assert evaluation.without_relevant == ("q3", "q4")
    assert evaluation.notes() == ["no relevant document, counted as 0: 2 queries (q3, q4)"]


def test_unanswered_queries_count_as_zero_and_unjudged_ones_not_at_all() -> None:
    qrels = {"a": {"d": 1}, "b": {"d": 1}, "c": {"d": 1}, "d": {}}
    run = {"a": {"d": 1.0}, "c": {}, "x": {"d": 1.0}}
    evaluation = evaluate_run(qrels, run)
    assert evaluation.metrics == pytest.approx(dict.fromkeys(evaluation.metrics, 1 / 3))
    assert evaluation.num_queries == 3
    assert evaluation.unanswered == ("b", "c")
    assert evaluation.unjudged_queries == 1
    assert evaluation.notes() == [
        "no hits, counted as 0: 2 queries (b, c)",
        "not judged, not scored: 1 queries of the run",
    ]


def test_a_query_left_with_only_its_own_document_scores_zero() -> None:
    evaluation = evaluate_run({"a": {"d": 1}}, {"a": {"a": 1.0}})
    assert evaluation.metrics["ndcg@10"] == 0.0
    assert evaluation.unanswered == ()


def test_arguments_are_not_changed() -> None:
    before = copy.deepcopy(ARGUANA)
    evaluate_run(*ARGUANA)
    assert before == ARGUANA


def test_json_holds_single_queries_only_if_asked_for() -> None:
    evaluation = evaluate_run(*ARGUANA, metrics=["mrr@10", "recall@100"])
    summary = json.loads(json.dumps(evaluation.to_json()))
    assert summary["metrics"] == {"mrr@10": 0.75, "recall@100": 1.0}
    assert summary["num_queries"] == 2
    assert summary["own_documents_ignored"] == 2
    assert "per_query" not in summary
    assert evaluation.to_json(per_query=True)["per_query"]["arg-1"] == {"mrr@10": 0.5, "recall@100": 1.0}


@pytest.mark.parametrize(
    ("qrels", "run", "problem"),
    [
        ({}, {"q": {"d": 1.0}}, "no query has a judgement"),
        ({"q": {}}, {"q": {"d": 1.0}}, "no query has a judgement"),
        ({"q": {"d": 1}}, {}, "answers none of the 1 judged queries, for it is empty"),
        ({"q": {"d": 1}}, {"1": {"d": 1.0}}, "answers none of the 1 judged queries, such as '1'; expected ids .* 'q'"),
        ({"q": {"d": 1}}, {"q": {"d": float("nan")}}, "query 'q', document 'd': score nan"),
        ({"q": {"d": 1}}, {"q": {"d": 1e39}}, r"query 'q', document 'd': score 1e\+39"),
        ({"q": {"d": 1}}, {"q": {7: 1.0}}, "query 'q', document 7: id 7 is int"),
        ({"q": {"d": 1}}, {"q": {"\ud83d": 1.0}}, "lone surrogate"),
        ({"q": {"d\0": 1}}, {"q": {"d": 1.0}}, "a NUL"),
        ({"q": {"d": 1.5}}, {"q": {"d": 1.0}}, "query 'q', document 'd': grade 1.5"),
        ({"q": {"d": 10**10}}, {"q": {"d": 1.0}}, "query 'q', document 'd': grade 10000000000"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(
    qrels: dict[str, dict[str, int]], run: dict[str, dict[str, float]], problem: str
) -> None:
    with pytest.raises(DataError, match=problem):
        evaluate_run(qrels, run)


@pytest.mark.parametrize("name", ["ndcg@0", "ndcg@-1", "NDCG@10", "ndcg10", "precision", "recall", "f1@3", ""])
def test_an_unknown_metric_lists_the_known_ones(name: str) -> None:
    with pytest.raises(ValueError, match="map@k, mrr, mrr@k, ndcg, ndcg@k, paper-ndcg@k, precision@k, recall@k"):
        evaluate_run(*ARGUANA, metrics=[name])


def test_bad_options_are_refused() -> None:
    with pytest.raises(ValueError, match="expected one of auto, ignore, keep"):
        evaluate_run(*ARGUANA, own_document="drop")  # type: ignore[arg-type]
    for metrics in ("ndcg@10", []):
        with pytest.raises(ValueError, match="sequence of at least one name"):
            evaluate_run(*ARGUANA, metrics=metrics)


def test_top_k_cuts_what_is_left_of_a_run():
    qrels = {"q": {"a": 1, "b": 1}}
    run = {"q": {"q": 9.0, "c": 8.0, "a": 7.0, "b": 6.0}}
    for top_k, recall in ((1, 0.0), (2, 0.5), (3, 1.0), (None, 1.0)):
        found = evaluate_run(qrels, run, metrics=["recall@100"], top_k=top_k)
        assert found.metrics == {"recall@100": recall}
        assert (found.top_k, found.own_documents_ignored, len(found.run["q"])) == (top_k, 1, top_k or 3)
        assert any("recall@100 can find no more hits" in note for note in found.notes()) is (top_k is not None)
    with pytest.raises(ValueError, match="top_k is 0"):
        evaluate_run(qrels, run, top_k=0)


@pytest.mark.parametrize("label", ["a\nb", "\x1b[2J", "\u2028", "\x9b"])
def test_labels_do_not_reach_for_the_terminal(label):
    with pytest.raises(ValueError, match=r"name .* has a control character; expected text of one line; choose another"):
        evaluate_run({"q": {"a": 1}}, {"q": {"a": 1.0}}, name=label)

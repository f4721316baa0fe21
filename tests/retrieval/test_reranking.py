"""What becomes of a run whose candidates were scored again."""

import numpy as np
import pytest

from aveyb_ir.data import trec_order
from aveyb_ir.encoding import EncodingCounts
from aveyb_ir.errors import DataError, ModelError
from aveyb_ir.retrieval import rerank, reranking

RUN = {"q1": {"a": 9.0, "b": 8.0, "c": 7.0, "d": 6.0, "e": 5.0}, "q2": {"x": 0.5, "a": 0.25}}
QUERIES = {"q1": "first", "q2": "second", "q3": "not in the run"}


class Table:
    """Looks scores up by query and text, and remembers what it was asked."""

    name = "table"
    max_length = None

    def __init__(self, scores):
        self.table = scores
        self.counts = EncodingCounts()
        self.asked = []

    def scores(self, queries, documents, *, progress=None, log_cuts=True):
        self.asked.append(list(zip(queries, map(list, documents), strict=True)))
        if progress is not None:
            progress(sum(map(len, documents)))
        return [
            np.array([self.table[query][text] for text in texts], dtype=np.float32) for query, texts in self.asked[-1]
        ]


def text_of(ids):
    return [f"text {id}" for id in ids]


def table(q1, q2=None):
    q2 = q2 or {"x": 1, "a": 2}
    return Table(
        {
            "first": {f"text {id}": score for id, score in q1.items()},
            "second": {f"text {id}": score for id, score in q2.items()},
        }
    )


def test_scores_are_the_rerankers_and_order_is_by_them():
    found = rerank(QUERIES, RUN, text_of, table({"a": -1, "b": 5, "c": 2, "d": 4, "e": 3}))
    assert found == {"q1": {"b": 5, "d": 4, "e": 3, "c": 2, "a": -1}, "q2": {"a": 2, "x": 1}}
    assert [list(hits) for hits in found.values()] == [["b", "d", "e", "c", "a"], ["a", "x"]]


def test_documents_beyond_the_depth_follow_in_their_order():
    reranker = table({"a": -7, "b": -5})
    found = rerank(QUERIES, RUN, text_of, reranker, depth=2)
    assert found["q1"] == {"b": -5, "a": -7, "c": -8, "d": -9, "e": -10}
    assert reranker.asked == [[("first", ["text a", "text b"]), ("second", ["text x", "text a"])]]


@pytest.mark.parametrize("score", [0.0, 3e7, -3e7, 1e30])
def test_the_rest_stays_below_and_apart_whatever_the_scores(score):
    hits = {f"{number:04}": float(-number) for number in range(1500)}
    found = rerank({"q": ""}, {"q": hits}, list, Table({"": dict.fromkeys(hits, score)}), depth=2)["q"]
    assert trec_order(found)[2:] == list(hits)[2:]
    assert set(trec_order(found)[:2]) == {"0000", "0001"}


def test_depth_follows_the_order_in_which_a_run_counts():
    reranker = Table({"": {"c": 1, "b": 2}})
    found = rerank({"q": ""}, {"q": {"a": 1.0, "b": 1.0, "c": 1.0}}, list, reranker, depth=2)
    assert found == {"q": {"b": 2, "c": 1, "a": 0}}


def test_top_k_cuts_the_result_and_not_the_candidates():
    found = rerank(QUERIES, RUN, text_of, table({"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}), top_k=2)
    assert found == {"q1": {"e": 5, "d": 4}, "q2": {"a": 2, "x": 1}}
    assert len(rerank(QUERIES, RUN, text_of, table({"a": 1, "b": 2}), depth=2, top_k=99)["q1"]) == 5


def test_blended_scores_are_scaled_within_the_query():
    found = rerank(QUERIES, RUN, text_of, table({"a": 10, "b": 20, "c": 30}), depth=3, weight=0.25)
    assert found["q1"] == pytest.approx({"a": 0.75, "b": 0.5, "c": 0.25, "d": -0.75, "e": -1.75})
    assert found["q2"] == pytest.approx({"x": 0.75, "a": 0.25})
    unscaled = rerank(QUERIES, RUN, text_of, table({"a": 10, "b": 20, "c": 30}), depth=3)
    assert unscaled["q1"]["a"] == 10


def test_weight_zero_keeps_the_order_and_equal_scores_say_nothing():
    old = rerank(QUERIES, RUN, text_of, table({"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}), weight=0)
    assert [trec_order(old[id]) for id in RUN] == [trec_order(RUN[id]) for id in RUN]
    equal = rerank(QUERIES, RUN, text_of, table(dict.fromkeys("abcde", 7)), weight=0.9)
    assert trec_order(equal["q1"]) == list("abcde")


def test_nothing_is_lost_and_the_run_is_left_alone():
    before = {id: dict(hits) for id, hits in RUN.items()}
    found = rerank(QUERIES, {**RUN, "q3": {}}, text_of, table({"a": 1}, {"x": 1}), depth=1)
    assert before == RUN
    assert {id: set(hits) for id, hits in found.items()} == {"q1": set("abcde"), "q2": {"x", "a"}, "q3": set()}


def test_many_queries_are_scored_in_blocks(monkeypatch):
    whole = rerank(QUERIES, RUN, text_of, table({"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}))
    monkeypatch.setattr(reranking, "_BLOCK_CHARACTERS", 1)
    reranker, told = table({"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}), []
    assert rerank(QUERIES, RUN, text_of, reranker, progress=told.append) == whole
    assert [len(block) for block in reranker.asked] == [1, 1]
    assert told == [5, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": 0}, "depth is 0; expected a whole number of documents from 1"),
        ({"depth": None}, "depth is None"),
        ({"depth": True}, "depth is True"),
        ({"depth": 2.0}, "depth is 2.0"),
        ({"top_k": -1}, "top_k is -1"),
        ({"weight": 1.5}, "weight is 1.5; expected the reranker's share of the score, from 0 to 1"),
        ({"weight": float("nan")}, "weight is nan"),
        ({"weight": True}, "weight is True"),
    ],
)
def test_impossible_arguments_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        rerank(QUERIES, RUN, text_of, table({}), **options)


def test_a_query_without_text_and_a_score_without_value_are_named():
    with pytest.raises(DataError, match="queries without a text: q2; expected a text for each of its 2 queries"):
        rerank({"q1": "first"}, RUN, text_of, table({}))
    with pytest.raises(ModelError, match="table scored document 'x' for query 'q2' NaN or infinity"):
        rerank(QUERIES, {"q2": RUN["q2"]}, text_of, table({}, {"x": float("nan"), "a": 1}))

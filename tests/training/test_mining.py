"""Negatives mined with vectors and scores that are set by hand."""

import json
import logging
import math
from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder

from aveyb_ir import Encoder
from aveyb_ir.data import Document, Query, TrainingRow, read_training_rows, write_beir_folder
from aveyb_ir.errors import DataError, ModelError
from aveyb_ir.training import mine
from aveyb_ir.training.pairs import TrainingSet


class Table(Encoder):
    """Gives each text the vector whose cosine with every query is set by hand; queries lie on the first axis."""

    name = "table"
    dimension = 2
    max_length = None

    def __init__(self, cosines):
        self.model = SimpleNamespace(dtype=torch.float32, device=torch.device("cpu"))
        self._cosines = cosines

    @property
    def details(self):
        return {"weights": "by hand"}

    def encode(self, texts, kind, **_):
        if kind == "query":
            return np.array([[1, 0]] * len(texts), dtype=np.float32)
        cosines = np.array([self._cosines[text] for text in texts])
        return np.stack([cosines, np.sqrt(1 - cosines**2)], axis=1).astype(np.float32)


class Judge(CrossEncoder):
    """Scores documents by hand, whatever the query, and counts how many it was asked about."""

    num_labels = 1
    config = SimpleNamespace(_name_or_path="by hand")

    def __init__(self, scores):
        self.__dict__.update(scores=scores, asked=0)

    def state_dict(self):
        return {}

    def predict(self, pairs, **options):
        assert isinstance(options["activation_fn"], torch.nn.Identity)
        self.__dict__["asked"] += len(pairs)
        return np.array([self.scores[document] for _, document in pairs])


COSINES = {
    "red": 0.9,
    "RED": 0.85,
    "orange": 0.8,
    "which colour": 0.75,
    "pink": 0.7,
    "Pink": 0.65,
    "brown": 0.6,
    "green": 0.4,
    "blue": 0.2,
}
IDS = {text: f"d{number}" for number, text in enumerate(COSINES)}


def write_colours(folder, qrels, queries=("which colour",)):
    documents = [Document(id, text) for text, id in IDS.items()]
    write_beir_folder(folder, documents, [Query(f"q{i}", text) for i, text in enumerate(queries)], {"train": qrels})
    return folder


@pytest.fixture
def colours(tmp_path):
    """One query with the positive "red", which has a copy, and the query and "pink" twice among the documents."""
    return write_colours(tmp_path / "colours", {"q0": {IDS["red"]: 1, IDS["blue"]: 0}})


@pytest.fixture
def mined(colours, tmp_path):
    """Mine from the colours; the row, or the rows, of the file."""

    def run(data=colours, model=None, **options):
        options = {"num_negatives": 3, "depth": 9, "overwrite": True, **options}
        mine(model or Table(COSINES), data, tmp_path / "mined.jsonl", **options)
        rows = [json.loads(line) for line in (tmp_path / "mined.jsonl").read_text(encoding="utf-8").splitlines()]
        return rows[0] if len(rows) == 1 else rows

    return run


def test_the_best_ranked_that_are_no_answers_are_negatives(mined):
    assert mined() == {
        "query": "which colour",
        "pos": ["red"],
        "neg": ["orange", "pink", "brown"],
        "pos_scores": [0.9],
        "neg_scores": [0.8, 0.7, 0.6],
    }


def test_what_was_left_out_is_counted(colours, tmp_path):
    result = mine(Table(COSINES), colours, tmp_path / "mined.jsonl", num_negatives=9)
    assert result.dropped == {
        "positive": 1,
        "copy of a positive": 1,
        "the query itself": 1,
        "copy of another negative": 1,
    }
    assert (result.num_negatives, result.short) == (5, {5: 1})


def test_a_document_is_a_negative_where_nothing_says_that_it_answers(mined, tmp_path):
    """The control: what is left out above is left out for the judgements alone."""
    other = write_colours(tmp_path / "other", {"q0": {IDS["blue"]: 1}}, queries=["another question"])
    assert mined(other, num_negatives=5)["neg"] == ["red", "orange", "which colour", "pink", "brown"]


def test_equal_queries_share_their_answers(mined, tmp_path):
    qrels = {"q0": {IDS["red"]: 1}, "q1": {IDS["orange"]: 1}, "q2": {IDS["brown"]: 1}}
    data = write_colours(tmp_path / "data", qrels, queries=["which colour", "Which  colour", "something else"])
    first, second, third = mined(data, num_negatives=2)
    assert first["neg"] == second["neg"] == ["pink", "brown"]
    assert third["neg"] == ["red", "orange"]


def test_the_title_is_part_of_a_text_but_not_needed_to_know_the_query_again(mined, tmp_path):
    documents = [Document("a", "red", "title"), Document("b", "red"), Document("c", "which colour", "title")]
    write_beir_folder(tmp_path / "data", documents, [Query("q", "which colour")], {"train": {"q": {"a": 1}}})
    cosines = {"title red": 0.5, "red": 0.6, "title which colour": 0.9}
    assert mined(tmp_path / "data", Table(cosines))["neg"] == ["red"]


@pytest.mark.parametrize(
    ("rule", "negatives"),
    [
        ({}, ["orange", "pink", "brown", "green", "blue"]),
        ({"absolute_margin": 0.099}, ["orange", "pink", "brown", "green", "blue"]),
        ({"absolute_margin": 0.101}, ["pink", "brown", "green", "blue"]),
        ({"relative_margin": 0.2}, ["pink", "brown", "green", "blue"]),  # 0.72 at most
        ({"relative_margin": 0.2, "absolute_margin": 0.25}, ["brown", "green", "blue"]),
        ({"max_score": 0.69, "min_score": 0.3}, ["brown", "green"]),
        ({"skip_top": 2}, ["brown", "green", "blue"]),
        ({"skip_top": 2, "absolute_margin": 0.4}, ["green", "blue"]),
    ],
)
def test_rules_of_scores_and_ranks(mined, rule, negatives):
    assert mined(num_negatives=5, **rule)["neg"] == negatives


def test_a_share_of_a_negative_score_lowers_it(mined, tmp_path):
    documents = [Document(str(i), f"text {i}") for i in range(4)]
    write_beir_folder(tmp_path / "data", documents, [Query("q", "query")], {"train": {"q": {"0": 1}}})
    cosines = {"text 0": -0.5, "text 1": -0.52, "text 2": -0.54, "text 3": -0.6}
    assert mined(tmp_path / "data", Table(cosines), relative_margin=0.05)["neg"] == ["text 2", "text 3"]


def test_margins_are_measured_from_the_worst_positive(mined, tmp_path):
    data = write_colours(tmp_path / "data", {"q0": {IDS["red"]: 1, IDS["brown"]: 2}})
    row = mined(data, absolute_margin=0.0)
    assert row["neg"] == ["green", "blue"]
    assert row["pos_scores"] == [0.9, 0.6]


def test_a_row_keeps_the_few_that_are_left_and_a_warning_says_so(mined, tmp_path, caplog):
    data = write_colours(
        tmp_path / "data", {"q0": {IDS["red"]: 1}, "q1": {IDS["blue"]: 1}}, queries=["which colour", "else"]
    )
    with caplog.at_level(logging.WARNING):
        first, second = mined(data, absolute_margin=0.15)
    assert (len(first["neg"]), second["neg"]) == (3, [])
    assert "1 of 2 queries have fewer than 3 negatives (1 have 0)" in caplog.text
    assert "margin" in caplog.text
    rows = read_training_rows(tmp_path / "mined.jsonl")
    assert [len(row.negatives) for row in rows] == [3, 0]


def test_not_one_negative_is_an_error_and_nothing_is_written(colours, tmp_path):
    with pytest.raises(DataError, match=r"got no negative for any of 1 queries.*margin 5"):
        mine(Table(COSINES), colours, tmp_path / "mined.jsonl", absolute_margin=2.0)
    assert not list(tmp_path.glob("mined*"))


def test_a_sample_depends_on_the_seed_and_the_query_alone(mined, tmp_path):
    texts = [f"text {i}" for i in range(60)]
    documents = [Document(f"d{i}", text) for i, text in enumerate(texts)]
    queries = [Query(f"q{i}", f"query {i}") for i in range(6)]
    for name, few in (("all", queries), ("some", queries[3:])):
        write_beir_folder(tmp_path / name, documents, few, {"train": {query.id: {"d0": 1} for query in few}})
    cosines = {text: 0.9 - i / 100 for i, text in enumerate(texts)}
    options = {"model": Table(cosines), "strategy": "sample", "depth": 41, "num_negatives": 10}
    rows = mined(tmp_path / "all", **options)
    assert rows[3:] == mined(tmp_path / "some", **options)
    assert rows != mined(tmp_path / "all", **options, seed=1)
    drawn = defaultdict(int)
    for row in rows:
        assert row["neg_scores"] == sorted(row["neg_scores"], reverse=True)
        for text in row["neg"]:
            drawn[text] += 1
    assert set(drawn) <= set(texts[1:41])
    assert len(drawn) > 20


def test_rows_are_searched_among_their_own_texts(mined, tmp_path):
    rows = [
        TrainingRow("which colour", ("red",), ("green",)),
        TrainingRow("which colour", ("orange",)),
        TrainingRow("else", ("pink", "brown")),
    ]
    first, second = mined(rows, absolute_margin=0.1, num_negatives=4)
    assert first == {
        "query": "which colour",
        "pos": ["red", "orange"],
        "neg": ["pink", "brown", "green"],
        "pos_scores": [0.9, 0.8],
        "neg_scores": [0.7, 0.6, 0.4],
    }
    assert second["neg"] == ["green"]
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"query": "which colour", "pos": ["red"], "neg": ["green"]}) + "\n", encoding="utf-8")
    assert mined(path)["neg"] == ["green"]


def test_rows_are_searched_in_a_corpus_that_need_not_hold_their_texts(mined, colours):
    cosines = COSINES | {"crimson": 0.72}
    row = mined([TrainingRow("which colour", ("crimson",))], Table(cosines), corpus=colours, absolute_margin=0.0)
    assert row["pos_scores"] == [0.72]
    assert row["neg"] == ["pink", "brown", "green"]


def test_bm25_alone_ranks_by_words_and_gives_no_scores(mined, tmp_path):
    texts = ["a red house", "the red red door", "a red red red sea", "a blue sky"]
    documents = [Document(f"d{i}", text) for i, text in enumerate(texts)]
    write_beir_folder(tmp_path / "data", documents, [Query("q", "red")], {"train": {"q": {"d0": 1}}})
    assert mined(tmp_path / "data", "bm25") == {"query": "red", "pos": [texts[0]], "neg": [texts[2], texts[1]]}
    with pytest.raises(ValueError, match="cross_encoder"):
        mined(tmp_path / "data", "bm25", relative_margin=0.05)


def test_hits_of_the_model_and_of_bm25_take_turns_and_are_scored_by_the_model(mined, tmp_path):
    cosines = {f"text {i}": 0.9 - i / 10 for i in range(6)} | {"a rare word": -0.3, "no more than a rare word": -0.4}
    documents = [Document(text, text) for text in cosines]
    write_beir_folder(tmp_path / "data", documents, [Query("q", "rare word?")], {"train": {"q": {"text 0": 1}}})
    options = {"model": Table(cosines), "depth": 5, "num_negatives": 4}
    both = mined(tmp_path / "data", bm25=True, **options)
    assert both["neg"] == ["a rare word", "text 1", "no more than a rare word", "text 2"]
    assert both["neg_scores"] == [-0.3, 0.8, -0.4, 0.7]
    assert mined(tmp_path / "data", **options)["neg"] == ["text 1", "text 2", "text 3", "text 4"]


def test_a_cross_encoder_judges_and_its_scores_are_written(mined):
    judge = Judge({"red": 3.0, "orange": 3.5, "pink": 3.0, "brown": -7.0, "green": 9.0, "blue": -8.0})
    row = mined(cross_encoder=judge)
    assert row["neg"] == ["pink", "brown", "blue"]
    assert (row["pos_scores"], row["neg_scores"]) == ([3.0], [3.0, -7.0, -8.0])
    assert mined(cross_encoder=judge, absolute_margin=1.0)["neg"] == ["brown", "blue"]


def test_a_cross_encoder_is_asked_only_until_there_are_enough(mined):
    scores = {text: -score for text, score in COSINES.items()} | {"red": 0.0}
    judge = Judge(scores)
    assert mined(cross_encoder=judge, num_negatives=2)["neg"] == ["orange", "pink"]
    assert judge.asked == 3  # the positive and two negatives
    judge = Judge(scores | {"orange": 1.0})
    assert mined(cross_encoder=judge, num_negatives=2)["neg"] == ["pink", "brown"]
    assert judge.asked == 5


def test_a_score_that_is_no_number_is_an_error(mined):
    with pytest.raises(ModelError, match="'which colour' with 'pink' NaN"):
        mined(cross_encoder=Judge(COSINES | {"pink": math.nan}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_negatives": 0}, "num_negatives 0"),
        ({"skip_top": -1}, "skip_top -1"),
        ({"depth": 4, "skip_top": 2}, "depth 4; expected at least skip_top and num_negatives together, 5"),
        ({"absolute_margin": -0.1}, "absolute_margin -0.1"),
        ({"relative_margin": math.nan}, "relative_margin nan"),
        ({"min_score": 0.5, "max_score": 0.4}, "min_score 0.5 and max_score 0.4"),
        ({"max_score": math.nan}, "max_score nan"),
        ({"strategy": "best"}, "strategy 'best'; expected one of top, sample"),
        ({"corpus": "corpus.jsonl"}, "a collection has its own"),
        ({"model": "bm25", "vectors": "folder"}, "vectors 'folder'"),
    ],
)
def test_impossible_arguments_are_refused(mined, options, message):
    with pytest.raises(ValueError, match=message):
        mined(**options)


def test_the_file_trains(mined, tmp_path, caplog):
    mined()
    rows = read_training_rows(tmp_path / "mined.jsonl")
    assert rows == [TrainingRow("which colour", ("red",), ("orange", "pink", "brown"), 1, (0.9,), (0.8, 0.7, 0.6))]
    assert TrainingSet.from_rows(rows).num_negatives == 3
    assert not caplog.records

"""Training rows: fields by name, all bad rows at once, no false negatives."""

import json
import logging
from pathlib import Path

import pytest

from aveyb_ir.data import TrainingRow, read_training_rows
from aveyb_ir.errors import DataError

CASES = Path(__file__).parent / "cases" / "training-rows"


def write_rows(path: Path, *records: object) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def test_a_single_text_is_a_list_of_one_not_of_letters() -> None:
    row = TrainingRow("colour of a lemon", ("A lemon is yellow.",), ("Iron is a metal.",), line=1)
    assert read_training_rows(CASES / "pos_is_text.jsonl") == [row]


def test_fields_go_by_name_not_by_place() -> None:
    assert [row.anchor for row in read_training_rows(CASES / "swapped_keys.jsonl")] == [
        "colour of a lemon",
        "what is iron",
    ]


def test_rows_may_have_any_number_of_negatives() -> None:
    rows = read_training_rows(CASES / "mixed_negatives.jsonl")
    assert [row.negatives for row in rows] == [(), ("e",), ("h", "i", "j"), ()]


@pytest.mark.parametrize("anchor", ["anchor", "query", "question", "sentence1"])
@pytest.mark.parametrize("positive", ["positive", "positives", "pos", "answer", "answers", "passage", "sentence2"])
@pytest.mark.parametrize("negative", ["negative", "negatives", "neg"])
def test_every_documented_name_is_accepted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, anchor: str, positive: str, negative: str
) -> None:
    file = write_rows(tmp_path / "x.jsonl", {negative: ["n"], positive: ["p", "r", "p"], anchor: "a"})
    assert read_training_rows(file) == [TrainingRow("a", ("p", "r"), ("n",), line=1)]
    assert caplog.text == ""


def test_numbered_negatives_are_taken_in_numeric_order(tmp_path: Path) -> None:
    record = {"query": "a", "positive": "p", "negative_10": "ten", "negative_2": "two", "negative_1": None}
    assert read_training_rows(write_rows(tmp_path / "x.jsonl", record))[0].negatives == ("two", "ten")


def test_fields_that_are_not_used_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    read_training_rows(write_rows(tmp_path / "x.jsonl", {"query": "a", "positive": "p", "negatvies": ["n"], "id": 1}))
    assert "fields not used: id, negatvies" in caplog.text


def test_all_bad_rows_are_reported_at_once(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(DataError, match=r"bad_rows\.jsonl has 4 unusable rows") as caught:
        read_training_rows(CASES / "bad_rows.jsonl")
    message = str(caught.value)
    assert [f"line {line}:" in message for line in range(1, 7)] == [False, False, True, True, True, True]
    assert "\n" not in message
    assert "left out rows with an empty anchor, lines 2" in caplog.text


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"q": "a", "p": "b"}, "no anchor among fields q, p, expected one of anchor, query, question, sentence1"),
        ({"anchor": "a", "query": "b", "positive": "p"}, "anchor and query both give the anchor"),
        ({"anchor": ["a"], "positive": "p"}, r"anchor is \['a'\], expected a text"),
        ({"anchor": "a", "positive": []}, r"positive is \[\]"),
        ({"anchor": "a", "positive": None}, "positive is null"),
        ({"anchor": "a", "positive": " "}, "positive holds ' ', expected a text that is not empty"),
        ({"anchor": "a", "positive": ["p", None]}, "positive holds null"),
        ({"anchor": "a", "positive": "p", "negative": {"bm25": ["n"]}}, "negative is {'bm25'"),
        ({"anchor": "a", "positive": "p", "negative_1": ""}, "negative_1 holds ''"),
    ],
)
def test_each_kind_of_bad_row_is_explained(tmp_path: Path, record: object, problem: str) -> None:
    with pytest.raises(DataError, match=f"line 2: {problem}"):
        read_training_rows(write_rows(tmp_path / "x.jsonl", {"anchor": "a", "positive": "p"}, record))


def test_a_file_full_of_bad_rows_still_gives_a_message_of_one_screen(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has 1000 unusable rows.* and 950 more"):
        read_training_rows(write_rows(tmp_path / "x.jsonl", *[{"anchor": "a"}] * 1000))


def test_rows_with_an_empty_anchor_are_left_out_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [{"anchor": "a", "positive": "p"}, {"anchor": " ", "positive": "p"}]
    assert [row.line for row in read_training_rows(write_rows(tmp_path / "x.jsonl", *rows))] == [1]
    assert "left out rows with an empty anchor, lines 2" in caplog.text


def test_a_file_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no_pairs\.jsonl holds no training row"):
        read_training_rows(CASES / "no_pairs.jsonl")
    with pytest.raises(DataError, match="holds no training row"):
        read_training_rows(write_rows(tmp_path / "x.jsonl", {"anchor": "", "positive": "p"}))


def test_a_negative_that_is_a_positive_of_its_row_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        rows = read_training_rows(CASES / "negative_is_positive.jsonl")
    assert [row.negatives for row in rows] == [(), ("A lemon is a yellow fruit.",)]
    assert "dropped negatives that are positives of their anchor, lines 1" in caplog.text


def test_a_negative_that_is_a_positive_of_the_same_anchor_elsewhere_is_dropped(tmp_path: Path) -> None:
    rows = read_training_rows(
        write_rows(
            tmp_path / "x.jsonl",
            {"anchor": "a", "positive": "p", "negative": ["r", "P", "n"]},
            {"anchor": "a", "positive": "r"},
            {"anchor": "b", "positive": "s", "negative": ["p", "r"]},
        )
    )
    assert [row.negatives for row in rows] == [("P", "n"), (), ("p", "r")]

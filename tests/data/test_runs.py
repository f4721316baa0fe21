"""Run files: both forms, exact scores, and one order of hits."""

import logging
import random
from pathlib import Path

import numpy as np
import pytest

from aveyb_ir.data import Run, checked_run, read_run, trec_order, write_run
from aveyb_ir.errors import DataError


def random_run(seed: int) -> Run:
    source = random.Random(seed)
    return {
        f"q{query}": {f"d{source.randrange(10_000)}": source.gauss(0, 10.0 ** source.randint(-8, 8)) for _ in range(50)}
        for query in range(20)
    }


@pytest.mark.parametrize("name", ["run.trec", "run.json", "run.trec.gz", "run.json.gz"])
def test_scores_read_back_identically(tmp_path: Path, name: str) -> None:
    run = random_run(0)
    write_run(tmp_path / name, run)
    assert read_run(tmp_path / name) == run


def test_trec_lines_come_ranked_with_ties_by_id_from_the_end_of_the_alphabet(tmp_path: Path) -> None:
    write_run(tmp_path / "run", {"q": {"a": 1.0, "c": 1.0, "b": 2.0, "é": 1.0}}, tag="mine")
    assert (tmp_path / "run").read_bytes().decode().splitlines() == [
        "q Q0 b 1 2.0 mine",
        "q Q0 é 2 1.0 mine",
        "q Q0 c 3 1.0 mine",
        "q Q0 a 4 1.0 mine",
    ]


def test_scores_closer_than_32_bits_are_ties() -> None:
    assert trec_order({"a": 1.0 + 1e-12, "z": 1.0}) == ["z", "a"]
    assert trec_order({"a": 1.0 + 1e-6, "z": 1.0}) == ["a", "z"]
    assert trec_order({}) == []


def test_ids_with_whitespace_need_json(tmp_path: Path) -> None:
    run = {"q 1": {"d\t1": 0.5, "\u00a0": 0.25}}
    with pytest.raises(DataError, match=r"id 'q 1' holds whitespace.*\.json"):
        write_run(tmp_path / "run.trec", run)
    assert list(tmp_path.iterdir()) == []
    write_run(tmp_path / "run.json", run)
    assert read_run(tmp_path / "run.json") == run


def test_a_repeated_document_counts_once_with_its_best_score(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "run").write_bytes(b"q Q0 a 1 0.5 t\r\nq Q0 a 2 0.75 t\r\nq Q0 b 3 0.25 t\r\nq Q0 b 4 0.125 t\r\n")
    with caplog.at_level(logging.WARNING):
        assert read_run(tmp_path / "run") == {"q": {"a": 0.75, "b": 0.25}}
    assert "2 lines repeat a document of their query, the first is line 2" in caplog.text


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("run", "q Q0 a 1 0.5\n", "run line 1: 5 columns"),
        ("run", "q Q0 a 1 0.5 t\nq Q0 b 2 high t\n", "run line 2: could not convert"),
        ("run", "q Q0 a 1 nan t\n", "run line 1: score nan"),
        ("run", '{"q": {"a": 1}}', r"run line 1: 3 columns.*\*\.json"),
        ("run.json", '{"q": {"a": NaN}}', r"run\.json: query 'q', document 'a': score nan"),
        ("run.json", '{"q": {"a": -Infinity}}', r"run\.json: query 'q', document 'a': score -inf"),
        ("run.json", '{"q": {"a": "1"}}', r"run\.json: query 'q', document 'a': score '1' is str"),
        ("run.json", '{"q": ["a"]}', r"run\.json: query 'q' has \['a'\]"),
        ("run.json", '{"q": {"": 1}}', r"run\.json: query 'q', document '': an id is empty"),
        ("run.json", "[]", r"run\.json: a JSON list"),
        ("run.json", '{"q": {"a": 1}, "q": {"b": 2}}', r"run\.json: key 'q' comes twice in one object; expected"),
        ("run.json", '{"q": {"a": 1, "a": 2}}', r"run\.json: key 'a' comes twice"),
    ],
)
def test_files_that_are_no_runs_are_refused(tmp_path: Path, name: str, content: str, problem: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=problem):
        read_run(tmp_path / name)


@pytest.mark.parametrize("score", [float("nan"), float("inf"), 1e39, 10**400, "1", None, True])
def test_scores_no_ranking_can_use_are_refused_with_query_and_document(score: float, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="query 'q7', document 'd7'"):
        checked_run({"q7": {"d7": score}})
    with pytest.raises(DataError, match="query 'q7', document 'd7'"):
        write_run(tmp_path / "run", {"q7": {"d7": score}})


def test_numpy_scores_become_plain_floats_in_a_copy() -> None:
    run = {"q": {"d": np.float32(0.1)}}
    checked = checked_run(run)  # type: ignore[arg-type]
    assert type(checked["q"]["d"]) is float
    assert checked == run
    assert type(run["q"]["d"]) is np.float32


@pytest.mark.parametrize("tag", ["", "two words", " padded"])
def test_a_tag_is_one_word(tmp_path: Path, tag: str) -> None:
    with pytest.raises(ValueError, match="expected one word"):
        write_run(tmp_path / "run", {"q": {"d": 1.0}}, tag=tag)

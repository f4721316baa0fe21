"""Judgements in every layout that is about, and errors that name the line."""

from pathlib import Path

import numpy as np
import pytest

from aveyb_ir.data import BeirFolder, checked_qrels, read_qrels, write_qrels
from aveyb_ir.errors import DataError

CASES = Path(__file__).parent / "cases"
FOLDER = BeirFolder(CASES / "qrels-without-header")


def test_without_a_header_the_first_line_counts() -> None:
    assert FOLDER.qrels("test") == {"q1": {"d1": 1}, "q2": {"d2": 1}, "q3": {"d3": 1}}


def test_windows_line_ends_and_blank_lines_do_not_matter() -> None:
    assert FOLDER.qrels("dev") == {"q1": {"d1": 1}, "q2": {"d2": 1}}


def test_trec_columns_are_understood(tmp_path: Path) -> None:
    assert FOLDER.qrels("train") == {"q1": {"d1": 1}, "q2": {"d2": 2}}
    (tmp_path / "qrels.txt").write_text("1 0  d1 1\n1 Q0 d2 -1\n", encoding="utf-8")
    assert read_qrels(tmp_path / "qrels.txt") == {"1": {"d1": 1, "d2": -1}}


def test_a_grade_that_is_no_whole_number_is_never_rounded(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"floats\.tsv line 3: grade '0\.5'"):
        FOLDER.qrels("floats")
    (tmp_path / "whole.tsv").write_text("q\td\t1.0\n", encoding="utf-8")
    assert read_qrels(tmp_path / "whole.tsv") == {"q": {"d": 1}}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("q1\td1\t1\nq1\td2\n", "line 2: 2 columns"),
        ("q1\td1\tx\n", "line 1: grade 'x'"),
        ("q1\td1\t1\nquery-id\tcorpus-id\tscore\n", "line 2: grade 'score'"),
        ("q1\td1\tnan\n", "line 1: grade 'nan'"),
        ("q1\td1\t10000000000\n", "line 1: grade '10000000000'"),
        ("q1\t\t1\n", "line 1: an id is empty"),
        ("q1\td1\t1\n\nq1\td1\t2\n", "line 3: q1 d1 has grade 2 after 1"),
        ("query-id\tcorpus-id\tscore\n", "holds no judgement"),
        ("", "holds no judgement"),
    ],
)
def test_lines_that_are_no_judgements_are_refused(tmp_path: Path, content: str, problem: str) -> None:
    file = tmp_path / "x.tsv"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=rf"x\.tsv {problem}"):
        read_qrels(file)


def test_any_id_and_grade_survives_writing_and_reading(tmp_path: Path) -> None:
    qrels = {"q 1": {'"d"': 1, "d\t2": 0, "é\u2028": -1}, "score": {"#": 999_999}, '"': {"'": 1}}
    write_qrels(tmp_path / "x.tsv", qrels)
    assert read_qrels(tmp_path / "x.tsv") == qrels


def test_grades_are_checked_in_memory_as_in_files() -> None:
    checked = checked_qrels({"q": {"d": np.int64(2)}})  # type: ignore[dict-item]
    assert checked == {"q": {"d": 2}}
    assert type(checked["q"]["d"]) is int
    for grade in (0.5, 1.0, "1", 1_000_000, None):
        with pytest.raises(DataError, match="query 'q', document 'd': grade"):
            checked_qrels({"q": {"d": grade}})  # type: ignore[dict-item]
    with pytest.raises(DataError, match="id 3 is int"):
        checked_qrels({"q": {3: 1}})  # type: ignore[dict-item]

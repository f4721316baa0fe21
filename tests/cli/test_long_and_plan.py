"""`aveyb-ir long` and `aveyb-ir plan`."""

import json

import pytest

from aveyb_ir.data import Document, Query, write_beir_folder


@pytest.fixture
def beir(tmp_path):
    documents = [Document(f"d{i}", f"Number {i} of the texts. It tells about ships and snow. " * 3) for i in range(12)]
    queries = [Query(f"q{i}", f"number {i}") for i in range(4)]
    write_beir_folder(tmp_path / "set", documents, queries, {"test": {f"q{i}": {f"d{i}": 1} for i in range(4)}})
    return tmp_path / "set"


def test_a_needle_test_prints_a_table_and_writes_its_files(run, beir, avey_dir, tmp_path):
    options = ("--lengths", "60,90", "--depths", "0,100", "--needles", 2, "--distractors", 1, "--corpus", beir)
    code, out, err = run("long", "needle", avey_dir, *options, "--output", tmp_path / "out")
    assert code == 0, err
    assert "| 100 % |" in out
    assert "10 documents" in err  # before it starts
    assert {path.name for path in (tmp_path / "out").iterdir()} == {f"needle.{k}" for k in ("json", "csv", "md", "png")}


def test_first_tokens_as_json(run, beir, avey_dir):
    code, out, err = run("long", "first-tokens", avey_dir, "--data", beir, "--limits", "8,whole", "--json")
    assert code == 0, err
    assert [(row["view"], row["limit"]) for row in json.loads(out)] == [
        ("document", 8),
        ("document", None),
        ("chunk", 8),
        ("chunk", None),
    ]


def test_a_plan_for_people_and_for_programs(run, beir, avey_dir):
    arguments = ("plan", "--model", avey_dir, "--corpus", beir, "--max-length", 20, "--max-seconds", 1)
    code, out, _ = run(*arguments)
    assert code == 0
    fields = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert fields["documents"].startswith("12, all tokenized; the longest has")
    assert fields["cut"] == "12 documents (at 20 tokens)"
    found = json.loads(run(*arguments, "--json")[1])
    assert found["tokens_used"] == {"value": 240, "low": 240, "high": 240}


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan",),
        ("plan", "--model", "m"),
        ("plan", "--model", "m", "--corpus", "c", "--recipe", "r"),
        ("plan", "--model", "m", "--corpus", "c", "--set", "a.b=1"),
        ("long", "needle"),
        ("long", "needle", "m", "--lengths", "x"),
        ("long", "first-tokens", "m"),
    ],
)
def test_wrong_usage_is_exit_code_2(run, arguments):
    assert run(*arguments)[0] == 2


def test_mistyped_paths_are_one_line(run, avey_dir, tmp_path):
    for arguments in (
        ("plan", "--model", avey_dir, "--corpus", tmp_path / "nowhere"),
        ("plan", "--recipe", tmp_path / "nowhere"),
        ("long", "needle", avey_dir, "--corpus", tmp_path / "nowhere"),
        ("long", "first-tokens", avey_dir, "--data", tmp_path / "nowhere"),
    ):
        code, out, err = run(*arguments)
        assert (code, out) == (1, "")
        assert "nowhere" in err.splitlines()[-1]


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("--lengths", "inf", "'inf', expected whole numbers from 1"),
        ("--lengths", "1000,-5", "'-5', expected whole numbers from 1"),
        ("--depths", "nan", "'nan', expected numbers from 0 to 100"),
        ("--depths", "0,101", "'101', expected numbers from 0 to 100"),
    ],
)
def test_numbers_that_are_none_are_wrong_usage(run, option, value, expected):
    code, out, err = run("long", "needle", "any-model", option, value)
    assert (code, out) == (2, "")
    assert expected in " ".join(err.replace("│", " ").split())

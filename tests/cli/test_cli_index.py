"""Specifications, conditions and comparisons from the command line."""

import json

import pytest

from aveyb_ir.data import Document, Query, write_beir_folder


@pytest.fixture(scope="module")
def beir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "years"
    documents = [Document(str(i), f"text number {i}", metadata={"year": 2000 + i}) for i in range(30)]
    write_beir_folder(folder, documents, [Query("q", "text number 3")], {"test": {"q": {"3": 1}}})
    return folder


@pytest.fixture
def index(run, tmp_path, beir, avey_dir):
    path = tmp_path / "index"
    code, _, err = run("index", "build", path, "--corpus", beir, "--encoder", avey_dir, "--granularity", "both")
    assert code == 0, err
    return path


def test_a_condition_on_the_command_line(run, index):
    code, out, _ = run("search", index, "text", "--where", "year >= 2028", "--json")
    assert code == 0
    assert {hit["id"] for hit in json.loads(out)["hits"]} == {"28", "29"}
    code, _, err = run("search", index, "text", "--where", "year >=")
    assert (code, err.count("\n")) == (1, 1)
    assert "got the end, expected a number" in err


def test_another_spec_and_a_verification(run, index):
    code, out, _ = run("index", "compact", index, "--spec", "int8", "--json")
    assert (code, json.loads(out)["spec"]) == (0, "int8")
    code, out, _ = run("index", "verify", index, "--json")
    assert code == 0
    assert json.loads(out)["least_cosine"] == pytest.approx(1, abs=1e-4)
    code, out, _ = run("index", "verify", index, "--sample", "0", "--json")
    assert (code, json.loads(out)["verified"]) == (0, True)


def test_auto_says_why_and_its_options_need_it(run, tmp_path, beir, avey_dir):
    build = ("index", "build", tmp_path / "index", "--corpus", beir, "--encoder", avey_dir)
    code, _, err = run(*build, "--memory", "1")
    assert code == 2
    assert "--spec auto" in err
    code, _, err = run(*build, "--spec", "auto", "--memory", "1")
    assert code == 0
    assert "spec auto: flat for 30 vectors" in err


def test_an_impossible_spec_fails_in_one_line(run, tmp_path, beir, avey_dir):
    code, _, err = run("index", "build", tmp_path / "i", "--corpus", beir, "--encoder", avey_dir, "--spec", "PQ4")
    assert code == 1
    assert "takes at least 256 vectors to train" in err
    assert not (tmp_path / "i").exists()


def test_specs_are_compared_in_a_table_and_a_picture(run, index, beir, tmp_path):
    code, out, _ = run("index", "recall", index, "SQ8", "--data", beir, "--plot", tmp_path / "plot.png")
    lines = out.splitlines()
    assert code == 0
    assert [line.split()[0] for line in lines] == ["spec", "flat", "SQ8"]
    assert "ndcg_at_10" in lines[0]
    assert (tmp_path / "plot.png").stat().st_size > 1000

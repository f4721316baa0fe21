"""`aveyb-ir mine`."""

import json
import shlex
from pathlib import Path

import pytest
import typer

from aveyb_ir import Index
from aveyb_ir.cli.app import app
from aveyb_ir.config import load_recipe
from aveyb_ir.data import Document, Query, read_training_rows, write_beir_folder


@pytest.fixture
def data(tmp_path):
    texts = ["a red house", "the red red door", "a red red red sea", "a blue sky", "one more red thing here"]
    documents = [Document(f"d{i}", text) for i, text in enumerate(texts)]
    write_beir_folder(tmp_path / "set", documents, [Query("q", "red things")], {"train": {"q": {"d0": 1}}})
    return tmp_path / "set"


def test_a_file_is_mined_with_a_model(run, bert_dir, data, tmp_path):
    code, out, err = run("mine", "--model", bert_dir, "--data", data, "--output", tmp_path / "out.jsonl")
    assert code == 0, err
    fields = dict(line.rsplit(maxsplit=1) for line in out.splitlines()[:4])
    assert fields == {"queries": "1", "negatives": "4", "rows with fewer": "1", "not taken: positive": "1"}
    assert "scores by model" in out
    assert "1 of 1 queries have fewer than 7 negatives (1 have 4)" in err
    assert len(read_training_rows(tmp_path / "out.jsonl")[0].negatives) == 4


def test_json_is_for_programs(run, bert_dir, data, tmp_path):
    Index.build(tmp_path / "index", data, encoder=bert_dir)
    code, out, _ = run(
        *("mine", "--index", tmp_path / "index", "--data", data, "--output", tmp_path / "out.jsonl"),
        *("--num-negatives", 2, "--strategy", "sample", "--bm25", "--json"),
    )
    result = json.loads(out)
    assert code == 0
    assert (result["num_negatives"], result["scored_by"]) == (2, "model")
    assert result == json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["result"]


def test_rows_are_mined_by_words(run, tmp_path):
    rows = [{"query": f"{word} sky", "pos": f"a {word} sky"} for word in ("red", "blue", "grey")]
    (tmp_path / "rows").mkdir()
    file = tmp_path / "rows" / "part.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for number, source in enumerate([("--data", file), ("--data", tmp_path / "rows", "--pairs")]):
        code, _, err = run("mine", "--model", "bm25", *source, "--output", tmp_path / f"{number}.jsonl")
        assert code == 0, err
        assert [len(row.negatives) for row in read_training_rows(tmp_path / f"{number}.jsonl")] == [2, 2, 2]


def test_usage(run, data, tmp_path):
    rest = ("--data", data, "--output", tmp_path / "out.jsonl")
    assert run("mine", *rest)[0] == 2
    assert run("mine", *rest, "--model", "bm25", "--index", tmp_path)[0] == 2
    code, _, err = run("mine", *rest, "--model", "bm25", "--relative-margin", 0.1)
    assert (code, err.count("\n")) == (1, 1)


RECIPE = Path(__file__).parents[2] / "recipes" / "hard-negatives.yaml"


def test_the_recipe_that_trains_on_the_file_is_valid_and_names_it():
    mine, train = (
        shlex.split(line.removeprefix("#   aveyb-ir "))
        for line in RECIPE.read_text(encoding="utf-8").splitlines()
        if line.startswith("#   aveyb-ir")
    )
    command = typer.main.get_command(app).commands[mine[0]]
    arguments = command.make_context("mine", mine[1:]).params
    recipe = load_recipe(RECIPE)
    assert str(arguments["output"]) == recipe.data.pairs
    assert arguments["num_negatives"] == recipe.data.negatives
    assert arguments["model"] == recipe.model.start
    assert train == ["train", "recipes/hard-negatives.yaml"]

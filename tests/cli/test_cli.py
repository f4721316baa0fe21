"""The whole way through the command line, and what it says when something is wrong."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aveyb_ir.data import Document, Query, write_beir_folder

TOPICS = ["whales", "rivers", "bridges", "clocks", "bread", "snow", "ships", "violins"]


@pytest.fixture(scope="module")
def beir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "topics"
    documents = [
        Document(f"{topic}-{i}", f"number {i} of the texts that tell about {topic} and more {topic}", title=topic)
        for topic in TOPICS
        for i in range(4)
    ]
    queries = [Query(f"q-{topic}-{i}", f"{word} {topic}") for topic in TOPICS for i, word in enumerate(("on", "about"))]
    qrels = {
        split: {f"q-{topic}-{number}": {f"{topic}-{i}": 1 for i in range(4)} for topic in TOPICS}
        for number, split in enumerate(("train", "test"))
    }
    write_beir_folder(folder, documents, queries, qrels)
    return folder


@pytest.fixture(scope="module")
def recipe(tmp_path_factory, beir):
    path = tmp_path_factory.mktemp("recipe") / "recipe.yaml"
    path.write_text(
        f"""
model:
  fresh: {{d_embed: 32, n_layers: 2, chunk_size: 16}}
  train_tokenizer: {{vocab_size: 600}}
data: {{beir: {beir}}}
train: {{epochs: 20, batch_size: 8, learning_rate: 3e-3, device: cpu}}
""",
        encoding="utf-8",
    )
    return path


def test_train_index_search_evaluate(run, beir, recipe, tmp_path):
    model, index = tmp_path / "model", tmp_path / "index"
    code, out, _ = run("train", recipe, "--set", "train.seed=7", "--output", model, "--json")
    assert code == 0
    assert json.loads(out)["output"] == str(model)

    code, out, _ = run("index", "build", index, "--corpus", beir, "--encoder", model, "--json")
    assert (code, json.loads(out)["documents"]) == (0, 32)

    code, out, _ = run("search", index, "about violins", "--top-k", 4, "--json")
    assert code == 0
    assert {hit["title"] for hit in json.loads(out)["hits"]} == {"violins"}
    code, out, _ = run("search", index, "about violins")
    assert code == 0
    assert out.splitlines()[0].split()[0] == "1"
    assert "violins" in out

    code, out, _ = run("evaluate", "--model", model, "--data", beir, "--json", "--per-query")
    by_model = json.loads(out)
    assert (code, by_model["num_queries"]) == (0, 8)
    assert by_model["metrics"]["ndcg@10"] > 0.9

    (tmp_path / "queries.jsonl").write_text((beir / "queries.jsonl").read_text(encoding="utf-8"), encoding="utf-8")
    trec = tmp_path / "out.trec"
    code, out, _ = run("search", index, "--queries", tmp_path / "queries.jsonl", "--run", trec)
    assert (code, out) == (0, "")
    code, out, _ = run("evaluate", "--qrels", beir / "qrels" / "test.tsv", "--run", trec, "--json", "--per-query")
    assert code == 0
    assert json.loads(out)["per_query"] == by_model["per_query"]


def test_an_index_is_changed_and_checked(run, beir, avey_dir, tmp_path):
    index = tmp_path / "index"
    assert run("index", "build", index, "--corpus", beir, "--encoder", avey_dir)[0] == 0
    (tmp_path / "more.tsv").write_text("new\ta text about kites\n", encoding="utf-8")
    code, out, _ = run("index", "add", index, "--corpus", tmp_path / "more.tsv", "--json")
    assert (code, json.loads(out)) == (0, {"added": 1, "documents": 33})
    code, _, err = run("index", "add", index, "--corpus", tmp_path / "more.tsv")
    assert code == 1
    assert "new" in err
    code, out, _ = run("index", "delete", index, "new", "snow-1", "new", "--json")
    assert (code, json.loads(out)) == (0, {"deleted": 2, "documents": 31})
    assert run("index", "delete", index, "new")[0] == 1
    assert json.loads(run("index", "compact", index, "--json")[1])["deleted"] == 0
    assert json.loads(run("index", "verify", index, "--json")[1])["verified"]
    assert json.loads(run("index", "info", index, "--json")[1])["documents"] == 31


def test_many_queries_as_json_lines(run, beir, avey_dir, tmp_path):
    run("index", "build", tmp_path / "index", "--corpus", beir, "--encoder", avey_dir)
    (tmp_path / "queries.tsv").write_text("a\tkites\nb\tclocks\n", encoding="utf-8")
    code, out, _ = run("search", tmp_path / "index", "--queries", tmp_path / "queries.tsv", "--json", "--top-k", 3)
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [(line["query_id"], len(line["hits"])) for line in lines] == [("a", 3), ("b", 3)]


def test_evaluation_for_people(run, beir, avey_dir):
    code, out, _ = run("evaluate", "--model", avey_dir, "--data", beir, "--metric", "ndcg@5", "--metric", "map")
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["data", "split", "system", "ndcg@5", "map"]
    assert [line[:3] for line in lines[1:3]] == [["topics", "test", "model"], ["topics", "test", "bm25"]]
    assert "topics: 8 judged queries of 32 documents" in out


def failures(beir, recipe, avey_dir, bert_dir, tmp_path):
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"_id": "a", "text": "b"}\n{oops\n', encoding="utf-8")
    empty = tmp_path / "empty.jsonl"
    empty.write_text("", encoding="utf-8")
    index, new = tmp_path / "index", tmp_path / "new"
    return [
        (("index", "build", new, "--corpus", tmp_path / "nowhere", "--encoder", avey_dir), "nowhere"),
        (("index", "build", new, "--corpus", broken, "--encoder", avey_dir), "broken.jsonl line 2"),
        (("index", "build", new, "--corpus", empty, "--encoder", avey_dir), "no documents"),
        (("index", "build", new, "--corpus", beir, "--encoder", "./nowhere"), "No model folder './nowhere'"),
        (("index", "build", new, "--corpus", beir, "--encoder", avey_dir, "--spec", "nonsense"), "nonsense"),
        (("index", "build", index, "--corpus", beir, "--encoder", avey_dir), "overwrite"),
        (("search", tmp_path / "nowhere", "x"), "does not exist"),
        (("search", index, "x", "--encoder", bert_dir), "dimension 48 against 32"),
        (("index", "info", beir), "manifest.json"),
        (
            ("train", recipe, "--set", "train.lerning_rate=1", "--output", tmp_path / "model"),
            "did you mean train.learning_rate?",
        ),
        (("train", recipe, "--set", "data.beir=./nowhere", "--output", tmp_path / "model"), "nowhere"),
        (("train", recipe, "--set", "data.split=dev", "--output", tmp_path / "model"), "dev"),
        (("train", tmp_path / "nowhere.yaml"), "nowhere.yaml"),
        (("evaluate", "--model", avey_dir, "--data", beir, "--split", "dev"), "dev"),
        (("evaluate", "--model", avey_dir, "--data", beir, "--metric", "bleu"), "bleu"),
        (("evaluate", "--qrels", tmp_path / "nowhere", "--run", broken), "nowhere"),
    ]


def test_bad_input_is_one_line_and_exit_code_1_and_destroys_nothing(run, beir, recipe, avey_dir, bert_dir, tmp_path):
    run("index", "build", tmp_path / "index", "--corpus", beir, "--encoder", avey_dir)
    before = run("search", tmp_path / "index", "whales", "--json")[1]
    for arguments, said in failures(beir, recipe, avey_dir, bert_dir, tmp_path):
        code, out, err = run(*arguments)
        assert (code, out) == (1, ""), (arguments, err)
        (line,) = err.splitlines()
        assert line.startswith("Error: "), arguments
        assert said in line, arguments
        assert not (tmp_path / "new" / "manifest.json").exists()
    assert not list(tmp_path.glob(".*"))
    assert run("search", tmp_path / "index", "whales", "--json")[1] == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("search",),
        ("search", "index"),
        ("search", "index", "query", "--queries", "file"),
        ("search", "index", "--queries", "file"),
        ("search", "index", "query", "--run", "file"),
        ("search", "index", "query", "--top-k", "0"),
        ("evaluate", "--model", "m"),
        ("evaluate", "--model", "m", "--data", "d", "--qrels", "q", "--run", "r"),
        ("index", "build", "index"),
        ("nonsense",),
    ],
)
def test_wrong_usage_is_exit_code_2(run, arguments):
    assert run(*arguments)[0] == 2


def test_version_and_help(run):
    import aveyb_ir

    assert run("--version")[1].strip() == aveyb_ir.__version__
    code, out, _ = run("--help")
    assert code == 0
    assert all(command in out for command in ("demo", "train", "index", "search", "evaluate"))


def test_help_imports_nothing_heavy():
    code = (
        "import sys; sys.argv = ['aveyb-ir', 'train', '--help']\n"
        "from aveyb_ir.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print([m for m in ('torch', 'transformers', 'numpy', 'faiss') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == "[]"


def test_output_is_utf8_whatever_the_locale_says(run, avey_dir, tmp_path):
    corpus = Path(__file__).parent.parent / "data" / "cases" / "jsonl-bytes" / "corpus.jsonl"
    run("index", "build", tmp_path / "index", "--corpus", corpus, "--encoder", avey_dir)
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0"}
    for options in ((), ("--json",)):
        command = [sys.executable, "-c", "from aveyb_ir.cli import main; main()"]
        done = subprocess.run(
            [*command, "search", str(tmp_path / "index"), "👍", *options], env=environment, capture_output=True
        )
        assert done.returncode == 0, done.stderr
        assert "👍" in done.stdout.decode("utf-8")
    assert len(json.loads(done.stdout)["hits"]) == 7


def test_failing_to_reach_the_hub_is_one_line():
    script = (
        "import sys; from aveyb_ir.cli import main; sys.argv = ['aveyb-ir', '--version']\n"
        "try: main()\n"
        "finally:\n"
        "    from huggingface_hub.utils import logging\n"
        "    logging.get_logger('huggingface_hub.utils._http').warning('Retrying in 1s')"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300)
    assert result.stderr == ""

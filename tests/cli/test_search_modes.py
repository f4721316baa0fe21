"""Searching by words, by both and through a reranker, and fusing runs, from the command line."""

import json

import pytest

from aveyb_ir.data import Document, Query, read_run, write_beir_folder, write_run
from aveyb_ir.retrieval import Bm25, fuse

THINGS = ["whales", "rivers", "bridges", "clocks"]
DOCUMENTS = [Document(f"{thing}-{i}", f"text {i} about {thing} " * (1 + i)) for thing in THINGS for i in range(4)]


@pytest.fixture(scope="module")
def beir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "things"
    queries = [Query(f"q-{thing}", f"about {thing}") for thing in THINGS]
    qrels = {"test": {f"q-{thing}": {f"{thing}-{i}": 1 for i in range(4)} for thing in THINGS}}
    write_beir_folder(folder, DOCUMENTS, queries, qrels)
    return folder


@pytest.fixture
def index(run, tmp_path, beir, avey_dir):
    path = tmp_path / "index"
    code, _, err = run("index", "build", path, "--corpus", beir, "--encoder", avey_dir)
    assert code == 0, err
    return path


def hits_of(out):
    return [hit["id"] for hit in json.loads(out)["hits"]]


def test_words_are_searched_without_a_model_and_said_to_be_counted_once(run, index, monkeypatch):
    monkeypatch.setattr("aveyb_ir.retrieval.index.Encoder", None)
    code, out, err = run("search", index, "whales", "--mode", "bm25", "--json")
    assert (code, err.count("Counting the words of 16 documents")) == (0, 1)
    assert hits_of(out) == list(Bm25.build(DOCUMENTS).search({"q": "whales"}, top_k=10)["q"])
    code, out, err = run("search", index, "whales", "--mode", "bm25")
    assert (code, err) == (0, "")
    assert "whales-3" in out


def test_hybrid_hits_tell_their_scores_and_ranks(run, index):
    code, out, _ = run("search", index, "whales", "--mode", "hybrid", "--depth", 12, "--top-k", 2, "--json")
    assert code == 0
    first = json.loads(out)["hits"][0]
    assert set(first["scores"]) == {"dense", "bm25", "hybrid"}
    assert first["ranks"]["hybrid"] == 1
    words_only = ("--mode", "hybrid", "--fusion", "weighted", "--weights", "0,1")
    code, out, _ = run("search", index, "whales", *words_only, "--top-k", 4, "--json")
    assert {id.split("-")[0] for id in hits_of(out)} == {"whales"}


def test_a_reranker_on_the_command_line(run, index, bert_dir):
    code, out, _ = run("search", index, "whales", "--rerank", bert_dir, "--rerank-weight", 0.5, "--json")
    assert code == 0
    assert set(json.loads(out)["hits"][0]["ranks"]) == {"dense", "reranker"}


def test_an_index_is_evaluated_as_it_is_searched(run, index, beir, bert_dir):
    def metrics(*options):
        code, out, err = run("evaluate", "--index", index, "--data", beir, "--json", "--per-query", *options)
        assert code == 0, err
        return json.loads(out)

    by_words = metrics("--mode", "bm25")
    assert by_words["name"] == "index-bm25"
    assert by_words["per_query"] == by_words["bm25"]["per_query"]
    assert by_words["metrics"]["ndcg@10"] == 1
    hybrid = metrics("--mode", "hybrid", "--fusion", "weighted", "--no-bm25")
    assert hybrid["system"]["fusion"] == "weighted"
    assert hybrid["per_query"] != metrics("--no-bm25")["per_query"]
    reranked = metrics("--rerank", bert_dir, "--no-bm25")
    assert (reranked["name"], reranked["top_k"]) == ("index-model", 100)
    others = metrics("--mode", "bm25", "--k1", 1.2, "--b", 0.9)
    assert others["system"]["bm25"] == {"k1": 1.2, "b": 0.9}
    assert (others["bm25"]["system"]["bm25"]["k1"], others["bm25"]["system"]["bm25"]["b"]) == (1.2, 0.9)
    for options in (
        ("--model", "bm25", "--mode", "bm25"),
        ("--index", index, "--fusion", "rrf"),
        ("--index", index, "--no-bm25", "--k1", 1),
        ("--index", index, "--mode", "bm25", "--faiss-device", "cpu"),
        ("--model", "any", "--faiss-device", "cpu"),
    ):
        code, _, _ = run("evaluate", "--data", beir, *options)
        assert code == 2


def test_runs_are_fused(run, index, beir, tmp_path):
    runs = {}
    for mode in ("dense", "bm25", "hybrid"):
        file = tmp_path / f"{mode}.trec"
        options = ("--queries", beir / "queries.jsonl", "--mode", mode, "--run", file)
        assert run("search", index, *options)[0] == 0
        runs[mode] = read_run(file)
    out_file = tmp_path / "fused.trec"
    options = (tmp_path / "dense.trec", tmp_path / "bm25.trec", "--weights", "1,2", "--output", out_file)
    code, out, err = run("fuse", *options, "--json")
    assert (code, json.loads(out)["weights"]) == (0, [1, 2])
    assert "4 queries of 2 runs" in err
    assert read_run(out_file) == fuse([runs["dense"], runs["bm25"]], weights=[1, 2])
    write_run(tmp_path / "some.json", {"q-new": {"d": 1.0}, "q-whales": runs["dense"]["q-whales"]})
    code, _, err = run("fuse", tmp_path / "some.json", tmp_path / "bm25.trec", "--output", tmp_path / "fused.json")
    assert (code, set(read_run(tmp_path / "fused.json"))) == (0, {"q-new", *runs["bm25"]})


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--fusion", "weighted"], 2, "--fusion and --weights need --mode hybrid"),
        (["--mode", "bm25", "--weights", "1,2"], 2, "need --mode hybrid"),
        (["--rerank-weight", "0.5"], 2, "--rerank-weight needs --rerank"),
        (["--depth", "50"], 2, "--depth one of --rerank and --mode hybrid"),
        (["--mode", "hybrid", "--weights", "1,x"], 2, "'x', expected numbers from 0"),
        (["--mode", "hybrid", "--weights", "1"], 1, "expected 2 numbers"),
        (["--mode", "sparse"], 1, "expected one of dense, bm25, hybrid"),
        (["--mode", "hybrid", "--fusion", "max"], 1, "expected one of rrf, weighted"),
        (["--mode", "hybrid", "--depth", "5"], 1, "depth is 5, expected at least top_k, 10"),
        (["--rerank", "./nowhere"], 1, "nowhere"),
        (["--mode", "bm25", "--encoder", "any"], 2, "with --mode bm25, which searches no vectors"),
        (["--mode", "bm25", "--faiss-device", "auto"], 2, "with --mode bm25, which searches no vectors"),
        (["--k1", "1.2"], 2, "--k1 and --b need --mode bm25 or hybrid"),
        (["--mode", "bm25", "--b", "1.2"], 2, "'--b'"),
        (["--faiss-device", "gpu"], 2, "'auto', 'cpu', 'cuda'"),
        (["--faiss-device", "cuda"], 1, "faiss_device is 'cuda', but FAISS"),
    ],
)
def test_what_does_not_go_together_is_refused(run, index, arguments, code, message):
    found, out, err = run("search", index, "whales", *arguments)
    assert (found, out) == (code, "")
    assert message in " ".join(err.replace("│", " ").split())


def test_a_fusion_writes_over_no_input(run, tmp_path):
    write_run(tmp_path / "a.trec", {"q": {"d": 1.0}})
    code, _, err = run("fuse", tmp_path / "a.trec", tmp_path / "a.trec", "--output", tmp_path / "a.trec")
    assert code == 2
    assert "is read; write to another file" in " ".join(err.replace("│", " ").split())
    code, _, err = run("fuse", tmp_path / "a.trec", "--output", tmp_path / "b.trec")
    assert (code, "expected at least two" in err) == (1, True)
    code, _, err = run("fuse", tmp_path / "a.trec", tmp_path / "nowhere.trec", "--output", tmp_path / "b.trec")
    assert (code, "nowhere.trec" in err) == (1, True)
    assert not (tmp_path / "b.trec").exists()

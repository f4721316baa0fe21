"""Searches are timed by every way of searching, and the table and files say what was timed."""

import csv
import json

import pytest

from aveyb_ir import Encoder, Index
from aveyb_ir.bench import bench_search
from aveyb_ir.data import Document, write_jsonl
from aveyb_ir.errors import DataError
from aveyb_ir.retrieval import Retriever, load_reranker

QUERIES = [f"text number {i}" for i in range(6)]


@pytest.fixture(scope="module")
def index(tmp_path_factory, avey_dir):
    documents = [Document(str(i), f"text number {i}") for i in range(30)]
    return Index.build(tmp_path_factory.mktemp("bench") / "index", documents, encoder=Encoder(avey_dir))


def test_every_way_of_searching_is_timed(index, bert_dir, tmp_path):
    lines = []
    reranker = load_reranker(bert_dir, device="cpu")
    report = bench_search(index, QUERIES, reranker=reranker, repeats=2, depth=12, progress=lines.append)
    assert [one.system for one in report.timings] == ["dense", "bm25", "hybrid", "hybrid + reranker"]
    for one in report.timings:
        assert (one.queries, one.searches) == (6, 12)
        assert 0 < one.p50_ms <= one.p95_ms
        assert one.batched_queries_per_second > 0
    assert lines
    assert (report.setting["documents"], report.setting["reranker"]) == (30, "model")
    paths = report.save(tmp_path / "out")
    assert json.loads(paths[0].read_text(encoding="utf-8")) == report.to_json()
    rows = list(csv.DictReader(paths[1].read_text(encoding="utf-8").splitlines()))
    assert [row["system"] for row in rows] == [one.system for one in report.timings]
    assert paths[2].read_text(encoding="utf-8") == report.table() + "\n"


def test_long_measurements_say_how_far_they_are_and_open_each_way_once(index, monkeypatch):
    made, lines = [], []
    monkeypatch.setattr("aveyb_ir.bench.search._SECONDS_BETWEEN_LINES", 0)
    monkeypatch.setattr(
        "aveyb_ir.bench.search.Retriever", lambda *args, **options: made.append(options) or Retriever(*args, **options)
    )
    report = bench_search(index, QUERIES, repeats=2, batch_size=4, k1=1.2, b=0.75, progress=lines.append)
    assert [options["mode"] for options in made] == ["dense", "bm25", "hybrid"]
    assert all((options["batch_size"], options["k1"], options["b"]) == (4, 1.2, 0.75) for options in made)
    assert (report.setting["k1"], report.setting["b"]) == (1.2, 0.75)
    assert [line for line in lines if line.endswith("of 12 searches one at a time")][-1].startswith("11 ")


def test_time_that_runs_out_leaves_the_rest_untimed_and_is_told(index):
    report = bench_search(index, QUERIES, repeats=2, max_seconds=0)
    assert [(one.queries, one.searches) for one in report.timings] == [(1, 1)] * 3
    with pytest.raises(DataError, match="no queries"):
        bench_search(index, [])


def test_searches_are_timed_from_the_command_line(run, index, tmp_path):
    path = index.info()["path"]
    write_jsonl(tmp_path / "queries.jsonl", [{"_id": str(i), "text": text} for i, text in enumerate(QUERIES)])
    options = ("bench", "--search", path, "--queries", tmp_path / "queries.jsonl", "--max-queries", 2, "--repeats", 1)
    code, out, _ = run(*options, "--output", tmp_path / "out", "--json")
    assert (code, [one["queries"] for one in json.loads(out)["timings"]]) == (0, [2, 2, 2])
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["search.csv", "search.json", "search.md"]
    code, out, _ = run(*options)
    assert (code, "| hybrid |" in out) == (0, True)
    wrongs = [("bench", "--search", path), ("bench", "--rerank", "x"), ("bench", "--k1", 1), (*options, "--training")]
    for wrong in wrongs:
        assert run(*wrong)[0] == 2

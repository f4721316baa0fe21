"""`aveyb-ir rerank`: a run in, a better one out, and what it was worth."""

import json

import pytest

from aveyb_ir import Index
from aveyb_ir.data import Document, Query, read_run, write_beir_folder, write_run
from aveyb_ir.encoding import Encoder
from aveyb_ir.retrieval import LateInteraction

TEXTS = {
    "garden": "the small garden has a wooden table and two green chairs",
    "keeper": "a lighthouse keeper paints the stairs blue before the ships return",
    "river": "the river carries snow water from the mountains to the sea",
    "hello": "hello world what is a retriever",
}
QUERIES = {"q1": "snow water from the mountains", "q2": "a table in the garden", "q3": "nobody asked"}
RUN = {"q1": {"garden": 4.0, "river": 3.0, "keeper": 2.0, "hello": 1.0}, "q2": {"keeper": 0.5, "garden": 0.4}}


@pytest.fixture
def given(tmp_path, avey_dir):
    """The command's usual options, and the folder it works in."""
    documents = [Document(id, text) for id, text in TEXTS.items()]
    queries = [Query(id, text) for id, text in QUERIES.items()]
    write_beir_folder(tmp_path / "data", documents, queries, {"test": {"q1": {"river": 1}, "q2": {"garden": 1}}})
    write_run(tmp_path / "first.trec", RUN)
    common = ["rerank", "--run", tmp_path / "first.trec", "--queries", tmp_path / "data", "--model", avey_dir]
    return tmp_path, [*common, "--device", "cpu", "--output", tmp_path / "out.trec"]


def expected(avey_dir):
    reranker = LateInteraction(Encoder(avey_dir, device="cpu"))
    found = reranker.scores([QUERIES[id] for id in RUN], [[TEXTS[hit] for hit in hits] for hits in RUN.values()])
    return {id: dict(zip(RUN[id], scores.tolist(), strict=True)) for id, scores in zip(RUN, found, strict=True)}


def test_the_run_has_the_rerankers_scores_from_a_corpus_or_an_index(run, given, avey_dir):
    folder, command = given
    code, out, err = run(*command, "--corpus", folder / "data")
    assert (code, out) == (0, "")
    assert err.splitlines()[-1] == f"2 queries, run written to {folder / 'out.trec'}"
    found = read_run(folder / "out.trec")
    for id, scores in expected(avey_dir).items():
        assert found[id] == pytest.approx(scores, abs=1e-4)
    assert list(found["q1"]) != list(RUN["q1"])
    Index.build(folder / "index", folder / "data", encoder=Encoder(avey_dir, device="cpu"))
    assert run(*command[:-1], folder / "of-index.trec", "--index", folder / "index")[0] == 0
    for id, hits in read_run(folder / "of-index.trec").items():
        assert hits == pytest.approx(found[id], abs=1e-4)


def test_depth_weight_and_top_k_mean_what_they_mean_in_python(run, given):
    folder, command = given
    options = ("--corpus", folder / "data", "--depth", 2, "--top-k", 3, "--weight", 0.5)
    assert run(*command, *options)[0] == 0
    found = read_run(folder / "out.trec")
    assert list(found["q1"])[2:] == ["keeper"]
    assert {round(score, 6) for score in found["q1"].values()} <= {1.0, 0.5, 0.0, -0.5, -1.0}


def test_quality_comes_with_its_ceiling(run, given):
    folder, command = given
    command += ["--corpus", folder / "data", "--qrels", folder / "data" / "qrels" / "test.tsv"]
    code, out, _ = run(*command, "--depth", 1)
    assert code == 0
    assert out == ("NDCG@10 0.6309 → 0.6309 over 2 queries; at best 0.0000 with these candidates (recall@1 0.0000)\n")
    code, out, _ = run(*command, "--json")
    found = json.loads(out)
    assert found["quality"]["ceiling"] == {"depth": 100, "recall": 1.0, "ndcg": 1.0}
    assert found["quality"]["before"] == pytest.approx(0.6309, abs=1e-4)
    assert found["read"]["texts"] == 6
    assert (found["read"]["max_length"], found["read"]["texts_cut"]) == (None, 0)
    assert (found["queries"], found["depth"], found["top_k"], found["weight"]) == (2, 100, None, 1.0)


def test_a_cut_shows_on_stderr_and_in_the_json(run, given):
    folder, command = given
    code, out, err = run(*command, "--corpus", folder / "data", "--max-length", 8, "--json")
    read = json.loads(out)["read"]
    assert code == 0
    assert f"{read['texts_cut']} of 6 texts cut at 8 tokens" in err
    assert read["tokens"] > read["tokens_used"] > 0


def test_what_is_missing_is_named(run, given):
    folder, command = given
    write_run(folder / "first.trec", {"q1": {"nothing": 2.0, "river": 1.0, "lost": 0.5}})
    code, _, err = run(*command, "--corpus", folder / "data")
    assert (code, err.count("\n")) == (1, 1)
    assert "2 of the run's 3 candidates have no text: lost, nothing; expected all of them in the corpus" in err
    assert not (folder / "out.trec").exists()
    assert run(*command, "--corpus", folder / "data", "--depth", 1)[2].count("nothing") == 1
    write_run(folder / "first.trec", {"unknown": {"river": 1.0}})
    assert "The run has queries without a text: unknown" in run(*command, "--corpus", folder / "data")[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "give one of --corpus and --index"),
        (["--corpus", "a", "--index", "b"], "give one of --corpus and --index"),
        (["--corpus", ""], "--corpus has an empty value"),
        (["--corpus", "a", "--depth", "0"], "be greater than or equal to 1"),
        (["--corpus", "a", "--weight", "2"], "be less than or equal to 1"),
    ],
)
def test_wrong_usage(run, given, options, message):
    code, _, err = run(*given[1], *options)
    assert code == 2
    assert message in " ".join(err.replace("│", "").split())


def test_what_is_read_is_not_written_over(run, given):
    folder, command = given
    code, _, err = run(*command[:-1], folder / "first.trec", "--corpus", folder / "data")
    assert code == 2
    assert "is read; write to" in " ".join(err.replace("│", "").split())
    assert read_run(folder / "first.trec") == RUN

"""`aveyb-ir evaluate`: several sets, what stands beside, reports, and wrong usage."""

import json
import shutil

import pytest

from aveyb_ir import Encoder, Index
from aveyb_ir.data import Document, Query, write_beir_folder, write_run
from aveyb_ir.evaluation import Evaluation


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    root = tmp_path_factory.mktemp("sets")
    for name, topics in (("one", ("whales", "rivers")), ("two", ("bread", "snow", "ships"))):
        documents = [Document(topic, f"a text about {topic}") for topic in topics]
        queries = [Query(f"q-{topic}", f"what of {topic}?") for topic in topics]
        write_beir_folder(root / name, documents, queries, {"test": {f"q-{topic}": {topic: 1} for topic in topics}})
    return root


def options(sets):
    return ("--data", sets / "one", "--data", sets / "two")


def test_several_sets_and_their_mean_with_bm25_beside(run, sets, avey_dir, tmp_path):
    command = ("evaluate", "--model", avey_dir, "--name", "mine", *options(sets), "--output", tmp_path / "reports")
    code, out, _ = run(*command)
    rows = [line.split() for line in out.splitlines()]
    assert code == 0
    assert rows[0] == ["data", "split", "system", "ndcg@10", "recall@100", "map", "mrr@10"]
    assert [row[:3] for row in rows[1:5]] == [[data, "test", s] for data in ("one", "two") for s in ("mine", "bm25")]
    assert [row[:2] for row in rows[5:7]] == [["mean", "mine"], ["mean", "bm25"]]
    assert "protocol full, own document auto" in out
    names = {f"{system}-{data}-test-full.json" for system in ("mine", "bm25") for data in ("one", "two")}
    assert {path.name for path in (tmp_path / "reports").iterdir()} == names
    found = json.loads(run(*command, "--json")[1])
    values = [one["metrics"]["map"] for one in found["evaluations"]]
    assert found["means"]["mine"]["map"] == pytest.approx(sum(values) / 2)
    assert [one["bm25"]["name"] for one in found["evaluations"]] == ["bm25", "bm25"]
    assert Evaluation.read(tmp_path / "reports" / "mine-one-test-full.json").metrics["map"] == values[0]


def test_bm25_alone_and_a_model_without_it(run, sets, avey_dir, tmp_path):
    code, out, _ = run("evaluate", "--model", "bm25", "--data", sets / "two", "--output", tmp_path / "bm25.json")
    assert (code, len([line for line in out.splitlines() if line.startswith("two  ")])) == (0, 1)
    assert Evaluation.read(tmp_path / "bm25.json").metrics["ndcg@10"] == 1
    _, out, _ = run("evaluate", "--model", avey_dir, "--data", sets / "two", "--no-bm25")
    assert "bm25" not in out


def test_an_index_is_measured_as_it_is(run, sets, avey_dir, tmp_path):
    Index.build(tmp_path / "index", sets / "two", encoder=Encoder(avey_dir))
    code, out, _ = run("evaluate", "--index", tmp_path / "index", "--data", sets / "two", "--json")
    found = json.loads(out)
    assert (code, found["name"], found["system"]["spec"]) == (0, "index", "flat")
    model = json.loads(run("evaluate", "--model", avey_dir, "--data", sets / "two", "--json")[1])
    assert found["metrics"] == model["metrics"]


def test_the_papers_protocol_says_how_it_differs(run, sets, avey_dir):
    code, out, _ = run("evaluate", "--model", "bm25", "--data", sets / "two", "--protocol", "paper")
    assert code == 0
    assert "paper-ndcg@10" in out.splitlines()[0]
    assert "the paper's protocol: only judged documents are searched" in out


def test_a_run_is_named_after_what_judged_it(run, sets, tmp_path):
    trec = tmp_path / "theirs.trec"
    assert run("evaluate", "--model", "bm25", "--data", sets / "two", "--write-run", trec)[0] == 0
    by_file = run("evaluate", "--qrels", sets / "two" / "qrels" / "test.tsv", "--run", trec, "--json")
    by_data = run("evaluate", "--data", sets / "two", "--run", trec, "--json")
    assert by_file == by_data
    found = json.loads(by_file[1])
    assert [found[key] for key in ("name", "data", "split")] == ["theirs", "two", "test"]


UNUSED = [("--vectors", "v"), ("--device", "cpu"), ("--dtype", "float32"), ("--max-length", "8")]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--model", "m", "--index", "i", "--data", "d"),
        ("--run", "r"),
        ("--run", "r", "--data", "d", "--qrels", "q"),
        ("--run", "r", "--data", "d", "--data", "e"),
        ("--run", "r", "--qrels", "q", "--write-run", "w"),
        ("--model", "m", "--data", "d", "--data", "e", "--output", "report.json"),
        ("--model", "m", "--data", "d", "--data", "e", "--write-run", "w"),
        ("--model", "m", "--data", "a/d", "--data", "b/d"),
        ("--model", "m", "--data", "d", "--name", "bm25"),
        *(("--run", "r", "--data", "d", *unused) for unused in UNUSED),
        *(("--model", "bm25", "--data", "d", *unused) for unused in UNUSED),
        ("--index", "i", "--data", "d", "--vectors", "v"),
        ("--index", "i", "--data", "d", "--max-length", "8"),
        ("--model", "m", "--data", ""),
        ("--model", "m", "--data", "d", "--output", ""),
        ("--model", "m", "--data", "d", "--vectors="),
        ("--model", "m", "--data", "d", "--split", ""),
        ("--model", "m", "--data", "d", "--vectors", __file__),
        ("--model", "m", "--data", "d", "--output", __file__),
        ("--model", "m", "--data", "d", "--output", "/dev/null"),
        ("--model", "m", "--data", "d", "--output", "same.json", "--write-run", "./same.json"),
    ],
)
def test_wrong_usage_is_exit_code_2(run, arguments):
    assert run("evaluate", *arguments)[0] == 2


def test_the_depth_of_a_run_can_be_cut(run, sets, tmp_path):
    trec = tmp_path / "deep.trec"
    write_run(trec, {f"q-{topic}": {"ships": 3.0, "snow": 2.0, "bread": 1.0} for topic in ("bread", "snow", "ships")})
    command = ("evaluate", "--run", trec, "--data", sets / "two", "--json")
    found = [json.loads(run(*command, *cut)[1]) for cut in ((), ("--top-k", 2), ("--top-k", 1))]
    assert [one["metrics"]["recall@100"] for one in found] == pytest.approx([1, 2 / 3, 1 / 3])
    assert [one["top_k"] for one in found] == [None, 2, 1]


def test_what_is_read_is_not_written_over(run, sets, tmp_path):
    folder, answers = tmp_path / "two", tmp_path / "run.json"
    shutil.copytree(sets / "two", folder)
    write_run(answers, {"q-snow": {"snow": 1.0}})
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    judged = ("--model", "bm25", "--data", folder)
    for arguments in (
        (*judged, "--write-run", folder / "qrels" / "test.tsv"),
        (*judged, "--write-run", folder / "corpus.jsonl"),
        ("--run", answers, "--data", folder, "--output", answers),
        ("--run", answers, "--qrels", folder / "qrels" / "test.tsv", "--output", answers),
    ):
        code, _, err = run("evaluate", *arguments)
        assert (code, "which is read" in " ".join(err.replace("│", " ").split())) == (2, True)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert run("evaluate", *judged, "--write-run", folder / "new.trec")[0] == 0


def test_a_name_cannot_speak_to_the_terminal(run, sets):
    code, out, err = run("evaluate", "--model", "bm25", "--data", sets / "two", "--name", "a\x1b[2J\nb")
    assert (code, out) == (1, "")
    assert "\x1b" not in err
    assert r"name 'a\x1b[2J\nb' has a control character" in err


@pytest.mark.parametrize(
    "arguments",
    [("x=", "bm25"), ("bm25", ""), ("=x", "bm25"), ("bm25", "m", "--data", ""), ("a", "--output", __file__)],
)
def test_wrong_usage_of_compare_is_exit_code_2(run, arguments):
    assert run("compare", *arguments)[0] == 2


def test_a_split_that_the_last_set_lacks_is_said_before_anything_is_done(run, sets, avey_dir, tmp_path):
    write_beir_folder(tmp_path / "three", [Document("a", "b")], [Query("q", "b")], {"dev": {"q": {"a": 1}}})
    command = ("evaluate", "--model", "./nowhere", *options(sets), "--data", tmp_path / "three")
    code, out, err = run(*command, "--output", tmp_path / "reports")
    assert (code, out) == (1, "")
    assert "three has no split 'test'; expected one of its splits: dev; choose one" in err

"""What can be compared: reports, folders of them, runs, models and BM25, by path."""

import json
import sys

import pytest

from aveyb_ir.cli import main
from aveyb_ir.data import Document, Query, write_beir_folder, write_run
from aveyb_ir.errors import DataError
from aveyb_ir.evaluation import compare, evaluate, evaluate_run

WORDS = ["whales", "rivers", "bridges", "clocks", "bread", "snow", "ships", "violins"]


def write_words(folder, prefix=""):
    documents = [Document(f"{prefix}{word}-{i}", f"text {i} about {word}") for word in WORDS for i in range(3)]
    queries = [Query(f"{prefix}q-{word}", f"about {word}") for word in WORDS]
    qrels = {f"{prefix}q-{word}": {f"{prefix}{word}-{i}": 1 for i in range(3)} for word in WORDS}
    write_beir_folder(folder, documents, queries, {"test": qrels, "dev": dict(list(qrels.items())[:4])})
    return qrels


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """Two sets with ids of their own, a poor run for each, reports of it in a folder, and a run beside one report."""
    root = tmp_path_factory.mktemp("sets")
    (root / "reports").mkdir()
    for name, prefix in (("words", ""), ("more", "m")):
        qrels = write_words(root / name, prefix)
        run = {id: {f"{prefix}{word}-0": 1.0 for word in WORDS} for id in qrels}
        write_run(root / f"{name}-poor.trec", run)
        evaluation = evaluate_run(qrels, run, name="poor", data=name, split="test")
        evaluation.write(root / "reports" / f"{name}.json")
    write_run(root / "reports" / "words.trec", {id: {"whales-0": 1.0} for id in ("q-whales", "q-bread")})
    (root / "reports" / "other.json").write_text('{"format": "something else"}', encoding="utf-8")
    return root


def test_models_and_bm25_are_evaluated_on_every_set(sets, avey_dir):
    lines = []
    data = [sets / "words", str(sets / "more")]
    comparison = compare([f"model={avey_dir}", "bm25"], data=data, progress=lines.append)
    assert comparison.systems == ("model", "bm25")
    assert [one.data for one in comparison.sets] == ["words", "more"]
    assert lines[0] == "evaluating model on words"
    assert comparison.score("bm25", "words").mean == evaluate("bm25", sets / "words").metrics["ndcg@10"] > 0.99
    query = comparison.queries[0]
    assert query.text.startswith("about ")
    assert set(query.top) == {"model", "bm25"}


def test_reports_folders_and_runs(sets):
    comparison = compare(
        [sets / "reports", f"run={sets / 'words-poor.trec'}", "bm25"], data=[sets / "words", sets / "more"]
    )
    assert comparison.systems == ("poor", "run", "bm25")
    assert {d.data for d in comparison.differences if d.system == "run"} == {"words"}
    assert comparison.score("run", "words").seeds == comparison.score("poor", "words").seeds
    tops = {q.query_id: q.top for q in comparison.queries if (q.data, q.system) == ("words", "bm25")}
    assert tops["q-bread"]["poor"].id == "whales-0"  # from the run beside the report
    assert tops["q-snow"]["poor"] is None


def test_a_run_named_for_a_set_is_judged_by_it(sets, tmp_path):
    write_run(tmp_path / "more.trec", {"mq-snow": {"msnow-1": 1.0}})
    comparison = compare([tmp_path / "more.trec", "bm25"], data=[sets / "words", sets / "more"])
    assert list(comparison.sets[0].values) == ["more", "bm25"]


def test_a_label_given_twice_is_two_seeds(sets):
    report = sets / "reports" / "words.json"
    comparison = compare([f"a={report}", f"b={report}", f"b={report}"])
    assert comparison.score("b", "words").seeds == pytest.approx([comparison.score("a", "words").mean] * 2)


def test_the_protocol_and_split_reach_the_evaluation(sets):
    run = f"poor={sets / 'words-poor.trec'}"
    comparison = compare(["bm25", run], data=[sets / "words"], split="dev", protocol="paper")
    assert (comparison.metric, comparison.protocol, comparison.sets[0].split) == ("paper-ndcg@10", "paper", "dev")
    assert len(comparison.sets[0].query_ids) == 4


def test_sets_in_parts_show_texts_of_their_parts(tmp_path):
    for part in ("fish", "birds"):
        write_words(tmp_path / "forum" / part)
    poor = evaluate("bm25", tmp_path / "forum", name="short", top_k=1)
    comparison = compare([poor, "bm25"], data=[tmp_path / "forum"])
    assert len(comparison.sets[0].parts) == 2
    query = comparison.queries[0]
    part, _, id = query.query_id.partition("/")
    assert (part in ("fish", "birds"), query.text) == (True, f"about {id[2:]}")
    assert query.top["bm25"].id.startswith(f"{part}/{id[2:]}-")
    assert query.top["bm25"].text.endswith(id[2:])
    assert sorted(found.ranks["short"] or 9 for found in query.relevant) == [1, 9, 9]


def test_what_cannot_be_compared_is_named(sets, tmp_path):
    words, more = sets / "words", sets / "more"
    report, run = sets / "reports" / "words.json", sets / "words-poor.trec"
    (tmp_path / "broken.json").write_text('{"format": "aveyb-ir evaluation 1"}', encoding="utf-8")
    for error, systems, data, said in [
        (DataError, [report, tmp_path / "nowhere.json"], [], "nowhere.json does not exist"),
        (DataError, [report, tmp_path / "broken.json"], [], "broken.json"),
        (DataError, [report, words / "qrels"], [], "holds no report"),
        (ValueError, [report, run], [], "answers no query of any set given; expected one set (of none)"),
        (ValueError, [report, run], [more], "answers no query"),
        (ValueError, [report, "bm25"], [], "bm25 is to be evaluated without data"),
        (ValueError, [report, f"x={report}"], [more], "data 'more'; expected one of words"),
    ]:
        with pytest.raises(error) as raised:
            compare(systems, data=data)
        assert said in str(raised.value), systems


def test_a_run_that_answers_two_sets_needs_a_name(sets, tmp_path):
    write_words(tmp_path / "copy")
    with pytest.raises(ValueError, match="answers queries of words, copy"):
        compare([sets / "words-poor.trec", "bm25"], data=[sets / "words", tmp_path / "copy"])


@pytest.fixture
def command(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["aveyb-ir", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit:
            main()
        out, err = capsys.readouterr()
        return exit.value.code or 0, out, err

    return run


def test_the_command_prints_the_report_and_writes_it(command, sets, tmp_path):
    arguments = ("compare", f"poor={sets / 'reports'}", "bm25", "--data", sets / "words", "--data", sets / "more")
    code, out, err = command(*arguments, "--output", tmp_path / "out")
    assert code == 0
    assert out.startswith("# ndcg@10 (full protocol)")
    assert "Wrote " in err
    assert (tmp_path / "out" / "report.html").is_file()
    code, out, _ = command(*arguments, "--json", "--all-pairs", "--baseline", "bm25", "--metric", "map")
    content = json.loads(out)
    assert (code, content["baseline"], content["metric"]) == (0, "bm25", "map")


def test_the_commands_failures_are_one_line(command, sets):
    code, out, err = command("compare", sets / "nowhere.json", "bm25")
    assert (code, out) == (1, "")
    assert err.splitlines() == [line for line in err.splitlines() if line.startswith("Error: ")]
    assert "nowhere.json does not exist" in err

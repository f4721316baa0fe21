"""What can be compared: reports, folders of them, runs, models and BM25, by path."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from aveyb_ir.data import Document, Query, write_beir_folder, write_run
from aveyb_ir.errors import DataError
from aveyb_ir.evaluation import Evaluation, compare, evaluate, evaluate_run

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


def test_a_label_given_twice_is_two_seeds(sets, tmp_path):
    report = sets / "reports" / "words.json"
    Evaluation.read(report).write(tmp_path / "seed2.json")
    comparison = compare([f"a={report}", f"b={report}", f"b={tmp_path / 'seed2.json'}"])
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


SYSTEM = {"encoder": "m", "dimension": 48, "details": {"weights": "1", "architecture": {"model_type": "avey-b"}}}


def write_seed(report, path, *, fingerprint, **changes):
    """A report as of a model, with what is changed in its details."""
    system = {**SYSTEM, "fingerprint": fingerprint, "details": {**SYSTEM["details"], **changes}}
    replace(Evaluation.read(report), name="model", system=system).write(path)
    return path


def test_models_that_are_only_called_alike_are_no_seeds(sets, tmp_path):
    words = sets / "reports" / "words.json"
    first = write_seed(words, tmp_path / "1.json", fingerprint="a")
    second = write_seed(words, tmp_path / "2.json", fingerprint="b", weights="2")
    other = write_seed(words, tmp_path / "3.json", fingerprint="c", architecture={"model_type": "bert"})
    assert len(compare([words, first, second]).score("model", "words").seeds) == 2
    with pytest.raises(ValueError, match=r"'model' is the name of .*1\.json and of .*3\.json, which differ in archi"):
        compare([words, first, other])
    comparison = compare([words, f"mixed={first}", f"mixed={other}", f"alone={second}"])
    assert comparison.systems == ("poor", "mixed", "alone")


def test_what_is_there_twice_is_no_second_seed(sets, tmp_path):
    words = sets / "reports" / "words.json"
    first = write_seed(words, tmp_path / "1.json", fingerprint="a")
    again = write_seed(words, tmp_path / "2.json", fingerprint="a")
    for pair in ([first, again], [f"x={first}", f"x={again}"], [f"x={words}", f"x={words}"], [first, first]):
        with pytest.raises(ValueError, match="are one and the same"):
            compare([f"base={words}", *pair])
    (tmp_path / "link.json").symlink_to(words)
    with pytest.raises(ValueError, match="are one and the same"):
        compare([f"base={words}", f"x={words}", f"x={tmp_path / 'link.json'}"])


def test_bm25_that_several_models_brought_along_counts_once(sets, tmp_path):
    bm25 = evaluate("bm25", sets / "words")
    for folder in ("1", "2"):
        bm25.write(tmp_path / folder / "bm25.json")
        write_seed(sets / "reports" / "words.json", tmp_path / folder / "model.json", fingerprint=folder)
    comparison = compare([tmp_path / "1", tmp_path / "2"])
    assert [len(comparison.score(system, "words").seeds) for system in comparison.systems] == [1, 2]
    replace(bm25, system={"bm25": {"k1": 9}}).write(tmp_path / "2" / "bm25.json")
    with pytest.raises(ValueError, match="which differ in bm25"):
        compare([tmp_path / "1", tmp_path / "2"])


def test_runs_and_models_of_one_file_name_need_labels(sets, tmp_path):
    paths = [tmp_path / folder / "final.trec" for folder in ("a", "b")]
    for path in paths:
        write_run(path, {"q-snow": {"snow-1": 1.0}})
    for folder in ("a", "b"):
        (tmp_path / folder / "final").mkdir()
        (tmp_path / folder / "final" / "modules.json").write_text("[]", encoding="utf-8")
    for given in (paths, [tmp_path / "a" / "final", tmp_path / "b" / "final"]):
        with pytest.raises(ValueError, match=r"'final' is the name of .*, of which too little is known; .*LABEL=PATH"):
            compare([sets / "reports" / "words.json", *given], data=[sets / "words"])
    comparison = compare(["bm25", *(f"final={path}" for path in paths)], data=[sets / "words"])
    assert len(comparison.score("final", "words").seeds) == 2


def test_a_model_is_not_evaluated_for_what_cannot_be_compared(sets):
    report, lines = sets / "reports" / "words.json", []
    for options, said in [({"protocol": "paper"}, "protocol is 'full'"), ({"split": "dev"}, "split is 'test'")]:
        with pytest.raises(DataError, match=rf"words\.json: {said}, and models would be evaluated with"):
            compare([report, "bm25"], data=[sets / "words"], progress=lines.append, **options)
    assert not lines


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("x=", "has no path"),
        ("", "has no path"),
        ("=x", "has an empty label"),
        ("a\x1b[31m=bm25", "has a control character"),
        ("a\nb=bm25", "has a control character"),
    ],
)
def test_empty_labels_and_paths_and_those_that_would_reach_the_terminal(sets, given, said):
    with pytest.raises(ValueError, match=said):
        compare(["bm25", given], data=[sets / "words"])


def test_a_name_that_ends_like_a_file_is_no_model_of_the_hub(sets):
    with pytest.raises(DataError, match=r"res/typo\.json does not exist; expected a report"):
        compare(["bm25", "res/typo.json"], data=[sets / "words"])


def test_json_nested_too_deep_is_no_report(sets, tmp_path):
    (tmp_path / "deep.json").write_text("[" * 100_000, encoding="utf-8")
    with pytest.raises(DataError, match=r"deep\.json: JSON out of bounds"):
        compare(["bm25", tmp_path / "deep.json"], data=[sets / "words"])


def test_systems_without_a_set_in_common_are_refused(sets):
    reports = sets / "reports"
    with pytest.raises(DataError, match="a was measured on words and b on more; expected a set in common"):
        compare([f"a={reports / 'words.json'}", f"b={reports / 'more.json'}"])


def test_other_documents_of_a_set_are_noted(sets):
    report = Evaluation.read(sets / "reports" / "words.json")
    comparison = compare([replace(report, name="a", num_documents=24), replace(report, name="b", num_documents=1024)])
    assert "not the same documents of words were searched: a 24, b 1,024" in comparison.notes
    comparison = compare([replace(report, name="a", num_documents=24), replace(report, name="b")])
    assert not any("documents of words" in note for note in comparison.notes)


def test_runs_and_reports_are_compared_without_torch(sets):
    script = (
        "import sys; from aveyb_ir.cli import main; sys.argv = sys.argv[1:]\n"
        "try: main()\nfinally: print({'torch', 'faiss', 'transformers'} & set(sys.modules))"
    )
    words, run = sets / "words", sets / "words-poor.trec"
    for arguments in (
        ["aveyb-ir", "evaluate", "--run", run, "--data", words],
        ["aveyb-ir", "compare", f"a={sets / 'reports'}", f"b={run}", "--data", words],
    ):
        result = subprocess.run(
            [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True, timeout=300
        )
        assert result.stdout.splitlines()[-1] == "set()"


def test_the_command_prints_the_report_and_writes_it(run, sets, tmp_path):
    arguments = ("compare", f"poor={sets / 'reports'}", "bm25", "--data", sets / "words", "--data", sets / "more")
    code, out, err = run(*arguments, "--output", tmp_path / "out")
    assert code == 0
    assert out.startswith("# ndcg@10 (full protocol)")
    assert "Wrote " in err
    assert (tmp_path / "out" / "report.html").is_file()
    code, out, _ = run(*arguments, "--json", "--all-pairs", "--baseline", "bm25", "--metric", "map")
    content = json.loads(out)
    assert (code, content["baseline"], content["metric"]) == (0, "bm25", "map")


def test_the_commands_failures_are_one_line(run, sets):
    code, out, err = run("compare", sets / "nowhere.json", "bm25")
    assert (code, out) == (1, "")
    assert err.splitlines() == [line for line in err.splitlines() if line.startswith("Error: ")]
    assert "nowhere.json does not exist" in err

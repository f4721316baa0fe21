"""Reports come back equal, and one that was tampered with, cut or is something else is refused by name."""

import json
from dataclasses import replace

import pytest

from aveyb_ir.errors import DataError
from aveyb_ir.evaluation import Evaluation, evaluate_run

QRELS = {"1": {"a": 2, "b": 1}, "é\u2028": {"c": 1}, "none": {"c": 0}}
RUN = {"1": {"a": 1.0, "b": 2.0, "1": 3.0}, "é\u2028": {"a": 1.0}}


@pytest.fixture
def evaluation():
    found = evaluate_run(QRELS, RUN, name="mine", data="two", split="dev")
    return replace(found, top_k=10, num_documents=3, system={"encoder": "m", "details": {"prompts": {"query": "q: "}}})


def test_a_report_comes_back_equal(evaluation, tmp_path):
    evaluation.write(tmp_path / "new" / "report.json")
    assert Evaluation.read(tmp_path / "new" / "report.json") == evaluation
    written = json.loads((tmp_path / "new" / "report.json").read_text(encoding="utf-8"))
    assert written["format"] == "aveyb-ir evaluation 1"
    assert [written[key] for key in ("name", "data", "split", "protocol")] == ["mine", "two", "dev", "full"]
    assert (written["own_document"], written["own_documents_ignored"]) == ("auto", 1)


def test_a_report_of_parts_comes_back_equal(evaluation, tmp_path):
    per_query = {f"{part}/{id}": values for part in ("x", "y") for id, values in evaluation.per_query.items()}
    whole = replace(
        evaluation,
        per_query=per_query,
        num_queries=6,
        parts={"x": evaluation.metrics, "y": evaluation.metrics},
        unanswered=("x/none", "y/none"),
        without_relevant=("x/none", "y/none"),
    )
    whole.write(tmp_path / "report.json")
    assert Evaluation.read(tmp_path / "report.json") == whole


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda report: report.update(format="aveyb-ir evaluation 2"), "format 'aveyb-ir evaluation 2'"),
        (lambda report: report.pop("format"), "format None"),
        (lambda report: report.pop("split"), "field split: Field required"),
        (lambda report: report.update(split=3), "field split: Input should be a valid string"),
        (lambda report: report.update(protocol="half"), "field protocol"),
        (lambda report: report.update(colour="red"), "unknown field 'colour'"),
        (lambda report: report["metrics"].update({"ndcg@10": 0.99}), "ndcg@10 is 0.99, but the mean"),
        (lambda report: report["per_query"]["1"].pop("map"), "query '1' has the metrics"),
        (lambda report: report["per_query"]["1"].update(map=float("nan")), "query '1' has a value that is not finite"),
        (
            lambda report: [of.update(map=1.5) for of in (report["metrics"], *report["per_query"].values())],
            "query '1' has a value outside 0 to 1",
        ),
        (lambda report: report.update(unanswered=["7"]), "unanswered has '7', which is no judged query"),
        (lambda report: report.update(without_relevant=["7"]), "without_relevant has '7', which is no judged query"),
        (lambda report: report.update(name="a\x1b[2J"), "has a control character"),
        (lambda report: report["per_query"].pop("none"), "the values of 2 queries, but num_queries is 3"),
        (lambda report: report.update(metrics={}), "no metric or no query"),
        (lambda report: report.update(parts={"x": report["metrics"]}), "part 'x': ndcg@10 is"),
    ],
)
def test_a_report_that_contradicts_itself_is_refused(evaluation, tmp_path, change, said):
    evaluation.write(tmp_path / "report.json")
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    change(report)
    (tmp_path / "report.json").write_text(json.dumps(report), encoding="utf-8")
    with pytest.raises(DataError) as problem:
        Evaluation.read(tmp_path / "report.json")
    message = str(problem.value)
    assert said in message
    assert message.startswith(str(tmp_path / "report.json"))
    assert "expected 'aveyb-ir evaluation 1'; give a report" in message


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"7", b"\xff", b'{"q": {"d": 1.0}}'])
def test_what_is_no_report_is_refused(tmp_path, content):
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(DataError, match=r"run\.json: (cannot be read as JSON|has format)"):
        Evaluation.read(tmp_path / "run.json")
    with pytest.raises(DataError, match="nowhere"):
        Evaluation.read(tmp_path / "nowhere.json")

"""Measuring a model on a BEIR folder."""

import math

import pytest

from aveyb_ir import Encoder, evaluate
from aveyb_ir.data import BeirFolder, Document, Query, write_beir_folder
from aveyb_ir.errors import DataError
from aveyb_ir.evaluation import evaluate_run, evaluate_with_run


@pytest.fixture(scope="module")
def encoder(avey_dir):
    return Encoder(avey_dir)


@pytest.fixture
def folder(tmp_path):
    documents = [Document(f"d{i}", f"a text about the number {i} and the letter {chr(97 + i)}") for i in range(20)]
    queries = [Query(f"q{i}", documents[i].text) for i in range(5)] + [Query("unjudged", "nothing")]
    qrels = {"test": {f"q{i}": {f"d{i}": 1} for i in range(4)} | {"gone": {"d1": 1}}}
    write_beir_folder(tmp_path / "set", documents, queries, qrels)
    return tmp_path / "set"


def test_metrics_are_those_of_the_run(encoder, folder):
    evaluation, run = evaluate_with_run(encoder, folder)
    assert set(run) == {"q0", "q1", "q2", "q3"}
    assert evaluation.num_queries == 5
    assert evaluation.unanswered == ("gone",)
    assert evaluate_run(BeirFolder(folder).qrels("test"), run).metrics == evaluation.metrics
    assert all(math.isfinite(value) for value in evaluation.metrics.values())


def test_own_documents_of_arguana_are_ignored_and_counted(encoder, tmp_path):
    texts = ["buses should be free", "trains should be free", "parks should be open"]
    documents = [Document(f"arg-{i}", text) for i, text in enumerate(texts)] + [Document("ctr", "free buses are bad")]
    write_beir_folder(tmp_path / "arguana", documents, [Query("arg-0", texts[0])], {"test": {"arg-0": {"ctr": 1}}})
    evaluation, run = evaluate_with_run(encoder, tmp_path / "arguana")
    assert "arg-0" not in run["arg-0"]
    assert evaluation.own_documents_ignored == 1
    assert "own document ignored: 1" in evaluation.notes()[0]
    assert "arg-0" in evaluate_with_run(encoder, tmp_path / "arguana", own_document="keep")[1]["arg-0"]


def test_no_such_split_is_an_error_that_lists_those_there_are(encoder, folder):
    with pytest.raises(DataError, match="test"):
        evaluate(encoder, folder, split="dev")

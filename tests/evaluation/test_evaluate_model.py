"""Measuring systems on collections."""

import math
import shutil

import numpy as np
import pytest

from aveyb_ir import Encoder, Index, Retriever, evaluate
from aveyb_ir.data import BeirFolder, Document, Query, read_run, write_beir_folder
from aveyb_ir.errors import DataError
from aveyb_ir.evaluation import Evaluation, evaluate_run, mean_of


@pytest.fixture(scope="module")
def encoder(avey_dir):
    return Encoder(avey_dir)


def write_numbers(folder, qrels, num_documents=20):
    documents = [
        Document(f"d{i}", f"a text about the number {i} and the letter {chr(97 + i)}") for i in range(num_documents)
    ]
    queries = [Query(f"q{i}", documents[i].text) for i in range(5)] + [Query("unjudged", "nothing")]
    write_beir_folder(folder, documents, queries, qrels)
    return folder


@pytest.fixture
def folder(tmp_path):
    test = {f"q{i}": {f"d{i}": 1} for i in range(4)} | {"gone": {"d1": 1}}
    return write_numbers(tmp_path / "set", {"test": test, "dev": {"q0": {"d0": 1, "d7": 2, "d3": 0}}})


def test_metrics_are_those_of_the_run(encoder, folder, tmp_path):
    evaluation = evaluate(encoder, folder, write_run=tmp_path / "out.trec")
    assert set(evaluation.run) == {"q0", "q1", "q2", "q3"}
    assert evaluation.num_queries == 5
    assert evaluation.unanswered == ("gone",)
    assert evaluate_run(BeirFolder(folder).qrels("test"), evaluation.run).metrics == evaluation.metrics
    assert all(math.isfinite(value) for value in evaluation.metrics.values())
    assert read_run(tmp_path / "out.trec") == evaluation.run


def test_the_report_says_what_was_measured(encoder, folder, tmp_path):
    evaluation = evaluate(encoder, folder, top_k=7, name="mine")
    assert (evaluation.name, evaluation.data, evaluation.split) == ("mine", "set", "test")
    assert (evaluation.num_documents, evaluation.top_k, evaluation.own_document) == (20, 7, "auto")
    assert evaluation.system["fingerprint"] == encoder.fingerprint
    evaluation.write(tmp_path / "report.json")
    assert Evaluation.read(tmp_path / "report.json") == evaluation
    assert Evaluation.read(tmp_path / "report.json").run == {}
    assert evaluate(encoder, folder).name == encoder.name.rpartition("/")[2]


def arguana(folder):
    texts = ["buses should be free", "trains should be free", "parks should be open"]
    documents = [Document(f"arg-{i}", text) for i, text in enumerate(texts)] + [Document("ctr", "free buses are bad")]
    write_beir_folder(folder, documents, [Query("arg-0", texts[0])], {"test": {"arg-0": {"ctr": 1}}})
    return folder


def systems(encoder, folder, tmp_path):
    return [encoder, "bm25", Retriever(Index.build(tmp_path / "index", folder, encoder=encoder))]


def test_own_documents_of_arguana_are_ignored_and_counted_whatever_the_system(encoder, tmp_path):
    folder = arguana(tmp_path / "arguana")
    for system in systems(encoder, folder, tmp_path):
        for top_k in (1, 1000):
            evaluation = evaluate(system, folder, top_k=top_k)
            assert "arg-0" not in evaluation.run["arg-0"]
            assert len(evaluation.run["arg-0"]) == 1 or top_k > 1
            assert evaluation.own_documents_ignored == 1
            assert any("own document ignored: 1" in note for note in evaluation.notes())
        assert "arg-0" in evaluate(system, folder, own_document="keep").run["arg-0"]


def test_a_flat_index_is_the_exact_search(encoder, folder, tmp_path):
    exact, _, index = (evaluate(system, folder) for system in systems(encoder, folder, tmp_path))
    for id, hits in exact.run.items():
        assert list(index.run[id]) == list(hits)
        assert index.run[id] == pytest.approx(hits, rel=1e-6)  # an index makes unit vectors once more
    assert index.per_query == exact.per_query
    assert (index.name, index.system["spec"]) == ("index", "flat")
    assert index.system["fingerprint"] == encoder.fingerprint


def test_an_index_of_another_corpus_is_refused(encoder, folder, tmp_path):
    index = Index.build(tmp_path / "index", [Document("other", "text")], encoder=encoder)
    with pytest.raises(DataError, match="holds none of the 4 documents judged in set"):
        evaluate(Retriever(index), folder)


def test_the_paper_searches_what_is_judged(encoder, folder, tmp_path):
    for system in systems(encoder, folder, tmp_path):
        evaluation = evaluate(system, folder, split="dev", protocol="paper")
        assert set(evaluation.run["q0"]) == {"d0", "d3", "d7"}
        assert list(evaluation.metrics) == ["paper-ndcg@10"]
        assert evaluation.num_documents == 3
    assert evaluation.hits_outside_pool == 17


def test_vectors_at_hand_are_used_for_all_that_is_asked_of_them(encoder, folder, tmp_path, monkeypatch):
    plain = [evaluate(encoder, folder), evaluate(encoder, folder, split="dev", protocol="paper", top_k=2)]
    evaluate(encoder, folder, vectors=tmp_path / "vectors")

    def encode(*_, **__):
        raise AssertionError("encoded again")

    evaluate(encoder, folder, split="dev", vectors=tmp_path / "vectors")
    monkeypatch.setattr(Encoder, "encode", encode)
    again = [
        evaluate(encoder, folder, vectors=tmp_path / "vectors"),
        evaluate(encoder, folder, split="dev", protocol="paper", top_k=2, vectors=tmp_path / "vectors"),
    ]
    assert again == plain
    for with_vectors, without in zip(again, plain, strict=True):
        for id, hits in without.run.items():
            assert with_vectors.run[id] == pytest.approx(hits, rel=1e-6)  # batches decide the last digits
    with pytest.raises(AssertionError, match="encoded again"):
        evaluate(encoder, folder, vectors=tmp_path / "others")


def test_the_paper_alone_keeps_the_vectors_of_its_pool_only(encoder, folder, tmp_path):
    evaluate(encoder, folder, split="dev", protocol="paper", vectors=tmp_path / "vectors")
    (store,) = (tmp_path / "vectors" / "set").glob("*-judged-dev")
    assert not store.with_name(encoder.fingerprint).exists()
    assert len((store / "shard-000000.ids.jsonl").read_text(encoding="ascii").splitlines()) == 3


def test_vectors_of_another_corpus_are_refused_and_those_of_another_encoder_lie_beside(
    encoder, bert_dir, folder, tmp_path
):
    evaluate(encoder, folder, vectors=tmp_path / "vectors")
    evaluate(bert_dir, folder, vectors=tmp_path / "vectors")
    assert len([path for path in (tmp_path / "vectors" / "set").iterdir() if path.is_dir()]) == 2
    shutil.rmtree(folder)
    write_numbers(folder, {"test": {"q0": {"d0": 1}}}, num_documents=19)
    with pytest.raises(DataError, match="remove the folder"):
        evaluate(encoder, folder, vectors=tmp_path / "vectors")


@pytest.mark.parametrize("content", ["cut", "header", "other", "reversed", "zeros", "bit"])
def test_damaged_vectors_of_queries_are_refused(encoder, folder, tmp_path, content):
    first = evaluate(encoder, folder, vectors=tmp_path / "vectors")
    (file,) = (tmp_path / "vectors" / "set").glob("*-queries-*.npy")
    whole, vectors = file.read_bytes(), np.load(file)
    if content in ("reversed", "zeros"):
        np.save(file, vectors[::-1] if content == "reversed" else 0 * vectors)
        assert len(file.read_bytes()) == len(whole)
    else:
        flipped = whole[:-1] + bytes([whole[-1] ^ 1])
        file.write_bytes({"cut": whole[:-1], "header": whole[:128], "other": b"text", "bit": flipped}[content])
    with pytest.raises(DataError, match=r"-queries-\w+\.npy has not the content that was written .*remove the file"):
        evaluate(encoder, folder, vectors=tmp_path / "vectors")
    file.unlink()
    assert evaluate(encoder, folder, vectors=tmp_path / "vectors") == first


def test_vectors_of_queries_without_a_checksum_are_made_again(encoder, folder, tmp_path):
    first = evaluate(encoder, folder, vectors=tmp_path / "vectors")
    (file,) = (tmp_path / "vectors" / "set").glob("*-queries-*.npy")
    whole = file.read_bytes()
    np.save(file, 0 * np.load(file))
    file.with_name(f"{file.name}.blake2b").unlink()
    assert evaluate(encoder, folder, vectors=tmp_path / "vectors") == first
    assert file.read_bytes() == whole


def test_changed_vectors_of_documents_and_a_file_as_folder_are_refused(encoder, folder, tmp_path):
    evaluate(encoder, folder, vectors=tmp_path / "vectors")
    (file,) = (tmp_path / "vectors" / "set" / encoder.fingerprint).glob("shard-*.npy")
    content = bytearray(file.read_bytes())
    content[-2] ^= 4
    file.write_bytes(content)
    with pytest.raises(
        DataError, match=r"shard-000000\.npy: its content has changed since it was written .*remove the"
    ):
        evaluate(encoder, folder, vectors=tmp_path / "vectors")
    with pytest.raises(DataError, match=r"shard-000000\.npy is no folder; expected one for vectors"):
        evaluate(encoder, folder, vectors=file)


@pytest.mark.parametrize("model", ["bm25", "index"])
def test_vectors_of_what_has_none_are_refused(encoder, folder, tmp_path, model):
    system = model if model == "bm25" else Retriever(Index.build(tmp_path / "index", folder, encoder=encoder))
    with pytest.raises(ValueError, match="expected a model with them"):
        evaluate(system, folder, vectors=tmp_path / "vectors")


def test_the_parts_of_cqadupstack_count_alike(folder, tmp_path):
    forums = tmp_path / "cqadupstack"
    write_numbers(forums / "android", {"test": {"q0": {"d0": 1}, "q1": {"d5": 1}}})
    write_numbers(forums / "english", {"test": {"q2": {"d2": 1}, "q3": {"d3": 1}, "q4": {"d0": 1, "d1": 1}}})
    parts = {name: evaluate("bm25", forums / name) for name in ("android", "english")}
    whole = evaluate("bm25", forums)
    assert (whole.data, whole.num_queries, whole.num_documents) == ("cqadupstack", 5, 40)
    assert whole.metrics == mean_of(list(parts.values()))
    assert whole.metrics["ndcg@10"] != pytest.approx(sum(values["ndcg@10"] for values in whole.per_query.values()) / 5)
    assert whole.parts == {name: part.metrics for name, part in parts.items()}
    assert (
        set(whole.per_query) == set(whole.run) == {"android/q0", "android/q1", "english/q2", "english/q3", "english/q4"}
    )
    whole.write(tmp_path / "report.json")
    assert Evaluation.read(tmp_path / "report.json") == whole


def test_means_are_over_one_protocol_only(folder):
    full, paper = (evaluate("bm25", folder, protocol=protocol) for protocol in ("full", "paper"))
    assert mean_of([full, full]) == pytest.approx(full.metrics)
    for mixture in ([full, paper], []):
        with pytest.raises(ValueError, match="expected one protocol and the same metrics"):
            mean_of(mixture)


def test_msmarco_is_measured_on_dev_unless_told_otherwise(tmp_path):
    folder = write_numbers(tmp_path / "msmarco", {"dev": {"q0": {"d0": 1}}})
    assert evaluate("bm25", folder).split == "dev"
    with pytest.raises(DataError, match="no split 'test'; expected one of its splits: dev"):
        evaluate("bm25", folder, split="test")


def test_what_cannot_be_is_said_before_a_model_is_loaded(folder):
    with pytest.raises(DataError, match="expected one of its splits: dev, test"):
        evaluate("./nowhere", folder, split="train")
    for options, said in (
        ({"metrics": ["bleu"]}, "metric 'bleu'"),
        ({"protocol": "half"}, "expected one of full, paper"),
        ({"metrics": ["paper-ndcg@10"]}, "with protocol 'full'"),
        ({"metrics": ["ndcg@10"], "protocol": "paper"}, "with protocol 'paper'"),
        ({"own_document": "drop"}, "expected one of auto, ignore, keep"),
        ({"top_k": 0}, "top_k is 0"),
    ):
        with pytest.raises(ValueError, match=said):
            evaluate("./nowhere", folder, **options)

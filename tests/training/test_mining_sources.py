"""Mining with real models: from a corpus, an index or kept vectors, beside sentence-transformers' own; its files."""

import gzip
import hashlib
import json

import numpy as np
import pytest
from datasets import Dataset
from sentence_transformers import CrossEncoder
from sentence_transformers.util import mine_hard_negatives
from transformers import BertConfig, BertForSequenceClassification

from aveyb_ir import Encoder, Index, Retriever, evaluate
from aveyb_ir.data import Document, Query, read_training_rows, write_beir_folder
from aveyb_ir.errors import DataError, ModelError
from aveyb_ir.training import mine

_WORDS = ("garden", "table", "chair", "wall", "cat", "sun", "stairs", "ship", "fish", "salt", "river", "snow", "summer")


def text_of(rng, length):
    return " ".join(rng.choice(_WORDS, size=length))


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    """60 documents, 10 queries with one positive each, all different."""
    rng = np.random.default_rng(5)
    documents = [Document(f"d{i}", f"{text_of(rng, 12)} {i}", title=f"part {i}" if i % 3 else "") for i in range(60)]
    queries = [Query(f"q{i}", f"{text_of(rng, 4)} {i}") for i in range(10)]
    qrels = {query.id: {f"d{3 * i}": 1} for i, query in enumerate(queries)}
    folder = tmp_path_factory.mktemp("mining") / "words"
    write_beir_folder(folder, documents, queries, {"train": qrels, "test": qrels})
    return folder


@pytest.fixture(scope="module")
def encoder(bert_dir):
    return Encoder(bert_dir, device="cpu", max_length=64)


def rows_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_negatives_are_those_of_sentence_transformers(encoder, collection, tmp_path):
    mine(encoder, collection, tmp_path / "mined.jsonl", num_negatives=4, relative_margin=0.02, depth=60)
    rows = rows_of(tmp_path / "mined.jsonl")
    corpus = [json.loads(line) for line in (collection / "corpus.jsonl").read_text(encoding="utf-8").splitlines()]
    expected = mine_hard_negatives(
        Dataset.from_dict({"query": [row["query"] for row in rows], "answer": [row["pos"][0] for row in rows]}),
        encoder.model,
        corpus=[f"{document['title']} {document['text']}".strip() for document in corpus],
        relative_margin=0.02,
        num_negatives=4,
        range_max=60,
        query_prompt_name="query",
        corpus_prompt_name="document",
        output_format="labeled-list",
        output_scores=True,
        verbose=False,
    )
    theirs = {row["query"]: row for row in expected}
    assert any(row["neg"] for row in rows)
    for row in rows:
        if row["neg"] or row["query"] in theirs:
            assert theirs[row["query"]]["answer"] == row["pos"] + row["neg"]
            assert theirs[row["query"]]["scores"] == pytest.approx(row["pos_scores"] + row["neg_scores"], abs=1e-5)


@pytest.mark.parametrize("granularity", ["document", "both"])
def test_an_index_gives_what_its_corpus_gives(avey_dir, collection, tmp_path, granularity):
    encoder = Encoder(avey_dir, device="cpu")
    index = Index.build(tmp_path / "index", collection, encoder=encoder, granularity=granularity)
    exact = mine(encoder, collection, tmp_path / "exact.jsonl", bm25=True, depth=20)
    of_index = mine(Retriever(index), collection, tmp_path / "index.jsonl", bm25=True, depth=20)
    assert exact.num_negatives == of_index.num_negatives == 70
    for one, other in zip(rows_of(exact.output), rows_of(of_index.output), strict=True):
        assert one["neg"] == other["neg"]
        assert one["neg_scores"] + one["pos_scores"] == pytest.approx(
            other["neg_scores"] + other["pos_scores"], abs=2e-6
        )


def test_an_index_of_chunks_or_of_another_corpus_is_refused(avey_dir, collection, tmp_path):
    encoder = Encoder(avey_dir, device="cpu")
    chunks = Index.build(tmp_path / "chunks", collection, encoder=encoder, granularity="chunk")
    with pytest.raises(ValueError, match="chunks alone"):
        mine(Retriever(chunks), collection, tmp_path / "mined.jsonl")
    other = Index.build(tmp_path / "other", [Document(f"x{i}", f"text {i}") for i in range(9)], encoder=encoder)
    with pytest.raises(DataError, match="holds none of the 10 documents wanted"):
        mine(Retriever(other), collection, tmp_path / "mined.jsonl")


def test_kept_vectors_serve_evaluation_and_mining_alike(bert_dir, collection, tmp_path, monkeypatch):
    fresh = mine(Encoder(bert_dir, device="cpu"), collection, tmp_path / "fresh.jsonl")
    evaluate(Encoder(bert_dir, device="cpu"), collection, vectors=tmp_path / "vectors")
    encoder = Encoder(bert_dir, device="cpu")
    monkeypatch.setattr(encoder, "encode", lambda *_, **__: pytest.fail("something was encoded again"))
    kept = mine(encoder, collection, tmp_path / "kept.jsonl", vectors=tmp_path / "vectors")
    assert kept.output.read_bytes() == fresh.output.read_bytes()


def test_the_same_call_makes_the_same_files(encoder, collection, tmp_path):
    options = {"strategy": "sample", "bm25": True, "overwrite": True}
    mine(encoder, collection, tmp_path / "mined.jsonl", **options)
    first = [(tmp_path / name).read_bytes() for name in ("mined.jsonl", "mined.json")]
    mine(encoder, collection, tmp_path / "mined.jsonl", **options)
    assert first == [(tmp_path / name).read_bytes() for name in ("mined.jsonl", "mined.json")]


def test_the_record_says_what_the_file_was_made_from(encoder, collection, tmp_path):
    result = mine(encoder, collection, tmp_path / "mined.jsonl", relative_margin=0.01, num_negatives=3)
    record = json.loads(result.record.read_text(encoding="utf-8"))
    assert record["data"] == f"{collection} split train"
    assert record["num_documents"] == 60
    assert record["model"]["fingerprint"] == encoder.fingerprint
    assert record["rules"]["relative_margin"] == 0.01
    assert record["sha256"] == hashlib.sha256(result.output.read_bytes()).hexdigest()
    assert record["result"]["num_negatives"] == sum(len(row["neg"]) for row in rows_of(result.output))
    histogram = record["score_histogram"]
    assert sum(histogram["positives"]) == 10
    assert sum(histogram["negatives"]) == result.num_negatives
    assert len(histogram["edges"]) == 21
    assert result.negative_scores["max"] < result.positive_scores["max"]


def test_only_what_mining_wrote_is_replaced_and_only_if_asked(encoder, collection, tmp_path):
    output = tmp_path / "mined.jsonl"
    mine(encoder, collection, output, num_negatives=2)
    before = output.read_bytes()
    with pytest.raises(ValueError, match=r"mined\.jsonl: exists"):
        mine(encoder, collection, output)
    assert output.read_bytes() == before
    mine(encoder, collection, output, overwrite=True)
    assert output.read_bytes() != before
    own = tmp_path / "own.jsonl"
    own.write_text("my own rows\n", encoding="utf-8")
    with pytest.raises(ValueError, match="not replaced even with overwrite"):
        mine(encoder, collection, own, overwrite=True)
    with pytest.raises(ValueError, match=r"ends in \.jsonl or \.jsonl\.gz"):
        mine(encoder, collection, tmp_path / "mined.json")
    packed = mine(encoder, collection, tmp_path / "packed.jsonl.gz")
    assert packed.record.name == "packed.json"
    assert gzip.decompress(packed.output.read_bytes()) == output.read_bytes()
    assert read_training_rows(packed.output) == read_training_rows(output)


def write_cross_encoder(folder, tokenizer, num_labels):
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=64,
        num_labels=num_labels,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_cross_encoder_is_loaded_from_its_folder(encoder, collection, tokenizer, tmp_path):
    folder = write_cross_encoder(tmp_path / "reranker", tokenizer, 1)
    result = mine(encoder, collection, tmp_path / "mined.jsonl", cross_encoder=folder, num_negatives=3, min_score=-9.0)
    assert result.scored_by == "cross_encoder"
    record = json.loads(result.record.read_text(encoding="utf-8"))
    assert record["cross_encoder"]["name"] == str(folder)
    assert (record["rules"]["absolute_margin"], record["rules"]["min_score"]) == (0.0, -9.0)
    judge = CrossEncoder(str(folder), device="cpu")
    for row in rows_of(result.output):
        again = judge.predict([(row["query"], text) for text in row["pos"] + row["neg"]], apply_softmax=False)
        given = np.array(row["pos_scores"] + row["neg_scores"])
        assert again == pytest.approx(1 / (1 + np.exp(-given)), abs=1e-4)  # its own activation is a sigmoid
        assert all(score <= row["pos_scores"][0] for score in row["neg_scores"])


def test_what_is_no_reranker_is_refused_before_anything_is_searched(encoder, collection, tokenizer, tmp_path):
    folder = write_cross_encoder(tmp_path / "classifier", tokenizer, 2)
    with pytest.raises(ModelError, match="with 2 labels, expected one score"):
        mine(encoder, collection, tmp_path / "mined.jsonl", cross_encoder=folder)
    with pytest.raises(ModelError, match="cross_encoder: got"):
        mine(encoder, collection, tmp_path / "mined.jsonl", cross_encoder=tmp_path / "nowhere")

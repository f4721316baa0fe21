"""A cross-encoder's scores are those that Sentence Transformers gives, without its waste."""

import logging

import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder

from aveyb_ir.errors import ModelError
from aveyb_ir.retrieval import CrossEncoderReranker, LateInteraction, cross_encoder_reranker, load_reranker

DOCUMENTS = [
    "penicillin was discovered in 1928 by the Scottish scientist Alexander Fleming",
    "a small garden " * 20,
    "",
    "hello",
    "broken \ud800 text",
]
QUERIES = ["who discovered penicillin in 1928", "snow in the mountains"]


@pytest.fixture(params=["avey_reranker_dir", "bert_reranker_dir"])
def folder(request):
    return request.getfixturevalue(request.param)


def logits(folder, pairs):
    model = CrossEncoder(str(folder), device="cpu")
    clean = [[query, text.replace("\ud800", "\ufffd")] for query, text in pairs]
    return [float(model.predict([pair], activation_fn=torch.nn.Identity())[0]) for pair in clean]


def test_scores_are_the_logits_of_sentence_transformers(folder):
    reranker = load_reranker(folder, device="cpu")
    lists = [DOCUMENTS, DOCUMENTS[1:3]]
    for query, texts, scores in zip(QUERIES, lists, reranker.scores(QUERIES, lists), strict=True):
        assert scores.dtype == np.float32
        assert scores == pytest.approx(logits(folder, [(query, text) for text in texts]), abs=1e-4)
    assert np.ptp(reranker.scores(QUERIES[:1], [DOCUMENTS])[0]) > 0.01


def test_batches_and_order_change_nothing(folder):
    reranker = load_reranker(folder, device="cpu")
    (whole,) = reranker.scores(QUERIES[:1], [DOCUMENTS])
    (turned,) = reranker.scores(QUERIES[:1], [DOCUMENTS[::-1]])
    np.testing.assert_allclose(turned[::-1], whole, atol=1e-4)
    reranker._token_budget, told = 1, []
    (alone,) = reranker.scores(QUERIES[:1], [DOCUMENTS], progress=told.append)
    np.testing.assert_allclose(alone, whole, atol=1e-4)
    assert told == [1] * len(DOCUMENTS)
    assert [len(scores) for scores in reranker.scores([*QUERIES, "third"], [[], DOCUMENTS, []])] == [0, 5, 0]
    assert reranker.scores([], []) == []


def test_texts_of_one_length_are_computed_together(bert_reranker_dir, monkeypatch):
    reranker = load_reranker(bert_reranker_dir, device="cpu")
    shapes = []
    reranker.model.register_forward_pre_hook(lambda _, inputs: shapes.append(inputs[0]["input_ids"].shape))
    reranker._token_budget = 100
    reranker.scores(["snow"], [["sun", "a cat sleeps in the sun " * 4] * 6])
    assert all(rows * width <= 100 for rows, width in shapes)
    widths = [width for _, width in shapes]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < widths[0]


def test_a_cut_is_told_once_and_counted(bert_reranker_dir, caplog, monkeypatch):
    monkeypatch.setattr(cross_encoder_reranker, "_TOKENIZE_AT_ONCE", 2)
    reranker = load_reranker(bert_reranker_dir, device="cpu")
    long = "snow " * 200
    with caplog.at_level(logging.WARNING, "aveyb_ir"):
        reranker.scores(QUERIES, [[long, "sun", long], ["rain"]])
    whole = len(reranker.model.tokenizer(QUERIES[0], long, verbose=False)["input_ids"])
    assert reranker.counts.texts == 4
    assert reranker.counts.texts_cut == 2
    assert reranker.counts.tokens - reranker.counts.tokens_used == 2 * (whole - 64)
    (message,) = [record.message for record in caplog.records]
    assert message.startswith("2 of 4 pairs of query and document cut at 64 tokens (")
    assert load_reranker(bert_reranker_dir, device="cpu", max_length=20).max_length == 20
    with pytest.raises(ValueError, match=r"max_length is 65; .* takes 1 to 64 tokens"):
        load_reranker(bert_reranker_dir, device="cpu", max_length=65)


def test_avey_b_reads_whole_documents_and_every_part_sees_the_query(avey_reranker_dir, caplog):
    reranker = load_reranker(avey_reranker_dir, device="cpu")
    assert reranker.max_length is None
    long = "the river carries snow water " * 400
    scores = reranker.scores(["sun", "sea"], [[long + "sun", long + "sea"]] * 2)
    assert len({*scores[0].tolist(), *scores[1].tolist()}) == 4
    assert not caplog.records
    with caplog.at_level(logging.WARNING, "aveyb_ir"):
        reranker.scores(["sun", "where does the river carry snow water " * 3], [["sun"], ["sea"]])
    (message,) = [record.message for record in caplog.records]
    assert message.startswith("1 of 2 queries are longer than a chunk of 16 tokens: ")


def test_the_kind_is_read_from_the_files(avey_dir, bert_dir, avey_reranker_dir, bert_reranker_dir):
    for folder in (avey_reranker_dir, bert_reranker_dir):
        assert isinstance(load_reranker(folder, device="cpu"), CrossEncoderReranker)
        assert isinstance(load_reranker(folder.parent / "backbone", device="cpu"), CrossEncoderReranker)
    for folder in (avey_dir, bert_dir):
        assert isinstance(load_reranker(folder, device="cpu"), LateInteraction)
        assert isinstance(load_reranker(folder.parent / "backbone", device="cpu"), LateInteraction)
    assert load_reranker(avey_dir, kind="late_interaction", device="cpu").name == str(avey_dir)


def test_models_of_another_kind_are_refused(avey_dir, avey_reranker_dir, tmp_path):
    with pytest.raises(ModelError, match="is a model for late_interaction; expected one for cross_encoder"):
        load_reranker(avey_dir, kind="cross_encoder")
    with pytest.raises(ModelError, match="is a model for cross_encoder; expected one for late_interaction"):
        load_reranker(avey_reranker_dir, kind="late_interaction")
    with pytest.raises(ValueError, match="kind is 'colbert'; expected one of auto, cross_encoder, late_interaction"):
        load_reranker(avey_dir, kind="colbert")
    with pytest.raises(ModelError, match="No model folder"):
        load_reranker(tmp_path / "nothing")
    (tmp_path / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(ModelError, match=r"config.json cannot be read \(JSONDecodeError"):
        load_reranker(tmp_path)
    (tmp_path / "config_sentence_transformers.json").write_text('{"model_type": "SparseEncoder"}', encoding="utf-8")
    with pytest.raises(ModelError, match="is a SparseEncoder of Sentence Transformers; expected one of CrossEncoder"):
        load_reranker(tmp_path)


def test_several_scores_for_a_pair_are_refused(avey_dir):
    model = CrossEncoder(str(avey_dir), device="cpu", num_labels=3)
    with pytest.raises(ModelError, match="with 3 labels, expected one score"):
        CrossEncoderReranker(model)

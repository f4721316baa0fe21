"""Scores of late interaction are those of its formula, however they are computed."""

import logging

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from aveyb_ir.encoding import Encoder
from aveyb_ir.errors import ModelError
from aveyb_ir.models import modeling_aveyb
from aveyb_ir.retrieval import LateInteraction, late_interaction

DOCUMENTS = [
    "penicillin was discovered in 1928 by the Scottish scientist Alexander Fleming",
    "the river carries snow water from the mountains to the sea",
    "a small garden " * 12 + "with penicillin",
    "hello",
]
QUERIES = ["who discovered penicillin in 1928", "snow in the mountains"]


@pytest.fixture(params=["avey_dir", "bert_dir"])
def reranker(request):
    return LateInteraction(Encoder(request.getfixturevalue(request.param), device="cpu"))


def vectors(encoder, text, kind):
    """Unit states of the tokens that stand for the text's own characters, one text at a time, and those characters."""
    prompt, tokenizer = encoder.prompt(kind), encoder.model.tokenizer
    features = tokenizer(
        prompt + text, return_tensors="pt", return_offsets_mapping=True, return_special_tokens_mask=True
    )
    offsets, special = features.pop("offset_mapping")[0], features.pop("special_tokens_mask")[0]
    with torch.no_grad():
        states = encoder.model.transformers_model(
            input_ids=features["input_ids"], attention_mask=features["attention_mask"]
        ).last_hidden_state[0]
    own = (special == 0) & (offsets[:, 1] > len(prompt))
    return torch.nn.functional.normalize(states[own], dim=-1), (offsets[own] - len(prompt)).tolist()


def by_definition(encoder, query, text):
    query, document = vectors(encoder, query, "query")[0], vectors(encoder, text, "document")[0]
    return float((query @ document.T).amax(dim=1).sum())


def test_scores_are_the_formula(reranker):
    found = reranker.scores(QUERIES, [DOCUMENTS, DOCUMENTS[1:3]])
    for query, texts, scores in zip(QUERIES, [DOCUMENTS, DOCUMENTS[1:3]], found, strict=True):
        assert scores.dtype == np.float32
        assert scores == pytest.approx([by_definition(reranker.encoder, query, text) for text in texts], abs=1e-4)
    assert np.ptp(found[0]) > 0.05  # the control: documents do differ


def test_order_company_and_blocks_change_nothing(reranker, monkeypatch):
    (whole,) = reranker.scores(QUERIES[:1], [DOCUMENTS])
    (turned,) = reranker.scores(QUERIES[:1], [DOCUMENTS[::-1]])
    np.testing.assert_allclose(turned[::-1], whole, atol=1e-4)
    monkeypatch.setattr(late_interaction, "_BLOCK_SIMILARITIES", 1)
    monkeypatch.setitem(modeling_aveyb._MICRO_BATCH_ROWS, "cpu", 1)
    reranker.encoder.token_budget = 1
    found = reranker.scores([*QUERIES, QUERIES[0]], [DOCUMENTS, DOCUMENTS, DOCUMENTS])
    np.testing.assert_allclose(found[0], whole, atol=1e-4)
    np.testing.assert_allclose(found[0], found[2], atol=1e-5)
    assert not np.allclose(found[0], found[1], atol=1e-2)


def test_a_text_that_comes_twice_is_read_once(reranker):
    told = []
    found = reranker.scores(QUERIES, [DOCUMENTS * 2, DOCUMENTS], progress=told.append)
    assert reranker.counts.texts == len(QUERIES) + len(DOCUMENTS)
    assert sum(told) == 3 * len(DOCUMENTS)
    assert np.array_equal(found[0][: len(DOCUMENTS)], found[0][len(DOCUMENTS) :])


def test_every_token_of_a_query_tells_what_it_found(reranker):
    query, text = QUERIES[0], DOCUMENTS[2]
    matches = reranker.matches(query, text)
    (scores,) = reranker.scores([query], [[text]])
    assert sum(match.similarity for match in matches) == pytest.approx(scores[0], abs=1e-4)
    asked, query_spans = vectors(reranker.encoder, query, "query")
    answers, spans = vectors(reranker.encoder, text, "document")
    assert [list(match.query_span) for match in matches] == query_spans
    similarities = asked @ answers.T
    for match, row in zip(matches, similarities, strict=True):
        assert match.similarity == pytest.approx(float(row.max()), abs=1e-4)
        assert row[spans.index(list(match.document_span))] == pytest.approx(match.similarity, abs=1e-4)
    assert "".join(query[slice(*match.query_span)] for match in matches) in (query, query.replace(" ", ""))


def test_a_document_without_tokens_is_the_worst_and_a_query_without_tokens_says_nothing(reranker):
    (scores,) = reranker.scores(QUERIES[:1], [["", *DOCUMENTS]])
    matches = reranker.matches(QUERIES[0], "")
    assert scores[0] == -len(matches) == sum(match.similarity for match in matches)
    assert {match.document_span for match in matches} == {None}
    assert scores[0] < scores[1:].min()
    assert reranker.scores(["", QUERIES[0]], [DOCUMENTS[:2], []])[0].tolist() == [0, 0]
    assert reranker.scores([], []) == []


def test_a_cut_is_told_once_and_counted(bert_dir, caplog):
    reranker = LateInteraction(Encoder(bert_dir, device="cpu"))
    long = "the river carries snow water " * 40
    with caplog.at_level(logging.WARNING, "aveyb_ir"):
        reranker.scores(QUERIES, [[long, DOCUMENTS[3]], [long + "end"]])
    (message,) = [record.message for record in caplog.records]
    counts = reranker.counts
    assert message == f"2 of 5 texts cut at 64 tokens ({counts.tokens_used} of {counts.tokens} tokens used)."
    assert counts.texts_cut == 2
    assert counts.tokens > counts.tokens_used > 128


def test_avey_b_reads_to_the_end(avey_dir, caplog):
    reranker = LateInteraction(Encoder(avey_dir, device="cpu"))
    long = "the river carries snow water " * 400
    (scores,) = reranker.scores(QUERIES[:1], [[long, long + "penicillin was discovered in 1928"]])
    assert scores[1] > scores[0] + 0.1
    assert not caplog.records


def test_models_without_tokens_are_refused():
    class Words(torch.nn.Module):
        def forward(self, features):
            return features

    model = SentenceTransformer(modules=[Words()], device="cpu")
    encoder = object.__new__(Encoder)
    encoder.model, encoder.name = model, "words"
    with pytest.raises(ModelError, match="words has no token states to compare; expected a bi-encoder"):
        LateInteraction(encoder)

"""An explanation is true: its numbers are those that made the score, and what it says flowed in did."""

import copy
import dataclasses
import itertools
import pickle

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

from aveyb_ir import Encoder, Index, Retriever
from aveyb_ir.data import Document
from aveyb_ir.errors import ModelError
from aveyb_ir.models.blocks_aveyb import AveyBRanker
from aveyb_ir.retrieval import LateInteraction, RetrievedChunk, explain

QUERY = "who discovered penicillin"
WORDS = "the small garden has a wooden table ; children swim in the river, penicillin was found ; ships return at night"
LONG = " ".join(np.random.default_rng(3).permutation(WORDS.split() * 15))
DOCUMENTS = [
    Document("long", LONG, title="A long one"),
    Document("short", "penicillin was discovered in London"),
    Document("empty", ""),
]


@pytest.fixture(scope="module")
def encoder(avey_dir):
    return Encoder(avey_dir)


@pytest.fixture(scope="module")
def bert(bert_dir):
    return Encoder(bert_dir)


def built(tmp_path, encoder, granularity="document", **options):
    return Retriever(Index.build(tmp_path / "index", DOCUMENTS, encoder=encoder, granularity=granularity), **options)


def hit_for(retriever, id="long", **options):
    return next(hit for hit in retriever.search(QUERY, top_k=3, **options) if hit.id == id)


@pytest.mark.parametrize("granularity", ["document", "chunk", "both"])
def test_its_cosines_make_the_score(tmp_path, encoder, granularity):
    hit = hit_for(built(tmp_path, encoder, granularity), document_weight=0.25)
    found = hit.explain()
    whole, best = found.cosine, max(part.cosine for part in found.parts)
    score = {"document": whole, "chunk": best, "both": 0.25 * whole + 0.75 * best}[granularity]
    assert found.score == hit.score == pytest.approx(score, abs=1e-5)
    assert abs(whole - best) > 1e-3, "else the three could not be told apart"
    assert found.best_part.cosine == best
    if granularity != "document":
        assert hit.span == found.best_part.span


def test_its_parts_are_the_encoders_chunks(encoder):
    found = explain(encoder, QUERY, DOCUMENTS[0])
    (encoded,) = encoder.encode_chunks([DOCUMENTS[0].full_text])
    assert [part.span for part in found.parts] == encoded.spans
    assert [part.number for part in found.parts] == list(range(1, 1 + len(encoded.spans)))
    cosines = encoded.chunk_vectors @ encoder.encode_queries(QUERY)
    np.testing.assert_allclose([part.cosine for part in found.parts], cosines, atol=1e-6)
    assert [part.cosine for part in found.best_parts] == sorted((part.cosine for part in found.parts), reverse=True)
    assert found.text_of(found.parts[2]) == DOCUMENTS[0].full_text[slice(*encoded.spans[2])]


def test_what_it_says_was_brought_is_what_the_forward_pass_used(encoder, monkeypatch):
    used = []
    compress = AveyBRanker.compress

    def watched(self, embedding, token_T, start_C, bucket, chunk_CK, weight_CK):
        used.append((chunk_CK.clone(), weight_CK.clone()))
        return compress(self, embedding, token_T, start_C, bucket, chunk_CK, weight_CK)

    monkeypatch.setattr(AveyBRanker, "compress", watched)
    (encoded,) = encoder.encode_chunks([DOCUMENTS[0].full_text])
    chunk_CK, weight_CK = used[0]
    found = explain(encoder, QUERY, DOCUMENTS[0])
    assert len(found.parts) == len(encoded.spans) == len(chunk_CK) > 10
    for part, chunk_K, weight_K in zip(found.parts, chunk_CK.tolist(), weight_CK.tolist(), strict=True):
        expected = [(chunk + 1, weight) for chunk, weight in zip(chunk_K, weight_K, strict=True) if chunk >= 0]
        assert [(one.number, one.weight) for one in part.retrieved] == expected
        assert len(part.retrieved) == min(part.number - 1, 2)
        assert all(one.number < part.number for one in part.retrieved)


def test_only_what_was_brought_to_a_chunk_changes_it(encoder):
    """The token ids of an earlier chunk are exchanged, with the choice held: cosines change where it was brought."""
    found = explain(encoder, QUERY, DOCUMENTS[0])
    number = next(one.number for one in found.parts[-2].retrieved)
    takers = {part.number for part in found.parts if number in [one.number for one in part.retrieved]}
    backbone, asked = encoder.model.transformers_model, encoder.encode_queries(QUERY)
    ids = torch.tensor(encoder.model.tokenizer("document: " + DOCUMENTS[0].full_text)["input_ids"])
    changed = ids.clone()
    changed[(number - 1) * 16 : number * 16] = ids[:16].flip(0)
    states = backbone.encode_chunks(ids, [len(ids)])
    choice = backbone.ranker.retrieve(backbone.embed, ids, states.chunks)
    backbone.ranker.retrieve = lambda *_: choice
    try:
        others = backbone.encode_chunks(changed, [len(ids)])
    finally:
        del backbone.ranker.retrieve
    before, after = ((one.mean_CD / one.mean_CD.norm(dim=1, keepdim=True)).numpy() @ asked for one in (states, others))
    np.testing.assert_allclose(before, [part.cosine for part in found.parts], atol=1e-5)
    differ = {row + 1 for row in np.flatnonzero(np.abs(before - after) > 1e-5).tolist()}
    assert differ == takers | {number}
    assert 1 < len(differ) < len(found.parts)


def test_alone_is_the_cosine_of_a_chunk_that_is_a_text_of_its_own(encoder, monkeypatch):
    found = explain(encoder, QUERY, DOCUMENTS[0])
    assert found.parts[0].cosine_alone == pytest.approx(found.parts[0].cosine, abs=1e-6)
    assert max(abs(part.cosine_alone - part.cosine) for part in found.parts) > 1e-3
    monkeypatch.setattr(encoder.model.transformers_model.ranker, "k", 0)
    found = explain(encoder, QUERY, DOCUMENTS[0])
    assert [part.retrieved for part in found.parts] == [()] * len(found.parts)


def test_tokens_add_up_to_the_score_of_late_interaction(tmp_path, encoder):
    retriever = built(tmp_path, encoder, reranker=LateInteraction(encoder))
    hit = hit_for(retriever)
    found = hit.explain(tokens=True)
    assert found.late_interaction_score == pytest.approx(hit.scores["reranker"], abs=1e-4)
    assert found.late_interaction_score == pytest.approx(sum(match.similarity for match in found.token_matches))
    asked = "".join(QUERY[slice(*match.query_span)] for match in found.token_matches)
    assert asked == QUERY.replace(" ", "")
    assert all(found.document.full_text[slice(*match.document_span)].strip() for match in found.token_matches)
    without = hit.explain()
    assert (without.token_matches, without.token_model, without.late_interaction_score) == (None, None, None)


def test_tokens_are_those_of_a_reranker_of_another_model(tmp_path, encoder, bert):
    hit = hit_for(built(tmp_path, bert, reranker=LateInteraction(encoder)))
    found = hit.explain(tokens=True)
    assert (found.encoder, found.token_model) == (bert.name, encoder.name)
    assert found.late_interaction_score == pytest.approx(hit.scores["reranker"], abs=1e-4)
    places = [match.document_span[0] for match in found.token_matches]
    assert [found.part_at(place) is None for place in places] == [place >= found.num_read for place in places]
    assert max(places) >= found.num_read, "the reranker reads on where the encoder's limit cut the text"


def test_a_model_without_chunks_is_explained_by_passages_of_what_it_read(tmp_path, bert):
    found = hit_for(built(tmp_path, bert)).explain()
    assert found.unit == "passage"
    assert found.cosine == pytest.approx(found.score, abs=1e-5)
    assert found.num_read == found.parts[-1].span[1] < len(found.document.full_text)
    for part in found.parts:
        vector = bert.encode_documents(found.text_of(part))
        assert part.cosine == part.cosine_alone == pytest.approx(float(vector @ bert.encode_queries(QUERY)), abs=1e-5)
        assert part.retrieved == ()
    assert found.part_at(found.num_read) is None
    assert found.part_at(found.num_read - 1) is found.parts[-1]


def test_a_length_limit_shows_in_what_was_read(avey_dir):
    limited = explain(Encoder(avey_dir, max_length=40), QUERY, DOCUMENTS[0])
    assert len(limited.parts) == 3
    assert limited.num_read == limited.parts[-1].span[1] < len(LONG)
    whole = explain(Encoder(avey_dir), QUERY, DOCUMENTS[0])
    assert whole.num_read == len(DOCUMENTS[0].full_text)


def test_a_vector_cut_to_its_first_numbers_is_explained_as_it_is(avey_dir, tmp_path):
    hit = hit_for(built(tmp_path, Encoder(avey_dir, truncate_dim=8), "chunk"))
    found = hit.explain()
    assert found.best_part.cosine == pytest.approx(hit.score, abs=1e-5)
    assert found.parts[0].cosine_alone == pytest.approx(found.parts[0].cosine, abs=1e-6)


def test_a_document_without_text_has_nothing_to_explain(tmp_path, encoder, bert):
    for number, model in enumerate([encoder, bert]):
        found = hit_for(built(tmp_path / str(number), model), "empty").explain(tokens=True)
        assert [found.text_of(part) for part in found.parts] in ([], [""])
        assert {match.document_span for match in found.token_matches} == {None}
        assert found.late_interaction_score == -len(found.token_matches)


def test_a_character_whose_tokens_are_in_two_chunks_is_in_the_stretch_of_the_first(encoder):
    found = explain(encoder, QUERY, Document("d", "👩‍🔬🇦🇶🏴‍☠️" * 30))
    overlaps = [(a, b) for a, b in itertools.pairwise(found.parts) if b.span[0] < a.span[1]]
    assert overlaps
    assert [found.part_at(b.span[0]) for _, b in overlaps] == [a for a, _ in overlaps]
    ends = [end for _, end in found.stretches]
    assert found.stretches == list(zip([0, *ends], ends, strict=False))
    assert ends[-1] == len(found.document.full_text)


def test_any_document_of_the_index_can_be_asked_for(tmp_path, encoder):
    retriever = built(tmp_path, encoder, "chunk")
    by_id, by_hit = retriever.explain(QUERY, "long"), hit_for(retriever).explain()
    assert by_id.score is None
    assert dataclasses.replace(by_id, score=by_hit.score, scores=by_hit.scores, ranks=by_hit.ranks) == by_hit
    assert retriever.explain(QUERY, DOCUMENTS[0]) == by_id
    with pytest.raises(ValueError, match=r"1 id\(s\) are not in the index .*'nowhere'"):
        retriever.explain(QUERY, "nowhere")


def test_a_hit_is_explained_for_its_own_query(tmp_path, encoder):
    retriever = built(tmp_path, encoder)
    queries = [QUERY, "ships at night"]
    for query, hits in zip(queries, retriever.search(queries), strict=True):
        assert [hit.explain().query for hit in hits] == [query] * 3


def test_what_explains_a_hit_does_not_travel_with_it(tmp_path, encoder):
    hit = hit_for(built(tmp_path, encoder))
    copies = [pickle.loads(pickle.dumps(hit)), copy.deepcopy(hit), dataclasses.replace(hit)]
    for one in copies:
        assert one == hit
        assert repr(one) == repr(hit)
        with pytest.raises(ValueError, match=r"'long' does not know what found it.*use Retriever\.explain"):
            one.explain()
    assert set(dataclasses.asdict(hit)) == {"document", "score", "span", "scores", "ranks"}
    assert len(pickle.dumps(hit)) < 3 * len(LONG)


def test_an_index_opened_without_its_encoder_says_so(tmp_path, encoder):
    built(tmp_path, encoder)
    (hit,) = Retriever(tmp_path / "index", mode="bm25").search("London", top_k=1)
    with pytest.raises(ValueError, match="was opened for mode 'bm25', without an encoder"):
        hit.explain()
    assert Retriever(tmp_path / "index").explain("London", hit).scores == hit.scores


def test_a_model_that_knows_no_characters_is_refused(tokenizer):
    static = StaticEmbedding(tokenizer.backend_tokenizer, embedding_dim=8)
    with pytest.raises(ModelError, match="cannot tell which characters of a text a token is"):
        explain(Encoder(SentenceTransformer(modules=[static], device="cpu")), QUERY, DOCUMENTS[0])


def test_as_json_it_has_every_number_and_text(encoder):
    found = explain(encoder, QUERY, DOCUMENTS[0], tokens=True)
    shown = found.to_json()
    part = shown["parts"][-1]
    assert part["text"] == found.text_of(found.parts[-1])
    assert [RetrievedChunk(**one) for one in part["retrieved"]] == list(found.parts[-1].retrieved)
    assert shown["late_interaction_score"] == found.late_interaction_score
    assert shown["characters"] == shown["characters_read"] == len(found.document.full_text)
    match = shown["token_matches"][0]
    assert match["document_text"] == found.document.full_text[slice(*match["document_span"])]

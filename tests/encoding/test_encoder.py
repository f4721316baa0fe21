"""Vectors depend on the text, the prompt and the model, and on nothing else."""

import json
import logging
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling

from aveyb_ir import Encoder
from aveyb_ir.errors import ModelError
from aveyb_ir.packaged import DEFAULT_MODEL

CASES = Path(__file__).parent / "cases"
TEXTS = [json.loads(line)["text"] for line in (CASES / "padding_texts.jsonl").read_text(encoding="utf-8").splitlines()]
EMPTY = json.loads((CASES / "empty_texts.json").read_text(encoding="utf-8"))
LONG = {
    record["_id"]: record["text"]
    for record in map(json.loads, (CASES / "long_corpus.jsonl").read_text(encoding="utf-8").splitlines())
}


@pytest.fixture(params=["avey", "bert"])
def model_dir(request):
    return request.getfixturevalue(f"{request.param}_dir")


@pytest.fixture
def encoder(model_dir):
    return Encoder(model_dir)


def test_sentence_transformers_gives_the_same_vectors(model_dir, encoder):
    stock = SentenceTransformer(str(model_dir), device="cpu")
    np.testing.assert_allclose(encoder.encode_queries(TEXTS), stock.encode_query(TEXTS), atol=2e-6)
    np.testing.assert_allclose(encoder.encode_documents(TEXTS), stock.encode_document(TEXTS), atol=2e-6)


@pytest.mark.parametrize("token_budget", [1, 40, 300, 100_000])
@pytest.mark.parametrize("backwards", [False, True])
def test_batches_and_order_change_nothing(model_dir, encoder, token_budget, backwards):
    alone = np.stack([encoder.encode_documents(text) for text in TEXTS])
    step = -1 if backwards else 1
    together = Encoder(model_dir, token_budget=token_budget).encode_documents(TEXTS[::step])[::step]
    np.testing.assert_allclose(together, alone, atol=1e-5)
    query = encoder.encode_queries(TEXTS[3])
    assert np.argsort(-(together @ query)).tolist() == np.argsort(-(alone @ query)).tolist()


def test_bfloat16_is_close(avey_dir, encoder, monkeypatch):
    from aveyb_ir.encoding import devices

    monkeypatch.setattr(devices, "cpu_has_fast", lambda dtype: True)
    half = Encoder(avey_dir, dtype="bfloat16")
    whole = Encoder(avey_dir)
    cosine = (half.encode_documents(TEXTS) * whole.encode_documents(TEXTS)).sum(1)
    assert cosine.min() >= 0.999
    assert half.fingerprint == whole.fingerprint


def test_one_string_gives_one_vector(encoder):
    alone = encoder.encode_documents("the small garden")
    assert alone.shape == (encoder.dimension,)
    assert alone.dtype == np.float32
    np.testing.assert_array_equal(encoder.encode_documents(["the small garden"]), alone[None])


def test_lone_surrogates_are_read_as_replacement_characters(encoder):
    np.testing.assert_array_equal(encoder.encode_documents("a\ud83dc"), encoder.encode_documents("a\ufffdc"))


def test_prompts_make_a_difference(encoder):
    assert np.abs(encoder.encode_queries("the cat") - encoder.encode_documents("the cat")).max() > 1e-3
    with pytest.raises(ValueError, match="expected 'query' or 'document'"):
        encoder.encode("the cat", "passage")


@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "lasttoken"])
def test_empty_texts(model_dir, encoder, pooling):
    for module in encoder.model:
        if isinstance(module, Pooling):
            module.pooling_mode = pooling
    vectors = encoder.encode_documents(EMPTY)
    assert vectors.shape == (8, encoder.dimension)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(vectors[[1, 2, 6]], vectors[[0, 0, 0]], atol=1e-6)
    np.testing.assert_allclose(vectors[7], encoder.encode_documents("hello world"), atol=1e-6)
    assert np.argmax(vectors @ encoder.encode_documents("hello world")) == 7
    assert encoder.encode_documents([]).shape == (0, encoder.dimension)


def test_a_text_without_any_token_is_zeros(avey_dir):
    encoder = Encoder(avey_dir)
    encoder.model.tokenizer.backend_tokenizer.post_processor = None
    encoder.model.prompts = {}
    vectors = encoder.encode_documents(["", "hello world", ""])
    assert np.abs(vectors[[0, 2]]).max() == 0
    np.testing.assert_allclose(np.linalg.norm(vectors[1]), 1, atol=1e-6)


def test_long_texts_are_read_to_their_end(avey_dir):
    encoder = Encoder(avey_dir)
    vectors = encoder.encode_documents(list(LONG.values()))
    ids = list(LONG)
    same, different = (vectors[ids.index(name)] for name in ("same", "diff"))
    assert np.abs(same - different).max() > 1e-4  # eleven of 6,000 words differ, the last ones
    assert encoder.max_length is None
    assert encoder.counts.texts_cut == 0
    assert encoder.counts.tokens == encoder.counts.tokens_used > 10_000


def test_a_limit_cuts_and_says_so(avey_dir, caplog):
    encoder = Encoder(avey_dir, max_length=512)
    with caplog.at_level(logging.WARNING, logger="aveyb_ir"):
        vectors = dict(zip(LONG, encoder.encode_documents(list(LONG.values())), strict=True))
    np.testing.assert_array_equal(vectors["same"], vectors["diff"])
    assert "2 of 3 texts cut at 512 tokens" in caplog.text
    assert encoder.counts.texts_cut == 2
    assert encoder.counts.tokens > 10_000 > encoder.counts.tokens_used


def test_a_limit_survives_saving(avey_dir, tmp_path):
    encoder = Encoder(avey_dir, max_length=100)
    encoder.model.save(str(tmp_path / "limited"), create_model_card=False)
    again = Encoder(tmp_path / "limited")
    assert again.max_length == 100
    again.encode_documents(list(LONG.values()))
    assert again.counts.texts_cut == 2
    assert again.fingerprint == encoder.fingerprint


def test_a_limit_beyond_the_models_is_refused(bert_dir):
    assert Encoder(bert_dir).max_length == 64
    with pytest.raises(ValueError, match=r"max_length is 65; .* takes 1 to 64 tokens"):
        Encoder(bert_dir, max_length=65)


def test_fingerprint_follows_what_decides_vectors(avey_dir, bert_dir):
    original = Encoder(avey_dir).fingerprint
    assert Encoder(avey_dir).fingerprint == original
    changed = {"bert": Encoder(bert_dir), "limit": Encoder(avey_dir, max_length=50)}
    for name, change in {
        "prompt": lambda model: model.prompts.update(query="question: "),
        "pooling": lambda model: setattr(model[1], "pooling_mode", "cls"),
        "weights": lambda model: torch.nn.init.constant_(model[0].model.layers[0].alpha, 0.5),
        "arithmetic": lambda model: setattr(model[0].model.config, "tail", "zero"),
    }.items():
        changed[name] = Encoder(avey_dir)
        change(changed[name].model)
    assert len({original, *(encoder.fingerprint for encoder in changed.values())}) == len(changed) + 1


def test_a_setting_that_is_changed_after_loading_shows(avey_dir):
    encoder = Encoder(avey_dir)
    before = encoder.fingerprint
    encoder.model.max_seq_length = 30
    limited = encoder.fingerprint
    encoder.model.prompts = {"query": "X "}
    assert len({before, limited, encoder.fingerprint}) == 3


def test_padding_side_changes_nothing(avey_dir):
    right, left = Encoder(avey_dir), Encoder(avey_dir)
    left.model.tokenizer.padding_side = "left"
    np.testing.assert_allclose(left.encode_documents(TEXTS), right.encode_documents(TEXTS), atol=1e-5)


def test_a_model_with_needs_of_its_own_goes_through_sentence_transformers(avey_dir):
    encoder = Encoder(avey_dir)
    encoder.model.set_pooling_include_prompt(False)
    stock = SentenceTransformer(str(avey_dir), device="cpu")
    stock.set_pooling_include_prompt(False)
    vectors = encoder.encode_documents(TEXTS)
    np.testing.assert_allclose(vectors, stock.encode_document(TEXTS), atol=2e-6)
    assert np.abs(vectors - Encoder(avey_dir).encode_documents(TEXTS)).max() > 1e-4


@pytest.mark.parametrize("name", ["/no/such/folder", "./nowhere", "a/b/c"])
def test_a_missing_folder_is_named(name):
    with pytest.raises(ModelError, match="No model folder"):
        Encoder(name)


def test_a_folder_that_is_no_model_is_refused(tmp_path):
    with pytest.raises(ModelError, match=r"neither modules\.json .* nor config\.json"):
        Encoder(tmp_path)


def test_a_hub_name_without_network_is_one_clear_line():
    with pytest.raises(ModelError, match="Cannot load the model 'nobody/no-such-model'") as error:
        Encoder("nobody/no-such-model")
    assert "\n" not in str(error.value)


def test_damaged_weights_are_a_model_error(avey_dir, tmp_path):
    shutil.copytree(avey_dir, tmp_path / "model")
    weights = tmp_path / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ModelError, match="Cannot load the model"):
        Encoder(tmp_path / "model")


def test_chunks_come_with_their_characters(avey_dir):
    encoder = Encoder(avey_dir)
    texts = ["", LONG["short"], LONG["diff"], "whales sing. " * 9]
    chunked = encoder.encode_chunks(texts)
    np.testing.assert_allclose(np.stack([text.vector for text in chunked]), encoder.encode_documents(texts), atol=1e-6)
    for text, found in zip(texts, chunked, strict=True):
        assert len(found.spans) == len(found.chunk_vectors) >= 1
        np.testing.assert_allclose(np.linalg.norm(found.chunk_vectors, axis=1), 1, atol=1e-6)
        assert "".join(text[start:end] for start, end in found.spans).replace(" ", "") == text.replace(" ", "")
    last = chunked[2].chunk_vectors[-1]
    same_but_last = encoder.encode_chunks([LONG["same"]])[0].chunk_vectors
    np.testing.assert_allclose(chunked[2].chunk_vectors[:450], same_but_last[:450], atol=1e-6)
    assert last @ same_but_last[-1] < 0.9999


def test_a_chunk_vector_is_the_mean_of_its_tokens(avey_dir):
    encoder = Encoder(avey_dir)
    text = "whales sing. " * 9
    stock = SentenceTransformer(str(avey_dir), device="cpu")
    states = stock.encode_document(text, output_value="token_embeddings")
    expected = torch.stack([part.mean(0) for part in states.split(16)])
    expected = torch.nn.functional.normalize(expected, dim=-1).numpy()
    np.testing.assert_allclose(encoder.encode_chunks([text])[0].chunk_vectors, expected, atol=1e-5)


def test_a_model_without_chunks_says_so(bert_dir):
    with pytest.raises(ValueError, match="has no chunks"):
        Encoder(bert_dir).encode_chunks(["text"])


def test_vectors_are_cut_and_made_unit_again(avey_dir):
    whole, cut = Encoder(avey_dir), Encoder(avey_dir, truncate_dim=5)
    expected = whole.encode_documents(TEXTS)[:, :5]
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert cut.dimension == 5
    assert np.allclose(cut.encode_documents(TEXTS), expected, atol=1e-6)
    chunks = cut.encode_chunks(TEXTS)
    assert np.allclose([text.vector for text in chunks], expected, atol=1e-6)
    assert all(text.chunk_vectors.shape[1] == 5 for text in chunks)
    assert cut.fingerprint != whole.fingerprint
    assert cut.fingerprint != Encoder(avey_dir, truncate_dim=4).fingerprint


@pytest.mark.parametrize("number", [0, -1, 4096])
def test_vectors_cannot_be_cut_to_what_they_are_not(avey_dir, number):
    with pytest.raises(ValueError, match=f"truncate_dim is {number}; .* has vectors of"):
        Encoder(avey_dir, truncate_dim=number)


def test_the_packaged_model_is_found_by_its_name_and_a_folder_goes_before_it(tmp_path, monkeypatch, avey_dir, caplog):
    monkeypatch.chdir(tmp_path)
    packaged = Encoder(DEFAULT_MODEL, dtype="float32")
    assert "significantly slower" not in caplog.text  # it is stored in half precision, and computes as was asked
    assert packaged.name == DEFAULT_MODEL
    assert packaged.encode_queries("what is a retriever").shape == (packaged.dimension,)
    shutil.copytree(avey_dir, tmp_path / DEFAULT_MODEL)
    assert Encoder(DEFAULT_MODEL).fingerprint == Encoder(avey_dir).fingerprint != packaged.fingerprint

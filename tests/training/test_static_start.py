import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from aveyb_ir.config import ModelSection
from aveyb_ir.errors import RecipeError
from aveyb_ir.training.distillation_loss import turned_to
from aveyb_ir.training.embedding_fit import fit_embeddings
from aveyb_ir.training.model import build_sentence_transformer
from aveyb_ir.training.ragged import Ragged
from aveyb_ir.training.static_start import static_embeddings

TEXTS = ["the cat sleeps in the sun", "the ships return at night with fish", "who discovered penicillin", "the wall"]


@pytest.fixture
def bi_encoder(bert_dir):
    return SentenceTransformer(str(bert_dir), device="cpu")


def test_tokens_of_the_texts_are_white_before_they_are_weighted_by_rarity(bi_encoder):
    width = 6
    found = static_embeddings(bi_encoder, TEXTS, width).astype(np.float64)
    counts = np.full(len(bi_encoder.tokenizer), 0.5)
    for ids in bi_encoder.tokenizer(TEXTS)["input_ids"]:
        np.add.at(counts, ids, 1)
    share = counts / counts.sum()
    unweighted = found * ((1e-3 + share) / 1e-3)[:, None]
    covariance = (unweighted.T * share) @ unweighted
    assert np.allclose(share @ unweighted, 0, atol=1e-5 * np.abs(unweighted).max())
    assert np.allclose(covariance, covariance[0, 0] * np.eye(width), atol=1e-4 * covariance[0, 0])
    weighted = (found.T * share) @ found  # what the check would see without the weights taken off
    assert not np.allclose(weighted, weighted[0, 0] * np.eye(width), atol=1e-2 * weighted[0, 0])


def test_a_token_gets_its_own_state_between_the_special_tokens(bi_encoder):
    # A model whose layers do nothing tells tokens apart by their embeddings alone: equal embeddings, equal starts.
    table = bi_encoder[0].auto_model.get_input_embeddings().weight.data
    first, second = bi_encoder.tokenizer("cat sun", add_special_tokens=False)["input_ids"][:2]
    before = static_embeddings(bi_encoder, [], 6)
    table[first] = table[second]
    after = static_embeddings(bi_encoder, [], 6)
    assert not np.allclose(before[first], before[second], atol=1e-3)
    assert np.allclose(after[first], after[second], atol=1e-6)


def test_a_start_wider_than_the_model_is_refused(bi_encoder):
    with pytest.raises(RecipeError, match="embeddings_from: got a model whose tokens differ in"):
        static_embeddings(bi_encoder, TEXTS, 4096)


def test_a_fresh_model_takes_the_tokenizer_and_the_start(bert_dir, bi_encoder):
    fresh = {"d_embed": 8, "n_layers": 2, "chunk_size": 16}
    section = ModelSection.model_validate({"fresh": fresh, "embeddings_from": str(bert_dir)})
    model = build_sentence_transformer(section, iter(TEXTS), device="cpu")
    assert model.tokenizer.get_vocab() == bi_encoder.tokenizer.get_vocab()
    table = model[0].auto_model.get_input_embeddings().weight.detach().numpy()
    assert np.allclose(table, static_embeddings(bi_encoder, TEXTS, 8))


def test_a_fresh_model_takes_a_table_over_as_it_is(bert_dir, bi_encoder):
    table = bi_encoder[0].auto_model.get_input_embeddings().weight.detach()
    section = {
        "fresh": {"d_embed": table.shape[1], "n_layers": 2, "chunk_size": 16},
        "embeddings_from": str(bert_dir),
        "embeddings": "table",
    }
    model = build_sentence_transformer(ModelSection.model_validate(section), device="cpu")
    assert model[0].auto_model.get_input_embeddings().weight.equal(table)
    section["fresh"] = {**section["fresh"], "d_embed": 8}
    with pytest.raises(RecipeError, match=rf"a model with {table.shape[1]} numbers a token for embeddings of 8"):
        build_sentence_transformer(ModelSection.model_validate(section), device="cpu")


def test_a_table_of_nothing_is_refused():
    section = {"fresh": {"d_embed": 8, "n_layers": 2, "chunk_size": 16}, "tokenizer": "x", "embeddings": "table"}
    with pytest.raises(ValueError, match="`embeddings` without `embeddings_from`"):
        ModelSection.model_validate(section)


@pytest.mark.parametrize("other", [{"tokenizer": "x"}, {"train_tokenizer": {"vocab_size": 300}}, {"start": "x"}])
def test_a_start_for_embeddings_excludes_another_tokenizer(other):
    values = {"fresh": {"d_embed": 8, "n_layers": 2, "chunk_size": 16}, "embeddings_from": "y", **other}
    if "start" in other:
        del values["fresh"]
    with pytest.raises(ValueError, match="tokenizer"):
        ModelSection.model_validate(values)


def ridge(embeddings, lists, targets, penalty):
    """The same problem by a dense solver."""
    counts = np.zeros((len(lists), len(embeddings)))
    for row, tokens in enumerate(lists):
        np.add.at(counts[row], tokens, 1)
    scale = 1 / np.linalg.norm(counts @ embeddings, axis=1)
    means = counts * scale[:, None]
    start = embeddings @ np.linalg.lstsq(means @ embeddings, targets, rcond=None)[0]
    weight = penalty * np.mean(scale**2)
    system = means.T @ means + weight * np.eye(len(embeddings))
    solved = start + np.linalg.solve(system, means.T @ (targets - means @ start))
    return solved * embeddings.std() / solved.std()


def ragged(lists):
    return Ragged.of(np.array(list(map(len, lists))), np.concatenate(lists))


@pytest.mark.parametrize("penalty", [0.3, 3.0])
def test_fitted_embeddings_are_the_least_squares_solution(penalty):
    generator = np.random.default_rng(0)
    embeddings = generator.normal(size=(30, 4)).astype(np.float32)
    lists = [generator.integers(0, 25, size=generator.integers(1, 12), dtype=np.int32) for _ in range(80)]
    targets = generator.normal(size=(80, 4)).astype(np.float32)
    targets /= np.linalg.norm(targets, axis=1, keepdims=True)
    found = fit_embeddings(embeddings, ragged(lists), targets, penalty=penalty)
    assert found.dtype == np.float32
    assert np.allclose(found, ridge(embeddings, lists, targets, penalty), atol=1e-4)
    assert not np.allclose(found, ridge(embeddings, lists, targets, 2 * penalty), atol=1e-2)


def test_a_fit_recovers_embeddings_that_explain_the_targets():
    generator = np.random.default_rng(1)
    true = generator.normal(size=(40, 5))
    lists = [generator.integers(0, 40, size=8, dtype=np.int32) for _ in range(400)]
    targets = np.stack([true[tokens].sum(0) for tokens in lists])
    targets /= np.linalg.norm(targets, axis=1, keepdims=True)
    start = (true + generator.normal(size=true.shape)).astype(np.float32)

    def mean_cosine(table):
        sums = np.stack([table[tokens].sum(0) for tokens in lists])
        return float(((sums / np.linalg.norm(sums, axis=1, keepdims=True)) * targets).sum(1).mean())

    fitted = fit_embeddings(start, ragged(lists), targets.astype(np.float32), penalty=0.01)
    assert mean_cosine(start) < 0.8 < 0.97 < mean_cosine(fitted)


def test_targets_are_turned_to_the_student_and_nothing_else_happens_to_them():
    generator = np.random.default_rng(2)
    student = generator.normal(size=(50, 6)).astype(np.float32)
    rotation = np.linalg.qr(generator.normal(size=(6, 6)))[0].astype(np.float32)
    targets = student @ rotation
    turn = turned_to(student, targets)
    assert np.allclose(turn @ turn.T, np.eye(6), atol=1e-5)
    assert np.allclose(targets @ turn, student, atol=1e-4)
    assert not np.allclose(targets, student, atol=0.1)

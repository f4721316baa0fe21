import json
from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

from aveyb_ir.config import FreshModel, ModelSection, TokenizerTraining
from aveyb_ir.training import build_sentence_transformer
from aveyb_ir.training.loss import _SLICE_TOKENS, IGNORED, InBatchNegativesLoss, contrastive_loss

TEXTS = [f"text number {i} " + "word " * (3 * i) for i in range(7)]


@pytest.fixture(scope="module")
def model() -> SentenceTransformer:
    fresh = FreshModel(d_embed=16, n_layers=2, chunk_size=8)
    section = ModelSection(fresh=fresh, train_tokenizer=TokenizerTraining(vocab_size=300))
    return build_sentence_transformer(section, TEXTS, device="cpu")


def labels() -> torch.Tensor:
    labels = torch.eye(4, 7, dtype=torch.int8)
    labels[1, 5] = labels[2, 0] = IGNORED
    return labels


def features(model: SentenceTransformer) -> list[dict[str, torch.Tensor]]:
    return [model.preprocess(TEXTS[:4]), model.preprocess(TEXTS)]


def gradients(model: SentenceTransformer, loss: torch.Tensor) -> torch.Tensor:
    model.zero_grad()
    loss.backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


@pytest.mark.parametrize("name", ["same_positive", "same_anchor"])
def test_identical_and_known_positives_are_not_pushed_away(cases: Path, name: str) -> None:
    vectors = json.loads((cases / "vectors.json").read_text(encoding="utf-8"))
    anchors, documents = (torch.tensor(vectors[f"{name}.jsonl"][key]).double() for key in ("anchor", "positive"))
    plain = torch.eye(3, dtype=torch.int8)
    masked = plain.clone()
    masked[0, 1] = masked[1, 0] = IGNORED
    assert contrastive_loss(anchors, documents, masked, vectors["scale"]).item() == pytest.approx(2.75e-9, rel=1e-2)
    assert contrastive_loss(anchors, documents, plain, vectors["scale"]).item() == pytest.approx(0.4621, rel=1e-3)


def test_equals_multiple_negatives_ranking_loss_where_nothing_is_masked(model: SentenceTransformer) -> None:
    plain = torch.eye(4, dtype=torch.int8)
    pair = [model.preprocess(TEXTS[:4]), model.preprocess(TEXTS[3:])]
    ours = InBatchNegativesLoss(model, scale=20.0, mini_batch_size=100)(pair, plain)
    theirs = MultipleNegativesRankingLoss(model, scale=20.0)(pair, torch.tensor([]))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("mini_batch_size", [1, 2, 3, 6])
def test_mini_batches_change_neither_loss_nor_gradients(model: SentenceTransformer, mini_batch_size: int) -> None:
    whole = InBatchNegativesLoss(model, scale=20.0, mini_batch_size=7)(features(model), labels())
    parts = InBatchNegativesLoss(model, scale=20.0, mini_batch_size=mini_batch_size)(features(model), labels())
    torch.testing.assert_close(parts, whole)
    torch.testing.assert_close(gradients(model, parts), gradients(model, whole), rtol=1e-4, atol=1e-5)


def test_gradients_tell_a_missing_mask_from_a_set_one(model: SentenceTransformer) -> None:
    loss = InBatchNegativesLoss(model, scale=20.0, mini_batch_size=2)
    masked, plain = loss(features(model), labels()), loss(features(model), torch.eye(4, 7, dtype=torch.int8))
    difference = gradients(model, masked) - gradients(model, plain)
    assert difference.abs().max() > 1e-3


def test_scores_keep_their_precision_under_bfloat16() -> None:
    torch.manual_seed(0)
    queries, documents = torch.randn(4, 16), torch.randn(7, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = contrastive_loss(queries, documents, labels(), 20.0)
    assert mixed == contrastive_loss(queries, documents, labels(), 20.0)


def test_slices_of_like_length_spare_padding_and_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    section = ModelSection(
        fresh_transformer={"model_type": "bert", **fields}, train_tokenizer=TokenizerTraining(vocab_size=300)
    )
    padded = build_sentence_transformer(section, TEXTS, device="cpu").eval()
    widths: list[tuple[int, ...]] = []
    padded[0].register_forward_pre_hook(lambda _, given: widths.append(tuple(given[0]["input_ids"].shape)))
    loss = InBatchNegativesLoss(padded, scale=20.0, mini_batch_size=7)
    whole = loss(features(padded), labels())
    assert len(widths) == 2
    monkeypatch.setitem(_SLICE_TOKENS, "cpu", 60)
    sliced = loss(features(padded), labels())
    assert sum(rows for rows, _ in widths[2:]) == 4 + 7
    assert sum(rows * width for rows, width in widths[2:]) < sum(rows * width for rows, width in widths[:2])
    torch.testing.assert_close(sliced, whole)
    torch.testing.assert_close(gradients(padded, sliced), gradients(padded, whole), rtol=1e-4, atol=1e-5)

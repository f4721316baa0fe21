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


def by_its_definition(queries: torch.Tensor, documents: torch.Tensor, labels: torch.Tensor, both: bool) -> float:
    """The loss summed up score by score."""
    scores = 2 * torch.nn.functional.cosine_similarity(queries[:, None], documents[None], dim=-1)
    total = 0.0
    for row, row_labels in enumerate(labels.tolist()):
        column = row_labels.index(1)
        right = scores[row, column]
        answers = torch.stack([scores[row, j] for j, label in enumerate(row_labels) if label != IGNORED])
        asked = [i for i in range(len(labels)) if i == row or labels[i, column] == 0]
        losses = [answers.logsumexp(0) - right, torch.stack([scores[i, column] for i in asked]).logsumexp(0) - right]
        total += float(sum(losses) / 2 if both else losses[0])
    return total / len(labels)


@pytest.mark.parametrize("both", [False, True])
def test_each_direction_leaves_out_what_is_known_to_belong_together(both: bool) -> None:
    queries, documents = torch.randn(4, 6).double(), torch.randn(7, 6).double()
    loss = contrastive_loss(queries, documents, labels(), 2.0, both_directions=both)
    assert float(loss) == pytest.approx(by_its_definition(queries, documents, labels(), both), rel=1e-9)
    unmasked = torch.eye(4, 7, dtype=torch.int8)
    assert float(loss) != pytest.approx(by_its_definition(queries, documents, unmasked, both), rel=1e-3)


def test_gradients_of_both_directions_are_those_of_finite_differences() -> None:
    queries, documents = (torch.randn(n, 6).double().requires_grad_() for n in (4, 7))
    assert torch.autograd.gradcheck(
        lambda q, d: contrastive_loss(q, d, labels(), 5.0, both_directions=True, dimensions=(6, 3)),
        (queries, documents),
    )


def test_the_loss_over_dimensions_is_the_mean_over_cut_vectors() -> None:
    queries, documents = torch.randn(4, 6), torch.randn(7, 6)
    whole, cut = (contrastive_loss(queries[:, :n], documents[:, :n], labels(), 20.0) for n in (6, 2))
    both = contrastive_loss(queries, documents, labels(), 20.0, dimensions=(6, 2))
    torch.testing.assert_close(both, (whole + cut) / 2)
    assert abs(float(whole - cut)) > 0.1


def test_a_token_budget_changes_neither_loss_nor_gradients(model: SentenceTransformer) -> None:
    whole = InBatchNegativesLoss(model, scale=20.0, mini_batch_size=7)(features(model), labels())
    sizes: list[int] = []
    hook = model[0].register_forward_pre_hook(lambda _, given: sizes.append(int(given[0]["attention_mask"].sum())))
    budget = InBatchNegativesLoss(model, scale=20.0, mini_batch_size=7, mini_batch_num_tokens=30)
    parts = budget(features(model), labels())
    hook.remove()
    assert max(sizes) <= max(30, *(len(model.tokenizer(text)["input_ids"]) for text in TEXTS))
    assert len(sizes) > 2
    torch.testing.assert_close(parts, whole)
    torch.testing.assert_close(gradients(model, parts), gradients(model, whole), rtol=1e-4, atol=1e-5)

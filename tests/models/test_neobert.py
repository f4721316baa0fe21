"""NeoBERT: the published states, whatever the batch, the padding, the length limit or the dtype."""

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel

from aveyb_ir.models import (
    NeoBERTConfig,
    NeoBERTForMaskedLM,
    NeoBERTForSequenceClassification,
    NeoBERTModel,
    modeling_neobert,
)


@pytest.fixture
def cases(reference_dir):
    return load_file(reference_dir / "neobert" / "cases.safetensors")


@pytest.fixture
def model(reference_dir):
    return AutoModel.from_pretrained(reference_dir / "neobert").eval()


def assert_published(model, cases, atol=2e-5):
    with torch.no_grad():
        states = model(cases["input_ids"], cases["attention_mask"]).last_hidden_state
    torch.testing.assert_close(states, cases["hidden"], atol=atol, rtol=0)


def batch(texts, width, side, fill=5):
    ids = torch.full((len(texts), width), fill)
    mask = torch.zeros_like(ids)
    for row, text in enumerate(texts):
        place = slice(width - len(text), width) if side == "left" else slice(len(text))
        ids[row, place], mask[row, place] = text, 1
    return ids, mask


def test_states_are_the_published_ones(model, cases):
    assert type(model) is NeoBERTModel
    assert_published(model, cases)


def test_a_text_alone_has_the_published_states(model, cases):
    for ids, mask, hidden in zip(cases["input_ids"], cases["attention_mask"], cases["hidden"], strict=True):
        with torch.no_grad():
            states = model(ids[mask == 1][None]).last_hidden_state[0]
        torch.testing.assert_close(states, hidden[mask == 1], atol=2e-5, rtol=0)


def test_the_published_states_depend_on_positions(model, cases, monkeypatch):
    """Negative control: without rotation the states are others."""
    monkeypatch.setattr(modeling_neobert, "_rotated", lambda x, rotation: x)
    with pytest.raises(AssertionError):
        assert_published(model, cases, atol=1e-2)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("width", [40, 77])
@torch.no_grad()
def test_batch_and_padding_change_nothing(model, side, width):
    texts = [torch.randint(0, 211, (length,)) for length in (1, 2, 7, 23, 40)]
    ids, mask = batch(texts, width, side)
    states = model(ids, mask).last_hidden_state
    for row, text in enumerate(texts):
        alone = model(text[None]).last_hidden_state[0]
        torch.testing.assert_close(states[row][mask[row] == 1], alone, atol=2e-5, rtol=0)
    assert states[mask == 0].abs().max() == 0


@torch.no_grad()
def test_without_the_mask_padding_does_change_states(model):
    """Negative control: the invariance comes from the mask."""
    text = torch.randint(0, 211, (7,))
    ids, _ = batch([text], 20, "right")
    assert (model(ids).last_hidden_state[0, :7] - model(text[None]).last_hidden_state[0]).abs().max() > 1e-2


def test_texts_without_tokens_have_no_states_and_give_no_nan(model):
    ids, mask = batch([torch.randint(0, 211, (n,)) for n in (0, 5, 0)], 9, "right")
    states = model(ids, mask).last_hidden_state
    assert states[[0, 2]].abs().max() == 0
    states.square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    assert model(ids[:0], mask[:0]).last_hidden_state.shape == (0, 9, 48)


def test_the_length_limit_is_advice_to_programs_not_to_the_model(reference_dir, cases):
    model = AutoModel.from_pretrained(reference_dir / "neobert", max_length=8).eval()
    assert model.config.max_position_embeddings == 8
    assert_published(model, cases)


def test_rotary_positions_need_nothing_from_loading(reference_dir, cases):
    """Every weight comes from the file, none of a model built on the meta device: anything unsaved would be missing."""
    folder = reference_dir / "neobert"
    with torch.device("meta"):
        model = NeoBERTModel(NeoBERTConfig.from_pretrained(folder)).eval()
    model.load_state_dict(load_file(folder / "model.safetensors"), assign=True)
    assert not list(model.buffers())
    assert_published(model, cases)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@torch.no_grad()
def test_far_positions_keep_apart_in_every_dtype(model, dtype):
    ids = torch.randint(0, 211, (1, 700))
    whole = model(ids).last_hidden_state
    states = model.to(dtype)(ids).last_hidden_state
    assert states.dtype == dtype
    assert torch.cosine_similarity(states.float(), whole, dim=-1).min() > 0.999


@torch.no_grad()
def test_rounded_angles_would_show(model, monkeypatch):
    """Negative control: with angles in bf16 the far positions fall together."""
    ids = torch.randint(0, 211, (1, 700))
    whole = model(ids).last_hidden_state
    exact = modeling_neobert._rotation

    def rounded(length, *args):
        frequency = exact(2, *args)[1].angle()
        angle = torch.arange(length).bfloat16()[:, None] * frequency.bfloat16()
        return torch.polar(torch.ones_like(angle.float()), angle.float())

    monkeypatch.setattr(modeling_neobert, "_rotation", rounded)
    assert torch.cosine_similarity(model(ids).last_hidden_state, whole, dim=-1).min() < 0.99


def test_gradient_checkpointing_changes_no_gradient(model, cases, monkeypatch):
    runs = 0
    forward = modeling_neobert.NeoBERTFeedForward.forward

    def counted(*args):
        nonlocal runs
        runs += 1
        return forward(*args)

    monkeypatch.setattr(modeling_neobert.NeoBERTFeedForward, "forward", counted)
    model.train()
    found = []
    for checkpointing in (False, True):
        if checkpointing:
            model.activation_checkpointing_enable()
        model.zero_grad()
        model(cases["input_ids"], cases["attention_mask"]).last_hidden_state.square().mean().backward()
        found.append([parameter.grad for parameter in model.parameters()])
    assert runs == 3 + 2 * 3  # each layer once, then again in the backward pass
    for plain, checkpointed in zip(*found, strict=True):
        torch.testing.assert_close(plain, checkpointed)


def test_heads_give_losses(reference_dir):
    config = NeoBERTConfig.from_pretrained(reference_dir / "neobert")
    ids, mask = torch.randint(0, 211, (3, 20)), torch.ones(3, 20, dtype=torch.long)
    output = NeoBERTForMaskedLM(config)(ids, mask, labels=ids)
    assert output.logits.shape == (3, 20, 211)
    torch.testing.assert_close(
        output.loss, torch.nn.functional.cross_entropy(output.logits.flatten(0, 1), ids.flatten())
    )
    for labels, count in ((torch.tensor([0, 2, 1]), 3), (torch.rand(3), 1), (torch.rand(3, 4), 4)):
        classifier = NeoBERTForSequenceClassification(NeoBERTConfig(**{**config.to_dict(), "num_labels": count}))
        output = classifier(ids, mask, labels=labels)
        assert output.logits.shape == (3, count)
        output.loss.backward()
        assert classifier.model.encoder.weight.grad.abs().max() > 0


@torch.no_grad()
def test_classifier_reads_the_first_token_on_either_side(reference_dir):
    config = NeoBERTConfig.from_pretrained(reference_dir / "neobert")
    classifier = NeoBERTForSequenceClassification(config).eval()
    texts = [torch.randint(0, 211, (length,)) for length in (3, 9)]
    left, right = (classifier(*batch(texts, 12, side)).logits for side in ("left", "right"))
    torch.testing.assert_close(left, right, atol=1e-6, rtol=0)
    assert not torch.allclose(left[0], left[1], atol=1e-4)

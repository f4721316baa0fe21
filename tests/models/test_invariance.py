"""A text's states depend on the text alone."""

import pytest
import torch

from aveyb_ir.models.reference_aveyb import reference_states

LENGTHS = (1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 130, 9, 11)


def batch(texts, width, side, fill):
    ids = torch.full((len(texts), width), fill)
    mask = torch.zeros_like(ids)
    for row, text in enumerate(texts):
        place = slice(width - len(text), width) if side == "left" else slice(len(text))
        ids[row, place], mask[row, place] = text, 1
    return ids, mask


@pytest.fixture
def texts():
    return [torch.randint(0, 97, (length,)) for length in LENGTHS]


@pytest.mark.parametrize("tail", ["zero", "mask"])
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("length", [1, 7, 16, 17, 100, 333])
def test_packed_model_computes_the_equations(make_model, tail, grad, length):
    model = make_model(tail=tail)
    ids = torch.randint(0, 97, (length,))
    with torch.set_grad_enabled(grad):
        states = model(ids[None]).last_hidden_state[0]
        torch.testing.assert_close(states, reference_states(model, ids), atol=2e-5, rtol=0)


@pytest.mark.parametrize("tail", ["zero", "mask"])
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("width", [130, 512])
@torch.no_grad()
def test_batch_padding_and_order_change_nothing(make_model, texts, tail, side, width):
    model = make_model(tail=tail)
    alone = [model(text[None]).last_hidden_state[0] for text in texts]
    for order in (range(len(texts)), reversed(range(len(texts)))):
        rows = list(order)
        ids, mask = batch([texts[i] for i in rows], width, side, fill=5)
        states = model(ids, mask).last_hidden_state
        for row, i in enumerate(rows):
            torch.testing.assert_close(states[row][mask[row] == 1], alone[i], atol=1e-5, rtol=0)
        assert states[mask == 0].abs().max() == 0


@torch.no_grad()
def test_without_the_mask_padding_does_change_states(make_model, texts):
    """Negative control: the invariance comes from the mask, not from states that ignore everything."""
    model = make_model()
    ids, _ = batch(texts[:1], 40, "right", fill=5)
    states = model(ids).last_hidden_state[0, :1]
    assert (states - model(texts[0][None]).last_hidden_state[0]).abs().max() > 1e-2


@torch.no_grad()
def test_micro_batches_change_nothing(make_model, texts, monkeypatch):
    from aveyb_ir.models import modeling_aveyb

    model = make_model(tail="mask")
    ids, mask = batch(texts, 130, "right", fill=0)
    whole = model(ids, mask).last_hidden_state
    for rows in (1, 40, 100):
        monkeypatch.setitem(modeling_aveyb._MICRO_BATCH_ROWS, "cpu", rows)
        torch.testing.assert_close(model(ids, mask).last_hidden_state, whole, atol=1e-5, rtol=0)


@torch.no_grad()
def test_masked_tails_do_not_see_their_bucket(make_model, texts):
    """The tail of 11 tokens is mixed at the width of 15 beside a longer one, at 11 when alone."""
    model = make_model(tail="mask")
    pair = [texts[LENGTHS.index(15)], texts[LENGTHS.index(11)]]
    ids, mask = batch(pair, 15, "right", fill=0)
    together = model(ids, mask).last_hidden_state[1, :11]
    torch.testing.assert_close(together, model(pair[1][None]).last_hidden_state[0], atol=1e-5, rtol=0)


@torch.no_grad()
def test_looks_back_only_across_chunks(make_model):
    model = make_model()
    ids = torch.randint(0, 96, (60,))
    changed = ids.clone()
    changed[-1] = 96
    before, after = (model(x[None]).last_hidden_state[0] for x in (ids, changed))
    assert torch.equal(before[:48], after[:48])
    assert (before[48:] - after[48:]).abs().amax(-1).min() > 0


@torch.no_grad()
def test_texts_without_tokens_have_no_states_and_disturb_nobody(make_model, texts):
    model = make_model()
    ids, mask = batch([texts[0][:0], texts[5], texts[0][:0]], 20, "right", fill=3)
    states = model(ids, mask).last_hidden_state
    assert states[[0, 2]].abs().max() == 0
    torch.testing.assert_close(states[1, :15], model(texts[5][None]).last_hidden_state[0], atol=1e-5, rtol=0)
    assert model(ids[:0], mask[:0]).last_hidden_state.shape == (0, 20, 32)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("tail", ["zero", "mask"])
@torch.no_grad()
def test_half_precision_is_finite_and_close(make_model, texts, dtype, tail):
    model = make_model(tail=tail)
    model.embed.weight[0] = 0  # a zero embedding has no direction
    ids, mask = batch(texts, 130, "right", fill=0)
    whole = model(ids, mask).last_hidden_state
    half = model.to(dtype)(ids, mask).last_hidden_state
    assert half.isfinite().all()
    cosine = torch.cosine_similarity(half.float(), whole, dim=-1)[mask == 1]
    assert cosine.min() > 0.99


def test_half_precision_trains_without_nan(make_model):
    model = make_model().to(torch.bfloat16).train()
    model(torch.randint(0, 97, (2, 70))).last_hidden_state.float().square().mean().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())

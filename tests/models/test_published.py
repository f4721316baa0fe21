"""The published implementation's states and gradients, through the public loading path."""

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel

from aveyb_ir.models import AveyBModel

LENGTHS = (1, 5, 15, 16, 17, 33, 48, 64, 100, 257)


@pytest.fixture(scope="module")
def published():
    from pathlib import Path

    folder = Path(__file__).parent / "reference" / "aveyb"
    return AutoModel.from_pretrained(folder).eval(), load_file(folder / "cases.safetensors")


def test_auto_model_gives_our_class(published):
    assert type(published[0]) is AveyBModel


@pytest.mark.parametrize("length", LENGTHS)
def test_states(published, length):
    model, cases = published
    with torch.no_grad():
        states = model(cases[f"ids.{length}"][None]).last_hidden_state[0]
    torch.testing.assert_close(states, cases[f"hidden.{length}"], atol=2e-5, rtol=0)


def test_every_published_length_is_covered(published):
    assert {int(name.split(".")[1]) for name in published[1] if name.startswith("hidden.")} == set(LENGTHS)


def test_states_of_all_lengths_in_one_batch(published):
    model, cases = published
    ids = torch.zeros(len(LENGTHS), max(LENGTHS), dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, length in enumerate(LENGTHS):
        ids[row, :length], mask[row, :length] = cases[f"ids.{length}"], 1
    with torch.no_grad():
        states = model(ids, mask).last_hidden_state
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(states[row, :length], cases[f"hidden.{length}"], atol=2e-5, rtol=0)


def gradients(model, cases):
    model.zero_grad()
    states = model(cases["grad.ids"][None]).last_hidden_state[0]
    loss = (states * cases["grad.target"]).mean()
    loss.backward()
    return loss.detach(), {name: parameter.grad for name, parameter in model.named_parameters()}


def relative_errors(found, cases):
    return {name: (g - cases[f"grad.{name}"]).norm() / cases[f"grad.{name}"].norm() for name, g in found.items()}


@pytest.mark.parametrize("checkpointing", [False, True])
def test_gradients(published, checkpointing):
    model, cases = published
    model.train()
    if checkpointing:
        model.activation_checkpointing_enable()
    loss, found = gradients(model, cases)
    model.activation_checkpointing_disable()
    model.eval()
    torch.testing.assert_close(loss, cases["grad.loss"][0])
    assert max(relative_errors(found, cases).values()) < 1e-4


def test_gradients_need_the_rankers_weights(published, monkeypatch):
    """Negative control: with weights cut off from the embeddings the gradient is wrong, and only there."""
    from aveyb_ir.models import blocks_aveyb

    model, cases = published
    attached = blocks_aveyb.weights
    monkeypatch.setattr(blocks_aveyb, "weights", lambda score, there: attached(score.detach(), there))
    errors = relative_errors(gradients(model, cases)[1], cases)
    assert errors.pop("embed.weight") > 1e-3
    assert max(errors.values()) < 1e-4

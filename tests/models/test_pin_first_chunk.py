"""With `pin_first_chunk` every chunk of a text is brought its first one."""

import pytest
import torch

from aveyb_ir.models import AveyBConfig, AveyBModel
from aveyb_ir.models.packing_aveyb import Chunks
from aveyb_ir.models.ranker_aveyb import pin
from aveyb_ir.models.reference_aveyb import reference_states

SIZE = 16


def unlike_its_first_chunk(num_chunks):
    """A text whose first chunk has tokens of its own, which no other chunk would choose."""
    return torch.cat([torch.randint(0, 10, (SIZE,)), torch.randint(10, 97, ((num_chunks - 1) * SIZE - 5,))])


@pytest.fixture
def model(make_model):
    """First ten tokens point away from all others, so that the first chunk's score is below zero."""
    model = make_model(pin_first_chunk=True, tail="mask")
    with torch.no_grad():
        model.embed.weight[:, 0] = torch.where(torch.arange(97) < 10, -5.0, 5.0)
    return model


def retrieved(model, *texts):
    chunks = Chunks.of([len(text) for text in texts], SIZE)
    return model.ranker.retrieve(model.embed, torch.cat(texts), chunks)


def without(model):
    model.config.pin_first_chunk = False
    return model


@torch.no_grad()
def test_the_first_chunk_takes_place_and_weight_of_the_last_chosen(model):
    text = unlike_its_first_chunk(9)
    chunk, weight = retrieved(model, text)
    chosen, published = retrieved(without(model), text)
    assert (chosen[5:] != 0).all()  # the control: by its score it would not come
    assert (chunk[1:] == 0).any(-1).all()
    assert torch.equal(chunk[5:, :-1], chosen[5:, :-1])
    assert chunk[5:, -1].tolist() == [0] * 4
    assert torch.equal(weight, published)
    torch.testing.assert_close(weight[5:, -1], torch.ones(4))


@torch.no_grad()
def test_a_first_chunk_that_is_chosen_anyway_changes_nothing(model):
    text = torch.randint(10, 97, (4 * SIZE,))  # no more than k earlier chunks
    pinned = model(text[None]).last_hidden_state
    assert torch.equal(pinned, without(model)(text[None]).last_hidden_state)


def test_places_of_several_texts():
    chosen = torch.tensor([[-1, -1], [-1, 0], [1, 0], [2, 1], [-1, -1], [-1, 4], [5, 4], [6, 5]])
    found = pin(chosen, torch.tensor([0, 0, 0, 0, 4, 4, 4, 4]))
    assert found.tolist() == [[-1, -1], [-1, 0], [1, 0], [2, 0], [-1, -1], [-1, 4], [5, 4], [6, 4]]


@pytest.mark.parametrize("tail", ["zero", "mask"])
@pytest.mark.parametrize("k", [1, 3])
def test_states_and_gradients_are_those_of_the_equations(make_model, tail, k):
    model = make_model(pin_first_chunk=True, tail=tail, k=k)
    with torch.no_grad():
        model.embed.weight[:, 0] += torch.where(torch.arange(97) < 10, -1.0, 1.0)
    ids = unlike_its_first_chunk(8)
    assert (retrieved(without(model), ids)[0][5:] != 0).all()
    model.config.pin_first_chunk = True
    direction = torch.randn(len(ids), 32)
    found = []
    for states in (model(ids[None]).last_hidden_state[0], reference_states(model, ids)):
        model.zero_grad()
        (states * direction).sum().backward()
        found.append((states, {name: parameter.grad.clone() for name, parameter in model.named_parameters()}))
    torch.testing.assert_close(found[0][0], found[1][0], atol=2e-5, rtol=0)
    for name, gradient in found[1][1].items():
        torch.testing.assert_close(found[0][1][name], gradient, atol=1e-4 * float(gradient.abs().max()), rtol=0)


@torch.no_grad()
def test_all_of_a_long_text_sees_what_stands_first(model):
    text = unlike_its_first_chunk(12)
    changed = text.clone()
    changed[3] = (changed[3] + 1) % 10
    before, after = (model(ids[None]).last_hidden_state[0] for ids in (text, changed))
    difference = (before - after).abs().amax(-1)
    assert (torch.stack([part.max() for part in difference.split(SIZE)]) > 1e-6).all()
    before, after = (without(model)(ids[None]).last_hidden_state[0] for ids in (text, changed))
    assert torch.equal(before[-SIZE:], after[-SIZE:])


@torch.no_grad()
def test_a_text_keeps_its_own_first_chunk_in_a_batch(model):
    texts = [unlike_its_first_chunk(number) for number in (3, 7, 2, 9)]
    ids = torch.zeros(4, 9 * SIZE, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, text in enumerate(texts):
        ids[row, : len(text)], mask[row, : len(text)] = text, 1
    states = model(ids, mask).last_hidden_state
    for row, text in enumerate(texts):
        alone = model(text[None]).last_hidden_state[0]
        torch.testing.assert_close(states[row, : len(text)], alone, atol=1e-5, rtol=0)


def test_the_setting_is_saved_and_off_unless_asked_for(tmp_path, make_model, reference_dir):
    make_model(pin_first_chunk=True).save_pretrained(tmp_path)
    assert AveyBModel.from_pretrained(tmp_path).config.pin_first_chunk
    assert not AveyBModel.from_pretrained(reference_dir / "aveyb").config.pin_first_chunk
    assert AveyBModel.from_pretrained(reference_dir / "aveyb", pin_first_chunk=True).config.pin_first_chunk


@pytest.mark.parametrize(("pinned", "k"), [(True, 0), ("yes", 3), (1, 3)])
def test_impossible_settings_are_refused(pinned, k):
    with pytest.raises(ValueError, match="expected false, or true and a k from 1"):
        AveyBConfig(pin_first_chunk=pinned, k=k)

"""What is computed in bounded memory is what is computed at once."""

import pytest
import torch

from aveyb_ir.models import AveyBForSequenceClassification, modeling_aveyb

LENGTHS = [40, 1, 16, 7, 200]


@pytest.mark.parametrize("tail", ["zero", "mask"])
@pytest.mark.parametrize("rows", [1, 40, 1024])
def test_streamed_states_are_the_states(make_model, monkeypatch, tail, rows):
    model = make_model(tail=tail)
    texts = [torch.randint(0, 97, (length,)) for length in LENGTHS]
    with torch.no_grad():
        whole = torch.cat([model(text[None]).last_hidden_state[0] for text in texts])
    monkeypatch.setitem(modeling_aveyb._MICRO_BATCH_ROWS, "cpu", rows)
    parts = list(model.stream_states(torch.cat(texts), LENGTHS))
    assert not any(states.requires_grad for _, states in parts)
    position = torch.cat([position for position, _ in parts])
    assert position.sort().values.tolist() == list(range(sum(LENGTHS)))
    torch.testing.assert_close(torch.cat([states for _, states in parts]), whole[position], atol=1e-5, rtol=0)
    assert len(parts) == 1 if rows == 1024 else len(parts) > 5


@pytest.mark.parametrize("tail", ["zero", "mask"])
def test_classification_is_the_same_with_and_without_gradient(make_model, tail):
    model = make_model(AveyBForSequenceClassification, tail=tail, num_labels=2)
    ids = torch.randint(0, 97, (len(LENGTHS), max(LENGTHS)))
    mask = (torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]).long()
    with_gradient = model(ids, mask).logits
    assert with_gradient.requires_grad
    with torch.no_grad():
        torch.testing.assert_close(model(ids, mask).logits, with_gradient.detach(), atol=1e-5, rtol=0)
        assert (model(ids).logits - with_gradient).abs().max() > 1e-2  # the control: the mask matters

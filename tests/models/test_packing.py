"""How a batch of texts is cut into chunks and buckets, and what texts of one chunk are spared."""

import pytest
import torch

from aveyb_ir.models import blocks_aveyb
from aveyb_ir.models.packing_aveyb import Bucket, Chunks, ChunkStates, micro_batches

SIZE = 16
CPU = torch.device("cpu")


@pytest.mark.parametrize("lengths", [[], [0], [1], [16], [17], [0, 40, 0, 1, 32, 15, 0]])
def test_chunks_cover_every_token_once_and_in_order(lengths):
    chunks = Chunks.of(lengths, SIZE)
    tokens, texts = [], []
    for text, start, length in zip(chunks.text_C, chunks.start_C, chunks.length_C, strict=True):
        tokens += range(int(start), int(start + length))
        texts += [int(text)] * int(length)
    assert tokens == list(range(sum(lengths)))
    assert texts == [text for text, length in enumerate(lengths) for _ in range(length)]
    # only the last chunk of a text may be short
    last_C = chunks.text_C.diff(append=torch.tensor([-1])) != 0
    assert bool(((chunks.length_C == SIZE) | last_C).all())
    assert bool((chunks.length_C > 0).all())


@pytest.mark.parametrize("mask_tails", [True, False])
@pytest.mark.parametrize("max_rows", [None, 1, 40])
def test_buckets_take_whole_chunks_first_then_tails_from_the_longest(mask_tails, max_rows):
    lengths = [3, 40, 16, 0, 7, 15, 33, 3, 64]
    chunks = Chunks.of(lengths, SIZE)
    groups = list(micro_batches(chunks, SIZE, mask_tails=mask_tails, max_rows=max_rows, device=CPU))
    buckets = [bucket for group in groups for bucket in group]
    order = torch.cat([bucket.chunk_B for bucket in buckets])
    assert sorted(order.tolist()) == list(range(len(chunks)))
    if mask_tails:
        tails = [int(length) for length in chunks.length_C if length < SIZE]
        assert chunks.length_C[order].tolist() == [SIZE] * (len(chunks) - len(tails)) + sorted(tails, reverse=True)
        first_of_length_3, second = 0, chunks.text_C.tolist().index(7)
        assert order.tolist().index(first_of_length_3) < order.tolist().index(second)
    else:
        assert order.tolist() == list(range(len(chunks)))
    token = torch.cat([bucket.token_R for bucket in buckets])
    assert sorted(token[token >= 0].tolist()) == list(range(sum(lengths)))
    for bucket in buckets:
        own = chunks.length_C[bucket.chunk_B].tolist()
        assert bucket.width == (max(own) if mask_tails else SIZE)
        assert bucket.num_rows == (sum(own) if mask_tails else SIZE * len(own))
    if max_rows is not None:
        rows = [sum(bucket.num_rows for bucket in group) for group in groups]
        assert all(count <= max_rows or len(group[0].chunk_B) == 1 for count, group in zip(rows, groups, strict=True))


def test_states_of_texts_are_gathered_from_their_chunks():
    states = ChunkStates(
        Chunks.of([0, 20, 0, 4, 0], SIZE),
        5,
        mean_CD=torch.tensor([[1.0], [6.0], [9.0]]),
        first_CD=torch.tensor([[2.0], [3.0], [4.0]]),
    )
    assert states.first_of_texts().flatten().tolist() == [0, 2, 0, 4, 0]
    assert states.mean_of_texts().flatten().tolist() == [0, (16 * 1 + 4 * 6) / 20, 0, 9, 0]


def test_texts_of_one_chunk_are_not_ranked(make_model, monkeypatch):
    model = make_model(tail="mask")
    lengths = [5, 16, 1]
    token = torch.randint(0, 97, (sum(lengths),))
    found = model.encode_chunks(token, lengths).mean_of_texts()

    def fail(*_):
        raise AssertionError("ranked")

    monkeypatch.setattr(blocks_aveyb, "select", fail)
    monkeypatch.setattr(blocks_aveyb, "weights", fail)
    assert torch.equal(model.encode_chunks(token, lengths).mean_of_texts(), found)
    with pytest.raises(AssertionError, match="ranked"):
        model.encode_chunks(token[:17], [17])  # the control: two chunks are


@pytest.mark.parametrize("rows", [1, 12, 15, 16, 17, 128, 129])
@pytest.mark.parametrize("static", [True, False])
def test_a_layer_computes_the_same_without_gradient_whatever_order_its_products_take(make_model, rows, static):
    model = make_model(chunk_size=256)
    layer = model.layers[0 if static else 1]
    position = torch.arange(rows)
    bucket = Bucket(torch.tensor([0]), rows, rows, None, position[None])
    hidden = torch.randn(rows, 32)
    with_gradient = layer(hidden, [bucket])
    assert with_gradient.requires_grad
    with torch.no_grad():
        torch.testing.assert_close(layer(hidden, [bucket]), with_gradient.detach(), atol=1e-5, rtol=1e-5)
        assert not torch.allclose(layer(hidden.flip(1), [bucket]), with_gradient, atol=1e-2)  # the control

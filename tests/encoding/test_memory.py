"""The token budget follows free memory, and gives way when memory runs out."""

import numpy as np
import pytest
import torch

from aveyb_ir import Encoder
from aveyb_ir.data import Document
from aveyb_ir.encoding import EncodedCorpus, encode_to_store
from aveyb_ir.encoding.memory import default_token_budget
from aveyb_ir.errors import AveybError

GIB = 2**30
TEXTS = [f"the {'river carries snow ' * (i % 5 + 1)}" for i in range(40)]
ERRORS = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    MemoryError(),
    RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory: you tried to …"),
]


def small(encoder, max_tokens, error):
    """Let the model run out of memory above so many tokens; returns the sizes of the batches that it is given."""
    backbone, sizes = encoder.model[0].model, []
    forward = backbone.forward

    def limited(input_ids, **arguments):
        sizes.append(input_ids.numel())
        if input_ids.numel() > max_tokens:
            raise error
        return forward(input_ids=input_ids, **arguments)

    backbone.forward = limited
    return sizes


@pytest.mark.parametrize("device_type", ["cpu", "cuda"])
def test_the_default_budget_grows_with_memory_within_bounds(device_type):
    budgets = [default_token_budget(int(gib * GIB), 768, 4, device_type) for gib in (0, 0.1, 0.5, 1, 2, 4, 8, 1000)]
    assert budgets == sorted(budgets)
    assert budgets[0] == 512
    assert budgets[-1] == {"cpu": 16_384, "cuda": 131_072}[device_type]
    assert all(budget & (budget - 1) == 0 for budget in budgets)
    assert default_token_budget(4 * GIB, 768, 4, "cpu") == 8192
    assert default_token_budget(4 * GIB, 768, 2, "cpu") == 16_384
    assert default_token_budget(4 * GIB, 1536, 4, "cpu") == 4096
    assert default_token_budget(int(4.1 * GIB), 768, 4, "cpu") == 8192  # a little more or less changes nothing


def test_an_encoder_has_the_default_budget_unless_told(bert_dir):
    assert 512 <= Encoder(bert_dir).token_budget <= 16_384
    assert Encoder(bert_dir, token_budget=77).token_budget == 77
    with pytest.raises(ValueError, match="token_budget is 0"):
        Encoder(bert_dir, token_budget=0)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_running_out_of_memory_halves_the_budget_and_says_so(bert_dir, error):
    expected = Encoder(bert_dir).encode_documents(TEXTS)
    encoder = Encoder(bert_dir, token_budget=1000)
    sizes = small(encoder, 260, error)
    with pytest.warns(UserWarning, match="going on with half the token budget") as warnings:
        vectors = encoder.encode_documents(TEXTS)
    assert [str(warning.message).split("budget, ")[1].split(".")[0] for warning in warnings] == ["500", "250"]
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    assert encoder.token_budget == 250
    encoder.encode_documents(TEXTS)
    assert max(sizes[3:]) <= 250  # and stays there
    assert encoder.counts.texts == 2 * len(TEXTS)


def test_a_text_over_the_budget_runs_alone_and_one_over_the_memory_is_named(bert_dir):
    encoder = Encoder(bert_dir, token_budget=20)
    sizes = small(encoder, 60, MemoryError())
    encoder.encode_documents([*TEXTS, "river snow " * 12])
    assert 20 < max(sizes) <= 60
    encoder = Encoder(bert_dir)
    small(encoder, 10, MemoryError())
    with (
        pytest.warns(UserWarning, match="half the token budget"),
        pytest.raises(AveybError, match=r"A text of \d\d tokens does not fit into the memory of cpu, even alone"),
    ):
        encoder.encode_documents(TEXTS)


def test_other_errors_are_not_taken_for_memory(bert_dir):
    encoder = Encoder(bert_dir)
    small(encoder, 10, RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        encoder.encode_documents(TEXTS)


def test_a_store_goes_on_with_the_budget_that_fitted(bert_dir, tmp_path):
    documents = [Document(str(i), text) for i, text in enumerate(TEXTS)]
    budget_of = lambda path: [shard.token_budget for shard in EncodedCorpus(path)._manifest.shards]  # noqa: E731

    def run(path, documents, **settings):
        encoder = Encoder(bert_dir, **settings)
        small(encoder, 130, MemoryError())
        with pytest.warns(UserWarning, match="half the token budget"):
            encode_to_store(path, documents, encoder, shard_documents=10)

    run(tmp_path / "whole", documents, token_budget=500)
    assert budget_of(tmp_path / "whole") == [125] * 4

    def interrupted():
        yield from documents[:25]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "resumed", interrupted(), token_budget=500)
    encode_to_store(tmp_path / "resumed", documents, Encoder(bert_dir), shard_documents=10)  # another memory, no budget
    for path in (tmp_path / "whole").iterdir():
        assert (tmp_path / "resumed" / path.name).read_bytes() == path.read_bytes()

"""Batches by token budget, and the choice of device and dtype."""

import numpy as np
import pytest
import torch

from aveyb_ir.encoding.batching import token_budget_batches
from aveyb_ir.encoding.devices import choose_device, choose_dtype


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("budget", [1, 50, 1000, 10**9])
def test_every_text_is_in_one_batch_within_the_budget(padded, budget):
    lengths = np.random.default_rng(0).integers(0, 300, 5000)
    batches = list(token_budget_batches(lengths, budget, padded=padded))
    assert sorted(np.concatenate(batches).tolist()) == list(range(5000))
    for batch in batches:
        cost = lengths[batch].max() * len(batch) if padded else lengths[batch].sum()
        assert cost <= budget or len(batch) == 1


def test_longest_come_first_and_ties_keep_their_order():
    lengths = np.array([3, 7, 3, 9, 3])
    assert np.concatenate(list(token_budget_batches(lengths, 10, padded=True))).tolist() == [3, 1, 0, 2, 4]


def test_an_impossible_budget_is_refused():
    with pytest.raises(ValueError, match="token_budget is 0"):
        list(token_budget_batches(np.array([1]), 0, padded=True))


def test_dtype_is_float32_on_cpu_and_checked():
    assert choose_dtype(None, torch.device("cpu")) == torch.float32
    with pytest.raises(ValueError, match="expected one of float32, bfloat16, float16"):
        choose_dtype("int8", torch.device("cpu"))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_slow_choice_gets_a_warning(monkeypatch, dtype):
    for probe in ("_is_avx512_bf16_supported", "_is_avx512_fp16_supported", "_is_amx_tile_supported"):
        monkeypatch.setattr(torch.cpu, probe, lambda: False, raising=False)
    with pytest.warns(UserWarning, match="use dtype='float32'"):
        choose_dtype(dtype, torch.device("cpu"))


def test_a_gpu_that_is_not_there_is_an_error(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device(None).type == "cpu"
    with pytest.raises(ValueError, match="sees no GPU"):
        choose_device("cuda")

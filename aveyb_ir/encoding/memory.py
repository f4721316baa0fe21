"""How many tokens fit into memory at once, and what happens when they do not."""

import gc
import warnings
from collections.abc import Callable

import numpy as np
import psutil  # type: ignore[import-untyped]
import torch
from numpy.typing import NDArray

from aveyb_ir.encoding.batching import token_budget_batches
from aveyb_ir.errors import AveybError

# Hidden-sized values alive for one token in the widest part of a layer: queries, keys, values, and an inner layer up to
# eight times as wide.
_VALUES_PER_TOKEN = 24
# The rest is for weights that other libraries load, attention masks, and whoever else uses the machine.
_SHARE_OF_FREE_MEMORY = 0.25
_SMALLEST_BUDGET = 512
# Beyond these a processor is busy anyway and larger batches only cost memory.
_LARGEST_BUDGET = {"cpu": 16_384, "cuda": 131_072}


def free_bytes(device: torch.device) -> int:
    """Memory that can be had on a device right now."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free)
    return int(psutil.virtual_memory().available)


def default_token_budget(free: int, hidden_size: int, bytes_per_value: int, device_type: str) -> int:
    """Choose how many tokens to compute at once: a power of two, so that small changes of free memory change nothing.

    Args:
        free: Bytes of free memory.
        hidden_size: Width of the model's states.
        bytes_per_value: Of the dtype that is computed with.
        device_type: "cpu", "cuda", …
    """
    fitting = int(free * _SHARE_OF_FREE_MEMORY) // (_VALUES_PER_TOKEN * hidden_size * bytes_per_value)
    power_of_two = 1 << max(0, fitting.bit_length() - 1)
    return min(max(power_of_two, _SMALLEST_BUDGET), _LARGEST_BUDGET.get(device_type, _LARGEST_BUDGET["cpu"]))


def run_in_batches(
    lengths: NDArray[np.int64],
    token_budget: int,
    compute: Callable[[NDArray[np.int64]], None],
    *,
    padded: bool,
    device: torch.device,
) -> int:
    """Compute texts batch by batch; when memory runs out, begin again with half the budget.

    Beginning again, rather than going on, makes the result a function of the texts and the budget that this returns.
    The longest texts come first, so little work is lost.

    Args:
        lengths: (n,) tokens per text; texts without a token are left out.
        token_budget: Tokens per batch to begin with.
        compute: Called with the positions of the texts of a batch.
        padded: Whether texts are computed at the length of the batch's longest.
        device: Where they are computed.

    Raises:
        AveybError: A text does not fit into memory even alone.
    """
    while num_texts := _first_batch_too_large(lengths, token_budget, compute, padded, device):
        token_budget = max(1, token_budget // 2)
        warnings.warn(
            f"A batch of {num_texts} texts does not fit into the memory of {device}; going on with half the token "
            f"budget, {token_budget}. Give token_budget to begin there.",
            stacklevel=4,
        )
        _release(device)
    return token_budget


def _first_batch_too_large(
    lengths: NDArray[np.int64],
    token_budget: int,
    compute: Callable[[NDArray[np.int64]], None],
    padded: bool,
    device: torch.device,
) -> int:
    """Compute until a batch does not fit and return how many texts it has; 0 when all fit."""
    present = np.flatnonzero(lengths)
    for batch in token_budget_batches(lengths[present], token_budget, padded=padded):
        try:
            compute(present[batch])
        except (MemoryError, RuntimeError) as error:
            if not _is_out_of_memory(error):
                raise
            if len(batch) == 1:
                raise _too_long(int(lengths[present[batch[0]]]), device) from error
            return len(batch)
    return 0


def _is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out; PyTorch's allocator for CPUs raises a plain RuntimeError."""
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "can't allocate memory" in str(error)


def _release(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def _too_long(num_tokens: int, device: torch.device) -> AveybError:
    return AveybError(
        f"A text of {num_tokens} tokens does not fit into the memory of {device}, even alone; expected room for one "
        "text at a time. Set max_length, or use a device with more memory."
    )

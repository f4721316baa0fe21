"""Which texts are computed together: sorted by true token count, batched by a budget of tokens."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

# Texts per batch at the most; beyond this, short texts gain nothing from company.
_MAX_TEXTS = 1024


def token_budget_batches(lengths: NDArray[np.int64], token_budget: int, *, padded: bool) -> Iterator[NDArray[np.int64]]:
    """Yield positions of texts batch by batch, longest first, ties in the given order.

    Args:
        lengths: (n,) tokens per text.
        token_budget: Tokens per batch at the most; a text over the budget runs alone.
        padded: Whether the model computes every text at the length of the batch's longest.

    Raises:
        ValueError: A budget below one token.
    """
    if token_budget < 1:
        raise ValueError(f"token_budget is {token_budget}; expected at least 1.")
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        size = _batch_size(lengths[order[start : start + _MAX_TEXTS]], token_budget, padded)
        yield order[start : start + size]
        start += size


def _batch_size(descending: NDArray[np.int64], token_budget: int, padded: bool) -> int:
    """Count how many of these texts fit one budget."""
    if padded:
        return max(1, min(len(descending), token_budget // max(1, int(descending[0]))))
    return max(1, int(np.searchsorted(np.cumsum(descending), token_budget, side="right")))

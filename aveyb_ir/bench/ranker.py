"""The ranker against the plain loop over pairs of chunks, on the same text."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from aveyb_ir.bench.texts import sample_text
from aveyb_ir.models.ranker_aveyb import distinct_token_scores, unit_rows


@dataclass(frozen=True)
class RankerTiming:
    """Median seconds of both ways to score a text's chunks, and how far apart their scores are."""

    tokens: int
    distinct_tokens: int
    seconds: float
    plain_seconds: float
    largest_difference: float


def time_ranker(
    num_tokens: int, *, width: int = 768, chunk_size: int = 256, vocab_size: int = 50368, repeats: int = 3
) -> RankerTiming:
    """Time both on random embeddings and a real distribution of tokens, in turns."""
    table_VD = torch.randn(vocab_size, width, generator=torch.Generator().manual_seed(0))
    token_T = sample_text(num_tokens, vocab_size)
    ways: dict[str, Callable[[], Tensor]] = {
        "distinct": lambda: _distinct(table_VD, token_T, chunk_size),
        "plain": lambda: _plain(table_VD, token_T, chunk_size),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    scores: dict[str, Tensor] = {}
    for _ in range(repeats):
        for name, way in ways.items():
            start = time.perf_counter()
            scores[name] = way()
            times[name].append(time.perf_counter() - start)
    difference = (scores["distinct"] - scores["plain"]).tril(-1).abs().max()
    return RankerTiming(
        num_tokens,
        int(token_T.unique().numel()),
        float(np.median(times["distinct"])),
        float(np.median(times["plain"])),
        float(difference),
    )


def _distinct(table_VD: Tensor, token_T: Tensor, chunk_size: int) -> Tensor:
    distinct_U, token_row_T = torch.unique(token_T, return_inverse=True)
    return distinct_token_scores(unit_rows(table_VD[distinct_U], 1e-12), token_row_T, chunk_size)


def _plain(table_VD: Tensor, token_T: Tensor, chunk_size: int) -> Tensor:
    chunks = [unit_rows(chunk, 1e-12) for chunk in table_VD[token_T].split(chunk_size)]
    scores_CC = torch.zeros(len(chunks), len(chunks))
    for i in range(len(chunks)):
        for j in range(i):
            scores_CC[i, j] = (chunks[i] @ chunks[j].T).amax(-1).sum()
    return scores_CC

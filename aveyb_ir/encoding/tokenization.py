"""Texts to token ids, once, with the true lengths kept and what a limit cuts counted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class TokenizedTexts:
    """Token ids of texts, special tokens included.

    Attributes:
        token_ids: One int32 array per text, at most `max_length` long.
        full_lengths: (n,) tokens of each whole text, before any cut.
        offsets: For each text, where asked for, (tokens, 2) int32 characters of each token; (0, 0) for special tokens.
    """

    token_ids: list[NDArray[np.int32]]
    full_lengths: NDArray[np.int64]
    offsets: list[NDArray[np.int32]]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(n,) tokens that are used of each text."""
        return np.array([len(ids) for ids in self.token_ids], dtype=np.int64)

    @property
    def num_cut(self) -> int:
        """How many texts lost tokens to the limit."""
        return int((self.lengths < self.full_lengths).sum())


def tokenize(
    tokenizer: Any, texts: Sequence[str], max_length: int | None, *, with_offsets: bool = False
) -> TokenizedTexts:
    """Tokenize whole texts; those over `max_length` are cut as the tokenizer cuts (its end token stays)."""
    if not texts:
        return TokenizedTexts([], np.zeros(0, dtype=np.int64), [])
    texts = [_well_formed(text) for text in texts]
    token_ids, offsets = _encode(tokenizer, texts, with_offsets)
    full_lengths = np.array([len(ids) for ids in token_ids], dtype=np.int64)
    too_long = [] if max_length is None else np.flatnonzero(full_lengths > max_length).tolist()
    if too_long:
        limit = {"truncation": True, "max_length": max_length}
        cut_ids, cut_offsets = _encode(tokenizer, [texts[i] for i in too_long], with_offsets, **limit)
        for number, i in enumerate(too_long):
            token_ids[i] = cut_ids[number]
            if with_offsets:
                offsets[i] = cut_offsets[number]
    return TokenizedTexts(token_ids, full_lengths, offsets)


def checked_max_length(max_length: int, limit: int | None, name: str) -> int:
    """Give back a number of tokens that a model can be held to; `limit` is its own. Raises ValueError for others."""
    if max_length < 1 or (limit is not None and max_length > limit):
        raise ValueError(
            f"max_length is {max_length}; {name} takes 1 to {limit or 'any number of'} tokens. "
            "Leave it out for the model's own limit."
        )
    return max_length


def chunk_spans(
    offsets: NDArray[np.int32], chunk_size: int, prompt_length: int, text_length: int
) -> list[tuple[int, int]]:
    """Say which characters of a text each of its chunks stands for.

    Args:
        offsets: (tokens, 2) characters of each token in prompt + text; (0, 0) for special tokens.
        chunk_size: Tokens per chunk.
        prompt_length: Characters of the prompt, which are not part of the text.
        text_length: Characters of the text.

    Returns:
        (start, end) per chunk. A chunk of special and prompt tokens only stands for no character, at the place where
        the text goes on.
    """
    spans: list[tuple[int, int]] = []
    for first in range(0, len(offsets), chunk_size):
        inside = offsets[first : first + chunk_size]
        inside = inside[inside[:, 1] > max(prompt_length, 0)] - prompt_length
        reached = spans[-1][1] if spans else 0
        start = int(np.clip(inside[:, 0].min(), 0, text_length)) if len(inside) else reached
        end = int(np.clip(inside[:, 1].max(), 0, text_length)) if len(inside) else reached
        spans.append((start, end))
    return spans


def _well_formed(text: str) -> str:
    """Put U+FFFD for each lone surrogate, which no tokenizer takes."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _encode(
    tokenizer: Any, texts: list[str], with_offsets: bool, **limit: Any
) -> tuple[list[NDArray[np.int32]], list[NDArray[np.int32]]]:
    options = {"truncation": False, **limit}
    encoded = tokenizer(
        texts,
        padding=False,
        return_attention_mask=False,
        return_offsets_mapping=with_offsets,
        verbose=False,
        **options,
    )
    offsets = encoded["offset_mapping"] if with_offsets else []
    return (
        [np.array(ids, dtype=np.int32) for ids in encoded["input_ids"]],
        [np.array(pairs, dtype=np.int32).reshape(-1, 2) for pairs in offsets],
    )

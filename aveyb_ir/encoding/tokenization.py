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
    """

    token_ids: list[NDArray[np.int32]]
    full_lengths: NDArray[np.int64]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(n,) tokens that are used of each text."""
        return np.array([len(ids) for ids in self.token_ids], dtype=np.int64)

    @property
    def num_cut(self) -> int:
        """How many texts lost tokens to the limit."""
        return int((self.lengths < self.full_lengths).sum())


def tokenize(tokenizer: Any, texts: Sequence[str], max_length: int | None) -> TokenizedTexts:
    """Tokenize whole texts; those over `max_length` are cut as the tokenizer cuts (its end token stays)."""
    if not texts:
        return TokenizedTexts([], np.zeros(0, dtype=np.int64))
    texts = [_well_formed(text) for text in texts]
    token_ids = _ids(tokenizer, texts)
    full_lengths = np.array([len(ids) for ids in token_ids], dtype=np.int64)
    too_long = [] if max_length is None else np.flatnonzero(full_lengths > max_length).tolist()
    if too_long:
        cut = _ids(tokenizer, [texts[i] for i in too_long], truncation=True, max_length=max_length)
        for i, ids in zip(too_long, cut, strict=True):
            token_ids[i] = ids
    return TokenizedTexts(token_ids, full_lengths)


def _well_formed(text: str) -> str:
    """Put U+FFFD for each lone surrogate, which no tokenizer takes."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _ids(tokenizer: Any, texts: list[str], **limit: Any) -> list[NDArray[np.int32]]:
    options = {"truncation": False, **limit}
    encoded = tokenizer(texts, padding=False, return_attention_mask=False, verbose=False, **options)
    return [np.array(ids, dtype=np.int32) for ids in encoded["input_ids"]]

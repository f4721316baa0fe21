"""Texts cut into pieces of tokens, kept in a file so that a corpus may be larger than memory."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

_TEXTS_AT_ONCE = 1024


class Pieces:
    """Pieces of texts as token ids; memory holds their lengths, the ids are mapped from disk.

    Attributes:
        lengths: tokens of each piece, int64.
    """

    def __init__(self, file: Path, lengths: Sequence[int]) -> None:
        self.lengths = np.asarray(lengths, dtype=np.int64)
        self._ends = self.lengths.cumsum()
        # an empty file cannot be mapped
        self._ids = np.memmap(file, dtype=np.int32, mode="r") if len(self.lengths) else np.zeros(0, dtype=np.int32)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, piece: int) -> npt.NDArray[np.int32]:
        """The token ids of a piece, with the tokenizer's special symbols around them."""
        return self._ids[self._ends[piece] - self.lengths[piece] : self._ends[piece]]


def cut_into_pieces(texts: Iterable[str], tokenizer: Any, length: int, file: Path) -> Pieces:
    """Tokenize a stream of texts into a file.

    A text longer than `length` tokens goes on in the next piece; no piece holds parts of two texts.

    Args:
        texts: read once.
        tokenizer: a fast tokenizer of transformers.
        length: tokens of a piece at the most, special symbols included.
        file: is written.
    """
    lengths: list[int] = []
    with file.open("wb") as stream:
        iterator = iter(texts)
        while batch := list(islice(iterator, _TEXTS_AT_ONCE)):
            lengths += _write(_tokenized(batch, tokenizer, length), stream)
    return Pieces(file, lengths)


def _tokenized(texts: list[str], tokenizer: Any, length: int) -> Iterator[list[int]]:
    encoded = tokenizer(
        texts,
        truncation=True,
        max_length=length,
        return_overflowing_tokens=True,
        return_attention_mask=False,
        return_special_tokens_mask=True,
    )
    for ids, special in zip(encoded["input_ids"], encoded["special_tokens_mask"], strict=True):
        if not all(special):  # a piece of symbols alone has nothing to predict
            yield ids


def _write(pieces: Iterator[list[int]], stream: IO[bytes]) -> list[int]:
    lengths = []
    for ids in pieces:
        stream.write(np.asarray(ids, dtype=np.int32).tobytes())
        lengths.append(len(ids))
    return lengths

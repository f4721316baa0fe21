"""Texts under prompts, numbered in the order in which they are first met."""

from array import array
from collections.abc import Iterator, Sequence
from itertools import chain, repeat

import numpy as np

from aveyb_ir.data import DiskTexts
from aveyb_ir.training.ragged import Numbers, Ragged

_AT_ONCE = 1 << 20


class PromptedTexts:
    """Entries, each a text under a prompt; the texts stay on disk.

    A text under two prompts is two entries. Memory holds 8 bytes of a text, and 4 more for each further prompt.

    Args:
        texts: all that may be added, by number.
        prompts: all that they may be added under; None: the model's own.
    """

    def __init__(self, texts: DiskTexts, prompts: Sequence[str | None]) -> None:
        self._texts = texts
        self._prompts = list(dict.fromkeys(prompts))
        self._entries = np.full((len(self._prompts), len(texts)), -1, np.int32)
        self._numbers = array("i")
        self._runs: list[tuple[int, str | None]] = []

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, entry: int) -> str:
        return self._texts[self._numbers[entry]]

    def __iter__(self) -> Iterator[str]:
        return (self._texts[number] for number in self._numbers)

    def add(self, numbers: Numbers, prompt: str | None) -> Numbers:
        """The entries of these texts under a prompt; new ones are made as needed."""
        entries, before = self._entries[self._prompts.index(prompt)], len(self)
        for start in range(0, len(numbers), _AT_ONCE):
            block = numbers[start : start + _AT_ONCE]
            new = block[entries[block] < 0]
            _, first = np.unique(new, return_index=True)
            new = new[np.sort(first)]
            entries[new] = np.arange(len(self), len(self) + len(new))
            self._numbers.frombytes(new.tobytes())
        self._runs.append((len(self) - before, prompt))
        added: Numbers = entries[numbers]
        return added

    def number(self, entry: int) -> int:
        """Of the text of an entry."""
        return self._numbers[entry]

    def entries(self, lists: Ragged) -> Ragged:
        """The entries of the texts in each list, under whatever prompt."""
        entries = self._entries[:, lists.values].T
        there = entries >= 0
        ends = np.zeros(len(entries) + 1, np.int64)
        np.cumsum(there.sum(axis=1), out=ends[1:])
        return Ragged(ends[lists.bounds], entries[there])

    @property
    def num_texts(self) -> int:
        """Distinct texts that have an entry."""
        return int((self._entries >= 0).any(axis=0).sum())

    @property
    def prompts(self) -> Iterator[str | None]:
        """Of each entry."""
        return chain.from_iterable(repeat(prompt, count) for count, prompt in self._runs)

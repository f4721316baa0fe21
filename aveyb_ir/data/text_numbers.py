"""Distinct texts get numbers without being kept."""

import hashlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from aveyb_ir.data.disk_rows import as_bytes

_FIRST_SLOTS = 1 << 12
_REINSERTED_AT_ONCE = 1 << 18
_FREE = -1

Numbers = npt.NDArray[np.int32]
_Keys = npt.NDArray[np.uint64]
_Slots = npt.NDArray[np.intp]


class TextNumbers:
    """Numbers texts in the order in which they are first met; memory holds about 30 bytes of each.

    Texts are told apart by 128 bits of BLAKE2b, in a hash table with open addressing: among 10⁹ texts two would be
    taken for one with a probability of 10⁻²¹.
    """

    def __init__(self) -> None:
        self._count = 0
        self._keys: _Keys = np.empty((_FIRST_SLOTS // 2, 2), np.uint64)
        self._slots: Numbers = np.full(_FIRST_SLOTS, _FREE, np.int32)

    def __len__(self) -> int:
        return self._count

    def add(self, texts: Iterable[str]) -> Numbers:
        """The number of each text; new ones get the next numbers. Many at once are faster than one by one."""
        keys, places = _distinct(texts)
        numbers = self._find(keys)
        new = np.flatnonzero(numbers < 0)
        if len(new):
            numbers[new] = np.arange(self._count, self._count + len(new))
            self._insert(keys[new])
        return numbers[places]

    def find(self, texts: Iterable[str]) -> Numbers:
        """The number of each text; -1 for one that was not added."""
        keys, places = _distinct(texts)
        return self._find(keys)[places]

    def _find(self, keys: _Keys) -> Numbers:
        found = np.full(len(keys), -1, np.int32)
        pending, slots = np.arange(len(keys)), self._home(keys)
        while len(pending):
            numbers = self._slots[slots]
            taken = numbers != _FREE
            same = taken & (self._keys[numbers] == keys[pending]).all(axis=1)
            found[pending[same]] = numbers[same]
            further = taken & ~same
            pending, slots = pending[further], self._next(slots[further])
        return found

    def _insert(self, keys: _Keys) -> None:
        """Take distinct keys that are not there yet."""
        first, self._count = self._count, self._count + len(keys)
        if self._count > len(self._keys):
            size = 1 << self._count.bit_length()
            grown = np.empty((size, 2), np.uint64)
            grown[:first] = self._keys[:first]
            self._keys, self._slots = grown, np.full(2 * size, _FREE, np.int32)
            self._keys[first : self._count] = keys
            first = 0
        else:
            self._keys[first : self._count] = keys
        for start in range(first, self._count, _REINSERTED_AT_ONCE):
            self._place(np.arange(start, min(start + _REINSERTED_AT_ONCE, self._count), dtype=np.int32))

    def _place(self, numbers: Numbers) -> None:
        slots = self._home(self._keys[numbers[0] : numbers[-1] + 1])
        while len(numbers):
            free = self._slots[slots] == _FREE
            self._slots[slots[free]] = numbers[free]  # of several that want a slot one gets it
            without = self._slots[slots] != numbers
            numbers, slots = numbers[without], self._next(slots[without])

    def _home(self, keys: _Keys) -> _Slots:
        home: _Slots = (keys[:, 0] & np.uint64(len(self._slots) - 1)).astype(np.intp)
        return home

    def _next(self, slots: _Slots) -> _Slots:
        return (slots + 1) & (len(self._slots) - 1)


def _distinct(texts: Iterable[str]) -> tuple[_Keys, _Slots]:
    """The keys of distinct texts in the order in which they are first met, and which of them each text has."""
    keys: dict[bytes, int] = {}
    places = [keys.setdefault(hashlib.blake2b(as_bytes(text), digest_size=16).digest(), len(keys)) for text in texts]
    return np.frombuffer(b"".join(keys), np.uint64).reshape(-1, 2), np.array(places, np.intp)

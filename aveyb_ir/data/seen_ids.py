"""Finds ids that come twice in a corpus of millions, in little memory."""

import numpy as np

_BLOCK = 1 << 17


class SeenIds:
    """Remembers ids as 64-bit hashes: the newest in a set, the older ones in a sorted array, at eight bytes each."""

    def __init__(self) -> None:
        self._newest: set[int] = set()
        self._older = np.empty(0, np.int64)

    def add(self, id_: str) -> bool:
        """Remember an id; returns whether it was there before, or, once in 10¹² pairs, one with an equal hash."""
        key = hash(id_)
        if key in self._newest or self._is_older(key):
            return True
        self._newest.add(key)
        if len(self._newest) == _BLOCK:
            newest = np.fromiter(self._newest, np.int64, len(self._newest))
            # Sorted runs one after the other are what the stable sort is fastest at.
            self._older = np.sort(np.concatenate((self._older, np.sort(newest))), kind="stable")
            self._newest = set()
        return False

    def _is_older(self, key: int) -> bool:
        place = self._older.searchsorted(key)
        return bool(place < len(self._older) and self._older[place] == key)

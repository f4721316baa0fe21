"""The best documents for one query, found among vectors that stand for documents or their parts."""

from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

PART = np.dtype([("row", "<i8"), ("start", "<i8"), ("end", "<i8")])
"""What a vector stands for: characters `start` to `end` of the document in `row`; -1, -1 for all of it."""


def checked_top_k(top_k: object) -> int:
    """The number of hits wanted. Raises ValueError for what is not a whole number from 1."""
    if isinstance(top_k, bool | np.bool_) or not isinstance(top_k, Integral) or top_k < 1:
        raise ValueError(f"top_k is {top_k!r}, expected a whole number from 1: ask for as many hits as you need")
    return int(top_k)


def checked_weight(document_weight: object) -> float:
    """The share of the whole document in a score. Raises ValueError for what is not a number within 0 to 1."""
    if (
        isinstance(document_weight, bool)
        or not isinstance(document_weight, Real)
        or not 0 <= float(document_weight) <= 1
    ):
        raise ValueError(f"document_weight is {document_weight!r}, expected 0 to 1: the share of the whole document")
    return float(document_weight)


class Nearest(NamedTuple):
    """Scores and parts, of one vector each or of one document each; by score, then lower row first."""

    scores: NDArray[np.float32]
    parts: NDArray[np.void]

    @classmethod
    def none(cls) -> "Nearest":
        """Nothing found."""
        return cls(np.empty(0, np.float32), np.empty(0, PART))

    def first(self, num: int) -> "Nearest":
        """The first `num`."""
        return Nearest(self.scores[:num], self.parts[:num])

    def best_parts(self) -> "Nearest":
        """Each document once, with its best vector; of equal ones the earlier part."""
        order = np.lexsort((self.parts["start"], self.parts["row"], -self.scores))
        _, first = np.unique(self.parts["row"][order], return_index=True)
        kept = order[np.sort(first)]
        return Nearest(self.scores[kept], self.parts[kept])

    def documents(self, document_weight: float) -> "Nearest":
        """Each document once, with the part of its best chunk.

        Its score is that of its best chunk; where a vector of the whole document is there too, a mean of both in which
        this one has `document_weight`.
        """
        is_whole = self.parts["start"] < 0
        if is_whole.all() or not is_whole.any():
            return self.best_parts()
        whole = Nearest(self.scores[is_whole], self.parts[is_whole]).best_parts()
        chunk = Nearest(self.scores[~is_whole], self.parts[~is_whole]).best_parts()
        _, i, j = np.intersect1d(chunk.parts["row"], whole.parts["row"], assume_unique=True, return_indices=True)
        scores = chunk.scores.astype(np.float64)
        scores[i] = document_weight * whole.scores[j] + (1 - document_weight) * scores[i]
        alone = np.ones(len(whole.scores), bool)
        alone[j] = False
        return _in_order(
            [Nearest(scores.astype(np.float32), chunk.parts), Nearest(whole.scores[alone], whole.parts[alone])]
        )


def merged(results: "list[Nearest]") -> "Nearest":
    """The documents of several results, each of them in order and no document in two, in one order."""
    found = [result for result in results if len(result.scores)]
    if len(found) < 2:
        return found[0] if found else Nearest.none()
    return _in_order(found)


def _in_order(results: "list[Nearest]") -> "Nearest":
    scores = np.concatenate([result.scores for result in results])
    parts = np.concatenate([result.parts for result in results])
    order = np.lexsort((parts["row"], -scores))
    return Nearest(scores[order], parts[order])

"""The best documents of a few queries, found while a corpus streams by, in bounded memory and one order."""

import numpy as np
from numpy.typing import NDArray

_SIGN = np.uint32(1 << 31)
_LAST_POSITION = 2**32 - 1


class BestHits:
    """The `top_k` hits of the highest score; of equal scores the earlier document's.

    A hit is one number of 64 bits, its score above its position, made so that the better hit is the larger number. All
    hits differ then, so which ones stay never depends on the order in which they came.

    Args:
        num_queries: Queries that are served at once.
        top_k: Hits kept for each.

    Attributes:
        least: (num_queries,) float32, the score that a hit must reach to be kept; -inf while there is room.
    """

    def __init__(self, num_queries: int, top_k: int) -> None:
        self._hits = np.zeros((num_queries, 0), dtype=np.uint64)  # 0 is no hit
        self._top_k = top_k
        self.least = np.full(num_queries, -np.inf, dtype=np.float32)

    def add(self, rows: NDArray[np.int64], positions: NDArray[np.int64], scores: NDArray[np.float32]) -> None:
        """Take in hits, each given by its query, its document's position in the corpus and its finite score.

        `rows` must ascend. A document may come once for each query.
        """
        if not len(rows):
            return
        counts = np.bincount(rows, minlength=len(self._hits))
        new = np.zeros((len(self._hits), counts.max()), dtype=np.uint64)
        new[rows, np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]] = _packed(scores, positions)
        hits = np.concatenate([self._hits, new], axis=1)
        if hits.shape[1] > self._top_k:
            hits = np.partition(hits, hits.shape[1] - self._top_k, axis=1)[:, -self._top_k :]
        self._hits = hits
        if hits.shape[1] == self._top_k:
            last = hits.min(axis=1)
            self.least = np.where(last > 0, _scores(last), np.float32(-np.inf))

    def of(self, row: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Positions and scores of a query's hits, best first."""
        hits = np.sort(self._hits[row])[::-1]
        hits = hits[: np.count_nonzero(hits)]
        return _LAST_POSITION - (hits & np.uint64(_LAST_POSITION)).astype(np.int64), _scores(hits)


def _packed(scores: NDArray[np.float32], positions: NDArray[np.int64]) -> NDArray[np.uint64]:
    bits = (scores + np.float32(0)).view(np.uint32)  # adding 0 makes -0 the 0 that it equals
    # As integers, the bits of positive floats ascend with them and those of negative ones descend.
    ascending = np.where(bits & _SIGN, ~bits, bits | _SIGN)
    packed: NDArray[np.uint64] = ascending.astype(np.uint64) << np.uint64(32)
    return packed | (_LAST_POSITION - positions).astype(np.uint64)


def _scores(hits: NDArray[np.uint64]) -> NDArray[np.float32]:
    ascending = (hits >> np.uint64(32)).astype(np.uint32)
    scores: NDArray[np.float32] = np.where(ascending & _SIGN, ascending ^ _SIGN, ~ascending).view(np.float32)
    return scores

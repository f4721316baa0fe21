"""From near vectors to the best documents of a segment, in an order that does not depend on how they were found."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.index.allowed import Allowed
from aveyb_ir.index.exact_scan import ExactScan
from aveyb_ir.index.nearest import Nearest

_BLOCK_ROWS = 4096
_FEW = 10_000  # vectors among which an exact comparison costs no more than a search that avoids it
_WIDER = 4
_MAX_EFFORT = _WIDER**3


class VectorSearch(Protocol):
    """Something that finds near vectors; `complete` if it never misses one that is nearer."""

    complete: bool

    def nearest(
        self, queries: NDArray[np.float32], num: int, allowed: Allowed | None, effort: int = 1
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Scores, highest first, and positions, each of shape (queries, num); -1 fills up."""


class SegmentSearch:
    """Finds documents through `finder`, scores what it finds exactly, and looks wider until there are enough.

    Scores of the finder decide which vectors are looked at, never the result, which rests on `vectors`, float32
    (n, dimension), and on what they stand for, `parts`.
    """

    def __init__(
        self, vectors: NDArray[np.float32], parts: NDArray[np.void], finder: VectorSearch, candidates: int
    ) -> None:
        self._vectors = vectors
        self._parts = parts
        self._finder = finder
        self._exact = finder if finder.complete else ExactScan(vectors)
        self._candidates = candidates
        # Twice what a float32 inner product of unit vectors can be off, in whatever order it is added up.
        self._margin = (vectors.shape[1] + 1) * 2.0**-23
        is_whole = parts["start"] < 0
        self._by_row = np.argsort(parts["row"], kind="stable") if is_whole.any() and not is_whole.all() else None

    def search(
        self, queries: NDArray[np.float32], num: int, allowed: Allowed | None, document_weight: float
    ) -> list[Nearest]:
        """The `num` best documents for each query; queries of shape (n, dimension), unit length."""
        count = allowed.num if allowed else len(self._vectors)
        if not count or not len(queries):
            return [Nearest.none() for _ in queries]
        few = allowed is not None and count <= _FEW
        finder = self._exact if few else self._finder
        fetched = min(count, num + num // 4 + 32 if finder.complete else num * self._candidates + 32)
        found = finder.nearest(queries, fetched, allowed)
        return [
            self._settled(query, scores, positions, finder, allowed, num, document_weight)
            for query, scores, positions in zip(queries, *found, strict=True)
        ]

    def _settled(
        self,
        query: NDArray[np.float32],
        scores: NDArray[np.float32],
        positions: NDArray[np.int64],
        finder: VectorSearch,
        allowed: Allowed | None,
        num: int,
        weight: float,
    ) -> Nearest:
        count = allowed.num if allowed else len(self._vectors)
        first, effort = len(positions), 1
        while True:
            best, outside = self._scored(query, scores, positions, finder.complete, num, weight)
            enough = len(best.scores) == num and outside < best.scores[-1]
            if enough or (finder.complete and len(positions) >= count):
                return best
            effort *= _WIDER
            if effort > _MAX_EFFORT or first * effort >= count:
                finder = self._exact
            (scores,), (positions,) = finder.nearest(query[None], min(count, first * effort), allowed, effort)

    def _scored(
        self,
        query: NDArray[np.float32],
        scores: NDArray[np.float32],
        positions: NDArray[np.int64],
        complete: bool,
        num: int,
        weight: float,
    ) -> tuple[Nearest, float]:
        """The best documents among those found, and a score that no document which was not found is sure to exceed.

        What a complete search did not find has at most its last score. Of what another search did not find no more is
        known than that it may equal those that came last.
        """
        is_found = (positions >= 0) & (positions < len(self._parts))
        at = positions[is_found]
        if complete:
            outside = float(scores[-1]) + self._margin
        elif is_found[-1]:
            outside = float(self._cosines(query, at[scores[is_found] <= scores[-1] + self._margin]).max())
        else:
            outside = -np.inf
        if self._by_row is not None:
            at = self._all_parts(at)
        return Nearest(self._cosines(query, at), self._parts[at]).documents(weight).first(num), outside

    def _cosines(self, query: NDArray[np.float32], positions: NDArray[np.int64]) -> NDArray[np.float32]:
        # Summed row by row in float64, so that a score is the same in whatever company it is computed.
        scores = np.empty(len(positions), np.float32)
        precise = query.astype(np.float64)
        for start in range(0, len(positions), _BLOCK_ROWS):
            block = self._vectors[positions[start : start + _BLOCK_ROWS]]
            scores[start : start + _BLOCK_ROWS] = (block * precise).sum(axis=1)
        return scores

    def _all_parts(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """The positions of all vectors of the documents to which these belong."""
        assert self._by_row is not None
        rows = self._parts["row"]
        wanted = np.unique(rows[positions])
        first = np.searchsorted(rows, wanted, "left", sorter=self._by_row)
        end = np.searchsorted(rows, wanted, "right", sorter=self._by_row)
        groups = [self._by_row[start:stop] for start, stop in zip(first, end, strict=True)]
        return np.concatenate([np.empty(0, np.int64), *groups])

"""From near vectors to the best documents of a segment, in an order that does not depend on how they were found."""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.index.allowed import Allowed
from aveyb_ir.index.exact_scan import ExactScan
from aveyb_ir.index.nearest import Nearest
from aveyb_ir.index.vectors import inner_products

_FEW = 10_000  # vectors among which an exact comparison costs no more than a search that avoids it
_WIDER = 4
_MAX_EFFORT = _WIDER**3
# What is fetched beyond the number wanted: for scores that are equal or nearly so, and where documents share vectors.
_SPARE, _SPARE_PARTS = 8, 32


class VectorSearch(Protocol):
    """Something that finds near vectors.

    It is `lossless` if it compares the vectors as they are, so that its scores are right to rounding, and `complete`
    if besides it compares all of them, so that it never misses one that is nearer.
    """

    complete: bool
    lossless: bool

    def nearest(
        self, queries: NDArray[np.float32], num: int, allowed: Allowed | None, effort: int = 1
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Scores, highest first, and positions, each of shape (queries, num); -1 fills up."""


class _Wanted(NamedTuple):
    num: int
    allowed: Allowed | None
    document_weight: float


class SegmentSearch:
    """Finds documents through `finder`, scores what it finds exactly, and looks wider until there are enough.

    Scores of the finder decide which vectors are looked at, never the result, which rests on `vectors`, float32
    (n, dimension), and on what they stand for, `parts`. Of a finder that compresses the vectors `candidates` are
    fetched for each document wanted.
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
        self._is_one_each = _are_distinct(parts["row"])
        is_whole = parts["start"] < 0
        self._by_row = np.argsort(parts["row"], kind="stable") if is_whole.any() and not is_whole.all() else None

    def search(
        self, queries: NDArray[np.float32], num: int, allowed: Allowed | None, document_weight: float
    ) -> list[Nearest]:
        """The `num` best documents for each query; queries of shape (n, dimension), unit length."""
        count = allowed.num if allowed else len(self._vectors)
        if not count or not len(queries):
            return [Nearest.none() for _ in queries]
        finder = self._exact if allowed is not None and count <= _FEW else self._finder
        fetched = min(count, self._num_fetched(num, finder))
        wanted = _Wanted(num, allowed, document_weight)
        results, is_settled = self._ranked(queries, finder, fetched, wanted)
        for i in np.flatnonzero(~is_settled).tolist():
            results[i] = self._wider(queries[i : i + 1], finder, fetched, wanted)
        return results

    def _num_fetched(self, num: int, finder: VectorSearch) -> int:
        if finder.lossless and self._is_one_each:
            return num + num // 4 + _SPARE
        return (num + num // 4 if finder.complete else num * self._candidates) + _SPARE_PARTS

    def _wider(self, query: NDArray[np.float32], finder: VectorSearch, first: int, wanted: _Wanted) -> Nearest:
        """Look into more of the index until a query, (1, dimension), has what is wanted."""
        count = wanted.allowed.num if wanted.allowed else len(self._vectors)
        effort, is_settled = 1, np.zeros(1, bool)
        while not is_settled[0]:
            effort *= _WIDER
            if effort > _MAX_EFFORT or first * effort >= count:
                finder = self._exact
            (result,), is_settled = self._ranked(query, finder, min(count, first * effort), wanted, effort)
        return result

    def _ranked(
        self, queries: NDArray[np.float32], finder: VectorSearch, fetched: int, wanted: _Wanted, effort: int = 1
    ) -> tuple[list[Nearest], NDArray[np.bool_]]:
        """The best documents among those found for each query, and whether no others can belong to them.

        What a lossless search left out has at most its last score. Of what another search left out no more is known
        than that it may equal those that came last.
        """
        found, positions = finder.nearest(queries, fetched, wanted.allowed, effort)
        ends = found[:, -1:].astype(np.float64) + self._margin
        if finder.lossless and self._is_one_each:
            positions = positions[:, : self._num_rivals(found, wanted.num)]
        is_found = (positions >= 0) & (positions < len(self._parts))
        scores = np.full(positions.shape, -np.inf, np.float32)
        scores[is_found] = inner_products(queries, np.nonzero(is_found)[0], self._vectors, positions[is_found])
        outside = ends[:, 0] if finder.lossless else np.where(found <= ends, scores, -np.inf).max(axis=1)
        best = self._best(queries, scores, np.where(is_found, positions, -1), wanted)
        last = [result.scores[-1] if len(result.scores) == wanted.num else -np.inf for result in best]
        are_all = finder.complete and fetched >= (wanted.allowed.num if wanted.allowed else len(self._vectors))
        return best, (outside < last) | are_all

    def _num_rivals(self, found: NDArray[np.float32], num: int) -> int:
        """How many of the scores in each row, highest first, may be among the `num` best once they are exact."""
        ends = found[:, :num][:, -1:].astype(np.float64) - self._margin
        return int((found >= ends).sum(axis=1).max())

    def _best(
        self,
        queries: NDArray[np.float32],
        scores: NDArray[np.float32],
        positions: NDArray[np.int64],
        wanted: _Wanted,
    ) -> list[Nearest]:
        """The documents to which the vectors at these positions belong, in order; position -1 is none."""
        if not self._is_one_each:
            return [
                self._of_parts(queries[i : i + 1], scores[i], positions[i], wanted.document_weight).first(wanted.num)
                for i in range(len(queries))
            ]
        order = np.lexsort((self._parts["row"][positions], -scores))[:, : wanted.num]
        query = np.arange(len(queries))[:, None]
        scores, parts = scores[query, order], self._parts[positions[query, order]]
        counts = np.count_nonzero(scores > -np.inf, axis=1).tolist()
        return [Nearest(scores[i, :num], parts[i, :num]) for i, num in enumerate(counts)]

    def _of_parts(
        self, query: NDArray[np.float32], scores: NDArray[np.float32], positions: NDArray[np.int64], weight: float
    ) -> Nearest:
        is_found = positions >= 0
        scores, positions = scores[is_found], positions[is_found]
        if self._by_row is not None:
            positions = self._all_parts(positions)
            scores = inner_products(query, np.zeros(len(positions), np.int64), self._vectors, positions)
        return Nearest(scores, self._parts[positions]).documents(weight)

    def _all_parts(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """The positions of all vectors of the documents to which these belong."""
        assert self._by_row is not None
        rows = self._parts["row"]
        wanted = np.unique(rows[positions])
        first = np.searchsorted(rows, wanted, "left", sorter=self._by_row)
        end = np.searchsorted(rows, wanted, "right", sorter=self._by_row)
        groups = [self._by_row[start:stop] for start, stop in zip(first, end, strict=True)]
        return np.concatenate([np.empty(0, np.int64), *groups])


def _are_distinct(rows: NDArray[np.int64]) -> bool:
    return bool((np.diff(rows) > 0).all()) or len(np.unique(rows)) == len(rows)

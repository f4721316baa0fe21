"""Nearest vectors by comparing all of them, where they lie in a memory-mapped file."""

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.index.allowed import Allowed
from aveyb_ir.index.faiss_import import faiss_module


class ExactScan:
    """Compares queries with every vector of a float32 matrix (n, dimension), which need not fit into memory."""

    complete = True
    lossless = True

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        self._vectors = vectors

    def nearest(
        self, queries: NDArray[np.float32], num: int, allowed: Allowed | None, effort: int = 1
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Inner products, highest first, and positions of the `num` nearest vectors, each of shape (queries, num).

        Equal scores come in any order and may fall on either side of the end; the last digits of a score depend on
        how many queries are asked at once. Position -1 fills up when fewer vectors are allowed. There is nothing to
        gain from more `effort`.
        """
        faiss = faiss_module()
        scores = np.empty((len(queries), num), np.float32)
        positions = np.empty((len(queries), num), np.int64)
        faiss.knn_inner_product(
            faiss.swig_ptr(queries),
            faiss.swig_ptr(self._vectors),
            self._vectors.shape[1],
            len(queries),
            len(self._vectors),
            num,
            faiss.swig_ptr(scores),
            faiss.swig_ptr(positions),
            allowed.selector if allowed else None,
        )
        return scores, positions

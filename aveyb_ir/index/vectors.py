"""Embeddings as an index takes and stores them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.errors import DataError, IndexMismatchError

_BLOCK_ROWS = 4096
_BLOCK_PAIRS = 128  # so few that their float64 products stay in a processor's cache


def unit_vectors(array: Any, dimension: int, name_of: Callable[[int], str]) -> NDArray[np.float32]:
    """Check embeddings and give a normalized float32 copy, shape (n, dimension); zero vectors stay zero.

    `array` is a matrix of any float type and memory order, or nested lists; it is never changed. A row's result does
    not depend on its neighbours. `name_of(i)` names row i in messages. Raises TypeError for what is not a matrix of
    floats, IndexMismatchError for another dimension, DataError for NaN and infinity.
    """
    vectors = _as_float32(array)
    if vectors.ndim != 2:
        raise TypeError(f"embeddings of shape {vectors.shape}, expected (n, {dimension}): for a single one, pass [it]")
    if vectors.shape[1] != dimension:
        raise IndexMismatchError(
            f"embeddings have {vectors.shape[1]} dimensions, the index has {dimension}; "
            f"use the encoder that the index was built with"
        )
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        worst = int(np.argmin(finite))
        raise DataError(
            f"{name_of(worst)}: its embedding holds NaN or infinity, expected finite float32 numbers; "
            f"look at its text and at the encoder's precision"
        )
    _normalize(vectors)
    return vectors


def _as_float32(array: Any) -> NDArray[np.float32]:
    if isinstance(array, np.ndarray) and array.dtype.kind != "f":
        raise TypeError(f"embeddings of type {array.dtype}, expected floats: convert them with .astype('float32')")
    try:
        with np.errstate(over="ignore"):  # what overflows becomes infinity, which the caller's check names
            return np.array(array, dtype=np.float32, order="C")
    except (TypeError, ValueError) as error:
        raise TypeError(f"embeddings of type {type(array).__name__}, expected a matrix of floats ({error})") from error


def _normalize(vectors: NDArray[np.float32]) -> None:
    for start in range(0, len(vectors), _BLOCK_ROWS):
        block = vectors[start : start + _BLOCK_ROWS]
        lengths = np.sqrt(np.square(block, dtype=np.float64).sum(axis=1, keepdims=True))
        np.divide(block, lengths, out=block, where=lengths > 0)


def inner_products(
    queries: NDArray[np.float32], rows: NDArray[np.int64], vectors: NDArray[np.float32], positions: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Score pairs of a query and a vector exactly: shape (pairs,), of queries[rows[i]] and vectors[positions[i]].

    Each is a float64 sum of its own, rounded once, and so the same in whatever company it is computed, which products
    of matrices are not. `queries` has shape (q, dimension), `vectors` (n, dimension) and may be a memory map.
    """
    precise = queries.astype(np.float64)
    scores = np.empty(len(rows), np.float32)
    for start in range(0, len(rows), _BLOCK_PAIRS):
        pairs = slice(start, start + _BLOCK_PAIRS)
        block = precise.take(rows[pairs], axis=0)
        block *= vectors.take(positions[pairs], axis=0)
        scores[pairs] = block.sum(axis=1)
    return scores


class EmbeddingFile:
    """An .npy file of float32 rows that grows as rows come, so that no more than a batch is in memory."""

    def __init__(self, path: Path, dimension: int) -> None:
        self._dimension = dimension
        self._file = path.open("wb")
        self._rows = 0
        self._header_bytes = self._write_header()

    def append(self, vectors: NDArray[np.float32]) -> None:
        """Add rows, shape (n, dimension)."""
        self._file.write(np.ascontiguousarray(vectors, dtype="<f4").data)
        self._rows += len(vectors)

    def finish(self) -> None:
        """Write the final number of rows into the header and close the file."""
        self._file.seek(0)
        header_bytes = self._write_header()
        assert header_bytes == self._header_bytes  # NumPy leaves room in a header for its first axis to grow
        self._file.close()

    def close(self) -> None:
        """Close the file as it is."""
        self._file.close()

    def _write_header(self) -> int:
        header = {"descr": "<f4", "fortran_order": False, "shape": (self._rows, self._dimension)}
        np.lib.format.write_array_header_1_0(self._file, header)
        return self._file.tell()

"""The FAISS index over the vectors of a segment: how it is made, and how it is asked."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.errors import IndexDamagedError
from aveyb_ir.index.durable import RESTORE

SPECS = ("flat",)
_BLOCK_ROWS = 65_536


def check_spec(spec: str) -> None:
    """Raise ValueError unless indexes can be built to this specification."""
    if spec not in SPECS:
        raise ValueError(f"spec {spec!r} is not known; expected one of: {', '.join(SPECS)}")


def write_faiss(path: Path, vectors: NDArray[np.float32]) -> None:
    """Build a flat inner product index over `vectors`, shape (n, dimension), which may be a memory map."""
    faiss = _faiss()
    index = faiss.IndexFlatIP(vectors.shape[1])
    for start in range(0, len(vectors), _BLOCK_ROWS):
        index.add(np.ascontiguousarray(vectors[start : start + _BLOCK_ROWS]))
    # Through a Python file, because FAISS's own writer does not notice when the last bytes find no room on the disk.
    with path.open("wb") as file:
        faiss.write_index(index, faiss.PyCallbackIOWriter(file.write))


class FaissFile:
    """A FAISS index, memory-mapped and read-only; searches may run in any number of threads.

    `live` marks the vectors that may be found, shape (n,); None means all. Raises IndexDamagedError when the file is
    no FAISS index or not one of `num_vectors` vectors of `dimension`.
    """

    def __init__(self, path: Path, num_vectors: int, dimension: int, live: NDArray[np.bool_] | None) -> None:
        faiss = _faiss()
        # FAISS before 1.11 cannot map vectors; there the same call reads them into memory.
        mapped = getattr(faiss, "IO_FLAG_MMAP_IFC", 0)
        try:
            self._index = faiss.read_index(str(path), mapped)
        except RuntimeError as error:
            what = str(error).splitlines()[0]
            raise IndexDamagedError(f"{path}: not a FAISS index ({what}); {RESTORE}") from error
        if (self._index.ntotal, self._index.d) != (num_vectors, dimension):
            raise IndexDamagedError(
                f"{path}: {self._index.ntotal} vectors of {self._index.d} dimensions, expected {num_vectors} of "
                f"{dimension}; {RESTORE}"
            )
        self._parameters = _only(live)

    def nearest(self, queries: NDArray[np.float32], num: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Inner products, highest first, and positions of the `num` nearest vectors, each of shape (queries, num).

        Equal scores come in any order and may fall on either side of the end; the last digits of a score depend on
        how many queries are asked at once. Position -1 fills up when fewer vectors are found.
        """
        scores, positions = self._index.search(queries, num, params=self._parameters)
        return scores, positions


def _only(live: NDArray[np.bool_] | None) -> Any:
    if live is None:
        return None
    faiss = _faiss()
    selector = faiss.IDSelectorBitmap(np.packbits(live, bitorder="little"))
    return faiss.SearchParameters(sel=selector)


def _faiss() -> Any:
    # Imported when needed, because it is heavy; untyped, because its annotations leave out its Python layer.
    import faiss

    return faiss

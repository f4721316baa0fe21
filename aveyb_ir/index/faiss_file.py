"""The FAISS index of a segment: opened as a memory map, and asked."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.errors import IndexDamagedError
from aveyb_ir.index.allowed import Allowed
from aveyb_ir.index.durable import RESTORE
from aveyb_ir.index.faiss_build import signs
from aveyb_ir.index.faiss_gpu import GpuCopy, gpu_copy
from aveyb_ir.index.faiss_import import faiss_module, innermost
from aveyb_ir.index.spec import IndexSpec

# In a batch of 20 or more FAISS rounds a query's distance to the lists otherwise, and may then look into another list.
_TOGETHER = 16


class FaissFile:
    """An approximate FAISS index, memory-mapped and read-only; searches may run in any number of threads.

    With `on_gpu` a copy there answers what it can, a batch at once, so that what is found may depend on the batch.

    Raises IndexDamagedError when the file is no FAISS index or not one of `num_vectors` vectors of `dimension`.
    """

    complete = False

    def __init__(self, path: Path, num_vectors: int, dimension: int, spec: IndexSpec, *, on_gpu: bool = False) -> None:
        self._spec = spec
        self._index = _opened(path, spec.is_binary)
        if (self._index.ntotal, self._index.d) != (num_vectors, dimension):
            raise IndexDamagedError(
                f"{path}: {self._index.ntotal} vectors of {self._index.d} dimensions, expected {num_vectors} of "
                f"{dimension}; {RESTORE}"
            )
        self._gpu = gpu_copy(self._index, str(path)) if on_gpu and not spec.is_binary else None
        self.lossless = _keeps_vectors(self._index) and self._gpu is None  # there, digits may be cut
        self._is_plain = _is_plain(self._index)
        self._repeats = isinstance(innermost(self._index), faiss_module().IndexNSG)

    def nearest(
        self, queries: NDArray[np.float32], num: int, allowed: Allowed | None, effort: int = 1
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """FAISS's scores, highest first, and positions of about `num` near vectors, each of shape (queries, num).

        Which vectors are found does not depend on the other queries, and none is found twice. More `effort` looks into
        more of the index. Position -1 fills up when fewer are found.
        """
        if self._gpu and GpuCopy.answers(num, self._spec.nprobe * effort, is_filtered=allowed is not None):
            return self._gpu.search(queries, num, _parameters(self._index, self._spec, effort, None))
        select = allowed if allowed and self._is_plain else None
        parameters = _parameters(self._index, self._spec, effort, select)
        step = _TOGETHER if self._is_plain else 1
        found = [
            self._index.search(self._form(queries[first : first + step]), num, params=parameters)
            for first in range(0, len(queries), step)
        ]
        scores = np.concatenate([scores for scores, _ in found]).astype(np.float32)
        positions = np.concatenate([positions for _, positions in found])
        if self._repeats:
            positions[_is_repeated(positions)] = -1
        if allowed and select is None:
            positions[~allowed.mask[positions]] = -1
        return -scores if self._spec.is_binary else scores, positions

    def _form(self, queries: NDArray[np.float32]) -> NDArray[Any]:
        return signs(queries) if self._spec.is_binary else queries


def _opened(path: Path, binary: bool) -> Any:
    faiss = faiss_module()
    # A file from anyone may name another one that holds its lists: with these flags FAISS refuses to open that.
    flags = faiss.IO_FLAG_MMAP_IFC | faiss.IO_FLAG_READ_ONLY | faiss.IO_FLAG_ONDISK_SAME_DIR
    try:
        return (faiss.read_index_binary if binary else faiss.read_index)(str(path), flags)
    except RuntimeError as error:
        what = str(error).splitlines()[0]
        raise IndexDamagedError(f"{path}: not a FAISS index ({what}); {RESTORE}") from error


def _is_plain(index: Any) -> bool:
    """Whether FAISS tests inside its loops what may be found, and sees each query of a small batch by itself."""
    faiss = faiss_module()
    kinds = (faiss.IndexFlat, faiss.IndexScalarQuantizer, faiss.IndexIVF, faiss.IndexHNSW)
    return isinstance(innermost(index), (*kinds, faiss.IndexBinaryFlat, faiss.IndexBinaryHNSW))


def _keeps_vectors(index: Any) -> bool:
    """Whether an index compares the vectors as they were given, not codes or projections of them."""
    faiss = faiss_module()
    return isinstance(index, faiss.IndexFlat | faiss.IndexIVFFlat | faiss.IndexHNSWFlat | faiss.IndexNSGFlat)


def _is_repeated(positions: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of the positions in a row were in it before, as happens with NSG."""
    order = np.argsort(positions, axis=1, kind="stable")
    ascending = np.take_along_axis(positions, order, axis=1)
    repeated = np.zeros(positions.shape, bool)
    np.put_along_axis(repeated, order[:, 1:], ascending[:, 1:] == ascending[:, :-1], axis=1)
    return repeated


def _parameters(index: Any, spec: IndexSpec, effort: int, allowed: Allowed | None) -> Any:
    """What FAISS is to be told for a search, by the kind of index; None where it takes nothing."""
    faiss = faiss_module()
    select = {"sel": allowed.selector} if allowed else {}
    if isinstance(index, faiss.IndexPreTransform):
        inner = _parameters(innermost(index), spec, effort, allowed)
        return faiss.SearchParametersPreTransform(index_params=inner) if inner else None
    if isinstance(index, faiss.IndexIVF | faiss.IndexBinaryIVF):
        return faiss.SearchParametersIVF(nprobe=min(index.nlist, spec.nprobe * effort), **select)
    if isinstance(index, faiss.IndexHNSW | faiss.IndexBinaryHNSW):
        return faiss.SearchParametersHNSW(efSearch=spec.ef_search * effort, **select)
    return faiss.SearchParameters(**select) if select else None

"""Copies of FAISS indexes on a GPU, for the searches that it can answer there.

What is asked of FAISS here follows its documentation and is tested against a stand-in; it has not been run on a GPU.
"""

import logging
import threading
from functools import lru_cache
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.index.faiss_import import faiss_module, num_gpus

FaissDevice: TypeAlias = Literal["auto", "cpu", "cuda"]
"""Where FAISS builds or searches: "cuda" on a GPU, "auto" there if FAISS sees one."""

_logger = logging.getLogger(__name__)
_FIRST = 0
_MOST_SELECTED = 2048  # hits, or lists, that FAISS can choose on a GPU
_turn = threading.Lock()  # FAISS's memory on a GPU serves one search at a time


def uses_gpu(device: FaissDevice) -> bool:
    """Whether to use a GPU. Raises ValueError as `check_faiss_device`."""
    check_faiss_device(device)
    return device != "cpu" and num_gpus() > 0


def check_faiss_device(device: FaissDevice) -> None:
    """Raise ValueError for an unknown device, and for "cuda" where FAISS cannot use one."""
    if device not in get_args(FaissDevice):
        raise ValueError(f"faiss_device is {device!r}, expected one of {', '.join(get_args(FaissDevice))}: choose one")
    if device == "cuda" and not num_gpus():
        faiss = faiss_module()
        what = "sees none" if hasattr(faiss, "StandardGpuResources") else "is a build for CPUs only"
        raise ValueError(
            f"faiss_device is 'cuda', but FAISS {faiss.__version__} {what}; expected a GPU that it can use: "
            f"`aveyb-ir doctor` says what is missing, or choose 'cpu'"
        )


class GpuCopy:
    """An index of floats on the first GPU, beside the one that it was copied from; threads take turns.

    Raises RuntimeError when FAISS does not know this kind of index there, or has no room for it.
    """

    def __init__(self, index: Any) -> None:
        with _turn:
            self._index = faiss_module().index_cpu_to_gpu(_resources(), _FIRST, index)

    @staticmethod
    def answers(num: int, num_lists: int, is_filtered: bool) -> bool:
        """Whether it can find so many vectors in so many lists; it passes over a filter without a word."""
        return not is_filtered and max(num, num_lists) <= _MOST_SELECTED

    def search(
        self, queries: NDArray[np.float32], num: int, parameters: Any
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """What the search of an index on a CPU gives."""
        with _turn:
            scores, positions = self._index.search(queries, num, params=parameters)
        return scores, positions


def gpu_copy(index: Any, name: str) -> GpuCopy | None:
    """Copy an index to the GPU; None, with a warning that names it, where it has to stay on the CPU."""
    try:
        return GpuCopy(index)
    except RuntimeError as error:
        reason = str(error).splitlines()[-1]
        _logger.warning("%s cannot be searched on a GPU (%s); it is searched on the CPU", name, reason)
        return None


@lru_cache(maxsize=1)
def _resources() -> Any:
    """One for all copies: each keeps a good part of the GPU's memory for results in between."""
    return faiss_module().StandardGpuResources()

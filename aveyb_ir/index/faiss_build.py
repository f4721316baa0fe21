"""How FAISS indexes are made from vectors on disk."""

import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.index.faiss_gpu import FaissDevice, uses_gpu
from aveyb_ir.index.faiss_import import faiss_module, innermost
from aveyb_ir.index.spec import FLAT, LIST_VECTORS, IndexSpec, min_vectors

_logger = logging.getLogger(__name__)

_BLOCK_ROWS = 65_536
_TRAINING_VECTORS = 64  # for each list or code that is learnt; more change little but the time it takes
_SEED = 0


def fitting_factory(spec: IndexSpec, num_vectors: int, dimension: int, *, is_addition: bool) -> str:
    """The factory string for so many vectors: the specified one, or flat where these are too few to train it.

    It warns of the latter, unless they are only added to others.
    """
    factory = spec.resolved(num_vectors, dimension)
    needed = max(min_vectors(factory, dimension), LIST_VECTORS if spec.fits_lists else 1)
    if num_vectors >= needed:
        return factory
    _logger.log(
        logging.INFO if is_addition else logging.WARNING,
        "%d vectors are too few to train %s, which takes %d; they are compared exactly",
        num_vectors,
        factory,
        needed,
    )
    return FLAT


def write_faiss(
    path: Path,
    vectors: NDArray[np.float32],
    factory: str,
    spec: IndexSpec,
    *,
    device: FaissDevice = "cpu",
    max_rotation_rounds: int | None = None,
) -> None:
    """Build an index over `vectors`, shape (n, dimension), which may be a memory map, training it on a sample.

    On a `device` with GPUs all of them train and fill it, where FAISS knows its kind there; else a warning says so.
    `max_rotation_rounds` cuts the training of an OPQ rotation short, to see only whether it works.

    Raises OSError when the file cannot be written, RuntimeError or MemoryError when FAISS fails.
    """
    faiss = faiss_module()
    index = _build(vectors, factory, spec, device, max_rotation_rounds)
    # Through a Python file, because FAISS's own writer does not notice when the last bytes find no room on the disk.
    with path.open("wb") as file:
        write = faiss.write_index_binary if spec.is_binary else faiss.write_index
        write(index, faiss.PyCallbackIOWriter(file.write))


def faiss_reason(error: Exception) -> str:
    """What FAISS says in an error, without the place in its source."""
    text = str(error) or type(error).__name__
    return re.sub(r"^Error in .*? at \S+:\d+: (?:Error: )?", "", " ".join(text.split()))


def signs(vectors: NDArray[np.float32]) -> NDArray[np.uint8]:
    """One bit for each number, shape (n, dimension / 8): whether it is positive."""
    return np.packbits(vectors > 0, axis=1)


def _build(
    vectors: NDArray[np.float32], factory: str, spec: IndexSpec, device: FaissDevice, max_rotation_rounds: int | None
) -> Any:
    dimension = vectors.shape[1]
    index = _untrained(dimension, factory, spec)
    if max_rotation_rounds is not None:
        _shorten_rotation(index, max_rotation_rounds)
    on_gpus = not spec.is_binary and uses_gpu(device)
    if on_gpus:
        index = _on_gpus(index, factory)
    convert = signs if spec.is_binary else np.ascontiguousarray
    if not index.is_trained:
        index.train(convert(_sample(vectors, _TRAINING_VECTORS * min_vectors(factory, dimension))))
    for start in range(0, len(vectors), _BLOCK_ROWS):
        index.add(convert(vectors[start : start + _BLOCK_ROWS]))
    return faiss_module().index_gpu_to_cpu(index) if on_gpus else index


def _untrained(dimension: int, factory: str, spec: IndexSpec) -> Any:
    faiss = faiss_module()
    if spec.is_binary:
        index = core = codes = faiss.index_binary_factory(dimension, factory)
    else:
        index = faiss.index_factory(dimension, factory, faiss.METRIC_INNER_PRODUCT)
        core = codes = innermost(index)
    if hasattr(core, "hnsw"):
        core.hnsw.efConstruction = spec.ef_construction
        codes = core.storage if spec.is_binary else faiss.downcast_index(core.storage)
    if hasattr(codes, "do_polysemous_training"):
        codes.do_polysemous_training = False  # slow, and for a way of searching that is not used here
    if hasattr(codes, "pq"):
        codes.pq.cp.max_points_per_centroid = _TRAINING_VECTORS
    return index


def _shorten_rotation(index: Any, max_rounds: int) -> None:
    faiss = faiss_module()
    if isinstance(index, faiss.IndexPreTransform):
        for number in range(index.chain.size()):
            step = faiss.downcast_VectorTransform(index.chain.at(number))
            if isinstance(step, faiss.OPQMatrix):
                step.niter = max_rounds


def _sample(vectors: NDArray[np.float32], num: int) -> NDArray[np.float32]:
    if num >= len(vectors):
        return vectors
    rows = np.random.default_rng(_SEED).choice(len(vectors), num, replace=False)
    return vectors[np.sort(rows)]


def _on_gpus(index: Any, factory: str) -> Any:
    """The same index on all GPUs where FAISS knows this kind there, else as it is."""
    try:
        return faiss_module().index_cpu_to_all_gpus(index)
    except RuntimeError as error:
        reason = str(error).splitlines()[-1]
        _logger.warning("FAISS cannot build %s on a GPU (%s); it is built on the CPU", factory, reason)
        return index

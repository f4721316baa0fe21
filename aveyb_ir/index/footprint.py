"""How many bytes FAISS will keep for a number of vectors, before there are any."""

from typing import Any

from aveyb_ir.index.faiss_build import fitting_factory
from aveyb_ir.index.faiss_import import faiss_module, innermost
from aveyb_ir.index.named_specs import Spec, settled
from aveyb_ir.index.spec import FLAT
from aveyb_ir.index.spec_check import check_spec

_ID_BYTES = 8
_LINK_BYTES = 4


def faiss_bytes(spec: Spec, num_vectors: int, dimension: int) -> int:
    """Count the bytes that FAISS keeps for so many vectors; 0 where they are compared as they are.

    Codes, ids, lists and graph links are counted as FAISS lays them out, within a few per cent of the file; a learnt
    transformation before them, which does not grow with the vectors, is not.

    Raises:
        ValueError: FAISS cannot build the specification over vectors of this dimension.
    """
    chosen = settled(spec, num_vectors, dimension)
    check_spec(chosen, dimension)
    factory = fitting_factory(chosen, num_vectors, dimension, is_addition=False)
    if factory == FLAT:
        return 0
    faiss = faiss_module()
    if chosen.is_binary:
        whole = core = faiss.index_binary_factory(dimension, factory)
    else:
        whole = faiss.index_factory(dimension, factory, faiss.METRIC_INNER_PRODUCT)  # owns what is inside it
        core = innermost(whole)
    size = num_vectors * _bytes_per_vector(core) + _fixed_bytes(core)
    del whole
    return size


def _bytes_per_vector(index: Any) -> int:
    if hasattr(index, "hnsw"):
        return _codes(index.storage) + _LINK_BYTES * int(index.hnsw.nb_neighbors(0)) + _ID_BYTES + _LINK_BYTES
    return _codes(index) + (_ID_BYTES if hasattr(index, "nlist") else 0)


def _codes(index: Any) -> int:
    """Bytes of a vector's code. That of an inverted file is without the number of its list, which is not kept."""
    return int(index.code_size if hasattr(index, "code_size") else index.sa_code_size())


def _fixed_bytes(index: Any) -> int:
    """Centroids of lists and of codes, which do not grow with the vectors of a list."""
    lists = int(index.nlist) * _codes(index.quantizer) if hasattr(index, "nlist") else 0
    quantizer = getattr(index, "pq", None)
    return lists + (4 * int(quantizer.dsub * quantizer.ksub * quantizer.M) if quantizer is not None else 0)

"""FAISS, imported when it is needed."""

from typing import Any


def faiss_module() -> Any:
    """Import FAISS: heavy, so not with this package; untyped, because its annotations leave out its Python layer."""
    import faiss

    return faiss


def num_gpus() -> int:
    """How many GPUs FAISS sees; a build for CPUs only sees none."""
    return int(getattr(faiss_module(), "get_num_gpus", int)())


def innermost(index: Any) -> Any:
    """The float index behind transformations of the vectors."""
    faiss = faiss_module()
    return faiss.downcast_index(index.index) if isinstance(index, faiss.IndexPreTransform) else index

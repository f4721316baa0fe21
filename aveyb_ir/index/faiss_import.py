"""FAISS, imported when it is needed."""

from typing import Any


def faiss_module() -> Any:
    """Import FAISS: heavy, so not with this package; untyped, because its annotations leave out its Python layer."""
    import faiss

    return faiss


def innermost(index: Any) -> Any:
    """The float index behind transformations of the vectors."""
    faiss = faiss_module()
    return faiss.downcast_index(index.index) if isinstance(index, faiss.IndexPreTransform) else index

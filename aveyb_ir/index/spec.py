"""Index specifications: how vectors are stored and searched, checked before anything is encoded."""

import math
import re

from pydantic import Field, PositiveInt

from aveyb_ir.checked_yaml import Section
from aveyb_ir.index.faiss_import import faiss_module

FLAT = "Flat"
LIST_VECTORS = 39
"""Vectors for each list that FAISS wants at least."""

_LISTS, _CODES = "{lists}", "{codes}"
_UNUSABLE = {
    "IDMap": "ids are kept beside the vectors anyway",
    "RFlat": "hits are scored again exactly anyway",
    "Refine": "hits are scored again exactly anyway",
    "LSH": "FAISS knows it for Euclidean distance only; BFlat compares signs",
    "ITQ": "FAISS knows it for Euclidean distance only; BFlat compares signs",
}


class IndexSpec(Section):
    """What FAISS builds over the vectors of an index, and how hard it looks.

    Whatever FAISS finds is scored again exactly, so a compressed spec loses documents, never the order of those found.
    """

    name: str = Field(default="", description="what it is called; by default the name of the file")
    factory: str = Field(
        description="FAISS factory string; {lists} becomes 4 sqrt(n), {codes} a divisor of the dimension, about d/4; "
        "one that begins with B compares the signs of the numbers"
    )
    nprobe: PositiveInt = Field(default=32, description="lists that a query looks into; for IVF")
    ef_search: PositiveInt = Field(default=128, description="nodes that a query keeps in view; for HNSW")
    ef_construction: PositiveInt = Field(default=100, description="the same for a vector that is added; for HNSW")
    candidates: PositiveInt = Field(default=4, description="vectors fetched and scored exactly for each hit wanted")

    @property
    def is_flat(self) -> bool:
        """Whether every vector is compared with a query as it is, which takes no FAISS file."""
        return self.factory == FLAT

    @property
    def is_binary(self) -> bool:
        """Whether FAISS sees only the signs of the numbers."""
        return self.factory.startswith("B")

    def resolved(self, num_vectors: int, dimension: int) -> str:
        """The factory string for so many vectors, its placeholders filled in."""
        lists = max(1, min(int(4 * math.sqrt(num_vectors)), num_vectors // LIST_VECTORS))
        codes = max(size for size in range(1, max(1, dimension // 4) + 1) if dimension % size == 0)
        return self.factory.replace(_LISTS, str(lists)).replace(_CODES, str(codes))

    @property
    def fits_lists(self) -> bool:
        """Whether the number of its lists follows that of the vectors."""
        return _LISTS in self.factory

    def min_vectors(self, dimension: int) -> int:
        """How many vectors it takes to train this."""
        return min_vectors(self.resolved(1, dimension))

    def check(self, dimension: int) -> None:
        """Raise ValueError unless FAISS can build this over vectors of `dimension`."""
        if self.is_flat:
            return
        for unusable, why in _UNUSABLE.items():
            if unusable in self.factory:
                raise ValueError(f"spec {self.factory!r}: {unusable} cannot be used ({why}); leave it out")
        if self.is_binary and dimension % 8:
            raise ValueError(
                f"spec {self.factory!r} with {dimension} dimensions; expected a multiple of 8, since the signs of 8 "
                f"numbers make a byte: choose another spec"
            )
        _try_factory(self.factory, self.resolved(39 * 16, dimension), dimension)


BUILT_IN = {
    spec.name: spec
    for spec in (
        IndexSpec(name="flat", factory=FLAT),
        IndexSpec(name="int8", factory="SQ8"),
        IndexSpec(name="ivf", factory="IVF{lists},Flat", nprobe=128),
        IndexSpec(name="ivf_pq", factory="IVF{lists},PQ{codes}", nprobe=128, candidates=10),
        IndexSpec(name="hnsw", factory="HNSW32"),
        IndexSpec(name="binary", factory="BFlat", candidates=32),
    )
}
"""The specifications that have a name; `indexes/` holds them as files to copy and change."""


def min_vectors(factory: str) -> int:
    """How many vectors FAISS needs to train an index of this factory string."""
    lists = [int(lists) for lists in re.findall(r"IVF(\d+)", factory)]
    codes = [1 << int(bits or 8) for bits in re.findall(r"(?:PQ|RQ|LSQ)\d+(?:x(\d+))?", factory)]
    components = [int(size) for size in re.findall(r"PCA[RW]*(\d+)", factory)]
    return max([1, *lists, *codes, *components])


def _try_factory(factory: str, resolved: str, dimension: int) -> None:
    faiss = faiss_module()
    try:
        if resolved.startswith("B"):
            faiss.index_binary_factory(dimension, resolved)
        else:
            faiss.index_factory(dimension, resolved, faiss.METRIC_INNER_PRODUCT)
    except RuntimeError as error:
        reason = str(error).rpartition("Error: ")[2] or str(error)
        raise ValueError(
            f"spec {factory!r} with {dimension} dimensions is none that FAISS can build ({' '.join(reason.split())}); "
            f"expected auto, {', '.join(BUILT_IN)}, a .yaml file or a FAISS factory string"
        ) from error

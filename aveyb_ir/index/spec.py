"""Index specifications: how vectors are stored and searched."""

import math
import re

from pydantic import Field

from aveyb_ir.checked_yaml import Section

FLAT = "Flat"
LIST_VECTORS = 39
"""Vectors for each list that FAISS wants at least."""

_LISTS, _CODES = "{lists}", "{codes}"
_GRAPH_VECTORS = 64  # neighbours of each vector in the graph that an NSG begins with
_MOST = 1 << 20


class IndexSpec(Section):
    """What FAISS builds over the vectors of an index, and how hard it looks.

    Whatever FAISS finds is scored again exactly, so a compressed spec loses documents, never the order of those found.
    """

    name: str = Field(default="", description="what it is called; by default the name of the file")
    factory: str = Field(
        description="FAISS factory string; {lists} becomes 4 sqrt(n), {codes} a divisor of the dimension, about d/4; "
        "one that begins with B compares the signs of the numbers"
    )
    nprobe: int = Field(default=32, gt=0, le=_MOST, description="lists that a query looks into; for IVF")
    ef_search: int = Field(default=128, gt=0, le=_MOST, description="nodes that a query keeps in view; for HNSW")
    ef_construction: int = Field(
        default=100, gt=0, le=_MOST, description="the same for a vector that is added; for HNSW"
    )
    candidates: int = Field(
        default=4,
        gt=0,
        le=_MOST,
        description="vectors fetched and scored exactly for each hit wanted; "
        "a few are enough if they are kept whole, one a document",
    )

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
        return min_vectors(self.resolved(1, dimension), dimension)


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


def min_vectors(factory: str, dimension: int) -> int:
    """How many vectors FAISS needs to build an index of this factory string.

    With fewer it fails, or for OPQ, which rotates them, and NSG crashes or never ends.
    """
    lists = [int(lists) for lists in re.findall(r"IVF(\d+)", factory)]
    codes = [1 << int(x.rpartition("x")[2] or 8) for x in re.findall(r"(?:PQ|RQ|LSQ)\d+((?:x\d+)*)", factory)]
    components = [int(size) for size in re.findall(r"(?:PCA[RW]*|ITQ)(\d+)", factory)]
    graphs = [4 * max(int(links), _GRAPH_VECTORS) for links in re.findall(r"NSG(\d+)", factory)]
    rotations = [dimension for _ in re.findall(r"OPQ|RQ", factory)]
    return max([1, *lists, *codes, *components, *graphs, *rotations])

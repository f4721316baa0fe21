"""Index specifications by name: built in, read from a file, or chosen when it is known how many vectors there are."""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from pydantic import Field, PositiveFloat

from aveyb_ir.checked_yaml import Section, read_yaml, validated
from aveyb_ir.index.spec import BUILT_IN, IndexSpec

_logger = logging.getLogger(__name__)

_FLAT_NUMBERS = 30_000_000  # compared exactly in some ten milliseconds on two cores
# Fastest first: FAISS's bytes for each vector, and the least recall@10 that `aveyb-ir index recall` found for it on
# 100,000 sentences of 384 dimensions.
_BYTES: dict[str, Callable[[int], int]] = {
    "hnsw": lambda dimension: 4 * dimension + 280,
    "ivf": lambda dimension: 4 * dimension + 8,
    "ivf_pq": lambda dimension: dimension // 4 + 8,
    "int8": lambda dimension: dimension,
    "binary": lambda dimension: dimension // 8,
}
_RECALL = {"hnsw": 0.98, "ivf": 0.97, "ivf_pq": 0.97, "int8": 0.99, "binary": 0.98}


class AutoSpec(Section):
    """Chooses a built-in specification from the number of vectors, memory and the recall wanted, and says why."""

    memory_gb: PositiveFloat | None = Field(default=None, description="for FAISS; absent: half of the machine's")
    recall: float = Field(default=0.95, ge=0, le=1, description="least share of the true 10 nearest that must be found")

    def choose(self, num_vectors: int, dimension: int) -> IndexSpec:
        """Choose, and log the reason."""
        name, reason = self._choice(num_vectors, dimension)
        _logger.info("spec auto: %s for %d vectors of %d dimensions, %s", name, num_vectors, dimension, reason)
        return BUILT_IN[name]

    def _choice(self, num_vectors: int, dimension: int) -> tuple[str, str]:
        if num_vectors * dimension <= _FLAT_NUMBERS:
            return "flat", "few enough to compare all of them exactly"
        memory = self.memory_gb * 1e9 if self.memory_gb else _half_of_memory()
        for name, bytes_of in _BYTES.items():
            size, recall = num_vectors * bytes_of(dimension), _RECALL[name]
            trainable = num_vectors >= BUILT_IN[name].min_vectors(dimension)
            usable = BUILT_IN[name].is_binary <= (dimension % 8 == 0) and trainable
            if usable and size <= memory and recall >= self.recall:
                return name, (
                    f"the fastest that takes at most {memory / 1e9:.1f} GB ({size / 1e9:.1f} GB) and finds at least "
                    f"{self.recall:.0%} of the true 10 nearest"
                )
        return "flat", (
            f"since no other finds {self.recall:.0%} of the true 10 nearest in {memory / 1e9:.1f} GB; it reads the "
            f"vectors from disk, {num_vectors * dimension * 4 / 1e9:.1f} GB for each search"
        )


Spec: TypeAlias = IndexSpec | AutoSpec


def load_spec(spec: str | os.PathLike[str] | Spec) -> Spec:
    """Understand a specification: "auto", the name of a built-in one, a YAML file, or a FAISS factory string.

    Raises RecipeError for a file that is not a specification. A factory string is checked by `IndexSpec.check`.
    """
    if isinstance(spec, IndexSpec | AutoSpec):
        return spec
    name = os.fspath(spec)
    if name == "auto":
        return AutoSpec()
    if name in BUILT_IN:
        return BUILT_IN[name]
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        read = validated(IndexSpec, read_yaml(path, "an index specification"), name, "indexes/README.md lists the keys")
        return read if read.name else read.model_copy(update={"name": path.stem})
    return IndexSpec(name=name, factory=name)


def settled(spec: Spec, num_vectors: int, dimension: int) -> IndexSpec:
    """The specification itself, or the one that it chooses for so many vectors."""
    return spec.choose(num_vectors, dimension) if isinstance(spec, AutoSpec) else spec


def _half_of_memory() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2

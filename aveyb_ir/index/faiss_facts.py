"""What the FAISS that is installed can do."""

from dataclasses import dataclass

from aveyb_ir.index.faiss_import import faiss_module, num_gpus


@dataclass(frozen=True)
class FaissFacts:
    """FAISS as it is here: its version, the processor instructions it was built for, threads and visible GPUs."""

    version: str
    options: str
    num_threads: int
    num_gpus: int


def faiss_facts() -> FaissFacts:
    """Ask FAISS; a build for CPUs only sees no GPU. Raises ImportError when it cannot be loaded."""
    faiss = faiss_module()
    options = " ".join(faiss.get_compile_options().split())
    return FaissFacts(faiss.__version__, options, int(faiss.omp_get_max_threads()), num_gpus())

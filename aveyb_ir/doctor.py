"""Looks at this machine as the package will use it, and says how to mend what is wrong."""

import os
import platform
import shutil
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import torch
from huggingface_hub import constants as hub

from aveyb_ir._version import __version__
from aveyb_ir.encoding import choose_dtype, cpu_has_fast, free_bytes
from aveyb_ir.index import FaissFacts, faiss_facts

_PACKAGES = ("torch", "transformers", "sentence-transformers", "tokenizers", "numpy")
_FAISS_PACKAGES = ("faiss-cpu", "faiss-gpu", "faiss-gpu-cu12", "faiss-gpu-cu11")
_GIB = 2**30


@dataclass(frozen=True)
class DeviceFacts:
    """A processor: its memory in bytes, and the dtype that will be computed with on it and why."""

    device: str
    name: str
    memory: int
    free_memory: int
    dtype: str
    why: str


@dataclass(frozen=True)
class Problem:
    """Something that costs speed or will fail, and the line that mends it."""

    what: str
    mend: str


@dataclass(frozen=True)
class Facts:
    """All that `diagnose` looks at.

    Attributes:
        versions: Of Python and packages; None for one that is not installed.
        devices: Processors that PyTorch can use; the first GPU, if any, is the default.
        kernels: What computes attention, packed texts and matrix products.
        num_threads: Of PyTorch on the CPU.
        num_cores: That this process may use.
        faiss: None where it cannot be loaded.
        faiss_packages: Those installed.
        hub_offline: Whether models and data come from local copies only.
        hub_cache: Folder of these copies.
        driver: Whether an NVIDIA driver is installed.
        compiler: C++ compiler for `compile`; None where there is none.
    """

    versions: dict[str, str | None]
    devices: tuple[DeviceFacts, ...]
    kernels: dict[str, str]
    num_threads: int
    num_cores: int
    faiss: FaissFacts | None
    faiss_packages: tuple[str, ...]
    hub_offline: bool
    hub_cache: str
    driver: bool
    compiler: str | None


@dataclass(frozen=True)
class Diagnosis:
    """The facts and the problems found in them."""

    facts: Facts
    problems: tuple[Problem, ...]

    def to_json(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {**asdict(self.facts), "problems": [asdict(problem) for problem in self.problems]}


def diagnose() -> Diagnosis:
    """Collect versions, devices, kernels, threads, FAISS and Hub, and the problems found in them."""
    facts = _collect()
    return Diagnosis(facts, tuple(find_problems(facts)))


def find_problems(facts: Facts) -> list[Problem]:
    """Say what is wrong and what mends it."""
    gpus = [device for device in facts.devices if device.device != "cpu"]
    problems = [
        Problem(f"{package} is not installed.", "pip install aveyb-ir")
        for package, found in facts.versions.items()
        if found is None
    ]
    if facts.driver and not gpus:
        problems.append(
            Problem(
                f"An NVIDIA driver is installed, but torch {facts.versions['torch']} sees no GPU.",
                "pip install --force-reinstall torch  # on Linux the default build has CUDA; else see pytorch.org",
            )
        )
    problems += _thread_problems(facts.num_threads, facts.num_cores)
    problems += _faiss_problems(facts, bool(gpus))
    problems += [
        Problem(
            f"{device.device} has {device.free_memory / _GIB:.1f} GiB of free memory.",
            "End other programs there (nvidia-smi or top shows them), or use a smaller model.",
        )
        for device in facts.devices
        if device.free_memory < 2 * _GIB
    ]
    problems += [
        Problem(
            f"{gpu.device} ({gpu.name}) has no bfloat16 units, so float32 is used.",
            "Give --dtype float16 where the model allows it.",
        )
        for gpu in gpus
        if gpu.dtype == "float32"
    ]
    return problems


def _thread_problems(num_threads: int, num_cores: int) -> list[Problem]:
    if num_threads > num_cores:
        what = f"PyTorch uses {num_threads} threads on {num_cores} cores, which then wait for each other."
    elif num_threads == 1 and num_cores > 1:
        what = f"PyTorch uses 1 thread on {num_cores} cores."
    else:
        return []
    return [Problem(what, f"export OMP_NUM_THREADS={num_cores}")]


def _faiss_problems(facts: Facts, has_gpu: bool) -> list[Problem]:
    installed = " and ".join(facts.faiss_packages)
    if facts.faiss is None:
        return [
            Problem("FAISS cannot be loaded; without it there is no index.", "pip install --force-reinstall faiss-cpu")
        ]
    if len(facts.faiss_packages) > 1:
        keep = facts.faiss_packages[-1] if has_gpu else "faiss-cpu"
        mend = f"pip uninstall -y {' '.join(facts.faiss_packages)} && pip install {keep}"
        return [Problem(f"{installed} are installed over each other.", mend)]
    if has_gpu and not facts.faiss.num_gpus:
        mend = f"pip uninstall -y {installed or 'faiss-cpu'} && pip install 'aveyb-ir[gpu]'"
        return [Problem("PyTorch sees a GPU, but FAISS does not; it builds and searches on the CPU.", mend)]
    return []


def _collect() -> Facts:
    try:
        faiss = faiss_facts()
    except ImportError:
        faiss = None  # reported as a problem
    return Facts(
        versions={
            "aveyb-ir": __version__,
            "python": platform.python_version(),
            **{package: _version(package) for package in _PACKAGES},
            "faiss": faiss.version if faiss else None,
        },
        devices=(*(_gpu(i) for i in range(torch.cuda.device_count())), _cpu()),
        kernels=_kernels(),
        num_threads=torch.get_num_threads(),
        num_cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        faiss=faiss,
        faiss_packages=tuple(package for package in _FAISS_PACKAGES if _version(package) is not None),
        hub_offline=hub.HF_HUB_OFFLINE,
        hub_cache=str(hub.HF_HUB_CACHE),
        driver=shutil.which("nvidia-smi") is not None or Path("/proc/driver/nvidia/version").exists(),
        compiler=next(filter(None, map(shutil.which, ("g++", "clang++", "c++"))), None),
    )


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _gpu(number: int) -> DeviceFacts:
    device = torch.device("cuda", number)
    properties = torch.cuda.get_device_properties(device)
    dtype = _dtype_name(device)
    why = "the GPU computes it natively" if dtype == "bfloat16" else "the GPU has no bfloat16 units"
    return DeviceFacts(str(device), properties.name, properties.total_memory, free_bytes(device), dtype, why)


def _cpu() -> DeviceFacts:
    device = torch.device("cpu")
    fast = cpu_has_fast(torch.bfloat16)
    why = (
        "exact; --dtype bfloat16 would be fast here too" if fast else "bfloat16 is emulated on this CPU and far slower"
    )
    name = platform.processor() or platform.machine()
    return DeviceFacts("cpu", name, psutil.virtual_memory().total, free_bytes(device), _dtype_name(device), why)


def _dtype_name(device: torch.device) -> str:
    return str(choose_dtype(None, device)).removeprefix("torch.")


def _kernels() -> dict[str, str]:
    cuda = torch.backends.cuda
    enabled = {
        "flash": cuda.flash_sdp_enabled(),
        "memory-efficient": cuda.mem_efficient_sdp_enabled(),
        "cudnn": cuda.cudnn_sdp_enabled(),
        "math": cuda.math_sdp_enabled(),
    }
    attention = ", ".join(name for name, on in enabled.items() if on) if torch.cuda.is_available() else "for CPU"
    return {
        "packed": "Avey-B computes packed chunks with PyTorch's own matrix products, nothing for padding",
        "sdpa": f"other models use scaled_dot_product_attention: {attention}",
        "cpu": f"{torch.backends.cpu.get_cpu_capability()}, MKL {torch.backends.mkl.is_available()}, "
        f"oneDNN {torch.backends.mkldnn.is_available()}",
    }

"""Searching on a GPU, with a stand-in for FAISS's: what goes there, what does not, and that results stay exact."""

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest

from aveyb_ir.data import Document
from aveyb_ir.index import EncoderIdentity, IndexDir, IndexWriter, faiss_facts, faiss_gpu

DIMENSION = 32


class OnGpu:
    """An index as FAISS has it on a GPU: it ignores filters, takes 2,048 hits at most, and serves one at a time."""

    def __init__(self, index: Any, calls: list[int]) -> None:
        self.index, self.calls, self.busy = index, calls, threading.Lock()

    def search(self, queries: np.ndarray, num: int, params: Any = None) -> tuple[np.ndarray, np.ndarray]:
        assert num <= 2048
        assert params is None or (params.sel is None and params.nprobe <= 2048)
        assert self.busy.acquire(blocking=False), "two searches at once"
        self.calls.append(len(queries))
        time.sleep(0.002)
        scores, positions = self.index.search(queries, num, params=params)
        self.busy.release()
        return scores * np.float32(1 - 1e-3), positions  # digits are cut


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A FAISS that sees one GPU; gives the sizes of the batches that are searched there."""
    calls: list[int] = []

    def to_gpu(resources: object, device: int, index: Any) -> OnGpu:
        assert (resources, device) == ("resources", 0)
        if not isinstance(index, faiss.IndexIVF):
            raise RuntimeError("Error in clone_Index at GpuCloner.cpp:1:\nThis index type is not implemented on GPU.")
        return OnGpu(index, calls)

    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 1, raising=False)
    monkeypatch.setattr(faiss, "StandardGpuResources", lambda: "resources", raising=False)
    monkeypatch.setattr(faiss, "index_cpu_to_gpu", to_gpu, raising=False)
    monkeypatch.setattr(faiss, "index_cpu_to_all_gpus", lambda index: index, raising=False)
    monkeypatch.setattr(faiss, "index_gpu_to_cpu", lambda index: index, raising=False)
    faiss_gpu._resources.cache_clear()
    return calls


def vectors(count: int = 600, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, DIMENSION)).astype(np.float32)


def built(path: Path, spec: str, **options: Any) -> Path:
    with IndexWriter.create(path, EncoderIdentity("any", "f", DIMENSION), spec=spec, **options) as writer:
        writer.add([Document(str(i), "", metadata={"number": i}) for i in range(600)], vectors())
    return path


@pytest.mark.parametrize("spec", ["IVF8,Flat", "IVF8,PQ8"])
def test_batches_are_searched_at_once_on_the_gpu_and_hits_are_those_of_the_cpu(
    gpu: list[int], tmp_path: Path, spec: str
) -> None:
    path, queries = built(tmp_path / "index", spec), vectors(40, seed=1)
    on_cpu = IndexDir.open(path)
    assert on_cpu.search(queries, 10) == IndexDir.open(path, faiss_device="auto").search(queries, 10)
    assert gpu[0] == 40
    gpu.clear()
    on_cpu.search(queries, 10)
    assert gpu == []


def test_conditions_and_many_hits_are_left_to_the_cpu(
    gpu: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aveyb_ir.index.segment_search._FEW", 0)
    index = IndexDir.open(built(tmp_path / "index", "IVF8,Flat"), faiss_device="cuda")
    (hits,) = index.search(vectors(1, seed=1), 10, where="number < 300")
    assert len(hits) == 10
    assert all(hit.row < 300 for hit in hits)
    monkeypatch.setattr(faiss_gpu, "_MOST_SELECTED", 100)
    assert len(index.search(vectors(1, seed=1), 200)[0]) == 200
    assert gpu == []


def test_the_newest_state_is_on_the_gpu_too(gpu: list[int], tmp_path: Path) -> None:
    path = built(tmp_path / "index", "IVF8,Flat")
    old = IndexDir.open(path, faiss_device="cuda")
    with IndexWriter.open(path) as writer:
        writer.add([Document("new", "")], vectors(1, seed=2))
        writer.compact()
    assert old.latest().search(vectors(1, seed=2), 1)[0][0].id == "new"
    assert gpu == [1]


@pytest.mark.parametrize("spec", ["IVF8,Flat", "HNSW16"])
def test_gpus_build_unless_told_otherwise(
    gpu: list[int], tmp_path: Path, spec: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    moved: list[Any] = []

    def to_all_gpus(index: Any) -> Any:
        moved.append(index)
        if not isinstance(index, faiss.IndexIVF):
            raise RuntimeError("Error in clone_Index:\nThis index type is not implemented on GPU.")
        return index

    monkeypatch.setattr(faiss, "index_cpu_to_all_gpus", to_all_gpus)
    there, here = built(tmp_path / "there", spec), built(tmp_path / "here", spec, faiss_device="cpu")
    assert len(moved) == 1
    assert caplog.text.count(f"FAISS cannot build {spec} on a GPU") == (spec == "HNSW16")
    assert IndexDir.open(there).search(vectors(3, seed=1), 5) == IndexDir.open(here).search(vectors(3, seed=1), 5)
    with IndexWriter.open(here, faiss_device="cuda") as writer:
        writer.add([Document("new", "")], vectors(1, seed=2))
        writer.compact()
    assert len(moved) == 2


def test_threads_take_turns(gpu: list[int], tmp_path: Path) -> None:
    index = IndexDir.open(built(tmp_path / "index", "IVF8,Flat"), faiss_device="cuda")
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: index.search(vectors(2, seed=1), 5), range(20)))
    assert len(gpu) >= 20
    assert all(hits == found[0] for hits in found)


@pytest.mark.parametrize("spec", ["HNSW16", "SQ8"])
def test_a_kind_that_no_gpu_knows_stays_on_the_cpu_with_a_warning(
    gpu: list[int], tmp_path: Path, spec: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = built(tmp_path / "index", spec)
    caplog.clear()
    index = IndexDir.open(path, faiss_device="auto")
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "faiss.index cannot be searched on a GPU (This index type is not implemented on GPU.)" in record.message
    assert index.search(vectors(3, seed=1), 5) == IndexDir.open(path).search(vectors(3, seed=1), 5)
    assert gpu == []


@pytest.mark.parametrize("spec", ["flat", "binary"])
def test_what_is_compared_exactly_or_by_signs_is_never_copied(gpu: list[int], tmp_path: Path, spec: str) -> None:
    index = IndexDir.open(built(tmp_path / "index", spec), faiss_device="cuda")
    assert len(index.search(vectors(3, seed=1), 5)) == 3
    assert gpu == []


def test_without_a_gpu_auto_is_the_cpu_and_cuda_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 0, raising=False)
    path = built(tmp_path / "index", "IVF8,Flat")
    assert faiss_facts().num_gpus == 0
    assert len(IndexDir.open(path, faiss_device="auto").search(vectors(1), 5)[0]) == 5
    for opened in (IndexDir.open, IndexWriter.open):
        with pytest.raises(ValueError, match=r"'cuda', but FAISS .* is a build for CPUs only; expected a GPU .*doctor"):
            opened(path, faiss_device="cuda")
    monkeypatch.setattr(faiss, "StandardGpuResources", None, raising=False)
    with pytest.raises(ValueError, match=r"faiss_device is 'cuda', but FAISS \S+ sees none; expected a GPU"):
        IndexWriter.create(tmp_path / "new", EncoderIdentity("any", "f", DIMENSION), faiss_device="cuda")
    assert not (tmp_path / "new").exists()
    with pytest.raises(ValueError, match="faiss_device is 'gpu', expected one of auto, cpu, cuda"):
        IndexDir.open(path, faiss_device="gpu")  # type: ignore[arg-type]

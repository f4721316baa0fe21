"""Every command that searches an index reaches a GPU, of which a stand-in does the work."""

import json

import faiss
import numpy as np
import pytest

from aveyb_ir import Encoder
from aveyb_ir.data import Document, Query, write_beir_folder
from aveyb_ir.index import IndexWriter
from aveyb_ir.retrieval.index import identity_of

DOCUMENTS = [Document(str(i), f"text number {i}") for i in range(400)]


class OnGpu:
    def __init__(self, index, searched):
        self.index, self.searched = index, searched

    def search(self, queries, num, params=None):
        self.searched.append(len(queries))
        return self.index.search(queries, num, params=params)


@pytest.fixture
def searched(monkeypatch):
    """A FAISS that sees one GPU; gives the sizes of the batches that are searched there."""
    searched = []
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 1, raising=False)
    monkeypatch.setattr(faiss, "StandardGpuResources", object, raising=False)
    monkeypatch.setattr(faiss, "index_cpu_to_gpu", lambda _, __, index: OnGpu(index, searched), raising=False)
    monkeypatch.setattr("aveyb_ir.index.faiss_gpu._resources", object)
    return searched


@pytest.fixture(scope="module")
def beir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "numbers"
    write_beir_folder(
        folder, DOCUMENTS, [Query("q", "number 7")], {split: {"q": {"7": 1}} for split in ("train", "test")}
    )
    return folder


@pytest.fixture(scope="module")
def index(tmp_path_factory, avey_dir):
    encoder = Encoder(avey_dir, device="cpu")
    path = tmp_path_factory.mktemp("gpu") / "index"
    with IndexWriter.create(path, identity_of(encoder), spec="IVF4,Flat", faiss_device="cpu") as writer:
        writer.add(DOCUMENTS, np.random.default_rng(0).standard_normal((400, encoder.dimension), np.float32))
    return path


def commands(index, beir, tmp_path):
    queries = beir / "queries.jsonl"
    return {
        "search": ("search", index, "number 7", "--json"),
        "explain": ("explain", index, "number 7", "--json"),
        "evaluate": ("evaluate", "--index", index, "--data", beir, "--top-k", 10, "--no-bm25", "--json"),
        "bench": ("bench", "--search", index, "--queries", queries, "--repeats", 1, "--max-seconds", 0, "--json"),
        "mine": ("mine", "--index", index, "--data", beir, "--output", tmp_path / "mined.jsonl", "--json"),
    }


@pytest.mark.parametrize("name", ["search", "explain", "evaluate", "bench", "mine"])
def test_commands_search_there_when_told(run, searched, index, beir, tmp_path, name):
    command = (*commands(index, beir, tmp_path)[name], "--device", "cpu")
    code, _, err = run(*command, "--faiss-device", "cuda")
    assert code == 0, err
    assert searched
    searched.clear()
    overwrite = ("--overwrite",) if name == "mine" else ()
    assert run(*command, *overwrite)[0] == 0
    assert searched == []


@pytest.mark.parametrize("name", ["search", "explain", "evaluate", "bench", "mine", "index"])
def test_without_a_gpu_one_line_says_so(run, index, beir, avey_dir, tmp_path, name):
    build = ("index", "build", tmp_path / "new", "--corpus", beir, "--encoder", avey_dir, "--spec", "IVF4,Flat")
    command = build if name == "index" else commands(index, beir, tmp_path)[name]
    code, out, err = run(*command, "--faiss-device", "cuda")
    assert (code, out) == (1, "")
    (line,) = [line for line in err.splitlines() if "faiss_device" in line]
    assert "faiss_device is 'cuda', but FAISS" in line
    assert "expected a GPU that it can use" in line
    assert not (tmp_path / "new").exists()


def test_an_index_is_built_where_it_is_told(run, beir, avey_dir, tmp_path, monkeypatch):
    moved = []
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 1, raising=False)
    monkeypatch.setattr(faiss, "index_cpu_to_all_gpus", lambda index: moved.append(index) or index, raising=False)
    monkeypatch.setattr(faiss, "index_gpu_to_cpu", lambda index: index, raising=False)
    for device, num in (("cpu", 0), ("cuda", 1)):
        path = tmp_path / device
        options = ("--corpus", beir, "--encoder", avey_dir, "--device", "cpu", "--spec", "IVF4,Flat", "--json")
        code, out, err = run("index", "build", path, *options, "--faiss-device", device)
        assert code == 0, err
        assert (json.loads(out)["documents"], len(moved)) == (400, num)
    assert run("index", "compact", tmp_path / "cpu", "--spec", "IVF8,Flat", "--faiss-device", "auto")[0] == 0
    assert len(moved) == 2

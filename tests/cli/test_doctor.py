"""What `aveyb-ir doctor` tells: all facts, and the line that mends each problem."""

import json
import sys
from dataclasses import replace

import pytest
import torch

from aveyb_ir.cli import main
from aveyb_ir.cli.progress import describe
from aveyb_ir.doctor import DeviceFacts, Facts, diagnose, find_problems
from aveyb_ir.encoding import EncodingProgress
from aveyb_ir.index import FaissFacts

GIB = 2**30
CPU = DeviceFacts("cpu", "x86_64", 32 * GIB, 16 * GIB, "float32", "")
GPU = DeviceFacts("cuda:0", "H200", 140 * GIB, 139 * GIB, "bfloat16", "")
HEALTHY = Facts(
    versions={"torch": "2.13.0", "faiss": "1.15"},
    devices=(GPU, CPU),
    kernels={},
    num_threads=8,
    num_cores=8,
    faiss=FaissFacts("1.15", "AVX2", 8, 1),
    faiss_packages=("faiss-gpu-cu12",),
    hub_offline=False,
    hub_cache="",
    driver=True,
    compiler="/usr/bin/g++",
)


def run(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["aveyb-ir", "doctor", *arguments])
    with pytest.raises(SystemExit) as exit:
        main()
    return exit.value.code or 0, capsys.readouterr().out


def test_json_is_complete(monkeypatch, capsys):
    code, out = run(monkeypatch, capsys, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["versions"]["torch"] == torch.__version__
    assert {"aveyb-ir", "python", "transformers", "sentence-transformers", "faiss"} <= set(found["versions"])
    cpu = found["devices"][-1]
    assert (cpu["device"], cpu["dtype"]) == ("cpu", "float32")
    assert 0 < cpu["free_memory"] < cpu["memory"]
    assert found["hub_offline"] is True
    assert found["faiss"]["num_gpus"] == 0
    assert {"packed", "sdpa"} <= set(found["kernels"])


def test_problems_are_listed_and_no_failure(monkeypatch, capsys):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 512)
    code, out = run(monkeypatch, capsys)
    assert code == 0
    assert "Problem: PyTorch uses 512 threads" in out
    assert "export OMP_NUM_THREADS=" in out
    assert "float32" in out


def test_a_healthy_machine_has_no_problems():
    assert find_problems(HEALTHY) == []
    assert find_problems(replace(HEALTHY, devices=(CPU,), driver=False, faiss_packages=("faiss-cpu",))) == []


@pytest.mark.parametrize(
    ("change", "what", "mend"),
    [
        ({"versions": {"torch": None}}, "torch is not installed", "pip install aveyb-ir"),
        ({"devices": (CPU,)}, "sees no GPU", "pip install --force-reinstall torch"),
        ({"num_threads": 1}, "1 thread on 8 cores", "OMP_NUM_THREADS=8"),
        ({"num_threads": 64}, "64 threads on 8 cores", "OMP_NUM_THREADS=8"),
        ({"faiss": None}, "FAISS cannot be loaded", "pip install --force-reinstall faiss-cpu"),
        ({"faiss": FaissFacts("1.15", "", 8, 0)}, "FAISS does not", "pip install 'aveyb-ir[gpu]'"),
        ({"faiss_packages": ("faiss-cpu", "faiss-gpu-cu12")}, "over each other", "pip install faiss-gpu-cu12"),
        ({"devices": (replace(GPU, free_memory=GIB), CPU)}, "1.0 GiB of free memory", "nvidia-smi"),
        ({"devices": (replace(GPU, dtype="float32"), CPU)}, "no bfloat16 units", "--dtype float16"),
    ],
)
def test_each_problem_comes_with_what_mends_it(change, what, mend):
    (problem,) = find_problems(replace(HEALTHY, **change))
    assert what in problem.what
    assert mend in problem.mend


def test_a_machine_without_faiss_is_diagnosed_all_the_same(monkeypatch):
    import aveyb_ir.doctor

    def missing():
        raise ImportError("No module named 'faiss'")

    monkeypatch.setattr(aveyb_ir.doctor, "faiss_facts", missing)
    assert any("FAISS cannot be loaded" in problem.what for problem in diagnose().problems)


def test_progress_says_only_what_is_known(tmp_path):
    progress = EncodingProgress(
        documents=1500, characters=0, new_documents=500, new_characters=0, new_tokens=90_000, seconds=10.0
    )
    assert describe(progress) == "Encoded 1,500 documents, 9,000 tokens/s"
    known = replace(progress, total_documents=4500)
    assert describe(known) == "Encoded 1,500 of 4,500 documents, 9,000 tokens/s, about 0:01:00 left"

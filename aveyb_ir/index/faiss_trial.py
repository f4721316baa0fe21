"""Tries a FAISS factory string in another process, which may crash, hang or run out of memory in place of this one."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

import numpy as np

from aveyb_ir.errors import AveybError
from aveyb_ir.index.allowed import Allowed
from aveyb_ir.index.faiss_build import faiss_reason, write_faiss
from aveyb_ir.index.faiss_file import FaissFile
from aveyb_ir.index.spec import IndexSpec, min_vectors

_SECONDS = 60
_BYTES = 8 << 30
_LISTS = 256  # as good as a million lists to tell whether FAISS can build them, and quick
_VECTORS = 300
_QUERIES = 20  # a batch that is searched in more than one piece
# With the modules of this process, and none that happen to lie in the current folder.
_CHILD = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {0} import {1}; {1}()"


@lru_cache(maxsize=64)
def trial_failure(spec_json: str, factory: str, dimension: int) -> str:
    """Why an index of `factory` cannot be built, opened and searched over some vectors; empty if it can.

    `spec_json` is an IndexSpec as JSON, which says how to search. A smaller number of lists stands for a large one.
    Raises AveybError when the other process cannot be run.
    """
    given = json.dumps([spec_json, _few_lists(factory), dimension])
    code = _CHILD.format(__name__, run_trial.__name__)
    try:
        ended = subprocess.run(
            [sys.executable, "-I", "-c", code, json.dumps(sys.path)],
            input=given,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"a trial with few vectors was not done within {_SECONDS} seconds"
    if ended.returncode < 0:
        return f"it crashes with {signal.Signals(-ended.returncode).name}"
    if ended.returncode:
        reason = ended.stderr.strip().rpartition("\n")[2]
        raise AveybError(
            f"another process of {sys.executable}, which was to try the spec {factory}, ended with exit code "
            f"{ended.returncode} ({reason}), expected 0; see that it can import aveyb_ir, or use a built-in spec"
        )
    return str(json.loads(ended.stdout.rpartition("\n")[2]))


def run_trial() -> None:
    """Be the other process: read from stdin what to try, write to stdout what went wrong, as a JSON string."""
    signal.alarm(_SECONDS + 5)  # should the one that waits have been killed
    spec_json, factory, dimension = json.load(sys.stdin)
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))
    failure = ""
    try:
        _build_and_search(IndexSpec.model_validate_json(spec_json), factory, dimension)
    except MemoryError:
        failure = f"a trial with few vectors took more than {_BYTES >> 30} GB"
    except (AveybError, AssertionError, RuntimeError, TypeError, ValueError, OverflowError) as error:
        failure = faiss_reason(error)
    sys.stdout.write("\n" + json.dumps(failure))


def _build_and_search(spec: IndexSpec, factory: str, dimension: int) -> None:
    needed = min_vectors(factory, dimension)
    random = np.random.default_rng(0)
    for num in sorted({needed, max(needed, _VECTORS)}):
        vectors = random.standard_normal((num, dimension), np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        with tempfile.TemporaryDirectory(prefix="aveyb-spec-") as folder:
            path = Path(folder) / "faiss.index"
            write_faiss(path, vectors, factory, spec, max_rotation_rounds=1)
            file = FaissFile(path, num, dimension, spec)
            for allowed in (None, Allowed(np.arange(num) % 2 == 0)):
                _, positions = file.nearest(vectors[:_QUERIES], min(num, 10), allowed)
                if not (positions >= 0).any():
                    raise RuntimeError("a search finds nothing")


def _few_lists(factory: str) -> str:
    return re.sub(r"IVF(\d+)", lambda found: f"IVF{min(int(found[1]), _LISTS)}", factory)

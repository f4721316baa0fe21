"""Writers killed at random moments of building, adding, deleting and compacting.

A few kills by default; a hundred with `AVEYB_KILLS=100 python -m pytest tests/index/test_index_kills.py`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from aveyb_ir.data import Document
from aveyb_ir.errors import IndexDirError
from aveyb_ir.index import EncoderIdentity, IndexDir, IndexWriter

RANDOM_KILLS = Path(__file__).parent / "cases" / "random_kills.py"


NUM_KILLS = int(os.environ.get("AVEYB_KILLS", "8"))


def test_a_writer_killed_at_any_moment_leaves_the_old_state_or_the_new_one(tmp_path: Path) -> None:
    subprocess.run([sys.executable, RANDOM_KILLS, tmp_path, str(NUM_KILLS)], check=True, timeout=600)
    states = json.loads((tmp_path / "states.json").read_text(encoding="utf-8"))
    assert ids_in(tmp_path / "whole" / "index") == states[-1]
    reached = set()
    for number in range(NUM_KILLS):
        folder = tmp_path / str(number)
        done = (folder / "done").stat().st_size if (folder / "done").exists() else 0
        found = ids_in(folder / "index")
        assert found in states[done : done + 2], f"kill {number} after {done} changes"
        reached.add(done)
        if found:
            continue_after_kill(folder / "index", found)
    assert len(reached) > 1, "all were killed at the same stage"


def ids_in(path: Path) -> list[str]:
    """The ids of a whole and sound index; none where nothing was published yet."""
    if not (path / "manifest.json").exists():
        with pytest.raises(IndexDirError):
            IndexDir.open(path)
        return []
    index = IndexDir.open(path)
    index.verify()
    assert all(document.text == f"text of {document.id}" for document in index)
    return index.ids()


def continue_after_kill(path: Path, ids: list[str]) -> None:
    with IndexWriter.open(path, expected_encoder=EncoderIdentity("any", "f", 16)) as writer:
        writer.add([Document("next", "text of next")], np.eye(16)[:1])
    index = IndexDir.open(path)
    assert index.search(np.eye(16)[:1], 1)[0][0].id == "next"
    assert index.ids() == [*ids, "next"]

"""Change copies of an index over and over, and kill each writer at a random moment.

usage: random_kills.py FOLDER COUNT

Leaves FOLDER/N/index, FOLDER/N/done (a byte for each change that was complete) and FOLDER/states.json: the ids that are
there after 0, 1, 2, ... changes.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import faiss  # noqa: F401 - imported before the forks, so that these need not
import numpy as np

from aveyb_ir.data import Document
from aveyb_ir.index import EncoderIdentity, IndexSpec, IndexWriter, check_spec

ENCODER = EncoderIdentity("any", "f", 16)
SPEC = "IVF4,Flat"
CHANGES = ("build", "add", "delete", "compact", "add", "delete", "build", "add", "compact")


def ids_of(step: int) -> list[str]:
    return [f"{step}-{i}" for i in range(300)]


def states() -> list[list[str]]:
    found: list[list[str]] = [[]]
    for step, kind in enumerate(CHANGES):
        kept = [] if kind == "build" else found[-1]
        if kind in ("build", "add"):
            kept = kept + ids_of(step)
        found.append(kept[40:] if kind == "delete" else kept)
    return found


def change(step: int, path: Path) -> None:
    kind = CHANGES[step]
    writer = IndexWriter.create(path, ENCODER, spec=SPEC, overwrite=True) if kind == "build" else IndexWriter.open(path)
    with writer:
        if kind in ("build", "add"):
            vectors = np.random.default_rng(step).standard_normal((300, 16))
            for start in range(0, 300, 50):
                documents = [Document(id, f"text of {id}") for id in ids_of(step)[start : start + 50]]
                writer.add(documents, vectors[start : start + 50])
        elif kind == "delete":
            writer.delete(states()[step][:40])
        else:
            writer.compact()


def run(folder: Path) -> None:
    folder.mkdir()
    with (folder / "done").open("ab", buffering=0) as done:
        for step in range(len(CHANGES)):
            change(step, folder / "index")
            done.write(b".")


def killed_after(seconds: float, folder: Path) -> None:
    child = os.fork()
    if not child:
        run(folder)
        os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def main(folder: Path, count: int) -> None:
    (folder / "states.json").write_text(json.dumps(states()), encoding="utf-8")
    check_spec(IndexSpec(name=SPEC, factory=SPEC), 16)  # so that the forks need not
    chance = random.Random(0)
    child = os.fork()  # whatever a first run is slow at, or starts threads for, stays out of this process
    if not child:
        start = time.perf_counter()
        run(folder / "whole")
        (folder / "seconds").write_text(str(time.perf_counter() - start), encoding="utf-8")
        os._exit(0)
    os.waitpid(child, 0)
    seconds = float((folder / "seconds").read_text(encoding="utf-8"))
    for number in range(count):
        killed_after(chance.uniform(0, seconds), folder / str(number))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

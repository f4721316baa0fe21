"""Change an index in several ways, each time a copy of it, and be killed a step later each time.

usage: kill_writer.py FOLDER    the index is FOLDER/index, a copy FOLDER/CHANGE/STEP; the last of each is not killed
"""

import os
import shutil
import signal
import sys
from itertools import count
from pathlib import Path

import numpy as np

from aveyb_ir.data import Document
from aveyb_ir.index import EncoderIdentity, IndexDir, IndexWriter

CHANGES = ("build", "overwrite", "upsert", "compact", "delete")
STEPS = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "sqlite3.connect"}


def change(kind: str, path: Path) -> None:
    encoder = EncoderIdentity("fruit-encoder", "1a2b", 4)
    if kind == "build":
        writer = IndexWriter.create(path / "new", encoder)
    elif kind == "overwrite":
        writer = IndexWriter.create(path, encoder, overwrite=True)
    else:
        writer = IndexWriter.open(path)
    with writer:
        if kind == "delete":
            writer.delete(["d2"])
        else:
            writer.upsert([Document(f"d{i}", "peach") for i in range(1, 6)], np.eye(4)[[3, 3, 3, 3, 3]])
        if kind == "compact":
            writer.compact()


def killed_at(step: int, kind: str, path: Path) -> bool:
    child = os.fork()
    if child:
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])
    steps = count()

    def die_in_time(event: str, arguments: object) -> None:
        if event in STEPS and str(path) in str(arguments) and next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(die_in_time)
    change(kind, path)
    os._exit(0)


def main(folder: Path) -> None:
    with IndexWriter.create(folder / "index", EncoderIdentity("fruit-encoder", "1a2b", 4)) as writer:
        writer.add([Document("d1", "apple"), Document("d2", "pear"), Document("d3", "plum")], np.eye(4)[:3])
    IndexDir.open(folder / "index")  # what is slow the first time is done before the forks
    for kind in CHANGES:
        for step in count():
            copy = folder / kind / str(step)
            shutil.copytree(folder / "index", copy)
            if not killed_at(step, kind, copy):
                break


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Encode to a store again and again, and be killed a step later each time.

usage: kill_encoding.py MODEL CORPUS FOLDER    the stores are FOLDER/STEP; the last is not killed
"""

import os
import signal
import sys
from itertools import count
from pathlib import Path

import torch

from aveyb_ir.data import read_documents
from aveyb_ir.encoding import Encoder, encode_to_store

STEPS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir"}


def killed_at(step: int, encoder: Encoder, corpus: Path, store: Path) -> bool:
    child = os.fork()
    if child:
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])
    steps = count()

    def die_in_time(event: str, arguments: object) -> None:
        if event in STEPS and str(store) in str(arguments) and next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(die_in_time)
    encode_to_store(store, read_documents(corpus), encoder, granularity="both", shard_documents=7)
    os._exit(0)


def main(model: Path, corpus: Path, folder: Path) -> None:
    torch.set_num_threads(1)
    encoder = Encoder(model)
    encode_to_store(folder / "whole", read_documents(corpus), encoder, granularity="both", shard_documents=7)
    for step in count():
        if not killed_at(step, encoder, corpus, folder / str(step)):
            break


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))

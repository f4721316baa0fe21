"""Add documents to an index one at a time, each visible at once.

usage: adding_writer.py INDEX COUNT
"""

import sys

import numpy as np

from aveyb_ir.data import Document
from aveyb_ir.index import IndexDir, IndexWriter


def main(path: str, count: int) -> None:
    dimension = IndexDir.open(path).encoder.dimension
    vectors = np.random.default_rng(0).standard_normal((count, dimension))
    for number in range(count):
        with IndexWriter.open(path) as writer:
            writer.add([Document(f"n{number}", f"text of n{number}")], vectors[number : number + 1])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from aveyb_ir.data import Document
from aveyb_ir.index import EncoderIdentity, IndexDir, IndexWriter

FRUIT = {"d1": "apple", "d2": "pear", "d3": "plum"}


@pytest.fixture
def encoder() -> EncoderIdentity:
    return EncoderIdentity("fruit-encoder", "1a2b", 4, {"pooling": "mean", "max_length": 512})


@pytest.fixture
def fruit(tmp_path: Path, encoder: EncoderIdentity) -> Path:
    """An index of three documents, each on an axis of its own: apple, pear, plum."""
    path = tmp_path / "fruit"
    with IndexWriter.create(path, encoder) as writer:
        writer.add([Document(id, text) for id, text in FRUIT.items()], np.eye(4)[:3])
    return path


@pytest.fixture
def build(tmp_path: Path) -> Callable[..., IndexDir]:
    """Build an index of documents "0", "1", ... with these embeddings, some in each block of a writer."""

    def _build(embeddings: np.ndarray, blocks: int = 1) -> IndexDir:
        path = tmp_path / f"index-{len(list(tmp_path.iterdir()))}"
        encoder = EncoderIdentity("any", "f", embeddings.shape[1])
        rows = np.array_split(np.arange(len(embeddings)), blocks)
        for number, block in enumerate(rows):
            with IndexWriter.open(path) if number else IndexWriter.create(path, encoder) as writer:
                writer.add([Document(str(row), f"text {row}") for row in block], embeddings[block])
        return IndexDir.open(path)

    return _build

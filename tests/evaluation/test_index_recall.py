"""The comparison of specifications: what flat finds is all there is, and what others miss is counted."""

import numpy as np
import pytest

from aveyb_ir.data import Document
from aveyb_ir.evaluation import index_recall
from aveyb_ir.index import EncoderIdentity, IndexWriter


@pytest.fixture
def vectors_index(tmp_path):
    vectors = np.random.default_rng(0).standard_normal((300, 16))
    with IndexWriter.create(tmp_path / "index", EncoderIdentity("any", "f", 16)) as writer:
        writer.add([Document(str(i), "") for i in range(300)], vectors)
    return tmp_path / "index"


def test_recall_speed_and_size_of_each_spec(vectors_index, tmp_path):
    before = sorted(path.name for path in vectors_index.rglob("*"))
    rows = index_recall(vectors_index, specs=["SQ8", "BFlat"], plot=tmp_path / "plot.png")
    assert [row.spec for row in rows] == ["flat", "SQ8", "BFlat"]
    flat, int8, binary = rows
    assert (flat.recall, flat.ndcg_at_10) == (1, None)
    assert flat.recall >= int8.recall > binary.recall > 0.3
    assert flat.bytes_per_vector == pytest.approx(64, abs=1)
    assert binary.bytes_per_vector < int8.bytes_per_vector < flat.bytes_per_vector
    assert all(row.queries_per_second > 0 and row.milliseconds > 0 for row in rows)
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in vectors_index.rglob("*")) == before


def test_an_impossible_spec_is_named(vectors_index):
    with pytest.raises(ValueError, match="'PQ3' with 16 dimensions"):
        index_recall(vectors_index, specs=["PQ3"])

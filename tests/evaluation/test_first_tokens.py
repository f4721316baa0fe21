"""Reading only the beginning of documents: what is lost, and that whole documents are what `evaluate` measures."""

import json

import numpy as np
import pytest

from aveyb_ir import Encoder, evaluate
from aveyb_ir.data import Document, Query, write_beir_folder
from aveyb_ir.evaluation import first_tokens, first_tokens_table, save_first_tokens

WORDS = ["garden", "lighthouse", "penicillin", "river", "retriever", "table", "ships", "snow"]


@pytest.fixture(scope="module")
def encoder(avey_dir):
    return Encoder(avey_dir)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Each document says what it is about at its end only."""
    path = tmp_path_factory.mktemp("data") / "set"
    documents = [Document(f"d{i}", "the sea and the sun " * 10 + f"{word} " * 40) for i, word in enumerate(WORDS)]
    queries = [Query(f"q{i}", f"{word} {word} {word}") for i, word in enumerate(WORDS)]
    write_beir_folder(path, documents, queries, {"test": {f"q{i}": {f"d{i}": 1} for i in range(len(WORDS))}})
    return path


def test_whole_documents_are_what_evaluate_measures(encoder, folder):
    rows = first_tokens([encoder], folder, limits=[None, 16], granularity="document")
    assert [row.limit for row in rows] == [16, None]
    assert rows[-1].ndcg_at_10 == evaluate(encoder, folder, metrics=["ndcg@10"]).metrics["ndcg@10"]
    assert (rows[-1].loss, rows[-1].loss_interval, rows[-1].documents_cut) == (0, (0, 0), 0)
    limited = Encoder(encoder.model, max_length=16)
    try:
        assert rows[0].ndcg_at_10 == evaluate(limited, folder, metrics=["ndcg@10"]).metrics["ndcg@10"]
    finally:
        encoder.model.max_seq_length = 2**32


def test_what_stands_at_the_end_is_lost_and_counted(encoder, folder):
    before = encoder.max_length
    rows = first_tokens([encoder], folder, limits=[32, None])
    assert [(row.view, row.limit) for row in rows] == [
        ("document", 32),
        ("document", None),
        ("chunk", 32),
        ("chunk", None),
    ]
    assert encoder.max_length == before
    short, whole = rows[2:]
    assert (short.tokens_used, short.documents_cut) == (32 * 8, 8)
    assert whole.tokens_used == whole.tokens == short.tokens
    assert short.ndcg_at_10 < whole.ndcg_at_10
    assert short.loss == pytest.approx(whole.ndcg_at_10 - short.ndcg_at_10)
    for row in rows:
        low, high = row.interval
        assert low <= row.ndcg_at_10 <= high
        assert row.loss_interval[0] <= row.loss + 1e-12
        assert row.ndcg_at_10 == pytest.approx(np.mean(list(row.per_query.values())))


def test_limits_beyond_a_models_own_are_said_and_measured_once(bert_dir, folder):
    said = []
    rows = first_tokens([bert_dir], folder, limits=[16, 64, 128], say=said.append)
    assert [row.limit for row in rows] == [16, None]
    assert "at most 64 tokens: 2 limits" in said[0] or "at most 64 tokens: 2 limits" in said[1]


def test_files_hold_every_row_and_query(encoder, folder, tmp_path):
    rows = first_tokens([encoder], folder, limits=[16, None])
    paths = save_first_tokens(rows, tmp_path)
    assert [path.suffix for path in paths] == [".json", ".csv", ".md", ".png"]
    read = json.loads(paths[0].read_text(encoding="utf-8"))
    assert [set(row["per_query"]) for row in read] == [{f"q{i}" for i in range(8)}] * 4
    assert len(paths[1].read_text(encoding="utf-8").splitlines()) == 5
    assert paths[2].read_text(encoding="utf-8") == first_tokens_table(rows) + "\n"
    assert paths[3].read_bytes().startswith(b"\x89PNG")


def test_impossible_limits_are_refused(encoder, folder):
    with pytest.raises(ValueError, match="limit is 0"):
        first_tokens([encoder], folder, limits=[0])
    with pytest.raises(ValueError, match="empty"):
        first_tokens([encoder], folder, limits=[])

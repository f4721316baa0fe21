"""The words of an index, against BM25 built anew over what is in it."""

import json
import logging
import os
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from aveyb_ir.data import Document
from aveyb_ir.errors import DataError
from aveyb_ir.index import EncoderIdentity, IndexDir, IndexWriter
from aveyb_ir.retrieval import Bm25
from aveyb_ir.retrieval.index_words import IndexWords
from aveyb_ir.retrieval.word_table import WordTable

WORDS = [*(f"word{i}" for i in range(60)), "the", "Æther", "漢字", "naïve-ish"]
QUERIES = ["word1 word2 the word1", "WORD3, word59!", "æther", "漢字 word0", "kites", "", "the", "ish naïve word7"]
ENCODER = EncoderIdentity("none", "0", 2, {})


def documents(first, num, seed=0):
    """Texts as words come in them: a few in nearly all, most in few; some are empty."""
    rng = np.random.default_rng(seed)
    chosen = [rng.zipf(1.5, rng.integers(0, 40)) % len(WORDS) for _ in range(num)]
    return [
        Document(f"d{first + i}", " ".join(WORDS[j] for j in of), title=WORDS[i % 7], metadata={"odd": i % 2 == 1})
        for i, of in enumerate(chosen)
    ]


def change(path, *steps):
    with IndexWriter.open(path) as writer:
        for method, argument in steps:
            embeddings = [] if method in ("delete", "compact") else [np.ones((len(argument), 2), np.float32)]
            getattr(writer, method)(*([] if method == "compact" else [argument]), *embeddings)


@pytest.fixture
def path(tmp_path):
    with IndexWriter.create(tmp_path / "index", ENCODER) as writer:
        writer.add(documents(0, 300), np.ones((300, 2), np.float32))
    return tmp_path / "index"


def found_in(directory, top_k=1000, bm25=None, **options):
    words = IndexWords(directory, **(bm25 or {}))
    hits = [words.search(query, top_k, **options) for query in QUERIES]
    ids = dict(zip(rows := sorted({row for of in hits for row, _ in of}), directory.ids_of(rows), strict=True))
    return [[(ids[row], score) for row, score in of] for of in hits]


def built_anew(directory, top_k=1000, **bm25):
    run = Bm25.build(directory, **bm25).search(dict(enumerate(QUERIES)), top_k=top_k)
    return [list(hits.items()) for hits in run.values()]


def test_scores_and_order_are_those_of_bm25s_to_the_last_bit(path):
    directory = IndexDir.open(path)
    found = found_in(directory)
    assert sum(map(len, found)) > 500
    assert found == built_anew(directory)
    assert found_in(directory, top_k=3) == built_anew(directory, top_k=3)
    for bm25 in ({"k1": 1.2, "b": 0.75}, {"k1": 0, "b": 1}):
        others = found_in(directory, bm25=bm25)
        assert others == built_anew(directory, **bm25)
        assert others != found


@pytest.mark.parametrize(
    "steps",
    [
        [("add", documents(300, 40, seed=1))],
        [("delete", ["d1", "d250"])],
        [("upsert", documents(20, 30, seed=2))],
        [("add", documents(300, 400, seed=3)), ("delete", ["d0", "d699"]), ("upsert", documents(5, 2, seed=4))],
        [("delete", ["d7"]), ("compact", None)],
    ],
    ids=["add", "delete", "upsert", "all", "compact"],
)
def test_every_change_is_followed(path, steps):
    before = IndexDir.open(path)
    of_before = found_in(before)
    change(path, *steps)
    after = before.latest()
    assert found_in(after) == built_anew(after)
    assert found_in(after) != of_before
    assert found_in(before) == of_before, "a state that was open stays as it was"


def test_an_index_whose_documents_have_no_word_finds_nothing(path):
    change(path, ("delete", [f"d{i}" for i in range(300)]))
    assert found_in(IndexDir.open(path)) == [[]] * len(QUERIES)
    change(path, ("add", [Document("the", "the")]))
    assert found_in(IndexDir.open(path)) == [[]] * len(QUERIES)


def test_a_condition_applies_before_the_cut_and_changes_no_score(path):
    directory = IndexDir.open(path)
    change(path, ("delete", ["d1"]))
    assert 1 in directory.matching("odd = true")
    directory = directory.latest()
    odd = {f"d{i}" for i in range(3, 300, 2)}
    allowed = directory.matching("odd = true")
    assert set(directory.ids_of(allowed.tolist())) == odd
    expected = [[hit for hit in hits if hit[0] in odd] for hits in built_anew(directory)]
    assert found_in(directory, allowed=allowed) == expected
    assert found_in(directory, top_k=2, allowed=allowed) == [hits[:2] for hits in expected]


def kept(path):
    return sorted(path.glob("segment-*/words.sqlite"))


def test_counts_are_kept_and_used_by_the_next_process(path, monkeypatch):
    directory = IndexDir.open(path)
    found = found_in(directory)
    assert len(kept(path)) == 1
    monkeypatch.setattr(WordTable, "count", None)
    assert found_in(IndexDir.open(path)) == found
    change(path, ("delete", ["d3"]))  # the segment stays, and with it its counts
    assert found_in(IndexDir.open(path)) == built_anew(IndexDir.open(path))


def break_file(file, how):
    if how == "cut":
        os.truncate(file, 5000)
    elif how == "empty":
        file.write_bytes(b"")
    elif how == "text":
        file.write_text("not a database", encoding="utf-8")
    else:
        with sqlite3.connect(file) as connection:
            connection.execute(how)
        connection.close()


@pytest.mark.parametrize(
    "how",
    [
        "cut",
        "empty",
        "text",
        "UPDATE facts SET source = 'other documents'",
        "UPDATE facts SET rule = 'other words'",
        "UPDATE facts SET lengths = zeroblob(1200)",
        "UPDATE words SET postings = zeroblob(length(postings))",
        "DROP TABLE words",
        "DELETE FROM facts",
    ],
)
def test_counts_that_are_damaged_or_of_something_else_are_made_again(path, how, caplog):
    directory = IndexDir.open(path)
    found = found_in(directory)
    (file,) = kept(path)
    break_file(file, how)
    with caplog.at_level(logging.WARNING, "aveyb_ir"):
        assert found_in(directory) == found
    assert "counted again" in caplog.text
    caplog.clear()
    assert found_in(directory) == found
    assert not caplog.records


def test_a_folder_that_cannot_be_written_to_is_searched_all_the_same(path, caplog):
    (path / "segment-000001" / "words.sqlite").mkdir()
    with caplog.at_level(logging.WARNING, "aveyb_ir"):
        assert found_in(IndexDir.open(path)) == built_anew(IndexDir.open(path))
    assert "are not kept" in caplog.text
    assert [file.name for file in path.glob("segment-*/*.partial")] == []


def test_a_segment_that_a_writer_removed_is_not_put_back(path):
    directory = IndexDir.open(path)
    expected = built_anew(directory)
    shutil.rmtree(path)
    assert found_in(directory) == expected
    assert not path.exists()


def test_many_threads_count_and_search_at_once(path):
    directory = IndexDir.open(path)
    expected = built_anew(directory)
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: found_in(directory), range(8)))
    assert found == [expected] * 8
    words = IndexWords(directory)
    with ThreadPoolExecutor(16) as threads:
        many = list(threads.map(lambda i: words.search(QUERIES[i % len(QUERIES)], 1000), range(160)))
    assert many == [words.search(QUERIES[i % len(QUERIES)], 1000) for i in range(160)]


def test_a_table_knows_where_each_word_comes(tmp_path):
    table = WordTable.count(["b a b", "", "the c", "a"], "texts")
    table.save(tmp_path / "words.sqlite")
    for one in (table, WordTable.open(tmp_path / "words.sqlite", "texts")):
        assert [part.tolist() for part in one.postings("b")] == [[0], [2]]
        assert [part.tolist() for part in one.postings("a")] == [[], []], "a stop word"
        assert one.lengths.tolist() == [2, 0, 1, 0]
    with pytest.raises(DataError, match="of other documents"):
        WordTable.open(tmp_path / "words.sqlite", "other texts")
    with pytest.raises(FileNotFoundError):
        WordTable.open(tmp_path / "nowhere.sqlite", "texts")
    with pytest.raises(OSError, match="cannot be written"):
        table.save(tmp_path / "nowhere" / "words.sqlite")


def test_verification_and_facts_do_not_mind_the_kept_counts(path):
    before = json.dumps(IndexDir.open(path).info())
    found_in(IndexDir.open(path))
    IndexDir.open(path).verify()
    assert json.dumps(IndexDir.open(path).info()) == before
    assert len(kept(path)) == 1

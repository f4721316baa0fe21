"""Folders in BEIR's layout: reading, writing, and training rows out of them."""

import gzip
import logging
from pathlib import Path

import pytest
from beir.datasets.data_loader import GenericDataLoader

from aveyb_ir.data import (
    BeirFolder,
    Document,
    Query,
    TrainingRow,
    read_queries,
    training_rows_from_beir,
    write_beir_folder,
)
from aveyb_ir.errors import DataError

CASES = Path(__file__).parent / "cases"
DOCUMENTS = [
    Document("1", "text\u2028one", "Title", {"url": "u", "metadata": {"nested": [1, None]}}),
    Document('d "2"', "", ""),
    Document("d 3", "third"),
]
QUERIES = [Query("q1", "first?", {"answers": ["a"]}), Query("q2", "")]
QRELS = {"train": {"q1": {"1": 2, "d 3": 1, 'd "2"': 0}}, "test": {"q2": {"d 3": -1}}}


def test_what_is_written_reads_back_equal(tmp_path: Path) -> None:
    write_beir_folder(tmp_path / "new" / "set", iter(DOCUMENTS), iter(QUERIES), QRELS)
    folder = BeirFolder(tmp_path / "new" / "set")
    assert list(folder.documents()) == DOCUMENTS
    assert list(read_queries(folder.path)) == QUERIES
    assert folder.queries() == {"q1": "first?", "q2": ""}
    assert folder.splits == ("test", "train")
    assert {split: folder.qrels(split) for split in folder.splits} == QRELS


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # beir's loader leaves its files open
def test_beir_itself_reads_what_is_written(tmp_path: Path) -> None:
    write_beir_folder(tmp_path / "set", DOCUMENTS, QUERIES, QRELS)
    loader = GenericDataLoader(data_folder=str(tmp_path / "set"))
    corpus, queries, qrels = loader.load(split="train")
    assert corpus == {document.id: {"text": document.text, "title": document.title} for document in DOCUMENTS}
    assert queries == {"q1": "first?"}
    assert qrels == QRELS["train"]


def test_a_failed_write_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="grade"):
        write_beir_folder(tmp_path / "set", DOCUMENTS, QUERIES, {"test": {"q1": {"1": 0.5}}})  # type: ignore[dict-item]
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_not_overwritten(tmp_path: Path) -> None:
    write_beir_folder(tmp_path, DOCUMENTS, QUERIES, {})
    with pytest.raises(DataError, match="exists and is not empty"):
        write_beir_folder(tmp_path, [], [], {})
    assert len(list(BeirFolder(tmp_path).documents())) == len(DOCUMENTS)


def test_the_folder_is_checked_when_it_is_opened(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a folder"):
        BeirFolder(tmp_path / "absent")
    with pytest.raises(DataError, match=r"neither corpus\.jsonl nor corpus\.jsonl\.gz"):
        BeirFolder(tmp_path)
    (tmp_path / "corpus.jsonl.gz").write_bytes(gzip.compress(b'{"_id": 1, "text": "t"}'))
    with pytest.raises(DataError, match=r"neither queries\.jsonl"):
        BeirFolder(tmp_path)
    (tmp_path / "queries.jsonl").write_bytes(b"")
    assert list(BeirFolder(tmp_path).documents()) == [Document("1", "t")]
    assert BeirFolder(tmp_path).splits == ()


def test_an_unknown_split_lists_those_there_are() -> None:
    with pytest.raises(DataError, match=r"no split 'tets'.*: dev, floats, test, train"):
        BeirFolder(CASES / "qrels-without-header").qrels("tets")


def test_judged_queries_without_text_are_reported_and_unjudged_ones_left_out(caplog: pytest.LogCaptureFixture) -> None:
    folder = BeirFolder(CASES / "missing-and-null-fields")
    assert folder.judged_queries("test") == {"q1": "title", "q2": ""}
    assert "lacks these judged queries: q4" in caplog.text


def test_judgements_of_another_data_set_are_refused(tmp_path: Path) -> None:
    write_beir_folder(tmp_path, DOCUMENTS, QUERIES, {"test": {"x9": {"1": 1}}})
    with pytest.raises(DataError, match="none of the 1 queries judged in split 'test', such as 'x9'"):
        BeirFolder(tmp_path).judged_queries("test")


def test_training_rows_hold_all_positives_and_only_those(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    documents = [*DOCUMENTS, Document("copy", "third")]
    qrels = {"q1": {"1": 2, "d 3": 1, "copy": 1, "0": 0}, "q2": {"1": 1}}
    write_beir_folder(tmp_path, documents, QUERIES, {"train": qrels})
    with caplog.at_level(logging.WARNING):
        rows = training_rows_from_beir(BeirFolder(tmp_path))
    assert rows == [TrainingRow("first?", ("Title text\u2028one", "third"))]
    assert "judged queries without text: q2" in caplog.text
    assert "lacks" not in caplog.text  # the document judged 0 is not needed


def test_absent_ids_of_training_judgements_are_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    qrels = {"q1": {"1": 1, "gone": 1, 'd "2"': 1}, "q8": {"1": 1}}
    write_beir_folder(tmp_path, DOCUMENTS, QUERIES, {"train": qrels})
    assert [row.anchor for row in training_rows_from_beir(BeirFolder(tmp_path))] == ["first?"]
    assert "lacks these judged queries: q8" in caplog.text
    assert "lacks these judged documents: gone" in caplog.text
    assert 'judged documents without text: d "2"' in caplog.text


def test_a_join_without_rows_is_refused(tmp_path: Path) -> None:
    write_beir_folder(tmp_path, DOCUMENTS, QUERIES, {"train": {"q1": {"1": 0}}})
    with pytest.raises(DataError, match="split 'train' joins no query"):
        training_rows_from_beir(BeirFolder(tmp_path))

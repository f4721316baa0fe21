"""What a writer changes, what it refuses, and that it changes all or nothing."""

import resource
from pathlib import Path

import numpy as np
import pytest

from aveyb_ir.data import Document
from aveyb_ir.errors import DataError, IndexDirError, IndexMismatchError
from aveyb_ir.index import EncoderIdentity, IndexDir, IndexWriter

PEACH = Document("d4", "peach")
AXES = np.eye(4)


def texts(path: Path) -> dict[str, str]:
    return {document.id: document.text for document in IndexDir.open(path)}


def nearest(path: Path, axis: int) -> str:
    return IndexDir.open(path).search(AXES[axis : axis + 1], 1)[0][0].id


def files(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_documents_come_back_as_they_were(tmp_path: Path, encoder: EncoderIdentity) -> None:
    documents = [
        Document("a b/ü", "tab\tnul\x00end \u2028 漢字 \U0001f600", "title\n", {"n": [1, 2.5, None], "ü": {"x": True}}),
        Document("nul\x00id", ""),
        Document("'); DROP TABLE documents; --", "quoted"),
    ]
    with IndexWriter.create(tmp_path / "i", encoder) as writer:
        writer.add(documents, AXES[:3])
    index = IndexDir.open(tmp_path / "i")
    assert list(index) == documents == index.documents([0, 1, 2])
    assert index.ids() == [document.id for document in documents]
    assert index.rows([documents[2].id, documents[1].id]) == [2, 1]
    assert len(index) == 3


def test_rows_and_ids_that_are_not_there_are_refused(fruit: Path) -> None:
    with pytest.raises(ValueError, match=r"1 row.* are not in the index"):
        IndexDir.open(fruit).ids_of([0, 2**70])
    index = IndexDir.open(fruit)
    with pytest.raises(ValueError, match=r"1 row.*: 3;"):
        index.documents([0, 3])
    with pytest.raises(ValueError, match="'d9'"):
        index.rows(["d1", "d9"])


def test_an_existing_index_is_only_replaced_when_asked(fruit: Path, encoder: EncoderIdentity) -> None:
    before = files(fruit)
    with pytest.raises(IndexDirError, match=r"already holds an index.*overwrite=True"):
        IndexWriter.create(fruit, encoder)
    assert files(fruit) == before
    with IndexWriter.create(fruit, encoder, overwrite=True) as writer:
        writer.add([PEACH], AXES[:1])
        assert texts(fruit) == {"d1": "apple", "d2": "pear", "d3": "plum"}
    assert texts(fruit) == {"d4": "peach"}
    assert len([path for path in fruit.iterdir() if path.is_dir()]) == 1


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_of_other_files_is_never_taken(tmp_path: Path, encoder: EncoderIdentity, overwrite: bool) -> None:
    (tmp_path / "thesis.tex").write_text("", encoding="utf-8")
    with pytest.raises(IndexDirError, match=r"thesis\.tex"):
        IndexWriter.create(tmp_path, encoder, overwrite=overwrite)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_is_not_a_place_for_an_index(tmp_path: Path, encoder: EncoderIdentity) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(IndexDirError, match="is a file"):
        IndexWriter.create(tmp_path / "file", encoder)


def test_an_index_of_nothing_is_refused(tmp_path: Path, encoder: EncoderIdentity) -> None:
    with pytest.raises(DataError, match="no documents"), IndexWriter.create(tmp_path / "i", encoder) as writer:
        writer.add([], np.empty((0, 4)))
    assert not (tmp_path / "i").exists()


def test_a_failed_build_leaves_what_was_there_before_it(tmp_path: Path, encoder: EncoderIdentity) -> None:
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "a" / "b" / "new", tmp_path / "empty"):
        with pytest.raises(TypeError), IndexWriter.create(path, encoder) as writer:
            writer.add([PEACH], "no matrix")
    assert list(tmp_path.rglob("*")) == [tmp_path / "empty"]
    with IndexWriter.create(tmp_path / "empty", encoder) as writer:
        writer.add([PEACH], AXES[:1])
    assert sorted(path.name for path in (tmp_path / "empty").iterdir()) == [
        "manifest.json",
        "segment-000001",
        "writer.lock",
    ]


def test_a_failed_build_leaves_encoded_vectors_to_be_gone_on_with(tmp_path: Path, encoder: EncoderIdentity) -> None:
    writer = IndexWriter.create(tmp_path / "i", encoder)
    writer.encoding_folder.mkdir()
    writer.close()
    assert (tmp_path / "i" / "encoding.partial").is_dir()


def test_a_failed_block_changes_nothing_and_leaves_nothing(fruit: Path) -> None:
    before = files(fruit)

    writer = IndexWriter.open(fruit)
    with pytest.raises(KeyboardInterrupt), writer:
        _change_and_be_interrupted(writer)
    assert files(fruit) == before


def _change_and_be_interrupted(writer: IndexWriter) -> None:
    writer.upsert([PEACH, Document("d1", "apple pie")], AXES[:2])
    writer.delete(["d2"])
    raise KeyboardInterrupt


def test_a_block_without_changes_publishes_nothing(fruit: Path) -> None:
    before = files(fruit)
    with IndexWriter.open(fruit) as writer:
        writer.compact()
    assert files(fruit) == before


@pytest.mark.parametrize(
    ("documents", "embeddings", "spans", "error", "message"),
    [
        ([PEACH, Document("d2", "")], AXES[:2], None, DataError, "'d2' is already in .* use upsert"),
        ([PEACH, PEACH], AXES[:2], None, DataError, "'d4' comes twice"),
        ([Document("", "peach")], AXES[:1], None, DataError, "document with text 'peach': its id is empty"),
        ([Document(4, "")], AXES[:1], None, DataError, "document 4: its id is 4, expected text"),
        ([Document("\ud800", "")], AXES[:1], None, DataError, r"its id is '\\ud800', expected text without lone"),
        ([Document("d4", "a \udc80 b")], AXES[:1], None, DataError, "'d4': its text is .*without lone surrogates"),
        ([Document("d4", "", title=None)], AXES[:1], None, DataError, "'d4': its title is None"),
        ([PEACH], AXES[:1, :3], None, IndexMismatchError, "3 dimensions, the index has 4"),
        ([PEACH], AXES[:2], None, ValueError, "2 embeddings for 1 documents, expected 1"),
        ([PEACH], [[0, np.nan, 0, 0]], None, DataError, "document 'd4': its embedding holds NaN"),
        ([PEACH], [[1e300, 0, 0, 0]], None, DataError, "document 'd4'.*infinity"),
        ([PEACH], AXES[:1].astype(np.int32), None, TypeError, "int32"),
        ([Document("d4", "", "", {"set": {1}})], AXES[:1], None, DataError, "document 'd4': its metadata"),
        ([Document("d4", "", "", {"x": float("nan")})], AXES[:1], None, DataError, "document 'd4': its metadata"),
        ([PEACH], AXES[:1], [], ValueError, "spans for 0 documents, expected 1"),
        ([PEACH], AXES[:1], [[(0, 6)]], ValueError, "document 'd4'.*5 characters"),
        ([PEACH], AXES[:1], [[(3, 2)]], ValueError, "document 'd4'"),
        ([PEACH], AXES[:0], [[]], ValueError, "at least one"),
        ([PEACH], AXES[:1], [[(0, 2), (2, 5)]], ValueError, "1 embeddings for 1 documents, expected 2"),
    ],
)
def test_a_bad_batch_is_refused_and_leaves_no_trace(
    fruit: Path,
    documents: list[Document],
    embeddings: object,
    spans: list[list[tuple[int, int]]] | None,
    error: type[Exception],
    message: str,
) -> None:
    with IndexWriter.open(fruit) as writer:
        with pytest.raises(error, match=message):
            writer.add(documents, embeddings, spans)
        writer.add([Document("d5", "cherry")], AXES[3:])
    assert texts(fruit) == {"d1": "apple", "d2": "pear", "d3": "plum", "d5": "cherry"}
    assert IndexDir.open(fruit).rows(["d5"]) == [3]


def test_a_deleted_document_never_returns_and_its_row_is_not_given_away(fruit: Path) -> None:
    with IndexWriter.open(fruit) as writer:
        writer.delete(["d2"])
    index = IndexDir.open(fruit)
    assert [hit.id for hit in index.search(AXES[1:2], 10)[0]] == ["d1", "d3"]
    with pytest.raises(ValueError, match="not in the index"):
        index.documents([1])
    with IndexWriter.open(fruit) as writer:
        writer.add([PEACH], AXES[1:2])
    index = IndexDir.open(fruit)
    assert texts(fruit) == {"d1": "apple", "d3": "plum", "d4": "peach"}
    assert index.rows(["d1", "d3", "d4"]) == [0, 2, 3]
    assert nearest(fruit, 2) == "d3"
    assert nearest(fruit, 1) == "d4"


def test_deleting_an_unknown_id_deletes_nothing(fruit: Path) -> None:
    with pytest.raises(ValueError, match="'d9'"), IndexWriter.open(fruit) as writer:
        writer.delete(["d1", "d9"])
    assert len(IndexDir.open(fruit)) == 3


def test_an_index_from_which_all_is_deleted_finds_nothing_and_can_be_filled_again(fruit: Path) -> None:
    for compact in (False, True):
        with IndexWriter.open(fruit) as writer:
            writer.delete(IndexDir.open(fruit).ids())
            if compact:
                writer.compact()
        index = IndexDir.open(fruit)
        assert (len(index), index.ids(), list(index), index.search(AXES, 3)) == (0, [], [], [[]] * 4)
        with IndexWriter.open(fruit) as writer:
            writer.add([PEACH], AXES[:1])
        assert texts(fruit) == {"d4": "peach"}
    assert IndexDir.open(fruit).rows(["d4"]) == [4]


def test_upsert_replaces_and_adds_and_sees_its_own_block(fruit: Path) -> None:
    with IndexWriter.open(fruit) as writer:
        writer.upsert([Document("d2", "pear tart"), PEACH], AXES[2:])
        writer.upsert([Document("d4", "peach pie")], AXES[1:2])
        writer.delete(["d1"])
    assert texts(fruit) == {"d3": "plum", "d2": "pear tart", "d4": "peach pie"}
    assert nearest(fruit, 1) == "d4"
    info = IndexDir.open(fruit).info()
    assert (info["documents"], info["vectors"]) == (3, 3)


def test_many_small_additions_leave_few_segments(fruit: Path) -> None:
    for number in range(20):
        with IndexWriter.open(fruit) as writer:
            writer.upsert([Document(f"n{number}", str(number)), Document("d1", f"apple {number}")], AXES[[0, 1]])
    index = IndexDir.open(fruit)
    index.verify()
    assert index.info()["segments"] <= 6
    assert texts(fruit) == {"d2": "pear", "d3": "plum", "d1": "apple 19"} | {f"n{i}": str(i) for i in range(20)}
    assert index.rows(["n0", "n19"]) == [3, 41]


def test_compacting_keeps_answers_and_rows_and_drops_the_dead(fruit: Path) -> None:
    with IndexWriter.open(fruit) as writer:
        writer.delete(["d1"])
    with IndexWriter.open(fruit) as writer:
        writer.add([Document("long", "one two")], AXES[[0, 3]], [[(0, 3), (4, 7)]])
        writer.delete(["d2"])
    old = IndexDir.open(fruit)
    expected = old.search(AXES, 10)
    with IndexWriter.open(fruit) as writer:
        writer.compact()
    new = IndexDir.open(fruit)
    assert new.search(AXES, 10) == expected == old.search(AXES, 10)
    assert (new.info()["segments"], new.info()["deleted"], new.ids()) == (1, 0, ["d3", "long"])
    assert new.info()["corpus_fingerprint"] == old.info()["corpus_fingerprint"]
    assert b"apple" not in b"".join(files(fruit).values())


def test_one_id_is_no_list_of_its_letters(fruit: Path) -> None:
    with IndexWriter.open(fruit) as writer:
        writer.add([Document("d", "a"), Document("1", "b")], AXES[2:])
    with IndexWriter.open(fruit) as writer, pytest.raises(ValueError, match=r"ids is 'd1', .* give \['d1'\]"):
        writer.delete("d1")
    assert len(IndexDir.open(fruit)) == 5


def test_what_is_added_and_compacted_in_one_block_becomes_one_segment(fruit: Path) -> None:
    with IndexWriter.open(fruit) as writer:
        writer.add([PEACH], AXES[3:])
        writer.compact()
    assert IndexDir.open(fruit).info()["segments"] == 1
    before = files(fruit)
    with IndexWriter.open(fruit) as writer:
        writer.compact()  # nothing to gain
    assert files(fruit) == before


def test_the_corpus_fingerprint_follows_the_documents_not_their_history(fruit: Path, encoder: EncoderIdentity) -> None:
    with IndexWriter.open(fruit) as writer:
        writer.upsert([Document("d1", "apple pie")], AXES[:1])
        writer.delete(["d3"])
    other = fruit.with_name("other")
    with IndexWriter.create(other, encoder) as writer:
        writer.add([Document("d1", "apple pie"), Document("d2", "pear")], AXES[:2])
    changed = IndexDir.open(fruit).info()["corpus_fingerprint"]
    assert changed == IndexDir.open(other).info()["corpus_fingerprint"]
    with IndexWriter.open(other) as writer:
        writer.upsert([Document("d2", "pears")], AXES[1:2])
    assert changed != IndexDir.open(other).info()["corpus_fingerprint"]


def test_a_closed_writer_refuses_further_work(fruit: Path) -> None:
    with IndexWriter.open(fruit) as writer:
        writer.publish()
    with pytest.raises(ValueError, match="closed"):
        writer.add([PEACH], AXES[:1])


@pytest.mark.parametrize("limit", [200, 10_000, 50_000, 100_000])
def test_without_room_the_old_index_stays_and_the_message_says_why(fruit: Path, limit: int) -> None:
    before = files(fruit)
    spans = [[(i, i + 1) for i in range(5000)]]  # 20 kB of documents, 80 kB of vectors, 120 kB of parts
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        with pytest.raises(IndexDirError, match=r"writing failed .*make room"), IndexWriter.open(fruit) as writer:
            writer.add([Document("long", "x" * 5000)], np.tile(AXES, (1250, 1)), spans)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert files(fruit) == before
    with IndexWriter.open(fruit) as writer:
        writer.add([PEACH], AXES[:1])
    assert len(IndexDir.open(fruit)) == 4

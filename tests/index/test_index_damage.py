"""An index that is not what was published, or not of this encoder, does not open; a healthy one opens anywhere."""

import json
import os
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aveyb_ir.data import Document
from aveyb_ir.errors import IndexDamagedError, IndexDirError, IndexMismatchError
from aveyb_ir.index import EncoderIdentity, IndexDir, IndexWriter
from aveyb_ir.index.durable import FileInfo

APPLE = np.eye(4)[:1]
FILES = ["documents.sqlite", "ids.npy", "embeddings.npy", "parts.npy", "faiss.index"]


@pytest.fixture
def damaged(fruit: Path) -> Path:
    """A copy of the fruit index, with a deleted document and a FAISS file, to be damaged."""
    with IndexWriter.open(fruit) as writer:
        writer.compact(spec="IVF1,Flat")
    with IndexWriter.open(fruit) as writer:
        writer.delete(["d2"])
    copy = fruit.with_name("damaged")
    shutil.copytree(fruit, copy)
    return copy


def only(path: Path, pattern: str) -> Path:
    (found,) = path.glob(pattern)
    return found


def cut(path: Path, size: int) -> None:
    os.truncate(path, size)


def forget_pages(path: Path) -> None:
    """Make the manifest one of an old version, which knew sizes only."""
    fields = json.loads((path / "manifest.json").read_text(encoding="utf-8"))
    for file in [fields["deleted"]["file"], *fields["segments"][0]["files"].values()]:
        del file["pages"]
    (path / "manifest.json").write_text(json.dumps(fields), encoding="utf-8")


def assert_refused(path: Path, file: Path, message: str) -> None:
    before = {p: p.read_bytes() for p in path.rglob("*") if p.is_file()}
    with pytest.raises(IndexDamagedError, match=message) as caught:
        IndexDir.open(path)
    assert str(file) in str(caught.value)
    with pytest.raises(IndexDamagedError):
        IndexWriter.open(path)
    assert {p: p.read_bytes() for p in path.rglob("*") if p.is_file()} == before


@pytest.mark.parametrize("name", [*(f"segment-*/{name}" for name in FILES), "deleted-*.npy"])
def test_a_cut_an_empty_and_a_missing_file_are_named(damaged: Path, name: str) -> None:
    file = only(damaged, name)
    size = file.stat().st_size
    cut(file, size - 10)
    assert_refused(damaged, file, f"{size - 10} bytes, expected {size}")
    cut(file, 0)
    assert_refused(damaged, file, f"0 bytes, expected {size}")
    file.unlink()
    assert_refused(damaged, file, "missing")


@pytest.mark.parametrize("old", [False, True])
def test_a_lost_document_is_noticed(damaged: Path, old: bool) -> None:
    if old:
        forget_pages(damaged)
    file = only(damaged, "segment-*/documents.sqlite")
    connection = sqlite3.connect(file)
    with connection:
        connection.execute("DELETE FROM documents WHERE id = 'd3'")
    connection.close()
    assert_refused(damaged, file, "2 documents, expected 3" if old else "not what was published")


@pytest.mark.parametrize("name", FILES)
def test_a_file_overwritten_with_noise_is_named(damaged: Path, name: str) -> None:
    forget_pages(damaged)
    file = only(damaged, f"segment-*/{name}")
    file.write_bytes(np.random.default_rng(0).bytes(file.stat().st_size))
    assert_refused(damaged, file, "not a FAISS index|cannot be read")


def test_files_of_another_index_are_told_by_their_shape(damaged: Path, encoder: EncoderIdentity) -> None:
    with IndexWriter.create(damaged.with_name("other"), encoder, spec="IVF1,Flat") as writer:
        writer.add([Document("d1", "apple"), Document("d2", "pear")], np.eye(4)[:2])
    forget_pages(damaged)
    manifest = json.loads((damaged / "manifest.json").read_text(encoding="utf-8"))
    for name, message in {
        "embeddings.npy": r"\(2, 4\), expected float32 \(3, 4\)",
        "parts.npy": r"\(2,\), expected .* \(3,\)",
        "ids.npy": "44 bytes, too few for 3 documents",
        "faiss.index": "2 vectors of 4 dimensions, expected 3 of 4",
    }.items():
        own, other = only(damaged, f"segment-*/{name}"), only(damaged, f"../other/segment-*/{name}")
        content = own.read_bytes()
        own.write_bytes(other.read_bytes())
        fields = json.loads(json.dumps(manifest))
        fields["segments"][0]["files"][name]["bytes"] = own.stat().st_size
        (damaged / "manifest.json").write_text(json.dumps(fields), encoding="utf-8")
        assert_refused(damaged, own, message)
        own.write_bytes(content)


@pytest.mark.parametrize("name", FILES)
def test_verify_finds_a_single_flipped_bit(damaged: Path, name: str) -> None:
    IndexDir.open(damaged).verify()
    forget_pages(damaged)
    file = only(damaged, f"segment-*/{name}")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(IndexDamagedError, match="SHA-256") as caught:
        IndexDir.open(damaged).verify()
    assert str(file) in str(caught.value)


def outsider(folder: Path) -> Path:
    """A file that does not belong to the index, and must not be read or changed through it."""
    path = folder / "outsider"
    path.write_bytes(b"private")
    return path


@pytest.mark.parametrize("name", ["../outsider", "/etc", "segment-000001/../..", ".", "segment-1"])
@pytest.mark.parametrize("what", ["segment", "deleted", "file"])
def test_a_manifest_that_names_other_places_is_refused(damaged: Path, name: str, what: str) -> None:
    fields = json.loads((damaged / "manifest.json").read_text(encoding="utf-8"))
    segment = fields["segments"][0]
    if what == "file":
        segment["files"][name] = segment["files"]["parts.npy"]
    else:
        (segment if what == "segment" else fields["deleted"])["name"] = name
    (damaged / "manifest.json").write_text(json.dumps(fields), encoding="utf-8")
    assert_refused(damaged, damaged / "manifest.json", "expected")


@pytest.mark.parametrize("name", [*(f"segment-*/{name}" for name in FILES), "deleted-*.npy", "segment-*"])
def test_a_link_in_place_of_a_file_or_folder_is_refused(damaged: Path, tmp_path: Path, name: str) -> None:
    file = only(damaged, name)
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert_refused(damaged, file, "a link")


def test_a_link_in_place_of_the_manifest_is_refused(damaged: Path, tmp_path: Path) -> None:
    (damaged / "manifest.json").rename(tmp_path / "elsewhere")
    (damaged / "manifest.json").symlink_to(tmp_path / "elsewhere")
    assert_refused(damaged, damaged / "manifest.json", "a link")


@pytest.mark.parametrize("name", ["manifest.json.partial", "deleted-000009.npy", "segment-000009"])
def test_a_writer_never_follows_a_link_out_of_the_folder(damaged: Path, tmp_path: Path, name: str) -> None:
    target = outsider(tmp_path)
    (damaged / name).symlink_to(tmp_path if name.startswith("segment") else target)
    with IndexWriter.open(damaged) as writer:
        writer.delete(["d1"])
    assert target.read_bytes() == b"private"
    assert (tmp_path / "fruit").is_dir()
    assert not (damaged / name).is_symlink()


def test_a_link_in_place_of_the_lock_keeps_writers_out(damaged: Path, tmp_path: Path) -> None:
    target = outsider(tmp_path)
    (damaged / "writer.lock").unlink()
    (damaged / "writer.lock").symlink_to(target)
    with pytest.raises(IndexDirError, match="nothing was changed"):
        IndexWriter.open(damaged)
    assert target.read_bytes() == b"private"


def test_a_faiss_file_that_keeps_its_lists_elsewhere_is_refused(damaged: Path, tmp_path: Path) -> None:
    import faiss

    index = faiss.index_factory(4, "IVF1,Flat", faiss.METRIC_INNER_PRODUCT)
    index.train(np.eye(4, dtype=np.float32))
    lists = faiss.OnDiskInvertedLists(1, index.code_size, str(tmp_path / "lists"))
    index.replace_invlists(lists)
    index.add(np.eye(4, dtype=np.float32)[:3])
    forget_pages(damaged)
    file = only(damaged, "segment-*/faiss.index")
    faiss.write_index(index, str(file))
    fields = json.loads((damaged / "manifest.json").read_text(encoding="utf-8"))
    fields["segments"][0]["files"]["faiss.index"]["bytes"] = file.stat().st_size
    (damaged / "manifest.json").write_text(json.dumps(fields), encoding="utf-8")
    assert_refused(damaged, file, "not a FAISS index")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a manifest"),
        (b'{"format": 1, "gener', "not a manifest"),
        (b"[]", "not a manifest"),
        (b"\xff\xfe", "not a manifest"),
        (b'{"format": 2}', "Missing|missing|required"),
    ],
)
def test_a_broken_manifest_is_named(damaged: Path, content: bytes, message: str) -> None:
    (damaged / "manifest.json").write_bytes(content)
    assert_refused(damaged, damaged / "manifest.json", message)


def test_a_missing_manifest_is_damage_beside_segments_and_no_index_elsewhere(damaged: Path, tmp_path: Path) -> None:
    (damaged / "manifest.json").unlink()
    assert_refused(damaged, damaged / "manifest.json", "missing")
    (tmp_path / "empty").mkdir()
    for path, message in (("empty", r"no manifest\.json"), ("nowhere", "does not exist")):
        with pytest.raises(IndexDirError, match=message):
            IndexDir.open(tmp_path / path)
        with pytest.raises(IndexDirError, match=message):
            IndexWriter.open(tmp_path / path)
    assert not (tmp_path / "nowhere").exists()


def test_a_later_format_is_refused_with_the_version_that_wrote_it(fruit: Path) -> None:
    manifest = json.loads((fruit / "manifest.json").read_text(encoding="utf-8"))
    (fruit / "manifest.json").write_text(
        json.dumps(manifest | {"format": 4, "package_version": "9.1"}), encoding="utf-8"
    )
    with pytest.raises(IndexDirError, match=r"format 4, expected 2 or 3; .*9\.1"):
        IndexDir.open(fruit)


@pytest.mark.parametrize("name", ["documents.sqlite", "embeddings.npy", "faiss.index"])
def test_a_file_of_another_index_of_the_same_size_is_refused_at_once(damaged: Path, name: str) -> None:
    other = damaged.with_name("other")
    shutil.copytree(damaged, other)
    with IndexWriter.create(other, IndexDir.open(other).encoder, spec="IVF1,Flat", overwrite=True) as writer:
        writer.add([Document("e1", "grape"), Document("e2", "lime"), Document("e3", "kiwi")], np.eye(4)[1:])
    own, swapped = only(damaged, f"segment-*/{name}"), only(other, f"segment-*/{name}")
    assert own.stat().st_size == swapped.stat().st_size
    own.write_bytes(swapped.read_bytes())
    assert_refused(damaged, own, "its content is not what was published")


@pytest.mark.parametrize("size", [0, 1, 4096, 5000, 32 * 4096, 10_000_000])
def test_head_tail_and_pages_between_are_checked_at_open(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    content = np.random.default_rng(0).bytes(size)
    path.write_bytes(content)
    published = FileInfo.of(path)
    published.check_pages(path)
    for at in {at for at in (0, size // 2, size - 1) if 0 <= at < size} if size <= 32 * 4096 else {0, size - 1}:
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(IndexDamagedError, match="not what was published"):
            published.check_pages(path)
    path.write_bytes(content)
    published.check_content(path)


def test_another_encoder_is_refused_with_what_differs(fruit: Path, encoder: EncoderIdentity) -> None:
    IndexDir.open(fruit, expected_encoder=encoder)
    IndexDir.open(fruit, expected_encoder=replace(encoder, name="the same weights elsewhere"))
    others = {
        "fingerprint '1a2b' against '3c4d'": replace(encoder, name="other", fingerprint="3c4d"),
        "dimension 4 against 5": replace(encoder, dimension=5),
        "pooling 'mean' against 'cls'": replace(encoder, fingerprint="5e", details={"pooling": "cls"}),
    }
    for message, other in others.items():
        for opener in (IndexDir.open, IndexWriter.open):
            with pytest.raises(IndexMismatchError, match=message) as caught:
                opener(fruit, expected_encoder=other)
            assert repr(encoder.name) in str(caught.value)
            assert repr(other.name) in str(caught.value)


def test_an_index_works_wherever_it_is_moved(fruit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = tmp_path / "индекс 漢 (1) 100%?#"
    fruit.rename(moved)
    monkeypatch.chdir(tmp_path)
    index = IndexDir.open(moved.name)
    monkeypatch.chdir("/")
    assert index.search(APPLE, 1)[0][0].id == "d1"
    assert index.latest() is index
    monkeypatch.chdir(tmp_path)
    with IndexWriter.open(moved.name) as writer:
        writer.add([Document("d4", "peach")], APPLE)
    assert len(index.latest()) == 4
    assert not any(str(tmp_path).encode() in path.read_bytes() for path in moved.rglob("*") if path.is_file())


def test_a_read_only_folder_can_be_searched_but_not_changed(fruit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (fruit / "writer.lock").unlink()
    before = sorted(fruit.rglob("*"))
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    assert IndexDir.open(fruit).search(APPLE, 1)[0][0].id == "d1"
    with pytest.raises(IndexDirError, match="read-only"):
        IndexWriter.open(fruit)
    assert sorted(fruit.rglob("*")) == before


def test_an_index_without_a_file_of_ids_is_read_and_grows_into_the_new_format(fruit: Path) -> None:
    new = IndexDir.open(fruit).search(np.eye(4), 3)
    fields = json.loads((fruit / "manifest.json").read_text(encoding="utf-8"))
    del fields["segments"][0]["files"]["ids.npy"]
    (fruit / "manifest.json").write_text(json.dumps(fields | {"format": 2}), encoding="utf-8")
    only(fruit, "segment-*/ids.npy").unlink()
    old = IndexDir.open(fruit)
    old.verify()
    assert (old.search(np.eye(4), 3), old.ids(), old.ids_of([2, 0])) == (new, ["d1", "d2", "d3"], ["d3", "d1"])
    shutil.copytree(fruit, fruit.with_name("copy"))
    with IndexWriter.open(fruit) as writer:
        writer.add([Document("d4", "peach")], np.eye(4)[3:])
    both = old.latest()
    both.verify()
    assert (both.info()["format"], both.ids()) == (3, ["d1", "d2", "d3", "d4"])
    with IndexWriter.open(fruit.with_name("copy")) as writer:
        writer.compact()
    assert only(fruit.with_name("copy"), "segment-*/ids.npy")
    assert IndexDir.open(fruit.with_name("copy")).search(np.eye(4), 3) == new


def test_verify_compares_the_file_of_ids_with_the_documents(fruit: Path) -> None:
    file = only(fruit, "segment-*/ids.npy")
    file.write_bytes(file.read_bytes().replace(b"d1d2d3", b"d2d1d3"))
    fields = json.loads((fruit / "manifest.json").read_text(encoding="utf-8"))
    info = FileInfo.of(file)
    fields["segments"][0]["files"]["ids.npy"] = {"bytes": info.bytes, "sha256": info.sha256, "pages": info.pages}
    (fruit / "manifest.json").write_text(json.dumps(fields), encoding="utf-8")
    with pytest.raises(IndexDamagedError, match="document 'd1' is called 'd2' among the ids"):
        IndexDir.open(fruit).verify()

"""Writers that die, writers that meet, and readers beside writers."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import numpy as np
import pytest

from aveyb_ir.data import Document
from aveyb_ir.errors import IndexDirError, IndexLockedError
from aveyb_ir.index import EncoderIdentity, IndexDir, IndexWriter, lock, reader, segment

KILL_WRITER = Path(__file__).parent / "cases" / "kill_writer.py"
ADDING_WRITER = Path(__file__).parent / "cases" / "adding_writer.py"
OLD = {"d1": "apple", "d2": "pear", "d3": "plum"}
PEACHES = {f"d{i}": "peach" for i in range(1, 6)}


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For each kind of change, copies of the fruit index whose writer was killed, a step later in each."""
    folder = tmp_path_factory.mktemp("killed")
    subprocess.run([sys.executable, KILL_WRITER, folder], check=True, timeout=120)
    return folder


def in_order(copies: Path) -> list[Path]:
    return sorted(copies.iterdir(), key=lambda path: int(path.name))


def texts(index: IndexDir) -> dict[str, str]:
    return {document.id: document.text for document in index}


@pytest.mark.parametrize(
    ("kind", "new"),
    [("upsert", PEACHES), ("overwrite", PEACHES), ("compact", PEACHES), ("delete", {"d1": "apple", "d3": "plum"})],
)
def test_a_killed_change_leaves_the_old_index_or_the_new_one(killed: Path, kind: str, new: dict[str, str]) -> None:
    outcomes = []
    for copy in in_order(killed / kind):
        index = IndexDir.open(copy)
        index.verify()
        outcomes.append(texts(index))
        assert {hit.id for hit in index.search(np.eye(4)[:1], 10)[0]} == set(outcomes[-1])
        with IndexWriter.open(copy) as writer:
            writer.add([Document("next", "fig")], np.eye(4)[:1])
        assert texts(IndexDir.open(copy)) == outcomes[-1] | {"next": "fig"}
        named = {"manifest.json", "writer.lock", *(segment.name for segment in copy.glob("segment-??????"))}
        assert {path.name for path in copy.iterdir()} - {p.name for p in copy.glob("deleted-??????.npy")} == named
    published = outcomes.index(new)
    assert outcomes == [OLD] * published + [new] * (len(outcomes) - published)
    assert published > 5


def test_a_killed_build_is_no_index_and_can_be_repeated(killed: Path, encoder: EncoderIdentity) -> None:
    outcomes = []
    for copy in in_order(killed / "build"):
        try:
            outcomes.append(texts(IndexDir.open(copy / "new")))
        except IndexDirError:
            outcomes.append({})
            with IndexWriter.create(copy / "new", encoder) as writer:
                writer.add([Document("again", "fig")], np.eye(4)[:1])
            assert texts(IndexDir.open(copy / "new")) == {"again": "fig"}
            assert {path.name for path in (copy / "new").iterdir()} == {
                "manifest.json",
                "segment-000001",
                "writer.lock",
            }
    published = outcomes.index(PEACHES)
    assert outcomes == [{}] * published + [PEACHES] * (len(outcomes) - published)
    assert published > 5


def test_a_second_writer_is_told_that_the_index_is_locked(fruit: Path, encoder: EncoderIdentity) -> None:
    with IndexWriter.open(fruit) as writer:
        for second in (lambda: IndexWriter.open(fruit), lambda: IndexWriter.create(fruit, encoder, overwrite=True)):
            with pytest.raises(IndexLockedError, match=f"process {os.getpid()}"):
                second()
        writer.delete(["d1"])
    with IndexWriter.open(fruit) as writer:
        writer.delete(["d2"])
    assert texts(IndexDir.open(fruit)) == {"d3": "plum"}


def test_a_lock_that_another_writer_removed_is_not_taken_for_one(tmp_path: Path) -> None:
    path = tmp_path / "writer.lock"
    opened = lock._opened

    def opened_then_removed(path: Path) -> int:
        descriptor = opened(path)
        path.unlink()
        return descriptor

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lock, "_opened", opened_then_removed)
        with pytest.raises(IndexLockedError, match="try again"):
            lock.WriterLock(path)
    lock.WriterLock(path).release()


def test_a_lock_file_left_behind_is_harmless(fruit: Path) -> None:
    (fruit / "writer.lock").write_text("999999\n", encoding="utf-8")
    with IndexWriter.open(fruit) as writer:
        writer.delete(["d1"])
    assert len(IndexDir.open(fruit)) == 2


def test_a_failed_opening_gives_the_lock_back(fruit: Path, encoder: EncoderIdentity) -> None:
    with pytest.raises(IndexDirError):
        IndexWriter.open(fruit, expected_encoder=EncoderIdentity("other", "other", 4))
    IndexWriter.open(fruit).close()


def test_an_open_index_keeps_its_state_and_latest_gives_the_new_one(fruit: Path) -> None:
    old = IndexDir.open(fruit)
    assert old.latest() is old
    with IndexWriter.open(fruit) as writer:
        writer.delete(["d1"])
        writer.add([Document("d4", "peach")], np.eye(4)[3:])
        writer.compact()
    assert texts(old) == OLD
    assert [hit.id for hit in old.search(np.eye(4)[:1], 1)[0]] == ["d1"]
    assert texts(old.latest()) == {"d2": "pear", "d3": "plum", "d4": "peach"}


def test_the_newest_state_opens_only_what_changed(build: Callable[..., IndexDir], tmp_path: Path) -> None:
    old = build(np.random.default_rng(0).standard_normal((100, 8)))
    path = Path(old.info()["path"])

    def changed(*, delete: str | None = None) -> list[bool]:
        with IndexWriter.open(path) as writer:
            writer.add([Document(f"new {len(old)} {delete}", "")], np.eye(8)[:1])
            writer.delete([delete] if delete else [])
        new = old.latest()
        assert len(new) == len(list(new)) == len(new.search(np.eye(8)[:1], 1000)[0])
        return [segment in old._segments for segment in new._segments]

    assert changed() == [True, False]
    assert changed(delete="7") == [False, False]


@pytest.mark.parametrize(
    ("owner", "step"),
    [(reader, "open_segments"), (segment.DocumentTable, "open"), (segment, "_mapped"), (segment, "check_folder")],
)
def test_a_state_that_vanishes_while_it_is_opened_gives_way_to_the_newest(
    fruit: Path, monkeypatch: pytest.MonkeyPatch, owner: object, step: str
) -> None:
    def publish_before_it(*arguments: object, **options: object) -> object:
        monkeypatch.undo()
        with IndexWriter.open(fruit) as writer:
            writer.delete(["d1"])
            writer.compact()
        return getattr(owner, step)(*arguments, **options)

    monkeypatch.setattr(owner, step, publish_before_it)
    assert texts(IndexDir.open(fruit)) == {"d2": "pear", "d3": "plum"}


def test_searches_beside_a_writer_always_find_the_text_of_their_own_id(fruit: Path) -> None:
    done = Event()
    rng = np.random.default_rng(0)

    def search() -> int:
        index, count = IndexDir.open(fruit), 0
        while not done.is_set():
            index = index.latest()
            (hits,) = index.search(np.ones((1, 4)), 5)
            documents = index.documents([hit.row for hit in hits])
            assert [document.id for document in documents] == [hit.id for hit in hits]
            assert all(document.text.startswith(f"{document.id} ") for document in documents if document.id not in OLD)
            count += 1
        return count

    with ThreadPoolExecutor(2) as threads:
        searches = [threads.submit(search) for _ in range(2)]
        try:
            for number in range(40):
                with IndexWriter.open(fruit) as writer:
                    ids = [f"n{number}", f"n{number // 2}x"]
                    writer.upsert([Document(id, f"{id} {number}") for id in ids], rng.standard_normal((2, 4)))
        finally:
            done.set()
        assert all(search.result() > 0 for search in searches)
    assert len(IndexDir.open(fruit)) == 3 + 40 + 20


def test_eight_threads_search_while_another_process_adds(fruit: Path) -> None:
    done = Event()
    adding = subprocess.Popen([sys.executable, ADDING_WRITER, fruit, "30"])

    def search() -> int:
        index, count = IndexDir.open(fruit), 0
        while not done.is_set():
            index = index.latest()
            (hits,) = index.search(np.ones((1, 4)), 5)
            documents = index.documents([hit.row for hit in hits])
            assert [document.id for document in documents] == [hit.id for hit in hits]
            assert all(document.text == f"text of {document.id}" for document in documents if document.id not in OLD)
            count += 1
        return count

    start = time.perf_counter()
    with ThreadPoolExecutor(8) as threads:
        searches = [threads.submit(search) for _ in range(8)]
        try:
            assert adding.wait(timeout=120) == 0
        finally:
            done.set()
        counts = [search.result() for search in searches]
    assert min(counts) > 0
    assert sum(counts) / (time.perf_counter() - start) > 20  # ten times as many where nothing else runs
    assert len(IndexDir.open(fruit)) == 3 + 30

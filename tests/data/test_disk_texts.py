"""Texts that need not fit into memory: kept on disk, numbered by digest, found by id."""

import errno
import os
from io import BufferedRandom, FileIO
from pathlib import Path

import numpy as np
import pytest

from aveyb_ir.data import DiskRows, DiskTexts, Document, TextTable
from aveyb_ir.data.blocks import blocks
from aveyb_ir.data.text_numbers import TextNumbers
from aveyb_ir.data.wanted_texts import WantedTexts
from aveyb_ir.errors import DataError


def test_rows_are_read_back_while_more_are_written(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    kept, rows = DiskRows(tmp_path), []
    for _ in range(300):
        rows.append(generator.bytes(int(generator.integers(0, 20_000))))
        kept.append(rows[-1])
        for place in generator.integers(0, len(rows), 3):
            assert kept[int(place)] == rows[place]
    assert len(kept) == 300
    assert [kept[place] for place in range(300)] == rows
    for place in (-1, 300):
        with pytest.raises(IndexError):
            kept[place]


def num_open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def test_the_file_has_no_name_and_is_closed_with_its_rows(tmp_path: Path) -> None:
    open_files = num_open_files()
    kept = DiskRows(tmp_path)
    kept.append(b"row")
    assert not list(tmp_path.iterdir())
    assert num_open_files() == open_files + 1
    del kept
    assert num_open_files() == open_files


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"missing: cannot keep data there .* expected a folder on a disk with room"):
        DiskRows(tmp_path / "missing")


def test_a_full_disk_is_told_when_it_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(FileIO):
        def write(self, data: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def file_on_a_full_disk(**_: object) -> BufferedRandom:
        return BufferedRandom(Full(tmp_path / "rows", "w+"))

    monkeypatch.setattr("aveyb_ir.data.disk_rows.TemporaryFile", file_on_a_full_disk)
    kept = DiskRows(tmp_path)
    kept.append(b"row")
    with pytest.raises(DataError, match=r"cannot keep data there \(No space left on device\)"):
        kept[0]
    with pytest.raises(DataError, match="cannot keep data there"):
        kept.append(bytes(10_000_000))


def test_any_text_comes_back_as_it_was(tmp_path: Path) -> None:
    texts = ["", "plain", "ä\u2028\0\n", "half \ud83d of a pair", "😀" * 1000]
    kept = DiskTexts(tmp_path)
    for text in texts:
        kept.append(text)
    assert list(kept) == texts


@pytest.mark.parametrize("at_once", [1, 7, 5000])
def test_numbers_are_those_of_a_dictionary(at_once: int) -> None:
    generator = np.random.default_rng(at_once)
    texts = [f"text {number}" for number in generator.integers(0, 9000, 20_000 if at_once > 1 else 2000)]
    numbers, expected = TextNumbers(), {}
    for start in range(0, len(texts), at_once):
        block = texts[start : start + at_once]
        assert numbers.add(block).tolist() == [expected.setdefault(text, len(expected)) for text in block]
    assert len(numbers) == len(expected) > 1000
    assert numbers.find([*expected, "another"]).tolist() == [*expected.values(), -1]


def test_texts_whose_digests_begin_alike_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """All digests want the same slot and half of their bits agree; the other half tells them apart."""
    monkeypatch.setattr("aveyb_ir.data.text_numbers.hashlib.blake2b", lambda data, digest_size: _Digest(data))
    numbers = TextNumbers()
    texts = [f"{number:08}" for number in range(300)]
    assert numbers.add(texts).tolist() == list(range(300))
    assert numbers.find([*texts, "99999999"]).tolist() == [*range(300), -1]


class _Digest:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def digest(self) -> bytes:
        return b"the same" + self._data


def test_a_table_keeps_every_text_once(tmp_path: Path) -> None:
    table = TextTable(tmp_path)
    assert table.add(["a", "b", "a"]).tolist() == [0, 1, 0]
    assert table.add(["c", "b", "c", "d"]).tolist() == [2, 1, 2, 3]
    assert list(table.texts) == ["a", "b", "c", "d"]


def test_wanted_texts_are_told_from_absent_and_empty_ones(tmp_path: Path) -> None:
    ids = TextNumbers()
    ids.add(["3", "1", "gone", "2"])
    documents = [Document("0", "zero"), Document("1", "one", "Title"), Document("2", " "), Document("3", "three")]
    wanted = WantedTexts(documents, ids, tmp_path)
    assert wanted.texts(["1", "2", "3", "gone"]) == ["Title one", "", "three", ""]
    assert wanted.absent(["1", "gone", "2"]) == ["gone"]
    assert wanted.empty(["1", "gone", "2"]) == ["2"]


def test_blocks_are_bounded_by_characters_not_by_items() -> None:
    texts = ["x" * length for length in (400_000, 400_000, 400_000, 5, 3_000_000, 1)]
    assert [list(map(len, block)) for block in blocks(texts, len)] == [[400_000] * 3, [5, 3_000_000], [1]]

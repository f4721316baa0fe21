"""Ids in a mapped file: those of a dictionary, in any order, and nothing read beyond what is there."""

from pathlib import Path

import numpy as np
import pytest

from aveyb_ir.errors import IndexDamagedError
from aveyb_ir.index.id_file import IdFile

IDS = {3: "a", 4: "", 90: "漢字 ☃", 91: "x" * 3000, 1 << 40: "\U0001f30d\tlast"}


def opened(path: Path, num: int = len(IDS)) -> IdFile:
    return IdFile(path, np.load(path, mmap_mode="r", allow_pickle=False), num)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    IdFile.write(tmp_path / "ids.npy", IDS.items())
    return tmp_path / "ids.npy"


def test_rows_give_their_ids_in_any_order_and_others_nothing(path: Path) -> None:
    ids = opened(path)
    assert ids.ids([*IDS]) == IDS
    assert list(ids.ids([91, 3, 1 << 40]).items()) == [(91, IDS[91]), (3, "a"), (1 << 40, IDS[1 << 40])]
    assert ids.ids([-1, 0, 5, 90, 1 << 41]) == {90: IDS[90]}
    assert ids.ids([]) == {}


def test_a_document_costs_sixteen_bytes_beside_its_id(tmp_path: Path) -> None:
    IdFile.write(tmp_path / "ids.npy", ((row, f"{row:08}") for row in range(1000)))
    assert (tmp_path / "ids.npy").stat().st_size == 128 + 8 + 1000 * (16 + 8)
    assert opened(tmp_path / "ids.npy", 1000).ids([999]) == {999: "00000999"}


def test_content_that_cannot_be_ids_is_refused(path: Path, tmp_path: Path) -> None:
    content = np.load(path)
    for broken, num, message in (
        (content[:40], len(IDS), "40 bytes, too few for 5 documents"),
        (content[:83], len(IDS), "83 bytes, too few"),
        (content[:-1], len(IDS), "bytes of ids, expected"),
        (content, 4, "bytes of ids, expected"),
    ):
        np.save(tmp_path / "broken.npy", broken)
        with pytest.raises(IndexDamagedError, match=f"broken.npy: .*{message}"):
            opened(tmp_path / "broken.npy", num)
    content[-9:] = 0xFF
    np.save(tmp_path / "broken.npy", content)
    assert opened(tmp_path / "broken.npy").ids([3]) == {3: "a"}
    with pytest.raises(IndexDamagedError, match=r"broken.npy: an id that is no text \(invalid start byte\)"):
        opened(tmp_path / "broken.npy").ids([1 << 40])

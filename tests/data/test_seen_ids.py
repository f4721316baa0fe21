"""Ids that come twice are found, whether just read or long ago, and no others."""

import pytest

from aveyb_ir.data import read_documents, seen_ids, write_jsonl
from aveyb_ir.data.seen_ids import SeenIds
from aveyb_ir.errors import DataError


@pytest.mark.parametrize("block", [1, 7, 1 << 17])
def test_every_id_is_new_once(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(seen_ids, "_BLOCK", block)
    seen = SeenIds()
    assert not any(seen.add(str(number)) for number in range(1000))
    assert all(seen.add(str(number)) for number in range(1000))
    assert not any(seen.add(f"{number} ") for number in range(1000))


def test_old_ids_are_found_after_many_new_ones() -> None:
    seen = SeenIds()
    assert not any(seen.add(str(number)) for number in range(seen_ids._BLOCK * 2 + 5))
    assert [seen.add(str(number)) for number in (0, seen_ids._BLOCK, seen_ids._BLOCK * 2 + 4)] == [True] * 3
    assert not seen.add("-1")


def test_equal_hashes_of_other_ids_are_no_repetition(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SeenIds, "add", lambda self, id_: True)
    write_jsonl(tmp_path / "c.jsonl", [{"_id": str(number), "text": "t"} for number in range(3)])
    assert [document.id for document in read_documents(tmp_path / "c.jsonl")] == ["0", "1", "2"]
    write_jsonl(tmp_path / "c.jsonl", [{"_id": "0", "text": "t"}] * 2)
    with pytest.raises(DataError, match="line 2: id '0' was already used on line 1"):
        list(read_documents(tmp_path / "c.jsonl"))

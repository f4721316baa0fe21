"""Corpora in Parquet: streamed, with plain values, and with the row in every message."""

import datetime
import logging
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aveyb_ir.data import Document, count_documents, read_documents
from aveyb_ir.errors import DataError


def write(path: Path, *records, schema: pa.Schema | None = None, **options) -> Path:
    pq.write_table(pa.Table.from_pylist(list(records), schema=schema), path, **options)
    return path


@pytest.mark.parametrize("names", [("_id", "text"), ("id", "contents"), ("docid", "text")])
def test_columns_go_by_name_and_the_rest_is_metadata(tmp_path: Path, names: tuple[str, str]) -> None:
    row = {"lang": "en", names[1]: "t", "title": None, names[0]: 7, "tags": ["a", None], "of": {"x": 1}}
    expected = Document("7", "t", "", {"lang": "en", "tags": ["a", None], "of": {"x": 1}})
    assert list(read_documents(write(tmp_path / "c.parquet", row))) == [expected]


def test_values_become_those_that_json_can_hold(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    row = {
        "_id": "a",
        "text": "t",
        "day": datetime.date(2024, 2, 29),
        "at": datetime.datetime(2024, 2, 29, 1, 2, 3),
        "price": Decimal("1.25"),
        "nan": float("nan"),
        "share": 0.5,
        "none": None,
    }
    (document,) = read_documents(write(tmp_path / "c.parquet", row))
    assert document.metadata == {
        "day": "2024-02-29",
        "at": "2024-02-29 01:02:03.000000",
        "price": 1.25,
        "nan": None,
        "share": 0.5,
        "none": None,
    }
    assert caplog.text == ""


def test_columns_that_json_cannot_hold_are_left_out_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    image = {"bytes": b"\xff\xd8", "path": "a.jpg"}
    row = {"_id": "a", "text": "t", "image": image, "raw": b"x", "took": datetime.timedelta(seconds=1)}
    with caplog.at_level(logging.WARNING):
        assert list(read_documents(write(tmp_path / "c.parquet", row))) == [Document("a", "t")]
    assert "columns left out, since JSON cannot hold their values: image, raw, took" in caplog.text


def test_what_pandas_writes_reads_back(tmp_path: Path) -> None:
    frame = pd.DataFrame({"_id": [1, 2, 3], "text": ["a", None, "c"], "kind": pd.Categorical(["x", "y", "x"])})
    frame[frame["_id"] != 2].to_parquet(tmp_path / "c.parquet")
    documents = [Document("1", "a", metadata={"kind": "x"}), Document("3", "c", metadata={"kind": "x"})]
    assert list(read_documents(tmp_path / "c.parquet")) == documents


def test_a_folder_of_shards_is_one_corpus_in_the_order_of_names(tmp_path: Path) -> None:
    for shard in (10, 2, 1):
        write(tmp_path / f"c-{shard:05d}.parquet", {"_id": shard, "text": "t"})
    (tmp_path / ".cache").mkdir()
    write(tmp_path / ".cache" / "x.parquet", {"_id": 99, "text": "hidden"})
    assert [document.id for document in read_documents(tmp_path)] == ["1", "2", "10"]
    assert count_documents(tmp_path) == 3


def test_an_id_given_twice_is_found_across_shards(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", {"_id": "x", "text": "t"}, {"_id": "y", "text": "t"})
    write(tmp_path / "b.parquet", {"_id": "z", "text": "t"}, {"_id": "y", "text": "t"})
    problem = r"b\.parquet row 2: id 'y' was already used in .*a\.parquet row 2"
    with pytest.raises(DataError, match=problem):
        list(read_documents(tmp_path))


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"_id": None, "text": "t"}, "id None is NoneType"),
        ({"_id": "", "text": "t"}, "an id is empty"),
        ({"_id": "a\nb", "text": "t"}, ".* holds a line break"),
        ({"_id": "a", "text": "t", "title": 3}, "title is int"),
        ({"_id": "a", "text": ["t"]}, "text is list"),
        ({"_id": 1.0, "text": "t"}, "id 1.0 is float"),
        ({"_id": "a", "txt": "t"}, "no field text or contents among txt"),
        ({"key": "a", "text": "t"}, "no field _id or id or docid among key, text"),
    ],
)
def test_bad_rows_are_refused_with_file_and_row(tmp_path: Path, row: dict[str, object], problem: str) -> None:
    with pytest.raises(DataError, match=rf"c\.parquet row 1: {problem}"):
        list(read_documents(write(tmp_path / "c.parquet", row)))


def test_rows_are_numbered_through_row_groups(tmp_path: Path) -> None:
    rows = [{"_id": str(n), "text": "t"} for n in range(2500)] + [{"_id": None, "text": "t"}]
    file = write(tmp_path / "c.parquet", *rows, row_group_size=700)
    with pytest.raises(DataError, match=r"c\.parquet row 2501: id None"):
        list(read_documents(file))
    assert count_documents(file) == 2501


def test_broken_files_are_named(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole.parquet", *[{"_id": str(n), "text": "t" * 100} for n in range(5000)])
    data = whole.read_bytes()
    cases = {"empty": b"", "text": b'{"_id": 1}', "cut": data[: len(data) // 2]}
    cases["holed"] = data[:2000] + bytes(1000) + data[3000:]
    for name, content in cases.items():
        (tmp_path / f"{name}.parquet").write_bytes(content)
        with pytest.raises(DataError, match=rf"{name}\.parquet cannot be read .*expected a Parquet file") as caught:
            list(read_documents(tmp_path / f"{name}.parquet"))
        assert "\n" not in str(caught.value)
    with pytest.raises(DataError, match=r"cut\.parquet cannot be read"):
        count_documents(tmp_path / "cut.parquet")


def test_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    texts = pa.array([b"fine", b"caf\xe9"]).view(pa.string())
    pq.write_table(pa.table({"_id": ["a", "b"], "text": texts}), tmp_path / "c.parquet")
    with pytest.raises(DataError, match=r"c\.parquet cannot be read .*utf-?8"):
        list(read_documents(tmp_path / "c.parquet"))


def test_counting_reads_no_more_than_it_must(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text("{}\n{}\n", encoding="utf-8")
    assert count_documents(tmp_path) == count_documents(tmp_path / "corpus.jsonl") == 2
    assert count_documents(tmp_path / "corpus.jsonl.gz") is None
    assert count_documents(tmp_path / "absent.jsonl") is None

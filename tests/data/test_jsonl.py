"""Bytes to records and back: line ends, encodings, broken input, atomic writing."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aveyb_ir.data import read_documents, read_jsonl, write_jsonl
from aveyb_ir.errors import DataError

CASES = Path(__file__).parent / "cases" / "jsonl-bytes"


def test_records_end_only_at_line_feeds_and_the_byte_order_mark_is_dropped() -> None:
    records = dict(read_jsonl(CASES / "corpus.jsonl"))
    assert list(records) == [1, 2, 3, 4, 5, 7, 8]  # line 6 is blank
    assert next(iter(records[1])) == "_id"
    assert records[2]["text"] == "line\u2028separator and\u0085next line inside"
    assert records[3]["text"] == "nul \0 inside"
    assert records[5]["text"] == "pair \U0001f44d here"
    assert records[7]["text"].startswith("e\u0301 is not \u00e9")
    assert records[8]["text"] == "a\tb\nc"


def test_lone_surrogates_become_replacement_characters_and_can_be_written(tmp_path: Path) -> None:
    texts = [record["text"] for _, record in read_jsonl(CASES / "corpus.jsonl")]
    assert texts[3] == "lone surrogate \ufffd here"
    copy = tmp_path / "copy.jsonl"
    write_jsonl(copy, ({"text": text} for text in texts))
    assert [record["text"] for _, record in read_jsonl(copy)] == texts


def test_lone_surrogates_are_mended_in_nested_values_and_keys(tmp_path: Path) -> None:
    file = tmp_path / "nested.jsonl"
    file.write_bytes(rb'{"a": ["x\uD83D", {"k\udc00": 1}], "ok": "\ud83d\udc4d", "number": 0.1}')
    assert list(read_jsonl(file)) == [
        (1, {"a": ["x\ufffd", {"k\ufffd": 1}], "ok": "\U0001f44d", "number": 0.1}),
    ]


def test_unwritable_text_is_mended_on_writing_too(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "out.jsonl", [{"text": "half \ud83d pair"}])
    assert list(read_jsonl(tmp_path / "out.jsonl")) == [(1, {"text": "half \ufffd pair"})]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b'{"a": 1}\n{"a": "cut\n', r"x\.jsonl line 2: not JSON"),
        (b'\n\n["a"]\n', r"x\.jsonl line 3: a JSON list"),
        (b"null", r"x\.jsonl line 1: a JSON NoneType"),
        (b"[" * 100_000, r"x\.jsonl line 1: JSON out of bounds"),
        (b'{"a": ' + b"9" * 10_000 + b"}", r"x\.jsonl line 1: JSON out of bounds"),
        ('{"a": "café"}'.encode("latin-1"), r"x\.jsonl line 1: byte 0xe9 at position 10; expected UTF-8"),
        ('{"a": 1}\n'.encode("utf-16"), r"x\.jsonl line 1: byte 0xff at position 0; expected UTF-8"),
    ],
)
def test_what_is_no_json_object_in_utf8_is_refused_with_its_line(tmp_path: Path, content: bytes, found: str) -> None:
    file = tmp_path / "x.jsonl"
    file.write_bytes(content)
    with pytest.raises(DataError, match=found) as caught:
        list(read_jsonl(file))
    assert "\n" not in str(caught.value)


def test_case_files_name_file_and_line() -> None:
    with pytest.raises(DataError, match=r"bad_line\.jsonl line 2"):
        list(read_documents(CASES / "bad_line.jsonl"))
    with pytest.raises(DataError, match=r"latin1\.jsonl line 1: .*UTF-8"):
        list(read_documents(CASES / "latin1.jsonl"))


def test_files_that_cannot_be_opened_are_data_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent\.jsonl cannot be read \(No such file"):
        list(read_jsonl(tmp_path / "absent.jsonl"))
    with pytest.raises(DataError, match=r"cannot be read \(Is a directory"):
        list(read_jsonl(tmp_path))
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DataError, match=r"cannot be written"):
        write_jsonl(tmp_path / "file" / "x.jsonl", [])


def test_gzip_is_read_written_and_refused_when_cut(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl.gz"
    write_jsonl(file, [{"n": n} for n in range(1000)])
    assert gzip.decompress(file.read_bytes()).count(b"\n") == 1000
    assert [record["n"] for _, record in read_jsonl(file)] == list(range(1000))
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"x\.jsonl\.gz cannot be read"):
        list(read_jsonl(file))
    file.write_bytes(b'{"n": 1}\n')
    with pytest.raises(DataError, match=r"x\.jsonl\.gz cannot be read"):
        list(read_jsonl(file))


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    write_jsonl(file, [{"n": 1}])

    def broken() -> object:
        yield {"n": 2}
        raise RuntimeError("the source failed")

    with pytest.raises(RuntimeError, match="the source failed"):
        write_jsonl(file, broken())
    assert list(read_jsonl(file)) == [(1, {"n": 1})]
    assert list(tmp_path.iterdir()) == [file]


def test_the_locale_does_not_matter(tmp_path: Path) -> None:
    program = (
        "import sys; from aveyb_ir.data import *\n"
        "write_jsonl(sys.argv[2], ({'_id': d.id, 'text': d.text} for d in read_documents(sys.argv[1])))"
    )
    copy = tmp_path / "copy.jsonl"
    environment = {**os.environ, "PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run([sys.executable, "-c", program, CASES / "corpus.jsonl", copy], env=environment, check=True)
    assert list(read_documents(copy)) == list(read_documents(CASES / "corpus.jsonl"))

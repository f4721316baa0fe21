"""The texts that a masked language model learns from, and those held out to tell how well it does."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aveyb_ir.data import Document, read_documents
from aveyb_ir.data.corpus import CORPUS, source_files
from aveyb_ir.data.lines import read_lines
from aveyb_ir.data.records import is_tsv, place, read_records
from aveyb_ir.data.wording import listed
from aveyb_ir.errors import DataError

_TEXT_FIELDS = ("text", "contents", "content")


def read_texts(source: str | Path) -> Iterator[str]:
    """Stream texts that are not empty, title and text joined as an encoder reads them.

    `source` is a `.txt` file with one text a line, or whatever `read_documents` takes: JSON Lines, Parquet or TSV, a
    folder of these, a BEIR folder, a data set on the Hub or a copy of one. Records need a `text` (or `contents`,
    `content`) and no id. Text files may be gzipped.

    Raises:
        DataError: a file is missing or malformed, or a record has no text.
    """
    path = Path(source)
    if path.name.removesuffix(".gz").endswith(".txt"):
        yield from (line.strip() for _, line in read_lines(path))
        return
    for file in source_files(source, CORPUS):
        texts = (document.full_text for document in read_documents(file)) if is_tsv(file) else _record_texts(file)
        yield from (text for text in texts if text)


def is_held_out(text: str, share: float) -> bool:
    """Whether a text belongs to the held-out share: by its hash, so that copies of a text are on the same side."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") < share * 2**64


def _record_texts(file: Path) -> Iterator[str]:
    for number, record in read_records(file):
        yield Document("", _text(record, file, number), _string(record.get("title"), file, number)).full_text


def _text(record: dict[str, Any], file: Path, number: int) -> str:
    name = next((name for name in _TEXT_FIELDS if name in record), None)
    if name is None:
        raise DataError(
            f"{place(file, number)}: no text among fields {listed(record) or 'none'}, expected one of "
            f"{', '.join(_TEXT_FIELDS)}; add or rename it"
        )
    return _string(record[name], file, number)


def _string(value: object, file: Path, number: int) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DataError(f"{place(file, number)}: got {value!r:.40} for a text, expected a string; quote it")
    return value

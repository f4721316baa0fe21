"""Documents and queries from files: BEIR folders, JSON Lines, and `id<TAB>text`."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from aveyb_ir.data.documents import Document, Query, check_id
from aveyb_ir.data.jsonl import read_jsonl
from aveyb_ir.data.lines import read_lines
from aveyb_ir.errors import DataError

CORPUS_FILE = "corpus.jsonl"
QUERIES_FILE = "queries.jsonl"

_Item = TypeVar("_Item", Document, Query)


def read_documents(path: str | Path) -> Iterator[Document]:
    """Stream the documents of a BEIR folder or of one file; only the ids seen so far stay in memory.

    A file is JSON Lines with fields `_id` (or `id`, `docid`), `text` (or `contents`) and optionally `title` and
    `metadata`, whatever other fields there are joining the metadata; or, if its name ends in `.tsv`, lines of
    `id<TAB>text` without a header, as MS MARCO has them. Either may be gzipped. Whole numbers as ids become strings;
    a null title or text becomes empty.

    Raises:
        DataError: a file is missing or malformed, a record lacks its id or text, or an id comes twice.
    """
    return _read(_file_of(path, CORPUS_FILE), _document)


def read_queries(path: str | Path) -> Iterator[Query]:
    """Stream the queries of a BEIR folder or of one file.

    Files are as in `read_documents`, with fields `_id` (or `id`, `qid`) and `text` (or `query`).

    Raises:
        DataError: as `read_documents`.
    """
    return _read(_file_of(path, QUERIES_FILE), _query)


def file_in_folder(folder: Path, name: str) -> Path:
    """Find `name` or `name.gz` in a folder; raises DataError if neither is there."""
    for candidate in (folder / name, folder / f"{name}.gz"):
        if candidate.is_file():
            return candidate
    raise DataError(f"{folder} holds neither {name} nor {name}.gz; expected a BEIR folder; check the path")


def _file_of(path: str | Path, name: str) -> Path:
    return file_in_folder(Path(path), name) if Path(path).is_dir() else Path(path)


def _read(file: Path, build: Callable[[dict[str, Any]], _Item]) -> Iterator[_Item]:
    line_of_id: dict[str, int] = {}
    for line, record in _records(file):
        try:
            item = build(record)
        except ValueError as problem:
            raise DataError(f"{file} line {line}: {problem}") from problem
        first_line = line_of_id.setdefault(item.id, line)
        if first_line != line:
            raise DataError(
                f"{file} line {line}: id {item.id!r} was already used on line {first_line}; "
                "expected every id once; remove or rename one of the two"
            )
        yield item


def _records(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    if not file.name.removesuffix(".gz").endswith(".tsv"):
        yield from read_jsonl(file)
        return
    for line, row in read_lines(file):
        id_, tab, text = row.partition("\t")
        if not tab:
            raise DataError(f"{file} line {line}: no tab in {row[:40]!r}; expected id<TAB>text; add the tab")
        yield line, {"_id": id_, "text": text}


def _document(record: dict[str, Any]) -> Document:
    id_ = _pop_id(record, "_id", "id", "docid")
    text = _pop_text(record, "text", "contents")
    title = _as_text(record.pop("title", None), "title")
    return Document(id_, text, title, _metadata(record))


def _query(record: dict[str, Any]) -> Query:
    id_ = _pop_id(record, "_id", "id", "qid")
    text = _pop_text(record, "text", "query")
    return Query(id_, text, _metadata(record))


def _pop_id(record: dict[str, Any], *names: str) -> str:
    value = record.pop(_present(record, names))
    return check_id(str(value) if type(value) is int else value)


def _pop_text(record: dict[str, Any], *names: str) -> str:
    name = _present(record, names)
    return _as_text(record.pop(name), name)


def _present(record: dict[str, Any], names: tuple[str, ...]) -> str:
    for name in names:
        if name in record:
            return name
    raise ValueError(f"no field {' or '.join(names)} among {', '.join(record) or 'none'}; add or rename it")


def _as_text(value: object, name: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{name} is {type(value).__name__} {value!r:.40}; expected a string; quote it")
    return value


def _metadata(record: dict[str, Any]) -> dict[str, Any]:
    """What is left of a record, with the contents of its own `metadata` field unpacked."""
    metadata = record.pop("metadata", None)
    if not isinstance(metadata, dict | None):
        raise ValueError(f"metadata is {type(metadata).__name__}; expected an object; wrap it in one")
    return {**record, **(metadata or {})}

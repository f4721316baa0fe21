"""Documents and queries from files, folders and public data sets, one at a time."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from aveyb_ir.data.documents import Document, Query, as_id
from aveyb_ir.data.hub import dataset_files, names_dataset
from aveyb_ir.data.lines import read_lines
from aveyb_ir.data.records import count_records, is_tsv, place, read_records, unit
from aveyb_ir.data.seen_ids import SeenIds
from aveyb_ir.data.wording import listed
from aveyb_ir.errors import DataError

CORPUS = "corpus"
QUERIES = "queries"

_Item = TypeVar("_Item", Document, Query)


def read_documents(source: str | Path) -> Iterator[Document]:
    """Stream the documents of a corpus; of what was read only a hash of each id stays in memory.

    `source` is one of:

    - a file of JSON Lines (`.jsonl`) or Parquet (`.parquet`) with fields `_id` (or `id`, `docid`), `text` (or
      `contents`) and optionally `title` and `metadata`, whatever other fields there are joining the metadata;
    - a file whose name ends in `.tsv`, with lines of `id<TAB>text` without a header, as MS MARCO has them;
    - a BEIR folder, of which `corpus.jsonl` is read, or any folder of the files above;
    - a data set on the Hugging Face Hub, `owner/name`, or a folder with a copy of one: its config `corpus` if it has
      one. `owner/name:config` and `owner/name:config:split` choose.

    Text files may be gzipped. Whole numbers as ids become strings; a null title or text becomes empty.

    Raises:
        DataError: a file is missing or malformed, a record lacks its id or text, an id comes twice, or it is not clear
            which of several configs or splits is meant.
    """
    return documents_in(source_files(source, CORPUS))


def read_queries(source: str | Path) -> Iterator[Query]:
    """Stream queries; sources are as in `read_documents`, with `queries` for `corpus`.

    The fields are `_id` (or `id`, `qid`) and `text` (or `query`).

    Raises:
        DataError: as `read_documents`.
    """
    return queries_in(source_files(source, QUERIES))


def count_documents(source: str | Path) -> int | None:
    """Number of documents in a corpus, where that takes no parsing; None where a file is compressed.

    Blank lines count too, so this is for progress bars.

    Raises:
        DataError: the source is no corpus, or a Parquet file is damaged.
    """
    return count_records(source_files(source, CORPUS))


def documents_in(files: Sequence[Path]) -> Iterator[Document]:
    """Stream the documents of files, as `read_documents` does."""
    return _read(files, _document)


def queries_in(files: Sequence[Path]) -> Iterator[Query]:
    """Stream the queries of files, as `read_queries` does."""
    return _read(files, _query)


def source_files(source: str | Path, stem: str) -> list[Path]:
    """Files that hold the corpus or the queries (`stem`) of a source; a missing one is reported when it is read."""
    path = Path(source)
    if path.is_dir() and (file := find_in_folder(path, f"{stem}.jsonl")):
        return [file]
    return dataset_files(source, configs=(stem,), splits=(stem, "train")) if names_dataset(source) else [path]


def find_in_folder(folder: Path, name: str) -> Path | None:
    """Find `name` or `name.gz` in a folder."""
    return next((file for file in (folder / name, folder / f"{name}.gz") if file.is_file()), None)


def _read(files: Sequence[Path], build: Callable[[dict[str, Any]], _Item]) -> Iterator[_Item]:
    seen = SeenIds()
    for file, number, item in _items(files, build):
        if seen.add(item.id):
            first = next((path, n) for path, n, earlier in _items(files, build) if earlier.id == item.id)
            if first != (file, number):
                raise DataError(
                    f"{place(file, number)}: id {item.id!r:.60} was already used {_where(*first, file)}; "
                    "expected every id once; remove or rename one of the two"
                )
        yield item


def _where(file: Path, number: int, here: Path) -> str:
    return f"on {unit(file)} {number}" if file == here else f"in {place(file, number)}"


def _items(files: Sequence[Path], build: Callable[[dict[str, Any]], _Item]) -> Iterator[tuple[Path, int, _Item]]:
    for file in files:
        for number, record in _tsv_records(file) if is_tsv(file) else read_records(file):
            try:
                item = build(record)
            except ValueError as problem:
                raise DataError(f"{place(file, number)}: {problem}") from problem
            yield file, number, item


def _tsv_records(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
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
    return as_id(record.pop(_present(record, names)))


def _pop_text(record: dict[str, Any], *names: str) -> str:
    name = _present(record, names)
    return _as_text(record.pop(name), name)


def _present(record: dict[str, Any], names: tuple[str, ...]) -> str:
    for name in names:
        if name in record:
            return name
    raise ValueError(f"no field {' or '.join(names)} among {listed(record) or 'none'}; add or rename it")


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

"""The documents of a segment, in one SQLite file."""

import hashlib
import json
import sqlite3
import threading
import weakref
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.data import Document
from aveyb_ir.errors import DataError, IndexDamagedError
from aveyb_ir.index.durable import RESTORE
from aveyb_ir.index.where import Where

_SCHEMA = """
CREATE TABLE documents (
    row INTEGER PRIMARY KEY, id TEXT NOT NULL, title TEXT NOT NULL, text TEXT NOT NULL, metadata TEXT NOT NULL
);
CREATE INDEX documents_by_id ON documents (id);
"""
_MAX_VARIABLES = 10_000  # SQLite allows at least 32766 in one statement


class DocumentTable:
    """Documents by row and by id. Any number of threads may share one table.

    `create` gives a table to fill, `open` one to read. An id may occur more than once, under different rows: an
    updated document gets a new row, and which rows are deleted is not this table's business.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection = connection
        self._lock = threading.Lock()
        # Kept open rather than opened on demand: a writer may remove the file while this table is still in use.
        self._close = weakref.finalize(self, connection.close)

    @classmethod
    def create(cls, path: Path) -> "DocumentTable":
        """Make a new file. It is synced once, when finished, not at every step."""
        table = cls(path, sqlite3.connect(path, check_same_thread=False))
        table._connection.executescript("PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF;" + _SCHEMA)
        return table

    @classmethod
    def open(cls, path: Path) -> "DocumentTable":
        """Read a finished file, in a folder that may be read-only."""
        uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        try:
            connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
            connection.execute("PRAGMA trusted_schema = OFF")  # the file may come from anyone
            connection.execute(f"PRAGMA mmap_size = {1 << 40}")  # as much as SQLite allows; saves a copy of each page
            return cls(path, connection)
        except sqlite3.OperationalError as error:
            raise _unreadable(path, error) from error

    def close(self) -> None:
        """Close the file."""
        self._close()

    def append(self, rows: Iterable[int], documents: Sequence[Document]) -> None:
        """Add documents under these rows, all or none."""
        records = [(row, d.id, d.title, d.text, _metadata_json(d)) for row, d in zip(rows, documents, strict=True)]
        with self._lock, self._connection:
            self._connection.executemany("INSERT INTO documents VALUES (?, ?, ?, ?, ?)", records)

    def __len__(self) -> int:
        return int(self._query("SELECT count(*) FROM documents")[0][0])

    def documents(self, rows: Iterable[int]) -> dict[int, Document]:
        """The documents of these rows; rows that are not here are left out."""
        sql = "SELECT row, id, title, text, metadata FROM documents WHERE row IN (SELECT value FROM json_each(?))"
        found = self._query(sql, [json.dumps(list(rows))])
        return {row: Document(id, text, title, json.loads(metadata)) for row, id, title, text, metadata in found}

    def ids(self, rows: Iterable[int]) -> dict[int, str]:
        """The ids of these rows; rows that are not here are left out."""
        sql = "SELECT row, d.id FROM json_each(?) AS wanted JOIN documents AS d ON row = wanted.value"
        return dict(self._query(sql, [json.dumps(list(rows))]))

    def all_ids(self) -> Iterator[tuple[int, str]]:
        """Row and id of every document, by row, for the one thread that fills the table."""
        yield from self._connection.execute("SELECT row, id FROM documents ORDER BY row")

    def rows(self, ids: Sequence[str]) -> list[tuple[str, int]]:
        """Every row of each of these ids, as (id, row) pairs in no particular order."""
        found: list[tuple[str, int]] = []
        for start in range(0, len(ids), _MAX_VARIABLES):
            block = ids[start : start + _MAX_VARIABLES]
            marks = ",".join("?" * len(block))
            found += self._query(f"SELECT id, row FROM documents WHERE id IN ({marks})", block)
        return found

    def matching(self, where: Where) -> NDArray[np.int64]:
        """The rows of the documents whose metadata meet a condition, ascending."""
        found = self._query(f"SELECT row FROM documents WHERE {where.sql} ORDER BY row", where.parameters)
        return np.array([row for (row,) in found], np.int64)

    def _query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            with self._lock:
                return self._connection.execute(sql, parameters).fetchall()
        except sqlite3.DatabaseError as error:
            raise _unreadable(self._path, error) from error


def live_rows(tables: Iterable[DocumentTable], ids: Sequence[str], deleted: Container[int]) -> dict[str, int]:
    """The row of each of these ids that is in one of the tables under a row that is not deleted."""
    return {id: row for table in tables for id, row in table.rows(ids) if row not in deleted}


def document_digest(document: Document) -> int:
    """A 256-bit number for the content of a document.

    The XOR of the digests of a corpus identifies it whatever its order, and follows additions and removals.
    """
    content = [document.id, document.title, document.text, _metadata_json(document)]
    return int.from_bytes(hashlib.sha256(json.dumps(content).encode("ascii")).digest(), "big")


def _metadata_json(document: Document) -> str:
    try:
        return json.dumps(dict(document.metadata), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"document {document.id!r}: its metadata cannot be stored ({error}); expected what JSON can hold: "
            f"text, finite numbers, true, false, null, lists and objects with text keys"
        ) from error


def _unreadable(path: Path, error: sqlite3.Error) -> IndexDamagedError:
    return IndexDamagedError(f"{path}: cannot be read ({error}); {RESTORE}")

"""How often each word comes in each document, in an SQLite database: one word is looked up without reading the rest."""

import sqlite3
import threading
import weakref
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import chain, islice
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.errors import DataError
from aveyb_ir.retrieval.words import WORD_RULE, new_tokenizer

_SCHEMA = """
CREATE TABLE facts (rule TEXT NOT NULL, source TEXT NOT NULL, lengths BLOB NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE words (word TEXT PRIMARY KEY, postings BLOB NOT NULL, checksum INTEGER NOT NULL);
"""
_FORMAT = f"1, {WORD_RULE}"
_BLOCK_DOCUMENTS = 8192


class WordTable:
    """The words of some documents; made by `count` in memory, kept by `save`, read by `open`. Threads may share one.

    What is read of a file is checked against its checksums each time, and DataError raised for what is damaged.

    Attributes:
        lengths: (documents,) int32, words of each document.
    """

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self._connection = connection
        self._name = name
        self._lock = threading.Lock()
        self._close = weakref.finalize(self, connection.close)
        ((self._rule, self.source, lengths, checksum),) = self._query(
            "SELECT rule, source, lengths, checksum FROM facts"
        )
        if checksum != zlib.crc32(lengths):
            raise self._damaged("lengths that are not what was written")
        self.lengths: NDArray[np.int32] = np.frombuffer(lengths, "<i4")

    @classmethod
    def count(cls, texts: Iterable[str], source: str = "") -> "WordTable":
        """Count the words of texts. `source` names them, for whoever opens a saved table."""
        vocabulary, lengths, words, postings = _counted(texts)
        starts = np.searchsorted(words, np.arange(len(vocabulary) + 1))
        connection = sqlite3.connect(":memory:", check_same_thread=False)
        connection.executescript(_SCHEMA)
        content = lengths.tobytes()
        with connection:
            connection.execute("INSERT INTO facts VALUES (?, ?, ?, ?)", (_FORMAT, source, content, zlib.crc32(content)))
            connection.executemany("INSERT INTO words VALUES (?, ?, ?)", _records(vocabulary, starts, postings))
        return cls(connection, "words in memory")

    @classmethod
    def open(cls, path: Path, source: str) -> "WordTable":
        """Read a saved table of this source, in a folder that may be read-only.

        Raises:
            FileNotFoundError: There is none.
            DataError: It cannot be read, or is of another source or of other rules of what a word is.
        """
        path.stat()
        try:
            uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
            connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
            connection.execute("PRAGMA trusted_schema = OFF")  # the file may come from anyone
            table = cls(connection, str(path))
        except (sqlite3.Error, ValueError, TypeError) as error:
            raise DataError(f"{path} cannot be read ({error}); expected counts of words; remove it") from error
        if (table._rule, table.source) != (_FORMAT, source):
            raise DataError(f"{path} counts words of other documents or by other rules; expected {source}; remove it")
        return table

    def save(self, path: Path) -> None:
        """Write the table to a file in a folder that is there, at once. Raises OSError."""
        partial = path.with_name(f"{path.name}.{uuid4().hex}.partial")
        try:
            with self._lock, closing(sqlite3.connect(partial)) as file:
                self._connection.backup(file)
            partial.replace(path)
        except sqlite3.Error as error:
            raise OSError(f"{path} cannot be written ({error})") from error
        finally:
            partial.unlink(missing_ok=True)

    def postings(self, word: str) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Give the documents a word comes in, by position from 0, ascending, and how often it comes in each."""
        found = self._query("SELECT postings, checksum FROM words WHERE word = ?", [word])
        if not found:
            return np.empty(0, np.int32), np.empty(0, np.int32)
        ((content, checksum),) = found
        if checksum != _checksum(word, content):
            raise self._damaged(f"counts of {word!r} that are not what was written")
        documents, counts = np.frombuffer(content, "<i4").reshape(2, -1)
        return documents, counts

    def __len__(self) -> int:
        """How many documents there are."""
        return len(self.lengths)

    def _query(self, sql: str, parameters: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            with self._lock:
                return self._connection.execute(sql, list(parameters)).fetchall()
        except sqlite3.DatabaseError as error:
            raise self._damaged(str(error)) from error

    def _damaged(self, what: str) -> DataError:
        return DataError(f"{self._name}: {what}; expected counts of words; remove the file")


def _counted(
    texts: Iterable[str],
) -> tuple[list[str], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """The vocabulary; words of each document; and by word, then document: word and (document, count) of each pair."""
    tokenizer = new_tokenizer()
    stream = iter(texts)
    lengths: list[NDArray[np.int32]] = [np.empty(0, np.int32)]
    entries: list[NDArray[np.int32]] = [np.empty((3, 0), np.int32)]
    first = 0
    while block := list(islice(stream, _BLOCK_DOCUMENTS)):
        found = list(tokenizer.streaming_tokenize(block, allow_empty=False))
        lengths.append(np.array([len(words) for words in found], np.int32))
        documents = np.repeat(np.arange(first, first + len(block)), lengths[-1])
        words = np.fromiter(chain.from_iterable(found), np.int64, len(documents))
        pairs, counts = np.unique(words << 32 | documents, return_counts=True)
        entries.append(np.stack([pairs >> 32, pairs & 0xFFFFFFFF, counts]).astype(np.int32))
        first += len(block)
    words, *postings = np.concatenate(entries, axis=1)
    order = np.argsort(words, kind="stable")  # documents ascend already
    return list(tokenizer.word_to_id), np.concatenate(lengths), words[order], np.stack(postings)[:, order]


def _records(
    vocabulary: list[str], starts: NDArray[np.int64], postings: NDArray[np.int32]
) -> Iterator[tuple[str, bytes, int]]:
    for number, word in enumerate(vocabulary):
        content = postings[:, starts[number] : starts[number + 1]].astype("<i4").tobytes()
        yield word, content, _checksum(word, content)


def _checksum(word: str, content: bytes) -> int:
    return zlib.crc32(content, zlib.crc32(word.encode("utf-8")))

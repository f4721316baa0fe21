"""Bytes and texts that need not fit into memory."""

import os
import weakref
from array import array
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import IO

from aveyb_ir.errors import DataError

_BUFFER_BYTES = 1 << 20


class DiskRows:
    """Rows of bytes of any length; memory holds 8 bytes of each, which say where it ends.

    They are in a file without a name, so nothing is left of it when its user is gone, however that ends. It is read
    with a call of the system for each row, not mapped: pages that the system keeps do not count as the process's.

    Args:
        folder: on whose disk it is; None: the one for temporary files, which may be small, or memory.

    Raises:
        DataError: the disk cannot be written or is full.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self._folder = folder or gettempdir()
        self._ends = array("q")
        self._unwritten = False
        try:
            self._file = TemporaryFile(dir=folder, buffering=_BUFFER_BYTES)  # noqa: SIM115 - as long as the rows live
        except OSError as error:
            raise self._unwritable(error) from error
        weakref.finalize(self, _close, self._file)

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, row: int) -> bytes:
        if row < 0:
            raise IndexError(f"row is {row}, expected one of {len(self)}, counted from 0")
        if self._unwritten:
            self._write_buffer()
        end, start = self._ends[row], self._ends[row - 1] if row else 0
        return os.pread(self._file.fileno(), end - start, start)

    def append(self, row: bytes) -> None:
        """Add a row at the end."""
        try:
            self._file.write(row)
        except OSError as error:
            raise self._unwritable(error) from error
        self._unwritten = True
        self._ends.append(len(row) + (self._ends[-1] if self._ends else 0))

    def _write_buffer(self) -> None:
        try:
            self._file.flush()
        except OSError as error:
            raise self._unwritable(error) from error
        self._unwritten = False

    def _unwritable(self, error: OSError) -> DataError:
        return DataError(
            f"{self._folder}: cannot keep data there ({error.strerror}), expected a folder on a disk with room for it; "
            "make room, or choose another"
        )


class DiskTexts:
    """Texts kept as `DiskRows` are; any text is read back as it was, half surrogate pairs included."""

    def __init__(self, folder: str | Path | None = None) -> None:
        self._rows = DiskRows(folder)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, row: int) -> str:
        return self._rows[row].decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        return (self[row] for row in range(len(self)))

    def append(self, text: str) -> None:
        """Add a text at the end."""
        self._rows.append(as_bytes(text))


def _close(file: IO[bytes]) -> None:
    with suppress(OSError):  # of rows that nobody can read any more
        file.close()


def as_bytes(text: str) -> bytes:
    """The bytes that a text is kept and compared as."""
    return text.encode("utf-8", "surrogatepass")

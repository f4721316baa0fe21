"""The files of a store of vectors, each there whole or not at all.

    DIR/manifest.json               what made the vectors, and the finished shards; what it does not name does not exist
    DIR/writer.lock                 held with flock by the one process that writes
    DIR/shard-000000.npy            float32 (vectors, dimension)
    DIR/shard-000000.ids.jsonl      one id a line, as JSON strings
    DIR/shard-000000.spans.npy      with chunks: int64 (vectors, 3): position of the document in the shard, start, end

A name ending in `.partial` is being written, or was when its writer died.
"""

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.errors import DataError

_BLOCK_BYTES = 1 << 20
_OWN_NAME = re.compile(r"(?:manifest\.json|shard-\d{6,}(?:\.ids\.jsonl|(?:\.spans)?\.npy))(?:\.partial)?|writer\.lock")


@dataclass(frozen=True)
class StoreLayout:
    """Where the files of a store lie."""

    root: Path

    @property
    def manifest(self) -> Path:
        """The one file that says what belongs to the store."""
        return self.root / "manifest.json"

    def vectors(self, shard: int) -> Path:
        """Array file of a shard's vectors."""
        return self.root / f"shard-{shard:06d}.npy"

    def ids(self, shard: int) -> Path:
        """Ids of a shard's documents."""
        return self.root / f"shard-{shard:06d}.ids.jsonl"

    def spans(self, shard: int) -> Path:
        """Array file of what each vector of a shard stands for."""
        return self.root / f"shard-{shard:06d}.spans.npy"

    def of_shard(self, shard: int, *, with_spans: bool) -> list[Path]:
        """All files of a shard."""
        return [self.vectors(shard), self.ids(shard), *([self.spans(shard)] if with_spans else [])]

    def make(self) -> None:
        """Make the folder. Raises DataError when it holds other files."""
        self.root.mkdir(parents=True, exist_ok=True)
        if foreign := sorted(path.name for path in self.root.iterdir() if not _OWN_NAME.fullmatch(path.name)):
            raise DataError(
                f"{self.root} holds {len(foreign)} other files ({', '.join(foreign[:3])}); expected an encoded corpus, "
                "an empty folder or none: choose another path."
            )

    def remove(self) -> None:
        """Remove the folder and the files that a store puts there."""
        for path in self.root.iterdir():
            path.unlink()
        self.root.rmdir()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Be the only writer. The operating system frees the lock of a process that dies.

        Raises:
            DataError: Another process is writing.
        """
        descriptor = os.open(self.root / "writer.lock", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            self._lock(descriptor)
            yield
        finally:
            os.close(descriptor)

    def _lock(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DataError(
                f"{self.root} is locked: another process is encoding to it; wait until it is done, or choose another "
                "folder."
            ) from error


@contextmanager
def reporting(folder: Path) -> Iterator[None]:
    """Turn what the operating system says into a DataError."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{folder}: writing failed ({error}); expected a folder with room that may be written to. What was "
            "finished is kept: make room and run again, or choose another folder."
        ) from error


def replace_file(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Give a file new content at once and wait until it is on disk."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def sync_names(folder: Path) -> None:
    """Wait until the list of names in a folder is on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_array(path: Path, array: NDArray[Any]) -> None:
    """Write a `.npy` file."""
    replace_file(path, lambda file: np.save(file, array, allow_pickle=False))


def map_array(path: Path, num_rows: int, num_columns: int) -> NDArray[Any]:
    """Map a `.npy` file into memory. Raises DataError unless it is a matrix of that shape."""
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise damaged(path, " ".join(str(error).split())) from error
    if array.shape != (num_rows, num_columns):
        raise damaged(path, f"it has the shape {array.shape}, expected {(num_rows, num_columns)}")
    return array


def write_ids(path: Path, ids: list[str]) -> None:
    """Write ids as JSON strings, one a line."""
    content = "".join(json.dumps(id) + "\n" for id in ids)
    replace_file(path, lambda file: file.write(content.encode("ascii")))


def checksum(path: Path) -> str:
    """BLAKE2b of a file's bytes, 32 hexadecimal digits. Raises OSError."""
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb", buffering=0) as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def check_content(path: Path, expected: str) -> None:
    """Raise DataError unless a file has the checksum that it was written with."""
    try:
        found = checksum(path)
    except OSError as error:
        raise damaged(path, str(error)) from error
    if found != expected:
        raise damaged(path, f"its content has changed since it was written (BLAKE2b {found}, expected {expected})")


def read_ids(path: Path, num: int) -> list[str]:
    """Read what `write_ids` wrote. Raises DataError unless there are `num` ids."""
    try:
        ids: list[str] = [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]
    except (OSError, ValueError) as error:
        raise damaged(path, str(error)) from error
    if len(ids) != num:
        raise damaged(path, f"it has {len(ids)} ids, expected {num}")
    return ids


def damaged(path: Path, what: str) -> DataError:
    """Say that a file of a store is not what was written."""
    return DataError(f"{path}: {what}; remove the folder and encode again.")

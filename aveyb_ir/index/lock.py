"""One writer at a time."""

import fcntl
import os
from pathlib import Path

from aveyb_ir.errors import IndexDirError, IndexLockedError


class WriterLock:
    """An exclusive hold on an index directory, from construction to `release`.

    The operating system drops the hold when the process ends however it ends, so a lock file that lies around is
    harmless. Raises IndexLockedError when another writer holds it, IndexDirError when the directory is read-only.
    """

    def __init__(self, path: Path) -> None:
        if not os.access(path.parent, os.W_OK):
            raise IndexDirError(
                f"{path.parent} is read-only, expected a folder that may be written to: it can be searched; to change "
                f"it, change its permissions or copy it elsewhere"
            )
        self._descriptor = _opened(path)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(self._descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._descriptor)
            raise IndexLockedError(
                f"{path.parent} is locked: process {holder} is writing to it; wait until it is done and try again"
            ) from error
        if not _is_at(self._descriptor, path):
            os.close(self._descriptor)
            raise IndexLockedError(
                f"{path.parent} was being cleaned up by another process, expected it to be free: try again"
            )
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode("ascii"), 0)

    def release(self) -> None:
        """Let the next writer in."""
        os.close(self._descriptor)


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether no one removed the file and perhaps locked another one of its name since it was opened."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False

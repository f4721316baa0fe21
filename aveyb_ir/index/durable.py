"""Files that survive a crash: synced to disk, replaced whole, checked by size, by some pages, and by SHA-256."""

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from aveyb_ir.errors import IndexDamagedError
from aveyb_ir.index.layout import PARTIAL

RESTORE = "restore it from a copy or build the index again"
"""What to do about a damaged file, as the end of a message."""


_PAGES = 32
_PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class FileInfo:
    """Size and checksums of a file when it was published; that of some `pages` is None in indexes of old versions."""

    bytes: int
    sha256: str
    pages: str | None = None

    @classmethod
    def of(cls, path: Path) -> "FileInfo":
        """Measure a file."""
        return cls(bytes=path.stat().st_size, sha256=_sha256(path), pages=_sha256_of_pages(path))

    def check_pages(self, path: Path) -> None:
        """Raise IndexDamagedError unless the file is as long as it was and some of its pages are; fit for every open.

        The pages are spread over the file from its first to its last, and are all of a small one: another file in its
        place is told, not every changed byte.
        """
        self.check_size(path)
        if self.pages is not None and _sha256_of_pages(path) != self.pages:
            raise IndexDamagedError(f"{path}: its content is not what was published; {RESTORE}")

    def check_size(self, path: Path) -> None:
        """Raise IndexDamagedError unless the file is there and as long as it was."""
        try:
            status = path.lstat()
        except FileNotFoundError as error:
            raise IndexDamagedError(f"{path}: the file is missing; {RESTORE}") from error
        if not stat.S_ISREG(status.st_mode):
            raise IndexDamagedError(f"{path}: a link or folder, expected a file; {RESTORE}")
        if status.st_size != self.bytes:
            raise IndexDamagedError(f"{path}: {status.st_size} bytes, expected {self.bytes}; {RESTORE}")

    def check_content(self, path: Path) -> None:
        """Raise IndexDamagedError unless the file is what it was; reads all of it."""
        self.check_size(path)
        if (digest := _sha256(path)) != self.sha256:
            raise IndexDamagedError(f"{path}: SHA-256 {digest}, expected {self.sha256}; {RESTORE}")


def check_folder(path: Path) -> None:
    """Raise IndexDamagedError for a link, which may lead anywhere; what is missing is for its files to say."""
    if path.is_symlink():
        raise IndexDamagedError(f"{path}: a link, expected a folder; {RESTORE}")


def sync(path: Path) -> None:
    """Wait until a file, or the list of names in a folder, is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, content: bytes) -> None:
    """Give a file new content at once: after a crash it has the old content or the new, never a mixture."""
    partial = path.with_name(path.name + PARTIAL)
    partial.unlink(missing_ok=True)
    with partial.open("xb") as file:  # new, so that a link that lies in wait is not followed
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    sync(path.parent)


def _sha256_of_pages(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        last = max(0, path.stat().st_size - _PAGE_BYTES)
        for start in sorted({last * number // (_PAGES - 1) for number in range(_PAGES)}):
            digest.update(os.pread(file.fileno(), _PAGE_BYTES, start))
    return digest.hexdigest()


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()

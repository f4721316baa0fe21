"""What a result was made from, in a short hash."""

import hashlib
from collections.abc import Collection
from pathlib import Path

_READ_BYTES = 1 << 20


def files_hash(path: Path, *, leave_out: Collection[str] = ()) -> str:
    """Hash a file, or names and contents of all files below a folder but those called as in `leave_out`.

    What is neither, such as a Hub name, stands for itself: its text is hashed.
    """
    digest = hashlib.blake2b(digest_size=16)
    if not path.is_dir():
        digest.update(_content_hash(path) if path.is_file() else _bytes_of(path))
    for file in sorted(path.rglob("*")):
        if file.is_file() and file.name not in leave_out:
            digest.update(_bytes_of(file.relative_to(path)) + b"\0" + _content_hash(file))
    return digest.hexdigest()


def _bytes_of(path: Path) -> bytes:
    return path.as_posix().encode("utf-8", "surrogateescape")


def _content_hash(file: Path) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    with file.open("rb") as content:
        while block := content.read(_READ_BYTES):
            digest.update(block)
    return digest.digest()

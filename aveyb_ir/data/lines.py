"""Text files line by line: the bytes every reader and writer of this room agrees on."""

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, cast

from aveyb_ir.data.replacing import replacing
from aveyb_ir.errors import DataError

_UTF8_BOM = b"\xef\xbb\xbf"
_SURROGATE = re.compile("[\ud800-\udfff]")


def read_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Stream the lines of a UTF-8 file that are not blank, each with its number counted from 1.

    A line ends at LF and nowhere else (U+2028 and U+0085 are ordinary characters). A leading byte order mark and the
    CR of Windows line ends are dropped. A name ending in `.gz` is decompressed.

    Raises:
        DataError: the file cannot be opened, a gzip stream is damaged, or a line is not UTF-8.
    """
    path = Path(path)
    try:
        with _open_bytes(path) as file:
            for number, line in enumerate(file, start=1):
                text = _decode(path, number, line)
                if text.strip():
                    yield number, text
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read ({_reason(error)}); expected a text file; check the path") from error


def write_lines(path: str | Path, lines: Iterable[str]) -> None:
    """Write lines as UTF-8 with LF ends; `path` appears, or is replaced, only when all of them are on disk.

    Lone surrogates, which UTF-8 cannot express, become U+FFFD. Missing parent folders are made. A name ending in
    `.gz` is compressed.

    Raises:
        DataError: the file cannot be written, or the name is a folder's, a device's or a pipe's.
    """
    path = Path(path)
    try:
        with replacing(path) as temporary, _open_bytes(temporary, "wb") as file:
            for line in lines:
                file.write(replace_lone_surrogates(line).encode() + b"\n")
    except OSError as error:
        raise DataError(
            f"{path} cannot be written ({_reason(error)}); expected a folder with room; choose another"
        ) from error


def replace_lone_surrogates(text: str) -> str:
    r"""Make text writable: each half of a broken surrogate pair, as JSON's `\ud83d` alone gives, becomes U+FFFD."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def _open_bytes(path: Path, mode: str = "rb") -> IO[bytes]:
    if path.suffix == ".gz":
        return cast("IO[bytes]", gzip.open(path, mode))
    return cast("IO[bytes]", path.open(mode))


def _reason(error: Exception) -> object:
    return getattr(error, "strerror", None) or error


def _decode(path: Path, number: int, line: bytes) -> str:
    if number == 1:
        line = line.removeprefix(_UTF8_BOM)
    try:
        return line.removesuffix(b"\n").removesuffix(b"\r").decode()
    except UnicodeDecodeError as error:
        found = f"byte 0x{line[error.start]:02x} at position {error.start}"
        raise DataError(f"{path} line {number}: {found}; expected UTF-8; convert the file to UTF-8") from error

"""New files take the place of old ones whole, and never that of anything but a file."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from aveyb_ir.errors import DataError


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a name to write to; what is there becomes `path` when the block ends without an error, and else vanishes.

    Missing parent folders are made. A link is followed, as opening its name would.

    Raises:
        DataError: `path` is a folder, a device, a pipe or what this process prints to.
        OSError: the file cannot be written.
    """
    check_replaceable(path)
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{os.getpid()}.{target.name}")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield temporary
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def check_replaceable(path: str | Path) -> None:
    """Raise DataError unless a file may be written to `path`: nothing is there, or a file that nobody prints to.

    Renaming over a device such as /dev/null would put a file in its place for every program of the machine, and the
    shell's `> file` would lose what is printed later.
    """
    path = Path(path)
    if path.is_dir():
        found = "is a folder"
    elif path.exists() and not path.is_file():
        found = "is a device or a pipe"
    elif path.exists() and _is_printed_to(path):
        found = "is where the output of this command goes"
    else:
        return
    raise DataError(f"{path} {found}; expected a file, or a name that is free; choose another")


def _is_printed_to(path: Path) -> bool:
    found = path.stat()
    for descriptor in (1, 2):
        with suppress(OSError):  # a closed one prints nowhere
            if os.path.samestat(found, os.fstat(descriptor)):
                return True
    return False

"""A result folder appears whole or not at all, and never in place of something it should not replace."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

RECORD_FILE = "training.json"
"""Every result folder has it; a folder without it was not written by training and is never replaced."""


def checkpoints_folder(output: Path) -> Path:
    """Where the checkpoints of a run are kept: beside its result, which holds the finished model only."""
    return output.with_name(f"{output.name}.checkpoints")


def check_output(output: Path, *, overwrite: bool, resume: bool) -> None:
    """Refuse, before any work, a run that could not publish its result.

    Raises:
        ValueError: the folder exists and may not be replaced, or there are checkpoints and no word on what to do.
    """
    if output.exists() and not overwrite:
        raise ValueError(f"output {output}: exists, expected a new folder; choose another or pass overwrite=True")
    if output.exists() and not (output / RECORD_FILE).is_file() and (not output.is_dir() or any(output.iterdir())):
        raise ValueError(
            f"output {output}: has no {RECORD_FILE}, expected a folder that training wrote; it is not replaced even "
            "with overwrite=True, choose another"
        )
    checkpoints = checkpoints_folder(output)
    if checkpoints.exists() and not (overwrite or resume):
        raise ValueError(
            f"output {output}: got checkpoints of an earlier run in {checkpoints}, expected none; "
            "pass resume=True to go on from them, or overwrite=True to start again"
        )


def data_folder(output: Path) -> Path:
    """The folder on whose disk a run keeps what does not fit into memory: the nearest around its result that exists."""
    return next(folder for folder in output.absolute().parents if folder.is_dir())


@contextmanager
def published_folder(output: Path) -> Iterator[Path]:
    """A folder to write into, which takes the place of `output` when the block ends without an error."""
    output.parent.mkdir(parents=True, exist_ok=True)
    partial = output.with_name(f".{output.name}.{os.getpid()}.partial")
    replaced = output.with_name(f".{output.name}.{os.getpid()}.replaced")
    partial.mkdir()
    try:
        yield partial
        if output.exists():
            output.rename(replaced)
        try:
            partial.rename(output)
        except OSError:
            if replaced.exists():
                replaced.rename(output)
            raise
        shutil.rmtree(replaced, ignore_errors=True)
    finally:
        shutil.rmtree(partial, ignore_errors=True)

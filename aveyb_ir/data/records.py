"""Records of files, whichever format the end of a name says."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from aveyb_ir.data.jsonl import read_jsonl

_DATA_FILE = re.compile(r".+\.(?:parquet|(?:jsonl|json|tsv)(?:\.gz)?)")
_BLOCK_BYTES = 1 << 20


def is_data_file(name: str) -> bool:
    """Whether a file name ends in one of the formats that this room reads."""
    return bool(_DATA_FILE.fullmatch(name))


def is_tsv(file: Path) -> bool:
    """Whether a file name says that its columns are separated by tabs."""
    return file.name.removesuffix(".gz").endswith(".tsv")


def read_records(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Stream the records of a `.parquet` file, or of JSON Lines, with their row or line numbers, counted from 1.

    Raises:
        DataError: as `read_parquet` and `read_jsonl`.
    """
    if file.suffix != ".parquet":
        return read_jsonl(file)
    from aveyb_ir.data.parquet import read_parquet  # Arrow takes longer to import than most files to read

    return read_parquet(file)


def place(file: Path, number: int) -> str:
    """How a message points at a record: a line of a text file, a row of a Parquet file."""
    return f"{file} {unit(file)} {number}"


def unit(file: Path) -> str:
    """What the numbers of `read_records` count in this file."""
    return "row" if file.suffix == ".parquet" else "line"


def count_records(files: Sequence[Path]) -> int | None:
    """Number of records in files, without parsing them; None if one is compressed or missing.

    Lines are counted, which takes seconds for gigabytes; Parquet files know their number of rows.

    Raises:
        DataError: a Parquet file is damaged.
    """
    counts = [_count(file) for file in files]
    return None if None in counts else sum(count for count in counts if count is not None)


def _count(file: Path) -> int | None:
    if file.suffix == ".gz" or not file.is_file():
        return None
    if file.suffix == ".parquet":
        from aveyb_ir.data.parquet import count_parquet_rows

        return count_parquet_rows(file)
    with file.open("rb") as stream:
        return sum(block.count(b"\n") for block in iter(lambda: stream.read(_BLOCK_BYTES), b""))

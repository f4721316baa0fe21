"""Records of training files. Reading is apart from parsing, so that one bad line does not hide those after it."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from aveyb_ir.data.jsonl import parse_object
from aveyb_ir.data.lines import read_lines
from aveyb_ir.data.pair_fields import has_role
from aveyb_ir.data.records import is_tsv

Parse: TypeAlias = Callable[[], dict[str, Any]]
"""Gives the record; raises ValueError, without saying where, if it is malformed."""


def pair_records(file: Path) -> Iterator[tuple[int, Parse]]:
    """Stream the records of a Parquet, TSV or JSON Lines file, with their row or line numbers, each still to be parsed.

    Lines of a TSV file are texts: an anchor, a positive and any number of negatives, as in MS MARCO's triples, or
    whatever a first line of field names says.

    Raises:
        DataError: the file cannot be read.
    """
    if file.suffix == ".parquet":
        from aveyb_ir.data.parquet import read_parquet

        for row, record in read_parquet(file):
            yield row, partial(dict, record)
    elif is_tsv(file):
        yield from _tsv_records(file)
    else:
        for line, text in read_lines(file):
            yield line, partial(parse_object, text)


def _tsv_records(file: Path) -> Iterator[tuple[int, Parse]]:
    names: Sequence[str] = ()
    for index, (line, text) in enumerate(read_lines(file)):
        columns = text.split("\t")
        if index == 0 and all(has_role(column) for column in columns):
            names = columns
        else:
            yield line, partial(_tsv_record, names, columns)


def _tsv_record(names: Sequence[str], columns: list[str]) -> dict[str, Any]:
    if names and len(columns) != len(names):
        raise ValueError(f"{len(columns)} columns, expected the {len(names)} of the first line, {', '.join(names)}")
    negatives = [f"negative_{number}" for number in range(1, len(columns) - 1)]
    return dict(zip(names or ("anchor", "positive", *negatives), columns, strict=False))

"""Parquet files, a batch of rows at a time, as records of plain Python values."""

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types

from aveyb_ir.errors import DataError

_BATCH_ROWS = 1000
_PANDAS_INDEX = re.compile(r"__index_level_[0-9]+__")

_logger = logging.getLogger(__name__)


def read_parquet(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Stream the rows of a Parquet file as records, with their numbers counted from 1.

    Values are those that JSON can hold: dates and times become ISO text, decimals floats, and a float that is not
    finite becomes None. Columns that hold anything else, such as images, are left out, and a logged warning names
    them. The index that pandas writes is left out too.

    Raises:
        DataError: the file cannot be read as Parquet, or text in it is not UTF-8.
    """
    row = 0
    try:
        # Buffering ahead would keep all that was read in memory until the file is closed.
        with pq.ParquetFile(path, pre_buffer=False) as file:
            columns = _columns(path, file.schema_arrow)
            for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=columns):
                for record in _plain(batch).to_pylist():
                    row += 1
                    yield row, record
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise _unreadable(path, f"after row {row}: {error}" if row else str(error)) from error


def count_parquet_rows(path: str | Path) -> int:
    """Number of rows that a Parquet file says it has, without reading them.

    Raises:
        DataError: the file cannot be read as Parquet.
    """
    try:
        return int(pq.read_metadata(path).num_rows)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, str(error)) from error


def _columns(path: str | Path, schema: pa.Schema) -> list[str]:
    names = [field.name for field in schema if not _PANDAS_INDEX.fullmatch(field.name)]
    usable = [name for name in names if _is_scalar(schema.field(name).type) or _is_nested(schema.field(name).type)]
    if left_out := [name for name in names if name not in usable]:
        _logger.warning("%s: columns left out, since JSON cannot hold their values: %s", path, ", ".join(left_out))
    return usable


def _is_scalar(kind: pa.DataType) -> bool:
    return _is_json(kind) or types.is_decimal(kind) or _is_time(kind)


def _is_nested(kind: pa.DataType) -> bool:
    if types.is_struct(kind):
        return all(_is_json(field.type) or _is_nested(field.type) for field in kind)
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return is_list and (_is_json(kind.value_type) or _is_nested(kind.value_type))


def _is_json(kind: pa.DataType) -> bool:
    kind = kind.value_type if types.is_dictionary(kind) else kind
    tests = (types.is_string, types.is_large_string, types.is_string_view, types.is_boolean, types.is_null)
    return bool(types.is_integer(kind) or types.is_floating(kind)) or any(test(kind) for test in tests)


def _is_time(kind: pa.DataType) -> bool:
    return bool(types.is_timestamp(kind) or types.is_date(kind) or types.is_time(kind))


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([_plain_column(column) for column in batch.columns], names=batch.schema.names)


def _plain_column(column: pa.Array) -> pa.Array:
    if _is_time(column.type):
        return column.cast(pa.string())
    if types.is_decimal(column.type) or types.is_floating(column.type):
        column = column.cast(pa.float64())
        return pc.if_else(pc.is_finite(column), column, None)
    return column


def _unreadable(path: str | Path, reason: str) -> DataError:
    first_line = (reason.splitlines() or ["unknown"])[0]
    return DataError(f"{path} cannot be read ({first_line}); expected a Parquet file; check it, or fetch it again")

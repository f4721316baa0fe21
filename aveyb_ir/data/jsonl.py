"""JSON Lines: one JSON object a line."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from aveyb_ir.data.lines import read_lines, replace_lone_surrogates, write_lines
from aveyb_ir.errors import DataError

_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def read_jsonl(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Stream the objects of a JSON Lines file with their line numbers; `read_lines` says how lines are found.

    Lone surrogates in strings become U+FFFD, so that whatever was read can be written again.

    Raises:
        DataError: as `read_lines`, or a line is not a JSON object; the message names file and line.
    """
    for line, text in read_lines(path):
        try:
            yield line, parse_object(text)
        except ValueError as problem:
            raise DataError(f"{path} line {line}: {problem}; mend or remove the line") from problem


def write_jsonl(path: str | Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write one JSON object a line, as `write_lines` writes; non-ASCII characters stay readable."""
    write_lines(path, (json.dumps(record, ensure_ascii=False) for record in records))


def parse_object(text: str, *, unique: bool = False) -> dict[str, Any]:
    """Read one JSON object, in which with `unique` no key may come twice; else the last one counts, as in Python.

    Raises:
        ValueError: with what was found, for the caller to complete with file and line.
        DataError: a key that comes twice.
    """
    try:
        value = json.loads(text, object_pairs_hook=_unique_keys if unique else None)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg}, character {error.pos + 1}); expected an object {{...}}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"JSON out of bounds ({error}); expected an object {{...}}") from error
    if not isinstance(value, dict):
        raise ValueError(f"a JSON {type(value).__name__}; expected an object {{...}}")
    return _without_surrogates(value) if _SURROGATE_ESCAPE.search(text) else value


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise DataError(f"key {key!r:.60} comes twice in one object; expected it once; remove or rename one")
        found[key] = value
    return found


def _without_surrogates(value: dict[str, Any]) -> dict[str, Any]:
    # json.loads has joined the valid pairs, so what is left of surrogates stands alone.
    mended: dict[str, Any] = json.loads(replace_lone_surrogates(json.dumps(value, ensure_ascii=False)))
    return mended

"""Training rows: an anchor, the texts that answer it, and texts that look as if they did."""

import logging
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aveyb_ir.data.jsonl import parse_object
from aveyb_ir.data.lines import read_lines
from aveyb_ir.data.wording import listed
from aveyb_ir.errors import DataError

_ANCHORS = ("anchor", "query", "question", "sentence1")
_POSITIVES = ("positive", "positives", "pos", "answer", "answers", "passage", "sentence2")
_NEGATIVES = ("negative", "negatives", "neg")
_NUMBERED_NEGATIVE = re.compile(r"negative_([0-9]+)")
_MAX_LISTED_PROBLEMS = 50

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """One lesson: `anchor` belongs with every one of `positives` and with none of `negatives`.

    There is at least one positive; no text is empty. `line` is where the row was read, 0 if it comes from no line.
    """

    anchor: str
    positives: tuple[str, ...]
    negatives: tuple[str, ...] = ()
    line: int = 0


class _EmptyAnchorError(ValueError):
    """A row that teaches nothing but harms nothing either."""


def read_training_rows(path: str | Path) -> list[TrainingRow]:
    """Read training rows from JSON Lines, taking fields by name, whatever their order.

    | role      | accepted names                                                          | value               |
    |-----------|-------------------------------------------------------------------------|---------------------|
    | anchor    | anchor, query, question, sentence1                                      | text                |
    | positives | positive, positives, pos, answer, answers, passage, sentence2           | text or list        |
    | negatives | negative, negatives, neg, and any number of negative_1, negative_2, ... | text, list or null  |

    Other fields are not used; a logged warning names them. Rows with an empty anchor are left out with a warning. A
    negative that is, to the letter, a positive of its own row or of another row with the same anchor is dropped with a
    warning, since training on it would push the right answer away.

    Raises:
        DataError: rows are malformed (one error for all of them, with their lines), or no row is left.
    """
    rows: list[TrainingRow] = []
    problems: list[str] = []
    empty: list[int] = []
    unused: set[str] = set()
    for line, text in read_lines(path):
        try:
            record = parse_object(text)
            rows.append(_row(record, line))
            unused.update(name for name in record if not _has_role(name))
        except _EmptyAnchorError:
            empty.append(line)
        except ValueError as problem:
            problems.append(f"line {line}: {problem}")
    if empty:
        _logger.warning("%s: left out rows with an empty anchor, lines %s", path, listed(empty))
    if problems:
        found = listed(problems, limit=_MAX_LISTED_PROBLEMS, separator="; ")
        raise DataError(f"{path} has {len(problems)} unusable rows; mend or remove them: {found}")
    if unused:
        _logger.warning("%s: fields not used: %s", path, listed(sorted(unused)))
    if not rows:
        raise DataError(f"{path} holds no training row; expected an anchor and a positive a line; check the file")
    return _without_false_negatives(path, rows)


def _has_role(name: str) -> bool:
    return name in (*_ANCHORS, *_POSITIVES, *_NEGATIVES) or bool(_NUMBERED_NEGATIVE.fullmatch(name))


def _row(record: dict[str, Any], line: int) -> TrainingRow:
    anchor_field = _only_field(record, _ANCHORS, "anchor")
    positive_field = _only_field(record, _POSITIVES, "positive")
    anchor = record[anchor_field]
    if not isinstance(anchor, str):
        raise ValueError(f"{anchor_field} is {_shown(anchor)}, expected a text")
    positives = _texts(record[positive_field], positive_field)
    negatives = [text for name in _negative_fields(record) for text in _texts(record[name], name, optional=True)]
    if not anchor.strip():
        raise _EmptyAnchorError
    return TrainingRow(anchor, _unique(positives), _unique(negatives), line)


def _only_field(record: dict[str, Any], names: tuple[str, ...], role: str) -> str:
    present = [name for name in names if name in record]
    if len(present) == 1:
        return present[0]
    if present:
        raise ValueError(f"{' and '.join(present)} both give the {role}, expected one of them")
    raise ValueError(f"no {role} among fields {', '.join(record) or 'none'}, expected one of {', '.join(names)}")


def _negative_fields(record: dict[str, Any]) -> list[str]:
    numbered = {name: int(match[1]) for name in record if (match := _NUMBERED_NEGATIVE.fullmatch(name))}
    return [name for name in _NEGATIVES if name in record] + sorted(numbered, key=numbered.__getitem__)


def _texts(value: object, name: str, optional: bool = False) -> list[str]:
    if optional and (value is None or value == []):
        return []
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts:
        raise ValueError(f"{name} is {_shown(value)}, expected a text or a list of texts")
    for text in texts:
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"{name} holds {_shown(text)}, expected a text that is not empty")
    return texts


def _shown(value: object) -> str:
    return "null" if value is None else f"{value!r:.40}"


def _unique(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def _without_false_negatives(path: str | Path, rows: list[TrainingRow]) -> list[TrainingRow]:
    positives_of: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        positives_of[row.anchor].update(row.positives)
    kept = [
        replace(row, negatives=tuple(text for text in row.negatives if text not in positives_of[row.anchor]))
        for row in rows
    ]
    changed = [row.line for row, new in zip(rows, kept, strict=True) if row.negatives != new.negatives]
    if changed:
        _logger.warning("%s: dropped negatives that are positives of their anchor, lines %s", path, listed(changed))
    return kept

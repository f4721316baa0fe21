"""One record of training data, in whichever fields its makers chose, as a training row."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aveyb_ir.data.documents import Document
from aveyb_ir.data.wording import listed

POSITIVE_PASSAGES = "positive_passages"
NEGATIVE_PASSAGES = "negative_passages"
_ANCHORS = ("anchor", "query", "question", "sentence1", "query_text")
_POSITIVES = ("positive", "positives", "pos", "answer", "answers", "passage", "sentence2")
_NEGATIVES = ("negative", "negatives", "neg", NEGATIVE_PASSAGES)
_SCORES = ("score", "scores", "label", "labels")
_POSITIVE_SCORES = "pos_scores"
_NEGATIVE_SCORES = "neg_scores"
_NUMBERED_NEGATIVE = re.compile(r"negative_([0-9]+)")


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """One lesson: `anchor` belongs with every one of `positives` and with none of `negatives`.

    There is at least one positive; no text is empty. `line` is where the row was read, 0 if it comes from no line.
    Where a teacher has scored the texts, `positive_scores` and `negative_scores` hold a score for each text, in the
    same order; either is empty where it has not. Only differences between the scores of a row have a meaning.
    """

    anchor: str
    positives: tuple[str, ...]
    negatives: tuple[str, ...] = ()
    line: int = 0
    positive_scores: tuple[float, ...] = ()
    negative_scores: tuple[float, ...] = ()


class LeftOutError(ValueError):
    """A row that teaches nothing but harms nothing either; the message completes "left out rows ..."."""


def training_row(record: Mapping[str, Any], line: int) -> TrainingRow:
    """Make a row of a record, by the names of its fields, which `read_training_rows` lists.

    Raises:
        LeftOutError: the anchor is empty, or the label says that the two texts do not belong together.
        ValueError: a field is missing, given twice, or not of its kind.
    """
    anchor_field = _only_field(record, _ANCHORS, "anchor")
    # Beside passages, `answers` are there to judge other texts by.
    positive_names = (POSITIVE_PASSAGES,) if POSITIVE_PASSAGES in record else _POSITIVES
    positive_field = _only_field(record, positive_names, "positive")
    anchor = record[anchor_field]
    if not isinstance(anchor, str):
        raise ValueError(f"{anchor_field} is {_shown(anchor)}, expected a text")
    positives = _texts(record[positive_field], positive_field)
    fields = _negative_fields(record)
    negatives = [text for name in fields for text in _texts(record[name], name, optional=True)]
    positive_scores, negative_scores = _scores(record, len(positives), len(negatives))
    if not anchor.strip():
        raise LeftOutError("with an empty anchor")
    positives_kept, negatives_kept = _first_places(positives), _first_places(negatives)
    return TrainingRow(
        anchor,
        pick(positives, positives_kept),
        pick(negatives, negatives_kept),
        line,
        pick(positive_scores, positives_kept),
        pick(negative_scores, negatives_kept),
    )


def has_role(name: str) -> bool:
    """Whether a field of this name is used."""
    known = (*_ANCHORS, *_POSITIVES, POSITIVE_PASSAGES, *_NEGATIVES, *_SCORES, _POSITIVE_SCORES, _NEGATIVE_SCORES)
    return name in known or bool(_NUMBERED_NEGATIVE.fullmatch(name))


def pick(items: Sequence[Any], places: Sequence[int]) -> tuple[Any, ...]:
    """The items at some places; no items have none."""
    return tuple(items[place] for place in places) if items else ()


def _only_field(record: Mapping[str, Any], names: Sequence[str], role: str) -> str:
    present = [name for name in names if name in record]
    if len(present) == 1:
        return present[0]
    if present:
        raise ValueError(f"{' and '.join(present)} both give the {role}, expected one of them")
    raise ValueError(f"no {role} among fields {listed(record) or 'none'}, expected one of {', '.join(names)}")


def _negative_fields(record: Mapping[str, Any]) -> list[str]:
    numbered = {name: int(match[1]) for name in record if (match := _NUMBERED_NEGATIVE.fullmatch(name))}
    return [name for name in _NEGATIVES if name in record] + sorted(numbered, key=numbered.__getitem__)


def _texts(value: object, name: str, optional: bool = False) -> list[str]:
    if optional and (value is None or value == []):
        return []
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not items:
        raise ValueError(f"{name} is {_shown(value)}, expected a text or a list of texts")
    return [_text(item, name) for item in items]


def _text(item: object, name: str) -> str:
    """A text, or what an encoder reads of a passage with `text` and, perhaps, `title`."""
    text: object = item
    if isinstance(item, dict) and isinstance(item.get("text"), str) and isinstance(item.get("title"), str | None):
        text = Document("", item["text"], item.get("title") or "").full_text
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{name} holds {_shown(item)}, expected a text that is not empty")
    return text


def _scores(record: Mapping[str, Any], num_positives: int, num_negatives: int) -> tuple[list[float], list[float]]:
    """Scores of the positives and of the negatives, where the record has them."""
    given = [name for name in _SCORES if record.get(name) is not None]
    apart = [name for name in (_POSITIVE_SCORES, _NEGATIVE_SCORES) if record.get(name)]
    if len(given) > 1 or (given and apart):
        raise ValueError(f"{' and '.join(given + apart)} both give scores, expected one of them")
    if not given:
        return (
            _numbers(record.get(_POSITIVE_SCORES), _POSITIVE_SCORES, num_positives),
            _numbers(record.get(_NEGATIVE_SCORES), _NEGATIVE_SCORES, num_negatives),
        )
    (name,) = given
    value = record[name]
    if not isinstance(value, list):
        if num_negatives == 0:
            _check_pair_label(value, name)
            return [], []
        value = [value]
    if len(value) == num_positives + num_negatives:
        numbers = _numbers(value, name, len(value))
        return numbers[:num_positives], numbers[num_positives:]
    if num_positives == 1 and len(value) == num_negatives:
        return [0.0], [-margin for margin in _numbers(value, name, num_negatives)]
    raise ValueError(
        f"{name} holds {len(value)} values, expected one for each of {num_positives} positives and {num_negatives} "
        "negatives, or how far the only positive is above each negative"
    )


def _check_pair_label(value: object, name: str) -> None:
    """Training is on texts that belong together, so a pair's label can only say that these do or do not."""
    if value not in (0, 1):
        raise ValueError(f"{name} is {_shown(value)}, expected 1 or 0; choose which grades make a pair")
    if value == 0:
        raise LeftOutError("whose label 0 says that the texts do not belong together")


def _numbers(value: object, name: str, count: int) -> list[float]:
    if value is None or value == []:
        return []
    if not isinstance(value, list) or len(value) != count:
        raise ValueError(f"{name} is {_shown(value)}, expected a list of {count} numbers, one for each text")
    for number in value:
        if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
            raise ValueError(f"{name} holds {_shown(number)}, expected a finite number")
    return [float(number) for number in value]


def _shown(value: object) -> str:
    return "null" if value is None else f"{value!r:.40}"


def _first_places(texts: Sequence[str]) -> list[int]:
    first: dict[str, int] = {}
    for place, text in enumerate(texts):
        first.setdefault(text, place)
    return list(first.values())

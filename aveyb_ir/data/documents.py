"""The two things every corpus is made of: documents and queries."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_UNUSABLE = re.compile("[\n\r\0\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Document:
    """A text that can be found, under an external string id.

    `metadata` holds whatever else the corpus says about the document; it must be expressible as JSON to be stored.
    """

    id: str
    text: str
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def full_text(self) -> str:
        """The text an encoder reads: title and text joined with one space, as BEIR does; either may be empty."""
        return f"{self.title} {self.text}".strip()


@dataclass(frozen=True, slots=True)
class Query:
    """A question or search text, under an external string id."""

    id: str
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)


def check_id(value: object) -> str:
    """Return `value` if it can be an id everywhere: in TSV and TREC files and inside trec_eval, which is C.

    Raises:
        ValueError: it is not a string, is empty, or holds a line break, a NUL or half of a surrogate pair.
    """
    if not isinstance(value, str):
        raise ValueError(f"id {value!r:.60} is {type(value).__name__}; expected a string; convert it with str()")
    if not value:
        raise ValueError("an id is empty; expected at least one character")
    if _UNUSABLE.search(value):
        raise ValueError(f"id {value!r:.60} holds a line break, a NUL or a lone surrogate; remove that character")
    return value


def as_id(value: object) -> str:
    """Return the id that a value in a data file stands for: itself, or a whole number in digits.

    Raises:
        ValueError: as `check_id`.
    """
    return check_id(str(value) if type(value) is int else value)

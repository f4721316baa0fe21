"""The two things every corpus is made of: documents and queries."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


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

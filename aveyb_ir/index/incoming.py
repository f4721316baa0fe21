"""What a writer is given, checked: documents, each once, and the parts of them that vectors stand for."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.data import Document
from aveyb_ir.errors import DataError
from aveyb_ir.index.nearest import PART

Spans = Sequence[Sequence[tuple[int, int] | None]]
"""For each document its parts, as (start, end) characters of its `full_text`, or None for all of it."""


def checked_parts(first_row: int, documents: Sequence[Document], spans: Spans | None) -> NDArray[np.void]:
    """What the vectors of documents in rows from `first_row` on stand for: a PART for each vector, in order.

    Raises ValueError for spans that are not those of the documents' full texts.
    """
    if spans is None:
        return np.array([(first_row + i, -1, -1) for i in range(len(documents))], PART)
    if len(spans) != len(documents):
        raise ValueError(f"spans for {len(spans)} documents, expected {len(documents)}: one list for each document")
    for document, parts in zip(documents, spans, strict=True):
        length = len(document.full_text)
        if not parts or any(part is not None and not 0 <= part[0] <= part[1] <= length for part in parts):
            raise ValueError(
                f"document {document.id!r}: spans {list(parts)[:5]}, expected at least one, each (start, end) "
                f"within the {length} characters of its full_text, or None"
            )
    return np.array([(first_row + i, *(span or (-1, -1))) for i, parts in enumerate(spans) for span in parts], PART)


def check_documents(documents: Sequence[Document]) -> None:
    """Raise DataError for an id that comes twice or is empty, and for what is not text that UTF-8 can hold."""
    seen: set[str] = set()
    for document in documents:
        for name, text in (("id", document.id), ("title", document.title), ("text", document.text)):
            if not isinstance(text, str) or not _is_utf8(text):
                raise DataError(
                    f"document {document.id!r:.60}: its {name} is {text!r:.60}, expected text without lone surrogates: "
                    f"give a string that can be written as UTF-8"
                )
        if not document.id:
            raise DataError(f"document with text {document.text!r:.60}: its id is empty, expected a name: give it one")
        if document.id in seen:
            raise DataError(f"document {document.id!r} comes twice, expected unique ids: leave one out")
        seen.add(document.id)


def _is_utf8(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True

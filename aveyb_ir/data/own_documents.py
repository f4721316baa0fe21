"""What becomes of the document that is the query itself, where queries are documents too, as in ArguAna."""

from typing import Literal, TypeAlias, get_args

from aveyb_ir.data.documents import Document

OwnDocument: TypeAlias = Literal["auto", "ignore", "keep"]


def check_own_document(rule: str) -> None:
    """Raise ValueError unless there is such a rule."""
    if rule not in get_args(OwnDocument):
        raise ValueError(f"own_document {rule!r}; expected one of {', '.join(get_args(OwnDocument))}; choose one")


def is_own_document(query: str, document: Document, rule: OwnDocument) -> bool:
    """Say whether a document that has the id of a query may not be a hit of it.

    With "ignore" none may, with "keep" all may; with "auto" one may unless it also has the query's own text, since some
    collections merely number queries and documents alike (as Cranfield does).
    """
    if rule != "auto":
        return rule == "ignore"
    own, text, full_text = (" ".join(t.split()).casefold() for t in (query, document.text, document.full_text))
    return bool(own) and own in (text, full_text)

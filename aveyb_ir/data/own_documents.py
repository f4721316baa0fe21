"""What becomes of the document that is the query itself, where queries are documents too, as in ArguAna."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypeAlias, get_args

from aveyb_ir.data.documents import Document

OwnDocument: TypeAlias = Literal["auto", "ignore", "keep"]


def check_own_document(rule: str) -> None:
    """Raise ValueError unless there is such a rule."""
    if rule not in get_args(OwnDocument):
        raise ValueError(f"own_document {rule!r}; expected one of {', '.join(get_args(OwnDocument))}; choose one")


class OwnDocuments:
    """Finds the documents that may not be a hit of the query with their id.

    With the rule "ignore" none of them may, with "keep" all may; with "auto" a document may unless it also has the
    query's own text, since some collections merely number queries and documents alike (as Cranfield does).

    Args:
        queries: Texts by query id.
        rule: Which.

    Attributes:
        ids: Of those found so far.

    Raises:
        ValueError: There is no such rule.
    """

    def __init__(self, queries: Mapping[str, str], rule: OwnDocument) -> None:
        check_own_document(rule)
        self._queries = queries
        self._rule = rule
        self.ids: set[str] = set()

    def note(self, document: Document) -> bool:
        """Say whether this is one, and keep its id."""
        query = self._queries.get(document.id)
        own = query is not None and self._rule != "keep" and (self._rule == "ignore" or _same_text(query, document))
        if own:
            self.ids.add(document.id)
        return own

    def watch(self, documents: Iterable[Document]) -> Iterator[Document]:
        """Pass documents on and note each."""
        for document in documents:
            self.note(document)
            yield document


def _same_text(query: str, document: Document) -> bool:
    own, text, full_text = (" ".join(t.split()).casefold() for t in (query, document.text, document.full_text))
    return bool(own) and own in (text, full_text)

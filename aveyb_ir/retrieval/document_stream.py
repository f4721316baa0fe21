"""A corpus as it comes to be indexed: a stream of documents, each once, in blocks."""

import os
from collections.abc import Collection, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

from aveyb_ir.data import Document, read_documents
from aveyb_ir.data.seen_ids import SeenIds
from aveyb_ir.errors import DataError
from aveyb_ir.index import check_documents

# Documents read ahead so that texts of like length meet in a batch; memory holds one block.
BLOCK_DOCUMENTS = 4096
BLOCK_CHARACTERS = 4_000_000


def stream_of(documents: Iterable[Document] | str | os.PathLike[str]) -> Iterator[Document]:
    """Read a corpus, once and in its order. Raises DataError for what is broken, or an id that comes twice."""
    if isinstance(documents, (str, os.PathLike)):
        return read_documents(Path(documents))
    return _each_once(documents)


def _each_once(documents: Iterable[Document]) -> Iterator[Document]:
    """Documents that an index can take, each once: what is wrong with one is found before its block is encoded."""
    seen = SeenIds()
    for document in documents:
        check_documents([document])
        if seen.add(document.id):
            raise DataError(f"document {document.id!r} comes twice, expected unique ids: leave one out")
        yield document


def blocks_of(first: Document, rest: Iterator[Document]) -> Iterator[list[Document]]:
    """Cut a stream, of which the first document is read already, into what is encoded together."""
    block, characters = [first], len(first.text)
    for document in rest:
        if len(block) >= BLOCK_DOCUMENTS or characters >= BLOCK_CHARACTERS:
            yield block
            block, characters = [], 0
        block.append(document)
        characters += len(document.text)
    yield block


def enough_of(
    first: Document, rest: Iterator[Document], needed: int, spec: str, documents: object
) -> Iterator[Document]:
    """The documents after the first, once there are known to be enough to train the spec. Raises ValueError."""
    ahead: list[Document] = []
    if isinstance(documents, Collection) and not isinstance(documents, str):
        num = len(documents)
    elif isinstance(documents, (str, os.PathLike)):
        num = sum(1 for _ in islice(stream_of(documents), needed))  # read twice rather than kept in memory
    else:
        ahead = list(islice(rest, needed - 1))
        num = 1 + len(ahead)
    if num < needed:
        raise ValueError(
            f"spec {spec!r} takes at least {needed} vectors to train; {shown(documents)} has {num} documents. "
            "Use flat, or another spec."
        )
    return chain(ahead, rest)


def shown(documents: object) -> str:
    """How a message calls a corpus."""
    return os.fspath(documents) if isinstance(documents, (str, os.PathLike)) else "The iterable of documents"

"""Texts of a corpus that is streamed: compared by a number of 64 bits each, and kept only where they are needed."""

import hashlib
from collections.abc import Collection, Iterable
from typing import NamedTuple

from aveyb_ir.data import Document


class CorpusKeys(NamedTuple):
    """What is kept of a corpus that has been read through.

    `of` holds the keys of a document's full text and of its text without title, by id; `sha256` is about the ids and
    texts of all documents.
    """

    of: dict[str, tuple[int, int]]
    num_documents: int
    sha256: str


def text_key(text: str) -> int:
    """Give texts that differ only in case and white space the same number."""
    plain = " ".join(text.split()).casefold().encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(plain, digest_size=8).digest(), "big")


def keys_of(documents: Iterable[Document], ids: Collection[str]) -> CorpusKeys:
    """Read a corpus and give the keys of these documents, without those that have no text."""
    keys: dict[str, tuple[int, int]] = {}
    digest = hashlib.sha256()
    num_documents = 0
    for document in documents:
        num_documents += 1
        for part in (document.id, document.title, document.text):
            data = part.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "little") + data)
        if document.id in ids and document.full_text:
            keys[document.id] = (text_key(document.full_text), text_key(document.text))
    return CorpusKeys(keys, num_documents, digest.hexdigest())


def texts_of(documents: Iterable[Document], ids: Collection[str]) -> dict[str, str]:
    """Give the full texts of these documents."""
    return {document.id: document.full_text for document in documents if document.id in ids}

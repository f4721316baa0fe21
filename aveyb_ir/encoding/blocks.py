"""A stream of documents in blocks that fit into memory, each with a hash of everything up to its end."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from aveyb_ir.data import Document


@dataclass(frozen=True)
class Block:
    """Documents that are encoded together and become one shard.

    Attributes:
        number: Position among the blocks, from 0.
        documents: At least one.
        corpus_hash: Of the ids and texts of all documents from the first block to the end of this one.
    """

    number: int
    documents: list[Document]
    corpus_hash: str

    @cached_property
    def texts(self) -> list[str]:
        """What the encoder reads of each document."""
        return [document.full_text for document in self.documents]


def read_blocks(documents: Iterable[Document], *, max_documents: int, max_characters: int) -> Iterator[Block]:
    """Cut a stream into blocks: one ends with the document that reaches either bound."""
    corpus_hash = ""
    for number, block in enumerate(_cut(documents, max_documents, max_characters)):
        corpus_hash = _chained(corpus_hash, block)
        yield Block(number, block, corpus_hash)


def _cut(documents: Iterable[Document], max_documents: int, max_characters: int) -> Iterator[list[Document]]:
    block: list[Document] = []
    num_characters = 0
    for document in documents:
        block.append(document)
        num_characters += len(document.full_text)
        if len(block) >= max_documents or num_characters >= max_characters:
            yield block
            block, num_characters = [], 0
    if block:
        yield block


def _chained(previous: str, documents: list[Document]) -> str:
    digest = hashlib.blake2b(previous.encode("ascii"), digest_size=16)
    for document in documents:
        for text in (document.id, document.full_text):
            data = text.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "little"))
            digest.update(data)
    return digest.hexdigest()

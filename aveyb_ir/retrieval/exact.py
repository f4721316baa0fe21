"""Exact search of a corpus that is read once: a block of it and the best hits so far are all that is in memory."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.data import Document, OwnDocument, OwnDocuments, Run
from aveyb_ir.encoding import Encoder
from aveyb_ir.errors import DataError
from aveyb_ir.index import checked_top_k, inner_products
from aveyb_ir.retrieval.best_hits import BestHits

EncodedBlock = tuple[Sequence[Document], NDArray[np.float32]]
"""Documents and their vectors, (documents, d)."""

_BLOCK_DOCUMENTS = 4096
_BLOCK_QUERIES = 1024


@dataclass(frozen=True)
class Answers:
    """What a system answered to a set of queries.

    Attributes:
        run: Ids and scores of each query's hits, best first.
        num_documents: How many documents were searched.
        own_documents_ignored: How many documents were kept from the query with their id.
    """

    run: Run
    num_documents: int
    own_documents_ignored: int = 0


def exact_search(
    encoder: Encoder,
    documents: Iterable[Document],
    queries: Mapping[str, str],
    *,
    top_k: int,
    own_document: OwnDocument = "auto",
    progress: Callable[[int], None] | None = None,
) -> Answers:
    """Score every document for every query and keep the best.

    Args:
        encoder: Encodes both.
        documents: Any iterable, read once.
        queries: Texts by query id.
        top_k: Hits kept per query.
        own_document: Whether the document with the query's own id may be a hit; see `aveyb_ir.data.OwnDocuments`.
        progress: Called with the number of documents after each block.

    Returns:
        Hits in the order of an index: by score, of equal scores the earlier document first. A score is a float64
        sum rounded to float32, the same in whatever block it was computed.

    Raises:
        DataError: The encoder gave a vector that holds NaN or infinity.
        ValueError: `top_k` is no whole number from 1, or there is no such rule.
    """
    top_k = checked_top_k(top_k)
    blocks = (
        (block, encoder.encode_documents([document.full_text for document in block])) for block in _blocks(documents)
    )
    vectors = encoder.encode_queries(list(queries.values()))
    return search_vectors(vectors, blocks, queries, top_k=top_k, own_document=own_document, progress=progress)


def search_vectors(
    query_vectors: NDArray[np.float32],
    blocks: Iterable[EncodedBlock],
    queries: Mapping[str, str],
    *,
    top_k: int,
    own_document: OwnDocument = "auto",
    progress: Callable[[int], None] | None = None,
) -> Answers:
    """Do what `exact_search` does where all is encoded already: vectors of the queries in their order, (queries, d)."""
    top_k = checked_top_k(top_k)
    own_documents = OwnDocuments(queries, own_document)
    ids = list(queries)
    row_of = {id: row for row, id in enumerate(ids)}
    query_vectors = _checked(query_vectors, ids)
    groups = [
        _Group(start, query_vectors[start : start + _BLOCK_QUERIES], top_k)
        for start in range(0, len(ids), _BLOCK_QUERIES)
    ]
    document_ids: list[str] = []
    for block, vectors in blocks:
        vectors = _checked(vectors, [document.id for document in block])
        own = {row_of[document.id]: column for column, document in enumerate(block) if own_documents.note(document)}
        for group in groups:
            group.search(vectors, len(document_ids), own)
        document_ids += (document.id for document in block)
        if progress is not None:
            progress(len(block))
    run = {}
    for group in groups:
        for row in range(len(group)):
            positions, scores = group.best.of(row)
            hits = (document_ids[position] for position in positions.tolist())
            run[ids[group.start + row]] = dict(zip(hits, scores.tolist(), strict=True))
    return Answers(run, len(document_ids), len(own_documents.ids))


class _Group:
    """Queries that are searched for at once, and what was found for them."""

    def __init__(self, start: int, queries: NDArray[np.float32], top_k: int) -> None:
        self.start = start
        self.best = BestHits(len(queries), top_k)
        self._queries = queries
        self._length = float(np.linalg.norm(queries, axis=1).max())
        self._top_k = top_k

    def __len__(self) -> int:
        return len(self._queries)

    def search(self, vectors: NDArray[np.float32], first_position: int, own: Mapping[int, int]) -> None:
        """Take in a block of document vectors; `own` maps rows of all queries to columns that are no hits of them."""
        near = self._queries @ vectors.T
        for row, column in own.items():
            if self.start <= row < self.start + len(self):
                near[row - self.start, column] = -np.inf
        floor = self.best.least
        if near.shape[1] > self._top_k:
            at = near.shape[1] - self._top_k
            floor = np.maximum(floor, np.partition(near, at, axis=1)[:, at])
        # Twice what a float32 inner product can be off, in whatever order it is added up.
        margin = (vectors.shape[1] + 1) * 2.0**-23 * self._length * float(np.linalg.norm(vectors, axis=1).max())
        rows, columns = np.nonzero((near >= floor[:, None] - np.float32(margin)) & (near > -np.inf))
        self.best.add(rows, columns + first_position, inner_products(self._queries, rows, vectors, columns))


def _checked(vectors: NDArray[np.float32], ids: Sequence[str]) -> NDArray[np.float32]:
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        raise DataError(
            f"{ids[int(np.argmin(finite))]!r}: its vector holds NaN or infinity; expected finite float32 numbers; "
            "look at its text and at the encoder's precision"
        )
    return vectors


def _blocks(documents: Iterable[Document]) -> Iterator[list[Document]]:
    stream = iter(documents)
    while block := list(islice(stream, _BLOCK_DOCUMENTS)):
        yield block

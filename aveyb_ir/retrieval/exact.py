"""Exact search of a corpus that is read once and kept nowhere: the best hits so far are all that stays in memory."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.data import Document, Run
from aveyb_ir.encoding import Encoder

OwnDocument = Literal["auto", "ignore", "keep"]

_BLOCK_DOCUMENTS = 4096


def exact_search(
    encoder: Encoder,
    documents: Iterable[Document],
    queries: Mapping[str, str],
    *,
    top_k: int,
    own_document: OwnDocument = "auto",
    progress: Callable[[int], None] | None = None,
) -> tuple[Run, int]:
    """Score every document for every query and keep the best.

    Args:
        encoder: Encodes both.
        documents: Any iterable, read once.
        queries: Texts by query id.
        top_k: Hits kept per query.
        own_document: Whether the document with the query's own id may be a hit. "ignore" never, "keep" always; "auto":
            not if it also has the query's own text (as in ArguAna), since some collections merely number queries and
            documents alike (as Cranfield does).
        progress: Called with the number of documents after each block.

    Returns:
        The run, and how many own documents were ignored. Where equal scores meet the end of a list, the earlier
        document stays.

    Raises:
        ValueError: `top_k` is below 1.
    """
    if top_k < 1:
        raise ValueError(f"top_k is {top_k}; expected at least 1.")
    ids = list(queries)
    row_of = {id: row for row, id in enumerate(ids)}
    query_vectors = encoder.encode_queries([queries[id] for id in ids])
    best = _Best(len(ids), top_k)
    ignored = 0
    for block in _blocks(documents):
        scores = query_vectors @ encoder.encode_documents([document.full_text for document in block]).T
        for column, document in enumerate(block):
            row = row_of.get(document.id)
            if row is not None and _is_own(queries[document.id], document, own_document):
                scores[row, column] = -np.inf
                ignored += 1
        best.update(scores, [document.id for document in block])
        if progress is not None:
            progress(len(block))
    return best.run(ids), ignored


class _Best:
    """The best `top_k` documents of each query so far, as flat arrays sorted by query, score and position."""

    def __init__(self, num_queries: int, top_k: int) -> None:
        self._top_k = top_k
        self._seen = 0
        self._lowest = np.full(num_queries, -np.inf, dtype=np.float32)  # what a new document has to beat
        self._rows = np.empty(0, dtype=np.int64)
        self._scores = np.empty(0, dtype=np.float32)
        self._positions = np.empty(0, dtype=np.int64)
        self._ids = np.empty(0, dtype=object)

    def update(self, scores: NDArray[np.float32], ids: list[str]) -> None:
        """Take in one block: (queries, documents) scores."""
        rows, columns = np.nonzero(scores > self._lowest[:, None])
        all_rows = np.concatenate([self._rows, rows])
        all_scores = np.concatenate([self._scores, scores[rows, columns]])
        all_positions = np.concatenate([self._positions, columns + self._seen])
        all_ids = np.concatenate([self._ids, np.array(ids, dtype=object)[columns]])
        order = np.lexsort((all_positions, -all_scores, all_rows))
        sorted_rows = all_rows[order]
        rank = np.arange(len(order)) - np.searchsorted(sorted_rows, sorted_rows)
        kept = order[rank < self._top_k]
        self._rows, self._scores = all_rows[kept], all_scores[kept]
        self._positions, self._ids = all_positions[kept], all_ids[kept]
        last = order[rank == self._top_k - 1]
        self._lowest[all_rows[last]] = all_scores[last]
        self._seen += len(ids)

    def run(self, query_ids: list[str]) -> Run:
        """Ids and scores of each query's best documents, best first."""
        run: Run = {id: {} for id in query_ids}
        for row, id, score in zip(self._rows.tolist(), self._ids.tolist(), self._scores.tolist(), strict=True):
            run[query_ids[row]][id] = score
        return run


def _is_own(query: str, document: Document, rule: OwnDocument) -> bool:
    if rule != "auto":
        return rule == "ignore"
    own, text, full_text = (" ".join(t.split()).casefold() for t in (query, document.text, document.full_text))
    return bool(own) and own in (text, full_text)


def _blocks(documents: Iterable[Document]) -> Iterator[list[Document]]:
    stream = iter(documents)
    while block := list(islice(stream, _BLOCK_DOCUMENTS)):
        yield block

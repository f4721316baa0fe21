"""The stages of a search: documents found by vectors and by words, fused, scored again."""

import logging
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.encoding import QueryEncoder
from aveyb_ir.index import IndexDir
from aveyb_ir.retrieval.candidates import Candidate, first_candidates, fused_candidates, reordered
from aveyb_ir.retrieval.fusion import Fusion, fused
from aveyb_ir.retrieval.index_words import IndexWords
from aveyb_ir.retrieval.reranking import Reranker, rerank

Mode: TypeAlias = Literal["dense", "bm25", "hybrid"]
"""How documents are found: by vectors, by words or by both."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for, checked: `depth` hits of each first stage and of them, fused and reranked, `top_k`."""

    mode: Mode
    top_k: int
    depth: int
    where: str | None
    document_weight: float


class Stages:
    """Answers requests, in any number of threads; a query's answer depends on no other query.

    The arguments are those of `Retriever`, checked.

    Attributes:
        models: Held while a model computes: neither tokenizers nor models are made for several threads.
    """

    def __init__(
        self,
        *,
        fusion: Fusion,
        weights: Sequence[float],
        reranker: Reranker | None,
        rerank_weight: float,
        batch_size: int,
        k1: float,
        b: float,
    ) -> None:
        self._fusion: Fusion = fusion
        self._weights = weights
        self._reranker = reranker
        self._rerank_weight = rerank_weight
        self._batch_size = batch_size
        self._bm25 = {"k1": k1, "b": b}
        self.models = threading.Lock()
        self._counting = threading.Lock()
        self._words: IndexWords | None = None

    def search(
        self, directory: IndexDir, encoder: QueryEncoder | None, queries: Sequence[str], request: Request
    ) -> Iterator[list[Candidate]]:
        """Yield the best candidates for each query. Only the mode "bm25" does without an encoder.

        What a reranker's length limit cuts of candidates is logged once, after the last query.
        """
        before = None if self._reranker is None else replace(self._reranker.counts)
        for query, candidates in zip(queries, self._first(directory, encoder, queries, request), strict=True):
            if self._reranker is not None and candidates:
                candidates = self._reranked(directory, self._reranker, query, candidates[: request.depth])
            yield candidates[: request.top_k]
        if self._reranker is not None and before is not None:
            seen = self._reranker.counts.since(before)
            if seen.texts_cut:
                _logger.warning(seen.cuts(self._reranker.max_length, "texts given to the reranker"))

    def _first(
        self, directory: IndexDir, encoder: QueryEncoder | None, queries: Sequence[str], request: Request
    ) -> Iterator[list[Candidate]]:
        by_words = self._by_words(directory, queries, request)
        if encoder is None or request.mode == "bm25":
            return by_words
        by_vectors = self._by_vectors(directory, encoder, queries, request)
        if request.mode == "dense":
            return by_vectors
        both = zip(by_vectors, by_words, strict=True)
        return (fused_candidates("hybrid", two, method=self._fusion, weights=self._weights) for two in both)

    def _by_vectors(
        self, directory: IndexDir, encoder: QueryEncoder, queries: Sequence[str], request: Request
    ) -> Iterator[list[Candidate]]:
        vectors = self._encoded(encoder, queries)
        weight = request.document_weight
        for hits in directory.search(vectors, request.depth, where=request.where, document_weight=weight):
            yield first_candidates("dense", ((hit.row, hit.id, hit.score, hit.span) for hit in hits))

    def _by_words(self, directory: IndexDir, queries: Sequence[str], request: Request) -> Iterator[list[Candidate]]:
        words = self._words_of(directory)
        allowed = None if request.where is None else directory.matching(request.where)
        for query in queries:
            found = words.search(query, request.depth, allowed=allowed)
            ids = directory.ids_of([row for row, _ in found])
            yield first_candidates(
                "bm25", ((row, id, score, None) for (row, score), id in zip(found, ids, strict=True))
            )

    def _reranked(
        self, directory: IndexDir, reranker: Reranker, query: str, candidates: list[Candidate]
    ) -> list[Candidate]:
        documents = directory.documents([candidate.row for candidate in candidates])
        text_of = {document.id: document.full_text for document in documents}
        run = {query: {candidate.id: candidate.score for candidate in candidates}}
        with self.models:
            new = rerank(
                {query: query},
                run,
                lambda ids: [text_of[id] for id in ids],
                reranker,
                depth=len(candidates),
                log_cuts=False,
            )
        scores = {candidate.row: new[query][candidate.id] for candidate in candidates}
        found = reordered(candidates, scores, "reranker")
        if self._rerank_weight == 1:
            return found
        before = {candidate.row: candidate.score for candidate in candidates}
        weights = [self._rerank_weight, 1 - self._rerank_weight]
        return reordered(found, fused([scores, before], method="weighted", weights=weights))

    def _encoded(self, encoder: QueryEncoder, queries: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of queries, (n, d); what a length limit cuts of them is logged once for all."""
        starts = range(0, len(queries), self._batch_size)
        with self.models:
            before = replace(encoder.counts)
            blocks = [queries[start : start + self._batch_size] for start in starts]
            vectors = [encoder.encode_queries(block, log_cuts=False) for block in blocks]
            seen = encoder.counts.since(before)
        if seen.texts_cut:
            _logger.warning(seen.cuts(encoder.max_length))
        return np.concatenate(vectors)

    def _words_of(self, directory: IndexDir) -> IndexWords:
        """The words of a state, counted by the first thread that asks."""
        with self._counting:
            if self._words is None or self._words.directory is not directory:
                self._words = IndexWords(directory, **self._bm25)
            return self._words

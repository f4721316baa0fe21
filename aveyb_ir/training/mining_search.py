"""The documents nearest to each query: by a model over a whole corpus, in an index, by words, or by two of these.

What a model finds comes with its scores, and so do pairs that it was asked for beside them: positives, and what BM25
found. Memory holds the hits of all queries, and of the documents one block and their ids.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.data import Document, Run
from aveyb_ir.encoding import Encoder
from aveyb_ir.errors import DataError
from aveyb_ir.retrieval import Bm25, EncodedBlock, Retriever, VectorsAtHand, search_vectors
from aveyb_ir.training.mining_questions import MiningData, Question

_BLOCK_DOCUMENTS = 4096
_BLOCK_QUERIES = 1024

Count = Callable[[int], None]
Asked = Mapping[str, Sequence[str]]
"""Queries to be scored against a document, whatever is found: their ids by the document's."""


@dataclass
class Candidates:
    """What was found for each query.

    Attributes:
        ranked: Ids of documents by query id, best first.
        scores: The model's, of these documents, by query id; None where only words were counted.
        positive_scores: The model's, of the positives in their order, by query id; nothing likewise.
    """

    ranked: dict[str, list[str]]
    scores: Run | None = None
    positive_scores: dict[str, list[float]] = field(default_factory=dict)


class DenseSearch(Protocol):
    """Finds and scores documents with an encoder."""

    encoder: Encoder

    def details(self) -> dict[str, Any]:
        """What decides its answers, for the record."""

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Give the vectors of queries, (queries, d)."""

    def search(
        self, queries: Mapping[str, str], vectors: NDArray[np.float32], depth: int, asked: Asked, count: Count
    ) -> tuple[Run, Run]:
        """Give `depth` hits a query, and the scores of those pairs asked for whose document is there."""


@dataclass
class CorpusSearch:
    """Compares a whole corpus with each query, and keeps its vectors in a folder if there is one."""

    encoder: Encoder
    data: MiningData
    folder: Path | None

    def details(self) -> dict[str, Any]:
        """What identifies the encoder."""
        return _details(self.encoder)

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode queries, or read their vectors."""
        return self.encoder.encode_queries(texts) if self.folder is None else self._at_hand(self.folder).queries(texts)

    def search(
        self, queries: Mapping[str, str], vectors: NDArray[np.float32], depth: int, asked: Asked, count: Count
    ) -> tuple[Run, Run]:
        """Read or encode the corpus once."""
        if self.folder is None:
            blocks = _encoded(self.encoder, self.data.documents())
        else:
            blocks = self._at_hand(self.folder).documents(self.data.documents(), None, "")
        pairs = _PairScores(list(queries), vectors, asked)
        answers = search_vectors(
            vectors, pairs.watch(blocks), queries, top_k=depth, own_document="keep", progress=count
        )
        return answers.run, pairs.scores

    def _at_hand(self, folder: Path) -> VectorsAtHand:
        return VectorsAtHand(folder, self.data.name, self.encoder)


@dataclass
class IndexSearch:
    """Searches an index as its specification says; whole documents are compared, as they are in training."""

    retriever: Retriever
    encoder: Encoder = field(init=False)

    def __post_init__(self) -> None:
        info = self.retriever.index.info()
        if info["granularity"] == "chunk":
            raise ValueError(
                f"index {info['path']} holds vectors of chunks alone; expected those of whole documents, which is what "
                "training compares; build it with granularity document or both, or give the model"
            )
        self.encoder = self.retriever.index.encoder

    def documents(self) -> Iterator[Document]:
        """Stream what the index holds."""
        return iter(self.retriever.index.directory)

    def details(self) -> dict[str, Any]:
        """The directory, its specification and its encoder."""
        info = self.retriever.index.info()
        return {"index": str(info["path"]), "spec": info["spec"], **_details(self.encoder)}

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode queries with the index's encoder."""
        return self.encoder.encode_queries(texts)

    def search(
        self, queries: Mapping[str, str], vectors: NDArray[np.float32], depth: int, asked: Asked, count: Count
    ) -> tuple[Run, Run]:
        """Search a block of queries at a time, then score what was asked for with the vectors kept.

        Raises DataError when none of the documents asked for is in the index.
        """
        directory = self.retriever.index.directory
        ids = list(queries)
        run: Run = {}
        for start in range(0, len(ids), _BLOCK_QUERIES):
            block = slice(start, start + _BLOCK_QUERIES)
            found = directory.search(vectors[block], depth, document_weight=1.0)
            run |= {id: {hit.id: hit.score for hit in hits} for id, hits in zip(ids[block], found, strict=True)}
        there = asked.keys() & set(directory.ids())
        if asked and not there:
            raise DataError(
                f"{directory.info()['path']} holds none of the {len(asked)} documents wanted, such as "
                f"{next(iter(asked))!r}; expected an index of the data's corpus; build one, or choose its data"
            )
        known = [id for id in asked if id in there]
        kept = zip(known, directory.rows(known), strict=True)
        pairs = _PairScores(ids, vectors, asked)
        for id, row in kept:
            pairs.note(id, directory.vectors(row)[0])
        count(len(directory))
        return run, pairs.scores


def find_candidates(
    dense: DenseSearch | None, data: MiningData, documents: Iterable[Document] | None, depth: int, count: Count
) -> Candidates:
    """Find `depth` documents for each query with a model, by words, or with both, whose hits take turns.

    Args:
        dense: The model; None for BM25 alone.
        data: The queries.
        documents: To count the words of; None for the model alone.
        depth: Hits of each of the two.
        count: Called with numbers of documents.
    """
    by_words: Run = {} if documents is None else Bm25.build(documents).search(data.queries, top_k=depth)
    if dense is None:
        return Candidates({id: list(hits) for id, hits in by_words.items()})
    asked = defaultdict(list)
    for id, question in data.questions.items():
        wanted = dict.fromkeys([*(positive.id for positive in question.positives), *by_words.get(id, ())])
        for document_id in wanted:
            if document_id is not None:
                asked[document_id].append(id)
    vectors = dense.encode_queries(list(data.queries.values()))
    hits, scores = dense.search(data.queries, vectors, depth, asked, count)
    ranked = {id: _in_turns(hits[id], by_words.get(id, ())) for id in data.questions}
    scores = {id: scores.get(id, {}) | hits[id] for id in data.questions}
    positive_scores = _scores_of_positives(dense.encoder, data.questions, vectors, scores)
    return Candidates(ranked, scores, positive_scores)


class _PairScores:
    """Scores of pairs that were asked for, noted as the documents' vectors come by."""

    def __init__(self, query_ids: Sequence[str], vectors: NDArray[np.float32], asked: Asked) -> None:
        self.scores: Run = {}
        self._vector_of = dict(zip(query_ids, vectors, strict=True))
        self._asked = asked

    def note(self, document_id: str, vector: NDArray[np.float32]) -> None:
        """Score a document for the queries that asked for it."""
        for query_id in self._asked.get(document_id, ()):
            self.scores.setdefault(query_id, {})[document_id] = _score(self._vector_of[query_id], vector)

    def watch(self, blocks: Iterable[EncodedBlock]) -> Iterator[EncodedBlock]:
        """Pass blocks on and note each document."""
        for block, vectors in blocks:
            for document, vector in zip(block, vectors, strict=True):
                self.note(document.id, vector)
            yield block, vectors


def _scores_of_positives(
    encoder: Encoder, questions: Mapping[str, Question], vectors: NDArray[np.float32], scores: Run
) -> dict[str, list[float]]:
    """Take scores that are known; texts that are not among the documents searched are encoded."""
    missing = [
        (row, id, positive.text)
        for row, (id, question) in enumerate(questions.items())
        for positive in question.positives
        if positive.id not in scores[id]
    ]
    by_text: dict[tuple[str, str], float] = {}
    for start in range(0, len(missing), _BLOCK_DOCUMENTS):
        block = missing[start : start + _BLOCK_DOCUMENTS]
        encoded = encoder.encode_documents([text for _, _, text in block])
        if not np.isfinite(encoded).all():
            text = block[int(np.argmin(np.isfinite(encoded).all(axis=1)))][2]
            raise DataError(
                f"positive {text[:60]!r}: its vector holds NaN or infinity; expected finite float32 numbers; "
                "look at it and at the encoder's precision"
            )
        for (row, id, text), vector in zip(block, encoded, strict=True):
            by_text[id, text] = _score(vectors[row], vector)
    return {
        id: [
            scores[id][positive.id] if positive.id in scores[id] else by_text[id, positive.text]
            for positive in question.positives
        ]
        for id, question in questions.items()
    }


def _score(query: NDArray[np.float32], document: NDArray[np.float32]) -> float:
    """The inner product as exact search computes it: a float64 sum rounded to float32."""
    return float(np.float32((document * query.astype(np.float64)).sum()))


def _encoded(encoder: Encoder, documents: Iterable[Document]) -> Iterator[EncodedBlock]:
    stream = iter(documents)
    while block := list(islice(stream, _BLOCK_DOCUMENTS)):
        yield block, encoder.encode_documents([document.full_text for document in block])


def _in_turns(first: Iterable[str], second: Iterable[str]) -> list[str]:
    pairs = zip_longest(first, second)
    return list(dict.fromkeys(id for pair in pairs for id in pair if id is not None))


def _details(encoder: Encoder) -> dict[str, Any]:
    return {
        "encoder": encoder.name,
        "fingerprint": encoder.fingerprint,
        "dtype": str(encoder.model.dtype).removeprefix("torch."),
        "max_length": encoder.max_length,
        "details": encoder.details,
    }

"""What can be asked: a model by exact search, BM25, or an index as it is. Each answers the same task."""

import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from aveyb_ir.data import Document, OwnDocument, OwnDocuments, Qrels, Run, listed
from aveyb_ir.encoding import Encoder
from aveyb_ir.errors import DataError
from aveyb_ir.evaluation.protocols import pool_of
from aveyb_ir.retrieval import Answers, Bm25, Retriever, VectorsAtHand, exact_search, search_vectors
from aveyb_ir.retrieval.bm25 import K1, B, checked_bm25

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Task:
    """What is asked of a system.

    Attributes:
        data: Name of the collection.
        split: Whose queries.
        qrels: Its judgements.
        documents: Streams the corpus.
        queries: Texts by id.
        top_k: Hits per query.
        own_document: Whether the document with a query's id may be a hit of it.
        pool: Ids of the documents that are searched; None for all.
        progress: Called with the number of documents after each block.
    """

    data: str
    split: str
    qrels: Qrels
    documents: Callable[[], Iterator[Document]]
    queries: Mapping[str, str]
    top_k: int
    own_document: OwnDocument
    pool: Collection[str] | None
    progress: Callable[[int], None] | None

    def searched(self) -> Iterator[Document]:
        """Stream the documents that are searched."""
        return (document for document in self.documents() if self.pool is None or document.id in self.pool)


class System(Protocol):
    """Something that answers tasks."""

    @property
    def name(self) -> str:
        """What tables call it."""

    def details(self) -> dict[str, Any]:
        """What decides its answers, for the report."""

    def answer(self, task: Task) -> Answers:
        """Search for all queries of a task."""


def system_of(
    model: Encoder | Retriever | str | os.PathLike[str],
    vectors: str | os.PathLike[str] | None,
    k1: float | None = None,
    b: float | None = None,
) -> System:
    """Make a system of what a user names: an encoder or model, an open index, or the word "bm25".

    Raises:
        ModelError: the model cannot be loaded.
        ValueError: vectors of something that has none to keep, or k1 or b of something that is not "bm25".
    """
    bm25 = {name: value for name, value in (("k1", k1), ("b", b)) if value is not None}
    if bm25 and model != "bm25":
        raise ValueError(f"{bm25} beside a model or an index; expected them for 'bm25' only; leave them out")
    if isinstance(model, Retriever) or model == "bm25":
        if vectors is not None:
            what = "BM25" if model == "bm25" else "an index"
            raise ValueError(f"vectors {os.fspath(vectors)!r} with {what}; expected a model with them; leave them out")
        return IndexSystem(model) if isinstance(model, Retriever) else Bm25System(**bm25)
    encoder = model if isinstance(model, Encoder) else Encoder(os.fspath(model))
    return ModelSystem(encoder, None if vectors is None else Path(vectors))


class Bm25System:
    """BM25 over title and text."""

    name = "bm25"

    def __init__(self, k1: float = K1, b: float = B) -> None:
        self._k1, self._b = checked_bm25(k1, b)
        self._settings: dict[str, Any] = {}

    def details(self) -> dict[str, Any]:
        """Its parameters."""
        return {"bm25": self._settings}

    def answer(self, task: Task) -> Answers:
        """Count the words of the corpus and search it. Raises DataError when it has none."""
        own = OwnDocuments(task.queries, task.own_document)
        bm25 = Bm25.build(_counted(own.watch(task.searched()), task.progress), k1=self._k1, b=self._b)
        self._settings = bm25.settings
        run = bm25.search(task.queries, top_k=task.top_k, without_own=own.ids)
        return Answers(run, len(bm25), len(own.ids))


class ModelSystem:
    """An encoder with exact search, its vectors of documents kept in a folder if there is one."""

    def __init__(self, encoder: Encoder, vectors: Path | None) -> None:
        self._encoder = encoder
        self._vectors = vectors

    @property
    def name(self) -> str:
        """The model's folder, or its name on the Hub."""
        path = Path(self._encoder.name)
        return path.resolve().name if path.is_dir() else self._encoder.name

    def details(self) -> dict[str, Any]:
        """What identifies the encoder."""
        return encoder_details(self._encoder)

    def answer(self, task: Task) -> Answers:
        """Encode the corpus, or read its vectors, and compare all of them with each query."""
        options: dict[str, Any] = {"top_k": task.top_k, "own_document": task.own_document, "progress": task.progress}
        if self._vectors is None:
            return exact_search(self._encoder, task.searched(), task.queries, **options)
        at_hand = VectorsAtHand(self._vectors, task.data, self._encoder)
        blocks = at_hand.documents(task.documents(), task.pool, task.split)
        return search_vectors(at_hand.queries(list(task.queries.values())), blocks, task.queries, **options)


class IndexSystem:
    """An index, searched as its specification and the retriever say."""

    def __init__(self, retriever: Retriever) -> None:
        self._retriever = retriever
        self._info = retriever.directory.info()

    @property
    def name(self) -> str:
        """The index directory's name; also how it is searched, where that is not by vectors alone."""
        parts = [Path(self._info["path"]).resolve().name]
        if self._retriever.mode != "dense":
            parts.append(self._retriever.mode)
        if self._retriever.reranker is not None:
            parts.append(Path(self._retriever.reranker.name).name)
        return "-".join(parts)

    def details(self) -> dict[str, Any]:
        """The directory, its specification and its encoder, and how it is searched."""
        index = {"index": str(self._info["path"]), "spec": self._info["spec"], "granularity": self._info["granularity"]}
        by_words = self._retriever.mode == "bm25"
        encoder = {} if by_words else encoder_details(self._retriever.index.encoder)
        return {**index, **encoder, **self._retriever.settings}

    def answer(self, task: Task) -> Answers:
        """Search the index, one hit more than asked for where the own document was among them.

        Raises:
            DataError: it holds no document that is judged, so it was made of another corpus.
        """
        there = self._checked_documents(task)
        found = self._retriever.run(task.queries, top_k=task.top_k + 1)
        directory = self._retriever.directory
        own = OwnDocuments(task.queries, task.own_document)
        hits_on_own = [id for id, hits in found.items() if id in hits]
        for document in directory.documents(directory.rows(hits_on_own)):
            own.note(document)
        run: Run = {}
        for id, hits in found.items():
            kept = [(hit, score) for hit, score in hits.items() if hit != id or id not in own.ids]
            run[id] = dict(kept[: task.top_k])
        if task.progress is not None:
            task.progress(len(directory))
        return Answers(run, len(there if task.pool is None else there.intersection(task.pool)), len(own.ids))

    def _checked_documents(self, task: Task) -> set[str]:
        """Ids of the documents in the index, judged ones among them."""
        there = set(self._retriever.directory.ids())
        judged = pool_of(task.qrels)
        missing = sorted(judged - there)
        if len(missing) == len(judged):
            raise DataError(
                f"index {self._info['path']} holds none of the {len(missing)} documents judged in {task.data}, such as "
                f"{missing[0]!r}; expected an index of that collection; build one, or choose the data it was built from"
            )
        if missing:
            _logger.warning("%s lacks judged documents: %s", self._info["path"], listed(missing))
        return there


def encoder_details(encoder: Encoder) -> dict[str, Any]:
    """What identifies an encoder in a report."""
    return {
        "encoder": encoder.name,
        "fingerprint": encoder.fingerprint,
        "dimension": encoder.dimension,
        "dtype": str(encoder.model.dtype).removeprefix("torch."),
        "max_length": encoder.max_length,
        "details": encoder.details,
    }


def _counted(documents: Iterable[Document], progress: Callable[[int], None] | None) -> Iterator[Document]:
    for document in documents:
        yield document
        if progress is not None:
            progress(1)

"""What negatives are mined for, and among which documents: queries with all that is known to answer them."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from aveyb_ir.data import (
    Collection,
    Document,
    TrainingRow,
    judged_queries,
    open_collection,
    read_documents,
    read_training_rows,
)


@dataclass(frozen=True, slots=True)
class Positive:
    """A text that answers a query; `id` is its document's among those that are searched, None where that is unknown."""

    text: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A query and its positives, of which there is at least one."""

    text: str
    positives: tuple[Positive, ...]


@dataclass(frozen=True)
class MiningData:
    """What to mine from.

    Attributes:
        name: Short, for the folder of vectors.
        source: Where it is from, as the record says it.
        questions: By query id.
        documents: Streams what is searched.
    """

    name: str
    source: str
    questions: dict[str, Question]
    documents: Callable[[], Iterator[Document]]

    @property
    def queries(self) -> dict[str, str]:
        """Texts by query id."""
        return {id: question.text for id, question in self.questions.items()}

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the questions and their positives."""
        content = [
            [id, question.text, *(one.text for one in question.positives)] for id, question in self.questions.items()
        ]
        return hashlib.sha256(json.dumps(content).encode("ascii")).hexdigest()


def open_mining_data(
    data: Collection | Sequence[TrainingRow] | str | os.PathLike[str],
    *,
    split: str,
    pairs: bool,
    corpus: str | Path | None,
) -> MiningData:
    """Open a collection, or training rows with their own texts or a corpus to search; see `mine`.

    Raises:
        DataError: there is no such data or split, or it is malformed.
        ValueError: a corpus beside a collection, which has its own.
    """
    if isinstance(data, Sequence) and not isinstance(data, str):
        return _of_rows(data, "rows", "training rows", corpus)
    if not isinstance(data, (str, os.PathLike)):
        return _of_collection(data, split, corpus)
    source = os.fspath(data)
    if pairs or Path(source).is_file():
        return _of_rows(read_training_rows(source), Path(source).name.split(".")[0], source, corpus)
    return _of_collection(open_collection(source), split, corpus)


def _of_collection(collection: Collection, split: str, corpus: str | Path | None) -> MiningData:
    if corpus is not None:
        raise ValueError(f"corpus {str(corpus)!r} with {collection}; expected None, a collection has its own; omit it")
    questions = {
        query.id: Question(query.text, tuple(Positive(text, id) for id, text in query.relevant.items()))
        for query in judged_queries(collection, split)
    }
    return MiningData(collection.name, f"{collection} split {split}", questions, collection.documents)


def _of_rows(rows: Sequence[TrainingRow], name: str, source: str, corpus: str | Path | None) -> MiningData:
    """Rows with the same anchor become one question; their texts, once each, are what is searched without a corpus."""
    ids: dict[str, str] = {}
    positives: dict[str, dict[str, Positive]] = {}
    for row in rows:
        for text in (*row.positives, *row.negatives):
            ids.setdefault(text, str(len(ids)))
        known = positives.setdefault(row.anchor, {})
        known.update({text: Positive(text, ids[text] if corpus is None else None) for text in row.positives})
    questions = {
        str(number): Question(anchor, tuple(known.values())) for number, (anchor, known) in enumerate(positives.items())
    }
    if corpus is not None:
        return MiningData(f"{name}-corpus", f"{source} in {corpus}", questions, lambda: read_documents(corpus))
    return MiningData(name, source, questions, lambda: (Document(id, text) for text, id in ids.items()))

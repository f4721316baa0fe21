"""Judgements of a collection joined with its texts, and training rows out of them."""

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from aveyb_ir.data.collection import Collection
from aveyb_ir.data.pair_fields import TrainingRow
from aveyb_ir.data.text_numbers import TextNumbers
from aveyb_ir.data.wanted_texts import WantedTexts
from aveyb_ir.data.wording import listed
from aveyb_ir.errors import DataError

_logger = logging.getLogger(__name__)


class JudgedQuery(NamedTuple):
    """A query with the full texts of all documents of grade 1 or more, by id."""

    id: str
    text: str
    relevant: Mapping[str, str]


def judged_queries(collection: Collection, split: str = "train") -> list[JudgedQuery]:
    """Join the judgements of a split with their texts.

    Ids that are judged but absent, and texts that are empty, are left out and named in a logged warning.

    Raises:
        DataError: there is no such split, a file is malformed, or no query with a relevant document is left.
    """
    return list(iter_judged_queries(collection, split))


def iter_judged_queries(
    collection: Collection, split: str = "train", *, folder: str | Path | None = None
) -> Iterator[JudgedQuery]:
    """Stream what `judged_queries` gives.

    The corpus is read once. Of its texts only the relevant ones are kept, on the disk of `folder` (None: that for
    temporary files); judgements and queries are in memory.

    Raises:
        DataError: as `judged_queries`.
    """
    judged = {
        query_id: [document_id for document_id, grade in grades.items() if grade >= 1]
        for query_id, grades in collection.qrels(split).items()
    }
    wanted = list({document_id for document_ids in judged.values() for document_id in document_ids})
    ids = TextNumbers()
    ids.add(wanted)
    documents = WantedTexts(collection.documents(), ids, folder)
    queries = collection.queries()
    without = [id_ for id_ in judged if id_ in queries and not queries[id_].strip()]
    _report(collection, "queries", [id_ for id_ in judged if id_ not in queries], without)
    _report(collection, "documents", documents.absent(wanted), documents.empty(wanted))
    found = False
    for query_id, document_ids in judged.items():
        text = queries.get(query_id, "")
        texts = zip(document_ids, documents.texts(document_ids), strict=True)
        relevant = {document_id: full_text for document_id, full_text in texts if full_text}
        if text.strip() and relevant:
            found = True
            yield JudgedQuery(query_id, text, relevant)
    if not found:
        raise DataError(
            f"{collection} split {split!r} joins no query with a relevant document; "
            "expected the ids of qrels in the corpus and the queries; check that the files belong together"
        )


def training_rows_from_beir(collection: Collection, split: str = "train") -> list[TrainingRow]:
    """Make one row per query of a split, with the distinct texts of its relevant documents as positives.

    Raises:
        DataError: as `judged_queries`.
    """
    return list(iter_training_rows_from_beir(collection, split))


def iter_training_rows_from_beir(
    collection: Collection, split: str = "train", *, folder: str | Path | None = None
) -> Iterator[TrainingRow]:
    """Stream the rows of `training_rows_from_beir`; what is in memory is as of `iter_judged_queries`.

    Raises:
        DataError: as `judged_queries`.
    """
    for query in iter_judged_queries(collection, split, folder=folder):
        yield TrainingRow(query.text, tuple(dict.fromkeys(query.relevant.values())))


def _report(collection: Collection, what: str, absent: list[str], empty: list[str]) -> None:
    if absent:
        _logger.warning("%s lacks these judged %s: %s", collection, what, listed(sorted(absent)))
    if empty:
        _logger.warning("%s has judged %s without text: %s", collection, what, listed(sorted(empty)))

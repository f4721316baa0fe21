"""Judgements of a collection joined with its texts, and training rows out of them."""

import logging
from collections.abc import Mapping, Set
from typing import NamedTuple

from aveyb_ir.data.collection import Collection
from aveyb_ir.data.pair_fields import TrainingRow
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

    The corpus is streamed; only the relevant documents stay in memory. Ids that are judged but absent, and texts that
    are empty, are left out and named in a logged warning.

    Raises:
        DataError: there is no such split, a file is malformed, or no query with a relevant document is left.
    """
    judged = {
        query_id: [document_id for document_id, grade in grades.items() if grade >= 1]
        for query_id, grades in collection.qrels(split).items()
    }
    wanted = {document_id for document_ids in judged.values() for document_id in document_ids}
    texts = {document.id: document.full_text for document in collection.documents() if document.id in wanted}
    queries = collection.queries()
    _report(collection, "queries", judged.keys(), queries)
    _report(collection, "documents", wanted, texts)
    joined = []
    for query_id, document_ids in judged.items():
        text = queries.get(query_id, "")
        relevant = {id_: texts[id_] for id_ in document_ids if texts.get(id_, "").strip()}
        if text.strip() and relevant:
            joined.append(JudgedQuery(query_id, text, relevant))
    if not joined:
        raise DataError(
            f"{collection} split {split!r} joins no query with a relevant document; "
            "expected the ids of qrels in the corpus and the queries; check that the files belong together"
        )
    return joined


def training_rows_from_beir(collection: Collection, split: str = "train") -> list[TrainingRow]:
    """Make one row per query of a split, with the distinct texts of its relevant documents as positives.

    Raises:
        DataError: as `judged_queries`.
    """
    rows = judged_queries(collection, split)
    return [TrainingRow(query.text, tuple(dict.fromkeys(query.relevant.values()))) for query in rows]


def _report(collection: Collection, what: str, wanted: Set[str], texts: Mapping[str, str]) -> None:
    if absent := [id_ for id_ in wanted if id_ not in texts]:
        _logger.warning("%s lacks these judged %s: %s", collection, what, listed(sorted(absent)))
    if empty := [id_ for id_ in wanted if id_ in texts and not texts[id_].strip()]:
        _logger.warning("%s has judged %s without text: %s", collection, what, listed(sorted(empty)))

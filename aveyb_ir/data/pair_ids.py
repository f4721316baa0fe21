"""Training records that name documents by id, as Tevatron's do, joined with the texts of their corpus."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from aveyb_ir.data.corpus import read_documents
from aveyb_ir.data.documents import as_id
from aveyb_ir.data.pair_fields import NEGATIVE_PASSAGES, POSITIVE_PASSAGES, LeftOutError
from aveyb_ir.data.pair_records import Parse

POSITIVE_IDS = "positive_document_ids"
NEGATIVE_IDS = "negative_document_ids"


def named_ids(parse: Parse) -> list[str]:
    """Ids of the documents that a record names; none if it is malformed, which is told when rows are made of it."""
    try:
        record = parse()
        return [*_ids(record, POSITIVE_IDS), *_ids(record, NEGATIVE_IDS)]
    except ValueError:
        return []


def texts_of(corpus: str | Path, wanted: Iterable[str]) -> dict[str, str]:
    """Full texts of these documents of a corpus, which is streamed; absent and empty ones are left out.

    Raises:
        DataError: as `read_documents`.
    """
    ids = set(wanted)
    documents = (document for document in read_documents(corpus) if document.id in ids)
    return {document.id: document.full_text for document in documents if document.full_text}


def with_texts(record: Mapping[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    """Replace the ids of a record by the texts that there are.

    Raises:
        LeftOutError: none of its positives has a text.
        ValueError: a field is not a list of ids.
    """
    positives, negatives = (
        [texts[id_] for id_ in _ids(record, name) if id_ in texts] for name in (POSITIVE_IDS, NEGATIVE_IDS)
    )
    if not positives:
        raise LeftOutError("without a positive that has a text in the corpus")
    kept = {name: value for name, value in record.items() if name not in (POSITIVE_IDS, NEGATIVE_IDS)}
    return {**kept, POSITIVE_PASSAGES: positives, NEGATIVE_PASSAGES: negatives}


def _ids(record: Mapping[str, Any], name: str) -> list[str]:
    value = record.get(name)
    if not isinstance(value, list | None):
        raise ValueError(f"{name} is {value!r:.40}, expected a list of ids")
    return [as_id(id_) for id_ in value or ()]

"""Training records that name documents by id, as Tevatron's do, joined with the texts of their corpus."""

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from aveyb_ir.data.blocks import blocks
from aveyb_ir.data.corpus import read_documents
from aveyb_ir.data.documents import as_id
from aveyb_ir.data.pair_fields import NEGATIVE_PASSAGES, POSITIVE_PASSAGES, LeftOutError
from aveyb_ir.data.pair_records import Parse, pair_records
from aveyb_ir.data.text_numbers import TextNumbers
from aveyb_ir.data.wanted_texts import WantedTexts

POSITIVE_IDS = "positive_document_ids"
NEGATIVE_IDS = "negative_document_ids"


def named_texts(files: Iterable[Path], corpus: str | Path, folder: str | Path | None = None) -> WantedTexts | None:
    """Read the texts of the documents that records name by id; None if no record has a field for ids.

    Records and corpus are streamed, once each; the texts are kept on the disk of `folder`.

    Raises:
        DataError: as `read_documents`.
    """
    ids, has_field = TextNumbers(), False
    named = (_named_ids(parse) for file in files for _, parse in pair_records(file))
    for block in blocks(named, lambda some: sum(map(len, some or ()))):
        has_field = has_field or any(some is not None for some in block)
        ids.add(chain.from_iterable(some or () for some in block))
    return WantedTexts(read_documents(corpus), ids, folder) if has_field else None


def with_texts(record: Mapping[str, Any], documents: WantedTexts, lacks: Callable[[str], None]) -> dict[str, Any]:
    """Replace the ids of a record by the texts that there are; `lacks` is told each id without one.

    Raises:
        LeftOutError: none of its positives has a text.
        ValueError: a field is not a list of ids.
    """
    positives, negatives = (_texts(_ids(record, name), documents, lacks) for name in (POSITIVE_IDS, NEGATIVE_IDS))
    if not positives:
        raise LeftOutError("without a positive that has a text in the corpus")
    kept = {name: value for name, value in record.items() if name not in (POSITIVE_IDS, NEGATIVE_IDS)}
    return {**kept, POSITIVE_PASSAGES: positives, NEGATIVE_PASSAGES: negatives}


def _texts(ids: list[str], documents: WantedTexts, lacks: Callable[[str], None]) -> list[str]:
    texts = documents.texts(ids)
    for id_, text in zip(ids, texts, strict=True):
        if not text:
            lacks(id_)
    return [text for text in texts if text]


def _named_ids(parse: Parse) -> list[str] | None:
    """Ids of the documents that a record names, None without the field for them.

    A malformed record names none; what is wrong with it is told when rows are made of it.
    """
    try:
        record = parse()
        return [*_ids(record, POSITIVE_IDS), *_ids(record, NEGATIVE_IDS)] if POSITIVE_IDS in record else None
    except ValueError:
        return []


def _ids(record: Mapping[str, Any], name: str) -> list[str]:
    value = record.get(name)
    if not isinstance(value, list | None):
        raise ValueError(f"{name} is {value!r:.40}, expected a list of ids")
    return [as_id(id_) for id_ in value or ()]

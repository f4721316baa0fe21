"""Lists of candidates that a student and its teacher both judge."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.data import listed
from aveyb_ir.errors import DataError
from aveyb_ir.training.prompted_texts import PromptedTexts
from aveyb_ir.training.ragged import Numbers
from aveyb_ir.training.rows import RowSet

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Candidates:
    """Lists of a query, one of its positives and the first negatives of its row, in numbers of texts.

    Attributes:
        queries: the query of each list, int32 (lists,).
        documents: the documents of each list, the positive first, int32 (lists, documents).
        scores: what the rows say of the documents, float32 (lists, documents); NaN where they do not.
        query_texts: the distinct queries, numbered as the lists first name them; on disk.
        document_texts: the distinct documents, likewise.
    """

    queries: Numbers
    documents: Numbers
    scores: NDArray[np.float32]
    query_texts: PromptedTexts
    document_texts: PromptedTexts

    def __len__(self) -> int:
        return len(self.queries)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Each query with each of its documents, list after list."""
        for query, documents in zip(self.queries, self.documents, strict=True):
            text = self.query_texts[query]
            yield from ((text, self.document_texts[document]) for document in documents)

    def texts(self) -> Iterator[str]:
        """Each query and its documents, list after list; a text as often as lists name it."""
        for query, documents in zip(self.queries, self.documents, strict=True):
            yield self.query_texts[query]
            yield from (self.document_texts[document] for document in documents)


def candidates_of(rows: RowSet, num_negatives: int) -> Candidates:
    """One list of candidates for each positive of each row, all of one length.

    Rows with fewer negatives are left out, with a warning.

    Raises:
        DataError: no row has that many.
    """
    num_in_row = rows.rows.negatives.counts
    enough = num_in_row >= num_negatives
    if not enough.any():
        raise DataError(
            f"{rows.source}: got at most {num_in_row.max()} negatives in a row, expected data.negatives "
            f"{num_negatives}; lower it, or mine negatives first (aveyb-ir mine)"
        )
    if not enough.all():
        short = listed(rows.rows.lines[~enough].tolist())
        logger.warning("%s: left out rows with fewer than %d negatives, lines %s", rows.source, num_negatives, short)
        rows = rows.where(enough)
    positives, negatives = rows.rows.positives, rows.rows.negatives
    owners = positives.owners()
    places = negatives.bounds[owners][:, None] + np.arange(num_negatives)
    query_texts, document_texts = PromptedTexts(rows.queries, [None]), PromptedTexts(rows.documents, [None])
    documents = np.column_stack([positives.values, negatives.values[places]])
    return Candidates(
        query_texts.add(rows.rows.anchors[owners], None),
        document_texts.add(documents.ravel(), None).reshape(documents.shape),
        np.column_stack([rows.positive_scores, rows.negative_scores[places]]).astype(np.float32),
        query_texts,
        document_texts,
    )

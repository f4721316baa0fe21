"""What every retrieval data set has: a corpus, queries, and judgements for each split."""

import logging
from collections.abc import Iterator
from typing import Protocol

from aveyb_ir.data.documents import Document
from aveyb_ir.data.qrels import Qrels
from aveyb_ir.data.wording import listed
from aveyb_ir.errors import DataError

_logger = logging.getLogger(__name__)


class Collection(Protocol):
    """A retrieval data set, wherever it is kept. `str` of one says where that is."""

    @property
    def name(self) -> str:
        """Short name, as reports show it: `nq`."""

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits that have judgements, sorted."""

    def documents(self) -> Iterator[Document]:
        """Stream the corpus; see `read_documents`."""

    def queries(self) -> dict[str, str]:
        """Texts of all queries by id, judged or not, in their order."""

    def qrels(self, split: str) -> Qrels:
        """Judgements of a split.

        Raises:
            DataError: there is no such split, or its judgements are malformed.
        """

    def judged_queries(self, split: str) -> dict[str, str]:
        """Texts of the queries to search for when evaluating a split, by id, in their order.

        Judged queries whose text is missing are named in a logged warning; evaluation counts them as unanswered.

        Raises:
            DataError: there is no such split, or none of its queries has a text.
        """
        qrels = self.qrels(split)
        queries = {id_: text for id_, text in self.queries().items() if id_ in qrels}
        if not queries:
            raise DataError(
                f"{self} has none of the {len(qrels)} queries judged in split {split!r}, "
                f"such as {next(iter(qrels))!r}; expected the same ids in both; check that they belong together"
            )
        if missing := [id_ for id_ in qrels if id_ not in queries]:
            _logger.warning("%s lacks these judged queries: %s", self, listed(missing))
        return queries

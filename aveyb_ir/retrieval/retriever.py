"""From a query to a list of hits."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, overload

from aveyb_ir.data import Run
from aveyb_ir.encoding import Encoder
from aveyb_ir.errors import DataError
from aveyb_ir.retrieval.hits import Hit
from aveyb_ir.retrieval.index import Index

# Queries encoded and searched at a time.
_BLOCK_QUERIES = 1024


class Retriever:
    """Searches an index.

    Args:
        index: An open Index, or the path of an index directory.
        encoder: For a path: the encoder, when it lies elsewhere than the index says. It must be the same one.
        device: For a path: where the encoder computes, as for `Encoder`.
        dtype: For a path: in which precision.

    Raises:
        IndexDirError: No index there, a damaged one, or one of another encoder.
        ModelError: The encoder cannot be loaded.
    """

    def __init__(
        self,
        index: Index | str | os.PathLike[str],
        *,
        encoder: Encoder | str | os.PathLike[str] | None = None,
        device: str | None = None,
        dtype: str | None = None,
    ) -> None:
        if isinstance(index, Index):
            self.index = index
        else:
            self.index = Index.open(index, encoder=encoder, device=device, dtype=dtype)

    @overload
    def search(  # type: ignore[overload-overlap]  # str first
        self, query: str, *, top_k: int = 10, where: str | None = None, document_weight: float = 0.5
    ) -> list[Hit]: ...
    @overload
    def search(
        self, query: Sequence[str], *, top_k: int = 10, where: str | None = None, document_weight: float = 0.5
    ) -> list[list[Hit]]: ...
    def search(
        self, query: str | Sequence[str], *, top_k: int = 10, where: str | None = None, document_weight: float = 0.5
    ) -> Any:
        """Find the documents nearest to a query, best first.

        Args:
            query: One query gives a list of hits, a sequence of queries one list for each.
            top_k: Hits per query, or all documents if there are fewer.
            where: A condition that documents must meet, such as "year >= 2020 and lang = 'en'"; its grammar is that of
                `aveyb_ir.index.where`.
            document_weight: Share of the whole document's vector in the score, beside that of its best chunk, in an
                index that has both.

        Raises:
            ValueError: `top_k` is not a whole number from 1, the weight not within 0 to 1, or the condition cannot be
                read.
        """
        if isinstance(query, str):
            return self.search([query], top_k=top_k, where=where, document_weight=document_weight)[0]
        directory = self.index.directory
        vectors = self.index.encoder.encode_queries(query)
        found = directory.search(vectors, top_k, where=where, document_weight=document_weight)
        rows = sorted({hit.row for hits in found for hit in hits})
        document_of = dict(zip(rows, directory.documents(rows), strict=True))
        return [[Hit(document_of[hit.row], hit.score, hit.span) for hit in hits] for hits in found]

    def run(
        self,
        queries: Mapping[str, str],
        *,
        top_k: int = 100,
        where: str | None = None,
        document_weight: float = 0.5,
    ) -> Run:
        """Search for many queries and give only ids and scores, as a run that can be written and evaluated.

        Args:
            queries: Texts by query id.
            top_k: Hits per query.
            where: As in `search`.
            document_weight: As in `search`.
        """
        if not queries:
            raise DataError("There are no queries; expected at least one text to search for.")
        run: Run = {}
        ids = list(queries)
        for start in range(0, len(ids), _BLOCK_QUERIES):
            block = ids[start : start + _BLOCK_QUERIES]
            vectors = self.index.encoder.encode_queries([queries[id] for id in block])
            found = self.index.directory.search(vectors, top_k, where=where, document_weight=document_weight)
            for id, hits in zip(block, found, strict=True):
                run[id] = {hit.id: hit.score for hit in hits}
        return run

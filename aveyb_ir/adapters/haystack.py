"""An index as a component of Haystack pipelines.

pipeline.add_component("retriever", AveybRetriever("indexes/wiki", mode="hybrid", top_k=5))
pipeline.connect("retriever.documents", "prompt_builder.documents")
"""

import os
from collections.abc import Mapping
from typing import Any

from aveyb_ir.adapters.extras import imports_of
from aveyb_ir.adapters.haystack_filters import as_where
from aveyb_ir.adapters.index_search import Content, IndexSource, content_of, metadata_of, open_retriever
from aveyb_ir.retrieval import Hit, Mode, Reranker, Retriever

with imports_of("haystack"):
    from haystack import Document, component, default_from_dict, default_to_dict


@component
class AveybRetriever:
    """Searches an index, which is opened when the pipeline warms up or at the first query.

    The arguments are described in `aveyb_ir.adapters`. A pipeline that is saved names the index and the reranker by
    their paths; Haystack 3 loads it with `Pipeline.loads(text, allowed_modules=["aveyb_ir.adapters.haystack"])`.
    """

    def __init__(
        self,
        index: IndexSource,
        *,
        mode: Mode | None = None,
        reranker: Reranker | str | os.PathLike[str] | None = None,
        options: Mapping[str, Any] | None = None,
        top_k: int = 10,
        depth: int | None = None,
        where: str | None = None,
        document_weight: float = 0.5,
        content: Content = "document",
    ) -> None:
        self.index = index
        self.mode = mode
        self.reranker = reranker
        self.options = dict(options or {})
        self.top_k = top_k
        self.depth = depth
        self.where = where
        self.document_weight = document_weight
        self.content = content
        self._retriever: Retriever | None = None

    def to_dict(self) -> dict[str, Any]:
        """Give the component for saving. Raises ValueError where index or reranker is an object without a path."""
        return default_to_dict(
            self,
            index=_path("index", self.index),
            mode=self.mode,
            reranker=None if self.reranker is None else _path("reranker", self.reranker),
            options=self.options,
            top_k=self.top_k,
            depth=self.depth,
            where=self.where,
            document_weight=self.document_weight,
            content=self.content,
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "AveybRetriever":
        """Make a component that was saved."""
        return default_from_dict(cls, data)

    def warm_up(self) -> None:
        """Open the index, once. Raises what `Retriever` raises."""
        self._opened()

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Find the documents that fit a query best, best first.

        Args:
            query: The text to search for.
            filters: Haystack's, on metadata; they must hold beside `where`.
            top_k: Another number of documents than the component's.

        Raises:
            AveybError: As `Retriever`.
            ValueError: A filter that an index cannot answer, or as `Retriever.search`.
        """
        return self._documents(self._opened().search(query, **self._settings(filters, top_k)))

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Do what `run` does while the program's event loop goes on."""
        return self._documents(await self._opened().asearch(query, **self._settings(filters, top_k)))

    def _opened(self) -> Retriever:
        if self._retriever is None:
            self._retriever = open_retriever(self.index, mode=self.mode, reranker=self.reranker, options=self.options)
        return self._retriever

    def _settings(self, filters: dict[str, Any] | None, top_k: int | None) -> dict[str, Any]:
        conditions = [self.where] if self.where is not None else []
        conditions += [as_where(filters)] if filters else []
        return {
            "top_k": self.top_k if top_k is None else top_k,
            "depth": self.depth,
            "where": " and ".join(f"({condition})" for condition in conditions) or None,
            "document_weight": self.document_weight,
            "mode": self.mode,
        }

    def _documents(self, hits: list[Hit]) -> dict[str, list[Document]]:
        return {
            "documents": [
                Document(id=hit.id, content=content_of(hit, self.content), meta=metadata_of(hit), score=hit.score)
                for hit in hits
            ]
        }


def _path(name: str, value: object) -> str:
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    raise ValueError(f"{name} is a {type(value).__name__}; expected a path, which can be saved; give that instead")

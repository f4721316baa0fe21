"""An index as a LangChain retriever, and an encoder as LangChain embeddings.

retriever = AveybRetriever(index="indexes/wiki", mode="hybrid", top_k=5)
chain = {"context": retriever, "question": RunnablePassthrough()} | prompt | model
"""

import os
from typing import Any

from aveyb_ir.adapters.extras import imports_of
from aveyb_ir.adapters.index_search import Content, content_of, metadata_of, open_retriever
from aveyb_ir.adapters.text_vectors import EncoderSource, TextVectors, open_encoder
from aveyb_ir.retrieval import Hit, Mode, Retriever

with imports_of("langchain"):
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.retrievers import BaseRetriever
    from pydantic import Field, PrivateAttr


class AveybRetriever(BaseRetriever):
    """Searches an index; `invoke(query, top_k=3)` and `ainvoke` take what `Retriever.search` takes, for one call.

    A document's metadata also has `id` and `score`. The fields are described in `aveyb_ir.adapters`.

    Raises:
        AveybError: The index, its encoder or the reranker cannot be opened.
        ValueError: An impossible setting.
    """

    index: Retriever | str | os.PathLike[str]
    mode: Mode | None = None
    reranker: Any = None
    options: dict[str, Any] = Field(default_factory=dict)
    top_k: int = 10
    depth: int | None = None
    where: str | None = None
    document_weight: float = 0.5
    content: Content = "document"
    _retriever: Retriever = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Open the index, so that what is wrong with it shows now."""
        super().model_post_init(context)
        self._retriever = open_retriever(self.index, mode=self.mode, reranker=self.reranker, options=self.options)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **changes: Any
    ) -> list[Document]:
        return self._documents(self._retriever.search(query, **self._settings(changes)))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **changes: Any
    ) -> list[Document]:
        return self._documents(await self._retriever.asearch(query, **self._settings(changes)))

    def _settings(self, changes: dict[str, Any]) -> dict[str, Any]:
        names = ("top_k", "depth", "where", "document_weight", "mode")
        return {name: getattr(self, name) for name in names} | changes

    def _documents(self, hits: list[Hit]) -> list[Document]:
        return [
            Document(
                id=hit.id,
                page_content=content_of(hit, self.content),
                metadata=metadata_of(hit) | {"id": hit.id, "score": hit.score},
            )
            for hit in hits
        ]


class AveybEmbeddings(Embeddings):
    """Encodes for LangChain's vector stores.

    Args:
        model: An Encoder, or a model folder or Hub name.
        options: For a folder or name: what else `Encoder` takes, such as `device`.

    Raises:
        ModelError: The model cannot be loaded.
        ValueError: Impossible options.
    """

    def __init__(self, model: EncoderSource, **options: Any) -> None:
        self._vectors = TextVectors(open_encoder(model, options))

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Encode documents whole: for each one vector."""
        return self._vectors.of_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        """Encode one query."""
        return self._vectors.of_queries([text])[0]

"""An index as a LlamaIndex retriever, and an encoder as a LlamaIndex embedding model.

retriever = AveybRetriever("indexes/wiki", mode="hybrid", top_k=5)
engine = RetrieverQueryEngine.from_args(retriever, llm=llm)
"""

import asyncio
from collections.abc import Mapping
from os import PathLike
from typing import Any

from aveyb_ir.adapters.extras import imports_of
from aveyb_ir.adapters.index_search import Content, IndexSource, content_of, metadata_of, open_retriever
from aveyb_ir.adapters.text_vectors import EncoderSource, TextVectors, open_encoder
from aveyb_ir.retrieval import Hit, Mode, Reranker

with imports_of("llama-index"):
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode


class AveybRetriever(BaseRetriever):
    """Searches an index; a node's id is its document's.

    The arguments are described in `aveyb_ir.adapters`; `base` goes to LlamaIndex's BaseRetriever. A node's `span` is
    kept from embedding and language models.

    Raises:
        AveybError: The index, its encoder or the reranker cannot be opened.
        ValueError: An impossible setting.
    """

    def __init__(
        self,
        index: IndexSource,
        *,
        mode: Mode | None = None,
        reranker: Reranker | str | PathLike[str] | None = None,
        options: Mapping[str, Any] | None = None,
        top_k: int = 10,
        depth: int | None = None,
        where: str | None = None,
        document_weight: float = 0.5,
        content: Content = "document",
        **base: Any,
    ) -> None:
        super().__init__(**base)
        self._retriever = open_retriever(index, mode=mode, reranker=reranker, options=options)
        self._content = content
        self._settings: dict[str, Any] = {
            "top_k": top_k,
            "depth": depth,
            "where": where,
            "document_weight": document_weight,
            "mode": mode,
        }

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._nodes(self._retriever.search(query_bundle.query_str, **self._settings))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._nodes(await self._retriever.asearch(query_bundle.query_str, **self._settings))

    def _nodes(self, hits: list[Hit]) -> list[NodeWithScore]:
        return [
            NodeWithScore(
                node=TextNode(
                    id_=hit.id,
                    text=content_of(hit, self._content),
                    metadata=metadata_of(hit),
                    excluded_llm_metadata_keys=["span"],
                    excluded_embed_metadata_keys=["span"],
                ),
                score=hit.score,
            )
            for hit in hits
        ]


class AveybEmbedding(BaseEmbedding):
    """Encodes for LlamaIndex's own indexes.

    Args:
        model: An Encoder, or a model folder or Hub name.
        options: For a folder or name: what else `Encoder` takes, such as {"device": "cpu"}.
        base: Fields of LlamaIndex's BaseEmbedding, such as `embed_batch_size`.

    Raises:
        ModelError: The model cannot be loaded.
        ValueError: Impossible options.
    """

    _vectors: TextVectors = PrivateAttr()

    def __init__(self, model: EncoderSource, *, options: Mapping[str, Any] | None = None, **base: Any) -> None:
        vectors = TextVectors(open_encoder(model, options or {}))
        super().__init__(**{"model_name": vectors.encoder.name} | base)
        self._vectors = vectors

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._vectors.of_queries([query])[0]

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await asyncio.to_thread(self._get_query_embedding, query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._vectors.of_documents([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._vectors.of_documents(texts)

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await asyncio.to_thread(self._get_text_embeddings, texts)

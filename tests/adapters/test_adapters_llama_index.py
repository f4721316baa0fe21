"""LlamaIndex gets what the retriever and the encoder give."""

import asyncio

import numpy as np
import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.schema import MetadataMode, QueryBundle, TextNode

from aveyb_ir import Retriever
from aveyb_ir.adapters.llama_index import AveybEmbedding, AveybRetriever

QUERY = "ships near the harbour"


def facts(nodes):
    return [(node.node_id, node.score) for node in nodes]


def expected(hits):
    return [(hit.id, hit.score) for hit in hits]


def test_a_path_is_searched_in_every_mode(index_path, retriever, mode):
    found = AveybRetriever(index_path, mode=mode, options={"device": "cpu"}, top_k=7).retrieve(QUERY)
    assert facts(found) == expected(retriever.search(QUERY, top_k=7, mode=mode))
    assert len(found) == 7


def test_a_node_has_what_the_hit_had(retriever):
    settings = {"top_k": 20, "where": "even = true", "document_weight": 0.2}
    found = AveybRetriever(retriever, **settings).retrieve(QueryBundle(QUERY))
    hits = retriever.search(QUERY, **settings)
    assert facts(found) == expected(hits)
    for node, hit in zip(found, hits, strict=True):
        assert node.text == hit.document.full_text
        span = list(hit.span) if hit.span else None
        assert node.metadata == {**hit.metadata, "title": hit.title, "span": span}
        seen = node.get_content(MetadataMode.LLM)
        assert f"year: {hit.metadata['year']}" in seen
        assert "span" not in seen


def test_a_passage_is_the_part_that_matched(retriever):
    found = AveybRetriever(retriever, content="passage", top_k=25).retrieve(QUERY)
    hits = retriever.search(QUERY, top_k=25)
    assert [node.text for node in found] == [hit.passage for hit in hits]
    assert any(hit.passage != hit.document.full_text for hit in hits)


def test_an_event_loop_gets_the_same(retriever):
    adapter = AveybRetriever(retriever, mode="hybrid", top_k=4)
    queries = [QUERY, "snow", "children at the river"]

    async def ask():
        return await asyncio.gather(*map(adapter.aretrieve, queries))

    assert [facts(found) for found in asyncio.run(ask())] == [facts(adapter.retrieve(query)) for query in queries]


def test_a_reranker_decides_and_belongs_to_a_path(index_path, retriever, bert_dir):
    reranking = AveybRetriever(index_path, reranker=bert_dir, options={"device": "cpu"}, top_k=3, depth=9)
    with_reranker = Retriever(index_path, reranker=bert_dir, device="cpu").search(QUERY, top_k=3, depth=9)
    assert facts(reranking.retrieve(QUERY)) == expected(with_reranker) != expected(retriever.search(QUERY, top_k=3))
    with pytest.raises(ValueError, match="beside a Retriever"):
        AveybRetriever(retriever, reranker=bert_dir)


def test_embeddings_are_the_encoders(encoder, avey_dir):
    embedding = AveybEmbedding(avey_dir, options={"device": "cpu"}, embed_batch_size=2)
    assert embedding.model_name == str(avey_dir)
    texts = ["the small garden", "a lighthouse", "the river", "snow"]
    ours = encoder.encode_documents(texts)
    np.testing.assert_allclose(embedding.get_text_embedding_batch(texts), ours, atol=1e-5)
    np.testing.assert_allclose(asyncio.run(embedding.aget_text_embedding_batch(texts)), ours, atol=1e-5)
    np.testing.assert_allclose(embedding.get_text_embedding(texts[1]), ours[1], atol=1e-5)
    for vector in (embedding.get_query_embedding("garden"), asyncio.run(embedding.aget_query_embedding("garden"))):
        np.testing.assert_array_equal(np.float32(vector), encoder.encode_queries("garden"))
    assert embedding.get_query_embedding("garden") != embedding.get_text_embedding("garden"), "prompts differ"


def test_an_index_of_llama_index_searches_with_them(encoder):
    texts = ["penicillin was discovered in London", "the river carries snow", "a cat sleeps in the sun"]
    nodes = [TextNode(text=text, id_=str(i)) for i, text in enumerate(texts)]
    found = VectorStoreIndex(nodes, embed_model=AveybEmbedding(encoder)).as_retriever(similarity_top_k=3)
    scores = encoder.encode_documents(texts) @ encoder.encode_queries("snow")
    ranked = [(str(i), pytest.approx(scores[i], abs=1e-5)) for i in np.argsort(-scores)]
    assert facts(found.retrieve("snow")) == ranked

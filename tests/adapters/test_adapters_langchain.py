"""LangChain gets what the retriever and the encoder give."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore

from aveyb_ir import Retriever
from aveyb_ir.adapters.langchain import AveybEmbeddings, AveybRetriever
from aveyb_ir.errors import IndexDirError

QUERY = "ships near the harbour"


def facts(documents):
    return [(document.id, document.metadata["score"]) for document in documents]


def expected(hits):
    return [(hit.id, hit.score) for hit in hits]


def test_a_path_is_searched_in_every_mode(index_path, retriever, mode):
    found = AveybRetriever(index=index_path, mode=mode, options={"device": "cpu"}, top_k=7).invoke(QUERY)
    assert facts(found) == expected(retriever.search(QUERY, top_k=7, mode=mode))
    assert len(found) == 7


def test_a_document_has_what_the_hit_had(retriever):
    found = AveybRetriever(index=retriever, top_k=25).invoke(QUERY)
    for document, hit in zip(found, retriever.search(QUERY, top_k=25), strict=True):
        assert document.page_content == hit.document.full_text
        own = {"id": hit.id, "score": hit.score, "title": hit.title, "span": list(hit.span) if hit.span else None}
        assert document.metadata == {**hit.metadata, **own}
    assert any(document.metadata["span"] for document in found)


def test_a_passage_is_the_part_of_the_document_that_matched(retriever):
    documents = AveybRetriever(index=retriever, top_k=25).invoke(QUERY)
    passages = AveybRetriever(index=retriever, top_k=25, content="passage").invoke(QUERY)
    assert [len(p.page_content) < len(d.page_content) for p, d in zip(passages, documents, strict=True)].count(True) > 5
    for passage, document in zip(passages, documents, strict=True):
        assert passage.page_content == document.page_content[slice(*(document.metadata["span"] or (None,)))]


def test_settings_hold_and_change_for_one_call(retriever):
    adapter = AveybRetriever(index=retriever, where="year >= 2003", document_weight=0.9)
    assert facts(adapter.invoke(QUERY)) == expected(retriever.search(QUERY, where="year >= 2003", document_weight=0.9))
    assert facts(adapter.invoke(QUERY, top_k=2, where=None, mode="bm25")) == expected(
        retriever.search(QUERY, top_k=2, mode="bm25")
    )
    assert len(adapter.invoke(QUERY)) == 10
    adapter.top_k = 3
    assert len(adapter.invoke(QUERY)) == 3


def test_it_runs_in_chains_in_threads_and_in_an_event_loop(retriever):
    adapter = AveybRetriever(index=retriever, mode="hybrid", top_k=4)
    queries = [QUERY, "snow", "children at the river", "table"] * 3
    alone = [facts(adapter.invoke(query)) for query in queries]
    assert [facts(found) for found in adapter.batch(queries)] == alone
    assert (adapter | RunnableLambda(facts)).invoke(queries[0]) == alone[0]

    async def ask():
        return await asyncio.gather(*map(adapter.ainvoke, queries))

    assert [facts(found) for found in asyncio.run(ask())] == alone


def test_a_reranker_decides(index_path, retriever, bert_dir):
    options = {"device": "cpu"}
    found = AveybRetriever(index=index_path, reranker=str(bert_dir), options=options, depth=12, top_k=3).invoke(QUERY)
    assert facts(found) == expected(
        Retriever(index_path, reranker=str(bert_dir), device="cpu").search(QUERY, depth=12, top_k=3)
    )
    assert facts(found) != expected(retriever.search(QUERY, top_k=3))


def test_what_cannot_be_is_refused_at_once(retriever, tmp_path):
    with pytest.raises(IndexDirError):
        AveybRetriever(index=tmp_path / "nothing")
    with pytest.raises(ValueError, match="beside a Retriever; expected them only with the path"):
        AveybRetriever(index=retriever, options={"device": "cpu"})
    with pytest.raises(ValueError, match="mode"):
        AveybRetriever(index=retriever, mode="sparse")
    with pytest.raises(ValueError, match="content"):
        AveybRetriever(index=retriever, content="title")


def test_embeddings_are_the_encoders(encoder, avey_dir):
    embeddings = AveybEmbeddings(avey_dir, device="cpu")
    texts = ["the small garden", "a lighthouse", ""]
    np.testing.assert_array_equal(np.float32(embeddings.embed_documents(texts)), encoder.encode_documents(texts))
    np.testing.assert_array_equal(np.float32(embeddings.embed_query("garden")), encoder.encode_queries("garden"))
    assert embeddings.embed_query("garden") != embeddings.embed_documents(["garden"])[0], "prompts differ"
    assert embeddings.embed_documents([]) == []
    with ThreadPoolExecutor(8) as threads:
        queries = [f"garden {i}" * (1 + i) for i in range(40)]
        assert list(threads.map(embeddings.embed_query, queries)) == [embeddings.embed_query(q) for q in queries]
    assert asyncio.run(embeddings.aembed_query("garden")) == embeddings.embed_query("garden")
    with pytest.raises(ValueError, match="got device beside an Encoder"):
        AveybEmbeddings(encoder, device="cpu")


def test_a_vector_store_searches_with_them(encoder):
    store = InMemoryVectorStore(AveybEmbeddings(encoder))
    texts = ["penicillin was discovered in London", "the river carries snow", "a cat sleeps in the sun"]
    store.add_documents([Document(page_content=text) for text in texts])
    scores = encoder.encode_documents(texts) @ encoder.encode_queries("snow")
    found = store.similarity_search_with_score("snow", k=3)
    assert [document.page_content for document, _ in found] == [texts[i] for i in np.argsort(-scores)]
    assert [score for _, score in found] == pytest.approx(sorted(scores, reverse=True), abs=1e-5)

"""Exact search in one pass over the corpus."""

import numpy as np
import pytest

from aveyb_ir.data import Document
from aveyb_ir.errors import DataError
from aveyb_ir.retrieval import exact, exact_search

DIMENSION = 6


class TableEncoder:
    """Looks vectors up by text, so that tests decide the scores."""

    def __init__(self, vectors):
        self.vectors = vectors

    def encode_queries(self, texts):
        return np.array([self.vectors[text] for text in texts], dtype=np.float32)

    encode_documents = encode_queries


def collection(num_documents=700, num_queries=9, levels=3):
    """Small integer coordinates: many exact ties."""
    rng = np.random.default_rng(0)
    names = [f"d{i}" for i in range(num_documents)] + [f"q{i}" for i in range(num_queries)]
    vectors = {name: rng.integers(-levels, levels + 1, DIMENSION).astype(np.float32) for name in names}
    documents = [Document(f"d{i}", f"d{i}") for i in range(num_documents)]
    return TableEncoder(vectors), documents, {f"q{i}": f"q{i}" for i in range(num_queries)}


@pytest.mark.parametrize("top_k", [1, 10, 699, 700, 2000])
@pytest.mark.parametrize("block", [1, 64, 4096])
def test_equals_sorting_all_scores(monkeypatch, top_k, block):
    monkeypatch.setattr(exact, "_BLOCK_DOCUMENTS", block)
    encoder, documents, queries = collection()
    found = exact_search(encoder, iter(documents), queries, top_k=top_k)
    assert (found.own_documents_ignored, found.num_documents) == (0, 700)
    run = found.run
    for id in queries:
        scores = [float(encoder.vectors[id] @ encoder.vectors[document.id]) for document in documents]
        order = sorted(range(len(documents)), key=lambda i: (-scores[i], i))[:top_k]
        assert list(run[id].items()) == [(f"d{i}", scores[i]) for i in order]


def unit_collection(num_documents=500, num_queries=30, dimension=64):
    """Unit vectors of many digits, every seventh document a copy of an earlier one, and half of the scores negative."""
    rng = np.random.default_rng(1)
    table = rng.standard_normal((num_documents + num_queries, dimension))
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    for i in range(7, num_documents, 7):
        table[i] = table[i // 2]
    names = [f"d{i}" for i in range(num_documents)] + [f"q{i}" for i in range(num_queries)]
    documents = [Document(f"d{i}", f"d{i}") for i in range(num_documents)]
    encoder = TableEncoder(dict(zip(names, table.astype(np.float32), strict=True)))
    return encoder, documents, {f"q{i}": f"q{i}" for i in range(num_queries)}


@pytest.mark.parametrize(("documents_at_once", "queries_at_once"), [(500, 30), (64, 7), (1, 1)])
@pytest.mark.parametrize("top_k", [1, 20, 500])
def test_scores_do_not_depend_on_the_blocks(monkeypatch, documents_at_once, queries_at_once, top_k):
    """Bit by bit those of a sum in float64, so that copies of a document tie and the earlier one comes first."""
    monkeypatch.setattr(exact, "_BLOCK_DOCUMENTS", documents_at_once)
    monkeypatch.setattr(exact, "_BLOCK_QUERIES", queries_at_once)
    encoder, documents, queries = unit_collection()
    run = exact_search(encoder, documents, queries, top_k=top_k).run
    matrix = np.array([encoder.vectors[document.id] for document in documents])
    for id in queries:
        scores = (matrix * encoder.vectors[id].astype(np.float64)).sum(axis=1).astype(np.float32)
        order = np.lexsort((np.arange(len(scores)), -scores))[:top_k]
        assert list(run[id].items()) == [(f"d{i}", float(scores[i])) for i in order]


def test_float32_products_alone_would_not_do():
    """The negative control: what the search sums up first differs from the scores it gives."""
    encoder, documents, queries = unit_collection()
    run = exact_search(encoder, documents, queries, top_k=500).run
    matrix = np.array([encoder.vectors[document.id] for document in documents])
    near = encoder.encode_queries(list(queries)) @ matrix.T
    assert any(near[0, i] != run["q0"][f"d{i}"] for i in range(500))


def test_a_vector_that_is_not_finite_is_named():
    encoder, documents, queries = collection(num_documents=3)
    encoder.vectors["d1"][2] = np.nan
    with pytest.raises(DataError, match="'d1': its vector holds NaN"):
        exact_search(encoder, documents, queries, top_k=2)


def own_collection():
    vectors = {name: np.eye(DIMENSION, dtype=np.float32)[i] for i, name in enumerate(("same text", "other", "third"))}
    vectors |= {"A title same text": vectors["same text"]}
    documents = [Document("1", "Same  text", title="A title"), Document("2", "other"), Document("3", "third")]
    vectors |= {"A title Same  text": vectors["same text"]}
    return TableEncoder(vectors), documents, {"1": "same text", "2": "third"}


@pytest.mark.parametrize(
    ("rule", "left", "ignored"),
    [("auto", {"1": {"2", "3"}, "2": {"1", "2", "3"}}, 1), ("ignore", {"1": {"2", "3"}, "2": {"1", "3"}}, 2)],
)
def test_own_documents(rule, left, ignored):
    """By default only a document with the query's id *and* text is its own; equal numbers are not enough."""
    encoder, documents, queries = own_collection()
    found = exact_search(encoder, documents, queries, top_k=3, own_document=rule)
    assert {id: set(hits) for id, hits in found.run.items()} == left
    assert found.own_documents_ignored == ignored


def test_own_documents_can_be_kept():
    encoder, documents, queries = own_collection()
    found = exact_search(encoder, documents, queries, top_k=1, own_document="keep")
    assert found.run["1"] == {"1": 1.0}
    assert found.own_documents_ignored == 0


def test_an_own_document_leaves_its_place_to_another():
    encoder, documents, queries = own_collection()
    assert len(exact_search(encoder, documents, queries, top_k=2).run["1"]) == 2


def test_depth_is_checked():
    encoder, documents, queries = own_collection()
    with pytest.raises(ValueError, match="top_k is 0"):
        exact_search(encoder, documents, queries, top_k=0)

"""What a search returns: exact cosines, a documented order, nothing that is not in the index."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aveyb_ir.data import Document
from aveyb_ir.errors import DataError, IndexMismatchError
from aveyb_ir.index import EncoderIdentity, Hit, IndexDir, IndexWriter

CASE = json.loads((Path(__file__).parent / "cases" / "odd_vectors.json").read_text(encoding="utf-8"))
Build = Callable[..., IndexDir]


def expected_hits(embeddings: np.ndarray, query: np.ndarray, top_k: int) -> list[tuple[int, np.float32]]:
    """The definition: float64 inner products of float32 unit vectors; score descending, then row ascending."""

    def unit(array: np.ndarray) -> np.ndarray:
        lengths = np.linalg.norm(array.astype(np.float64), axis=-1, keepdims=True)
        return (array / np.where(lengths == 0, 1, lengths)).astype(np.float32).astype(np.float64)

    scores = np.array([(vector * unit(query)).sum() for vector in unit(embeddings)]).astype(np.float32)
    order = np.lexsort((np.arange(len(scores)), -scores))[:top_k]
    return [(int(row), scores[row]) for row in order]


@pytest.fixture
def odd(tmp_path: Path) -> IndexDir:
    with IndexWriter.create(tmp_path / "odd", EncoderIdentity("odd", "f", 8)) as writer:
        writer.add([Document(id, id) for id in CASE["docs"]], np.array(list(CASE["docs"].values()), np.float64))
    return IndexDir.open(tmp_path / "odd")


def test_cosine_search_of_five_odd_vectors_gives_five_hits(odd: IndexDir) -> None:
    (hits,) = odd.search([CASE["query"]], 10)
    assert [hit.id for hit in hits] == ["v1", "v2", "v3", "v4", "v5"]
    assert [hit.score for hit in hits] == pytest.approx([1.0, 1.0, 0.70711, 0.0, -1.0], abs=1e-5)
    assert [hit.row for hit in hits] == [0, 1, 2, 3, 4]
    assert all(-1 <= hit.score <= 1 and hit.span is None for hit in hits)


def test_float_types_memory_orders_and_lists_give_the_same_hits(odd: IndexDir) -> None:
    queries = np.array([CASE["query"], [1, 2, 3, 4, 5, 6, 7, 8]], np.float32)
    expected = odd.search(queries, 3)
    assert odd.search(queries.astype(np.float64), 3) == expected
    assert odd.search(np.asfortranarray(queries), 3) == expected
    assert odd.search(queries.repeat(2, axis=1)[:, ::2], 3) == expected
    assert odd.search(queries.tolist(), 3) == expected
    assert odd.search(queries.astype(np.float16), 3) == expected  # these numbers are exact in float16


def test_embeddings_of_the_caller_are_never_changed(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).standard_normal((6, 8)).astype(np.float32)
    before = vectors.copy()
    vectors.flags.writeable = False
    with IndexWriter.create(tmp_path / "index", EncoderIdentity("e", "f", 8)) as writer:
        writer.add([Document(str(i), "") for i in range(6)], vectors)
    IndexDir.open(tmp_path / "index").search(vectors, 3)
    assert np.array_equal(vectors, before)


@pytest.mark.parametrize("top_k", [0, -1, 2.5, True, np.True_, "3", None, np.nan])
def test_a_top_k_that_is_no_number_of_hits_is_refused(odd: IndexDir, top_k: Any) -> None:
    with pytest.raises(ValueError, match=rf"top_k is {top_k!r}, expected a whole number from 1"):
        odd.search([CASE["query"]], top_k)


def test_a_query_of_another_dimension_is_refused_with_both_numbers(odd: IndexDir) -> None:
    with pytest.raises(IndexMismatchError, match="7 dimensions, the index has 8"):
        odd.search([CASE["wrong_dim_query"]], 1)


def test_a_query_with_nan_is_refused_by_number(odd: IndexDir) -> None:
    with pytest.raises(DataError, match="query number 1"):
        odd.search([[1.0] * 8, [float("nan")] * 8], 1)


@pytest.mark.parametrize(
    "queries",
    [np.ones((1, 8), np.int64), np.ones((1, 8), bool), np.ones(8), [1.0] * 8, "text", [[1.0], [1.0, 2.0]], None],
    ids=["integers", "booleans", "one vector", "one list", "a text", "ragged", "nothing"],
)
def test_what_is_not_a_matrix_of_floats_is_a_type_error(odd: IndexDir, queries: object) -> None:
    with pytest.raises(TypeError, match="expected"):
        odd.search(queries, 1)


def test_no_queries_give_no_results(odd: IndexDir) -> None:
    assert odd.search(np.empty((0, 8)), 5) == []


def test_a_zero_query_scores_zero_with_the_first_documents(build: Build) -> None:
    index = build(np.random.default_rng(0).standard_normal((500, 8)))
    (hits,) = index.search(np.zeros((1, 8)), 5)
    assert hits == [Hit(str(row), 0.0, row, None) for row in range(5)]


@pytest.mark.parametrize("top_k", [1, 7, 60, 1000])
@pytest.mark.parametrize("blocks", [1, 4])
def test_hits_are_those_of_the_definition_with_many_ties(build: Build, top_k: int, blocks: int) -> None:
    rng = np.random.default_rng(top_k)
    distinct = rng.standard_normal((40, 16)).astype(np.float32)
    embeddings = distinct[rng.integers(0, 40, 700)]
    queries = np.concatenate([distinct[:3], rng.standard_normal((4, 16)).astype(np.float32)])
    for query, hits in zip(queries, build(embeddings, blocks).search(queries, top_k), strict=True):
        assert [(hit.row, np.float32(hit.score)) for hit in hits] == expected_hits(embeddings, query, top_k)


def test_ties_are_cut_by_row_also_far_beyond_what_is_asked_for(build: Build) -> None:
    embeddings = np.tile(np.array([0.5, 0.5, 0.5, 0.5]), (300, 1))
    embeddings[150] = [1, 0, 0, 0]
    (hits,) = build(embeddings).search([[1.0, 1.0, 1.0, 1.0]], 5)
    assert [hit.row for hit in hits] == [0, 1, 2, 3, 4]
    (hits,) = build(embeddings[::-1].copy()).search([[1.0, 0.0, 0.0, 0.0]], 5)
    assert [hit.row for hit in hits] == [149, 0, 1, 2, 3]


def test_scores_do_not_depend_on_the_company_of_a_query(build: Build) -> None:
    rng = np.random.default_rng(1)
    index = build(rng.standard_normal((300, 96)))
    queries = rng.standard_normal((64, 96))
    together = index.search(queries, 20)
    assert together == [index.search(queries[i : i + 1], 20)[0] for i in range(64)]
    assert together[10:35] == index.search(queries[10:35], 20)
    assert [hits[:3] for hits in together] == index.search(queries, 3)


def test_documents_with_several_vectors_score_by_the_best_and_name_its_span(tmp_path: Path) -> None:
    documents = [Document("long", "red green blue"), Document("short", "blue")]
    spans = [[(0, 3), (4, 9), (10, 14)], [(0, 4)]]
    vectors = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0.6, 0.8]], np.float32)
    with IndexWriter.create(tmp_path / "parts", EncoderIdentity("e", "f", 3)) as writer:
        writer.add(documents, vectors, spans)
    index = IndexDir.open(tmp_path / "parts")
    green, blue = index.search([[0, 1, 0], [0, 0, 1]], 2)
    assert [(hit.id, hit.span) for hit in green] == [("long", (4, 9)), ("short", (0, 4))]
    assert [(hit.id, hit.span) for hit in blue] == [("long", (10, 14)), ("short", (0, 4))]
    assert (index.info()["documents"], index.info()["vectors"]) == (2, 4)


def test_a_document_with_very_many_vectors_does_not_crowd_out_others(tmp_path: Path) -> None:
    vectors = np.array([[1.0, 0.01]] * 500 + [[1, 1], [0, 1], [-1, 0]])
    documents = [Document("crowd", "x" * 500), *(Document(name, "y") for name in ("near", "far", "opposite"))]
    spans = [[(i, i + 1) for i in range(500)], *[[(0, 1)]] * 3]
    with IndexWriter.create(tmp_path / "crowd", EncoderIdentity("e", "f", 2)) as writer:
        writer.add(documents, vectors, spans)
    (hits,) = IndexDir.open(tmp_path / "crowd").search([[1.0, 0.0]], 3)
    assert [hit.id for hit in hits] == ["crowd", "near", "far"]
    assert hits[0].span == (0, 1)

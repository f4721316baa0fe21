"""From vectors that a finder names to documents: how many are asked for, and that only exact scores decide."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from aveyb_ir.data import Document
from aveyb_ir.index import EncoderIdentity, IndexDir, IndexSpec, IndexWriter, inner_products
from aveyb_ir.index.faiss_build import write_faiss
from aveyb_ir.index.faiss_file import FaissFile
from aveyb_ir.index.nearest import PART
from aveyb_ir.index.segment_search import SegmentSearch

DIMENSION = 32


def unit(count: int, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((count, DIMENSION))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def parts(rows: list[int] | np.ndarray) -> np.ndarray:
    return np.array([(row, i, i + 1) for i, row in enumerate(rows)], PART)


class RoughFinder:
    """Orders vectors by scores that are up to `error` off, and remembers how many it was asked for."""

    complete = False

    def __init__(self, vectors: np.ndarray, *, error: float, lossless: bool) -> None:
        self.lossless = lossless
        self.asked: list[int] = []
        self._vectors = vectors
        self._error = error * np.random.default_rng(1).uniform(-1, 1, len(vectors)).astype(np.float32)

    def nearest(self, queries: np.ndarray, num: int, allowed: object, effort: int = 1) -> tuple[np.ndarray, np.ndarray]:
        self.asked.append(num)
        scores = queries @ self._vectors.T + self._error
        order = np.argsort(-scores, axis=1)[:, :num]
        return np.take_along_axis(scores, order, axis=1), order


def rows_of(search: SegmentSearch, queries: np.ndarray, num: int = 10) -> list[list[int]]:
    return [result.parts["row"].tolist() for result in search.search(queries, num, None, 0.5)]


def true_rows(vectors: np.ndarray, queries: np.ndarray, num: int = 10) -> list[list[int]]:
    cosines = queries.astype(np.float64) @ vectors.T.astype(np.float64)
    return np.argsort(-cosines, axis=1, kind="stable")[:, :num].tolist()


def test_an_inner_product_is_the_same_in_any_company() -> None:
    vectors, queries = unit(500), unit(40, seed=2)
    rows, positions = np.divmod(np.arange(20_000), 500)
    together = inner_products(queries, rows, vectors, positions)
    assert together.dtype == np.float32
    alone = [inner_products(queries[i : i + 1], np.array([0]), vectors, np.array([7])) for i in (0, 39)]
    assert [together[7], together[39 * 500 + 7]] == [float(score[0]) for score in alone]
    chosen = np.random.default_rng(3).permutation(20_000)[:777]
    assert np.array_equal(inner_products(queries, rows[chosen], vectors, positions[chosen]), together[chosen])
    defined = [(query.astype(np.float64) * vector).sum() for query in queries for vector in vectors]
    assert np.array_equal(together, np.array(defined, np.float32))
    assert not np.array_equal(together, (queries @ vectors.T).ravel())  # which a product of matrices is not


def test_a_finder_that_compresses_is_asked_for_candidates_and_cannot_decide_their_order() -> None:
    vectors, queries = unit(2000), unit(70, seed=2)
    rough = RoughFinder(vectors, error=0.02, lossless=False)
    assert rows_of(SegmentSearch(vectors, parts(np.arange(2000)), rough, 6), queries) == true_rows(vectors, queries)
    assert rough.asked == [6 * 10 + 32]


def test_a_lossless_finder_is_asked_for_little_more_than_is_wanted() -> None:
    vectors, queries = unit(2000), unit(70, seed=2)
    finder = RoughFinder(vectors, error=0, lossless=True)
    assert rows_of(SegmentSearch(vectors, parts(np.arange(2000)), finder, 6), queries) == true_rows(vectors, queries)
    assert finder.asked == [20]
    liar = RoughFinder(vectors, error=0.3, lossless=True)
    assert rows_of(SegmentSearch(vectors, parts(np.arange(2000)), liar, 6), queries) != true_rows(vectors, queries)


def test_what_rounding_may_have_put_behind_is_scored_too() -> None:
    random = np.random.default_rng(4)
    near = unit(1).repeat(15, axis=0) + random.uniform(-3e-7, 3e-7, (15, DIMENSION)).astype(np.float32)
    vectors = np.concatenate([near, unit(100, seed=5)])
    scores = inner_products(unit(1), np.zeros(15, np.int64), near, np.arange(15))
    best = np.lexsort((np.arange(15), -scores))[:10].tolist()
    rounding = (DIMENSION + 1) * 2.0**-24
    close = RoughFinder(vectors, error=rounding, lossless=True)
    assert rows_of(SegmentSearch(vectors, parts(range(115)), close, 10), unit(1)) == [best]
    far = RoughFinder(vectors, error=100 * rounding, lossless=True)  # more than rounding, and so not lossless at all
    assert rows_of(SegmentSearch(vectors, parts(range(115)), far, 10), unit(1)) != [best]
    assert (close.asked, far.asked) == ([20], [20])


def test_equal_scores_come_by_row_whatever_the_order_of_the_vectors() -> None:
    vectors = unit(100)
    vectors[:50] = vectors[0]
    rows = np.random.default_rng(4).permutation(100)
    finder = RoughFinder(vectors, error=0, lossless=True)
    assert rows_of(SegmentSearch(vectors, parts(rows), finder, 6), vectors[:1]) == [sorted(rows[:50].tolist())[:10]]
    assert finder.asked == [20, 80]


def test_where_documents_have_several_vectors_candidates_are_fetched_all_the_same() -> None:
    vectors = unit(2000)
    finder = RoughFinder(vectors, error=0, lossless=True)
    (rows,) = rows_of(SegmentSearch(vectors, parts(np.arange(2000) // 4), finder, 6), unit(1, seed=2))
    assert len(set(rows)) == 10
    assert finder.asked == [6 * 10 + 32]


def test_only_queries_that_have_too_few_documents_are_searched_wider() -> None:
    """The first query is nearest to 150 vectors of one document, the second farthest from them."""
    vectors = unit(1000)
    vectors[:150] = vectors[0]
    finder = RoughFinder(vectors, error=0, lossless=True)
    search = SegmentSearch(vectors, parts(np.maximum(np.arange(1000) - 149, 0)), finder, 2)
    near, far = rows_of(search, np.stack([vectors[0], -vectors[0]]))
    assert finder.asked == [52, 208]
    assert near[0] == 0
    assert len(set(near)) == len(set(far)) == 10
    assert 0 not in far


@pytest.mark.parametrize("spec", ["IVF4,Flat", "HNSW16", "SQ8"])
def test_equal_vectors_are_cut_by_row_far_beyond_what_was_fetched(spec: str, tmp_path: Path) -> None:
    vectors = unit(600)
    vectors[100:500] = vectors[0]
    with IndexWriter.create(tmp_path / "index", EncoderIdentity("any", "f", DIMENSION), spec=spec) as writer:
        writer.add([Document(str(i), "") for i in range(600)], vectors)
    (hits,) = IndexDir.open(tmp_path / "index").search(vectors[:1], 5)
    assert [hit.row for hit in hits] == [0, 100, 101, 102, 103]


@pytest.mark.parametrize(
    ("factory", "lossless"),
    [
        *[("IVF4,Flat", True), ("HNSW16", True), ("HNSW16,Flat", True), ("NSG16,Flat", True)],
        *[("SQ8", False), ("IVF4,SQ8", False), ("HNSW16,SQ8", False), ("PQ8", False), ("PCA16,IVF4,Flat", False)],
        *[("RR16,Flat", False), ("BFlat", False), ("BHNSW16", False)],
    ],
)
def test_which_indexes_keep_the_vectors_as_they_are(factory: str, lossless: bool, tmp_path: Path) -> None:
    vectors, spec = unit(600), IndexSpec(factory=factory)
    write_faiss(tmp_path / "faiss.index", vectors, factory, spec)
    file = FaissFile(tmp_path / "faiss.index", 600, DIMENSION, spec)
    assert file.lossless is lossless
    scores, positions = file.nearest(unit(5, seed=2), 20, None)
    true = inner_products(unit(5, seed=2), np.repeat(np.arange(5), 20), vectors, positions.ravel())
    assert np.allclose(scores.ravel(), true, atol=1e-6) is lossless


def test_results_of_one_segment_and_of_several_are_the_same(build: Callable[..., IndexDir]) -> None:
    vectors, queries = unit(300), unit(20, seed=2)
    vectors[::3] = vectors[0]
    one, several = build(vectors), build(vectors, blocks=5)
    assert several.info()["segments"] > 1
    assert one.search(queries, 150) == several.search(queries, 150)

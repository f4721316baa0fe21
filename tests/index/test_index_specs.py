"""Whatever the specification: exact scores, one order, enough documents, and nothing that may not be found."""

import logging
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
import yaml

from aveyb_ir.data import Document
from aveyb_ir.errors import AveybError, RecipeError
from aveyb_ir.index import (
    BUILT_IN,
    AutoSpec,
    EncoderIdentity,
    IndexDir,
    IndexSpec,
    IndexWriter,
    check_spec,
    faiss_trial,
    load_spec,
)

SPECS = [
    *BUILT_IN,
    "PQ8",
    "IVF8,SQ8",
    "IVF4,PQ8x4fs",
    "PQ8x4fs",
    "PCA16,IVF8,Flat",
    "OPQ8,IVF4,PQ8",
    "HNSW16,SQ8",
    "NSG16",
    "BHNSW16",
    "BIVF8",
]
DIMENSION = 32
FOLDER = Path(__file__).parents[2] / "indexes"


@lru_cache(maxsize=1)
def clustered() -> tuple[np.ndarray, np.ndarray]:
    """600 vectors in 30 groups, the last 100 equal to the first 100, and 40 queries like them; unit length."""
    rng = np.random.default_rng(3)
    centres = rng.standard_normal((30, DIMENSION))
    vectors = centres[rng.integers(30, size=500)] + 0.7 * rng.standard_normal((500, DIMENSION))
    queries = centres[rng.integers(30, size=40)] + 0.7 * rng.standard_normal((40, DIMENSION))
    return tuple(x / np.linalg.norm(x, axis=1, keepdims=True) for x in (np.vstack([vectors, vectors[:100]]), queries))


@pytest.fixture(scope="module", params=SPECS)
def index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> IndexDir:
    path = tmp_path_factory.mktemp("specs") / "index"
    with IndexWriter.create(path, EncoderIdentity("any", "f", DIMENSION), spec=request.param) as writer:
        documents = [Document(str(i), f"text {i}", "", {"number": i, "odd": bool(i % 2)}) for i in range(600)]
        writer.add(documents, clustered()[0])
    return IndexDir.open(path)


def cosines(queries: np.ndarray) -> np.ndarray:
    return queries @ clustered()[0].T


def test_scores_are_exact_and_hits_in_order_whatever_found_them(index: IndexDir) -> None:
    queries = clustered()[1]
    for hits, true in zip(index.search(queries, 20), cosines(queries), strict=True):
        assert [hit.score for hit in hits] == pytest.approx(true[[hit.row for hit in hits]], abs=1e-6)
        assert hits == sorted(hits, key=lambda hit: (-hit.score, hit.row))
        assert len({hit.row for hit in hits}) == 20


def test_most_of_the_nearest_are_found(index: IndexDir) -> None:
    queries = clustered()[1]
    true = np.argsort(-cosines(queries), axis=1, kind="stable")[:, :10]
    found = [{hit.row for hit in hits} for hits in index.search(queries, 10)]
    recall = np.mean([len(hits & set(rows.tolist())) / 10 for hits, rows in zip(found, true, strict=True)])
    assert recall >= 0.95
    if index.info()["spec"] == "flat":
        assert recall == 1


def test_a_query_finds_the_same_in_any_company(index: IndexDir) -> None:
    queries = clustered()[1]
    together = index.search(queries, 10)
    assert together == [index.search(query[None], 10)[0] for query in queries]
    assert together[5:30] == index.search(queries[5:30], 10)


def test_no_queries_find_nothing(index: IndexDir) -> None:
    assert index.search(np.empty((0, DIMENSION)), 10) == []


def test_equal_documents_come_by_row(index: IndexDir) -> None:
    for row, hits in enumerate(index.search(clustered()[0][:20], 2)):
        assert [hit.row for hit in hits] == [row, row + 500]


def test_all_documents_are_found_when_more_are_asked_for(index: IndexDir) -> None:
    for hits in index.search(clustered()[1][:2], 1000):
        assert sorted(hit.row for hit in hits) == list(range(600))


def test_only_what_meets_a_condition_is_found(index: IndexDir, monkeypatch: pytest.MonkeyPatch) -> None:
    queries, searches = clustered()[1], []
    for few in (10_000, 0):  # with and without the exact comparison of few vectors
        monkeypatch.setattr("aveyb_ir.index.segment_search._FEW", few)
        searches.append(index.search(queries, 10, where="odd = true and number < 400"))
        for hits in searches[-1]:
            assert len(hits) == 10
            assert all(hit.row % 2 and hit.row < 400 for hit in hits)
    exact = np.argsort(-cosines(queries)[:, 1:400:2], axis=1, kind="stable")[:, :10] * 2 + 1
    assert [[hit.row for hit in hits] for hits in searches[0]] == exact.tolist()
    assert index.search(queries, 10, where="number > 1000") == [[]] * 40
    assert [len(hits) for hits in index.search(queries[:2], 10, where="number in (3, 5, 700)")] == [2, 2]


def test_deleted_documents_are_not_found_and_compacting_changes_nothing(index: IndexDir, tmp_path: Path) -> None:
    queries = clustered()[1]
    copy = tmp_path / "copy"
    with IndexWriter.create(copy, index.encoder, spec=IndexSpec(**index.info()["spec_details"])) as writer:
        documents = list(index)
        writer.add(documents, clustered()[0])
    with IndexWriter.open(copy) as writer:
        writer.delete([str(i) for i in range(0, 600, 3)])
    left = IndexDir.open(copy)
    for hits in left.search(queries, 10):
        assert len(hits) == 10
        assert all(hit.row % 3 for hit in hits)
    with IndexWriter.open(copy) as writer:
        writer.compact()
        writer.add([Document("new", "new")], queries[:1])
    assert left.latest().search(queries[:1], 1)[0][0].id == "new"
    assert left.latest().info()["deleted"] == 0
    left.latest().verify()


def test_building_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    contents = []
    for name in ("one", "two"):
        with IndexWriter.create(tmp_path / name, EncoderIdentity("any", "f", DIMENSION), spec="ivf_pq") as writer:
            writer.add([Document(str(i), "") for i in range(600)], clustered()[0])
        contents.append({p.name: p.read_bytes() for p in (tmp_path / name).glob("segment-*/*")})
    assert contents[0] == contents[1]


def test_another_spec_takes_effect_without_new_embeddings(tmp_path: Path) -> None:
    path = tmp_path / "index"
    with IndexWriter.create(path, EncoderIdentity("any", "f", DIMENSION)) as writer:
        writer.add([Document(str(i), "") for i in range(600)], clustered()[0])
    assert not list(path.glob("*/faiss.index"))
    before = IndexDir.open(path).search(clustered()[1], 10)
    with IndexWriter.open(path) as writer:
        writer.compact(spec="int8")
    after = IndexDir.open(path)
    assert (after.info()["spec"], after.info()["factories"]) == ("int8", ["SQ8"])
    assert after.search(clustered()[1], 10) == before
    with pytest.raises(ValueError, match="Garbage"), IndexWriter.open(path) as writer:
        writer.compact(spec="Garbage")
    assert IndexDir.open(path).info()["spec"] == "int8"


@pytest.mark.parametrize(
    ("spec", "dimension", "message"),
    [
        ("PQ3", 8, r"'PQ3' with 8 dimensions.*multiple of the number of subquantizers.*expected auto, flat"),
        ("BFlat", 12, r"'BFlat' with 12 dimensions; expected a multiple of 8"),
        ("binary", 12, r"12 dimensions; expected a multiple of 8"),
        ("Garbage", 8, r"'Garbage' with 8 dimensions.*could not parse.*flat, int8"),
        ("IVF4,Flat,RFlat", 8, r"RFlat cannot be used \(hits are scored again exactly"),
        ("IDMap,Flat", 8, r"IDMap cannot be used"),
        ("ITQ8,LSH", 8, r"LSH cannot be used"),
    ],
)
def test_an_impossible_spec_is_refused_at_once_and_leaves_nothing(
    tmp_path: Path, spec: str, dimension: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        IndexWriter.create(tmp_path / "index", EncoderIdentity("any", "f", dimension), spec=spec)
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize(
    "factory",
    [
        *("HNSW0,Flat", "HNSW1,Flat", "IVF4_HNSW0,Flat", "RR0,Flat", "PCAR0,Flat", "HNSW99999999,Flat", "NSG0,Flat"),
        *("IVF99999999,Flat", "HNSW1000000000", "IVF0,Flat", "PQ4x99", "RR9999999,Flat", f"IVF{'9' * 5000},Flat"),
        *("Flat\x00", "Flat ", " Flat", "", "Flat\n", "IVF٤,Flat", "PQ4x0", "BHNSW0", "OPQ8_0,PQ4", "SQ0"),
    ],
)
def test_a_factory_string_that_no_faiss_should_see_is_refused_without_it(factory: str) -> None:
    with pytest.raises(ValueError, match=r"^spec '.*expected") as caught:
        check_spec(IndexSpec(factory=factory), DIMENSION)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("factory", "reason"),
    [
        ("MinMax,Flat", "add not implemented for this type of index"),  # FAISS builds it and then cannot use it
        ("RR1048576,Flat", "it crashes with SIG"),
        ("PCA33,Flat", "cannot output 33 dimensions from 32"),
        ("IVF16_NSG16,Flat", "cannot build a graph"),
        ("Flat,", "could not parse index string Flat,"),
    ],
)
def test_a_factory_string_that_faiss_dies_of_or_cannot_use_is_refused(factory: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        check_spec(IndexSpec(factory=factory), DIMENSION)


def test_a_trial_that_never_ends_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faiss_trial, "_CHILD", "import time; time.sleep(60)  # {0} {1}")
    monkeypatch.setattr(faiss_trial, "_SECONDS", 0.5)
    assert "not done within 0.5 seconds" in faiss_trial.trial_failure("{}", "never ends", 8)


def test_a_trial_that_cannot_be_run_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faiss_trial, "_CHILD", "import aveyb_nowhere  # {0} {1}")
    with pytest.raises(AveybError, match=r"exit code 1 .*No module named 'aveyb_nowhere'"):
        faiss_trial.trial_failure("{}", "cannot be run", 8)


def test_large_and_rotated_specs_are_tried_in_little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for factory in ("IVF1048576,Flat", "OPQ8,IVF65536_HNSW32,PQ8"):
        check_spec(IndexSpec(factory=factory), DIMENSION)


@pytest.mark.parametrize(
    ("spec", "needed"),
    [
        ("IVF16,Flat", 16),
        ("PQ4", 256),
        ("IVF300,PQ4", 300),
        ("PQ4x4", 16),
        ("PQ4x12", 4096),
        ("OPQ8,PQ4", 256),
        ("PCA9,Flat", 9),
        ("PRQ2x2x4", 16),
        ("NSG16", 256),
        ("RQ2x2", 8),
        ("ivf", 1),
        ("ivf_pq", 256),
        ("binary", 1),
    ],
)
def test_a_spec_knows_how_many_vectors_train_it(spec: str, needed: int) -> None:
    loaded = load_spec(spec)
    assert isinstance(loaded, IndexSpec)
    assert loaded.min_vectors(8) == needed


def test_a_spec_replaced_by_flat_for_want_of_vectors_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for spec in ("IVF16,Flat", "ivf"):
        caplog.clear()
        with IndexWriter.create(tmp_path / spec, EncoderIdentity("any", "f", DIMENSION), spec=spec) as writer:
            writer.add([Document(str(i), "") for i in range(5)], clustered()[0][:5])
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert "5 vectors are too few to train" in caplog.text
        assert len(IndexDir.open(tmp_path / spec).search(clustered()[1][:1], 10)[0]) == 5


def test_a_few_vectors_added_to_a_trained_index_are_compared_exactly(tmp_path: Path) -> None:
    path = tmp_path / "index"
    with IndexWriter.create(path, EncoderIdentity("any", "f", DIMENSION), spec="IVF16,PQ8") as writer:
        writer.add([Document(str(i), "") for i in range(600)], clustered()[0])
    with IndexWriter.open(path) as writer:
        writer.add([Document("new", "")], clustered()[1][:1])
    index = IndexDir.open(path)
    assert index.info()["factories"] == ["Flat", "IVF16,PQ8"]
    assert index.search(clustered()[1][:1], 1)[0][0].id == "new"


def test_additions_to_an_index_of_lists_are_silent(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for number in range(3):
        with (
            IndexWriter.open(tmp_path / "index")
            if number
            else IndexWriter.create(tmp_path / "index", EncoderIdentity("any", "f", DIMENSION), spec="ivf")
        ) as writer:
            rows = slice(0, 400) if not number else slice(400 + 10 * number, 410 + 10 * number)
            writer.add([Document(f"{number}-{i}", "") for i in range(*rows.indices(600))], clustered()[0][rows])
    assert IndexDir.open(tmp_path / "index").info()["factories"] == ["Flat", "IVF10,Flat"]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("count", "dimension", "auto", "chosen"),
    [
        (1000, 256, AutoSpec(), "flat"),
        (1_000_000, 256, AutoSpec(memory_gb=8), "hnsw"),
        (1_000_000, 256, AutoSpec(memory_gb=1.1), "ivf"),
        (1_000_000, 256, AutoSpec(memory_gb=0.5), "ivf_pq"),
        (1_000_000, 256, AutoSpec(memory_gb=0.5, recall=0.99), "int8"),
        (1_000_000, 256, AutoSpec(memory_gb=0.04), "binary"),
        (1_000_000, 257, AutoSpec(memory_gb=0.04), "flat"),
        (1_000_000, 256, AutoSpec(recall=1), "flat"),
    ],
)
def test_auto_chooses_by_count_memory_and_recall_and_says_why(
    count: int, dimension: int, auto: AutoSpec, chosen: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        assert auto.choose(count, dimension).name == chosen
    assert re.search(rf"spec auto: {chosen} for {count} vectors of {dimension} dimensions, .+", caplog.text)


def test_auto_is_settled_when_the_index_is_published(tmp_path: Path) -> None:
    with IndexWriter.create(tmp_path / "index", EncoderIdentity("any", "f", DIMENSION), spec="auto") as writer:
        writer.add([Document("a", "")], clustered()[1][:1])
    assert IndexDir.open(tmp_path / "index").info()["spec"] == "flat"


def test_the_files_in_indexes_are_the_built_in_specs() -> None:
    files = {path.stem: load_spec(path) for path in FOLDER.glob("*.yaml")}
    assert files == BUILT_IN


def test_the_table_in_indexes_lists_every_key() -> None:
    table = (FOLDER / "README.md").read_text(encoding="utf-8")
    for key, field in IndexSpec.model_fields.items():
        default = "required" if field.is_required() else field.default or "-"
        assert f"| `{key}` | {default} | {field.description} |" in table


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("factory: SQ8\nnprob: 3\n", "nprob: unknown key, did you mean nprobe"),
        ("nprobe: 3\n", "factory: missing"),
        ("factory: SQ8\nnprobe: '3'\n", "nprobe: got '3', expected a valid integer"),
        ("factory: SQ8\ncandidates: 0\n", "candidates: got 0, expected greater than 0"),
        ("factory: HNSW8\nef_search: 99999999999\n", "ef_search: got 99999999999, expected .*1048576"),
        ("- SQ8\n", "a valid dictionary"),
        ("factory: [", "expected YAML"),
    ],
)
def test_a_broken_spec_file_is_refused_with_the_key(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(RecipeError, match=message) as caught:
        load_spec(path)
    assert str(path) in str(caught.value)


def test_a_spec_file_is_named_after_itself(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({"factory": "SQ8", "candidates": 2}), encoding="utf-8")
    assert load_spec(path) == IndexSpec(name="mine", factory="SQ8", candidates=2)
    with pytest.raises(RecipeError, match="No such file"):
        load_spec(tmp_path / "none.yaml")


def test_searching_compressed_vectors_changes_what_is_found_if_not_rescored(
    tmp_path: Path, build: Callable[..., IndexDir]
) -> None:
    exact = build(clustered()[0]).search(clustered()[1], 10)
    found = {}
    for candidates in (1, 10):
        spec = IndexSpec(factory="BFlat", candidates=candidates)
        path = tmp_path / str(candidates)
        with IndexWriter.create(path, EncoderIdentity("any", "f", DIMENSION), spec=spec) as writer:
            writer.add([Document(str(i), "") for i in range(600)], clustered()[0])
        rows = [{hit.row for hit in hits} for hits in IndexDir.open(path).search(clustered()[1], 10)]
        found[candidates] = sum(len(a & {hit.row for hit in b}) for a, b in zip(rows, exact, strict=True))
    assert found[1] < found[10]

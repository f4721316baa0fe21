"""Collections by path or public name: BEIR folders, copies of Hub data sets, and the Hub's cache without a network."""

import gzip
import json
import shutil
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub import constants

from aveyb_ir.data import (
    BeirFolder,
    Document,
    HubCollection,
    Query,
    count_documents,
    open_collection,
    open_collections,
    read_documents,
    read_queries,
    training_rows_from_beir,
    write_beir_folder,
)
from aveyb_ir.data.hub import HubDataset
from aveyb_ir.data.records import read_records
from aveyb_ir.errors import DataError

DOCUMENTS = [Document("007", "seven", "Bond"), Document("7", "Åse\nzwei"), Document("NA", "", "Namibia")]
QUERIES = [Query("01", "who?"), Query("1", "what?"), Query("2", "unjudged")]
QRELS = {"test": {"01": {"007": 2, "7": 0}, "1": {"NA": 1}}, "dev": {"1": {"7": 1}}}
README = """---
language: en
configs:
- config_name: corpus
  data_files:
  - split: corpus
    path: corpus/corpus-*
- config_name: queries
  data_files:
  - split: queries
    path: queries/*.parquet
{more}---
"""
MTEB_QRELS = """- config_name: default
  data_files:
  - split: test
    path: qrels/test.jsonl
  - split: dev
    path: [qrels/dev.jsonl]
"""


def records(items):
    return [{"_id": i.id, **({"title": i.title} if isinstance(i, Document) else {}), "text": i.text} for i in items]


def write_parquet(path: Path, rows) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)


def write_texts(folder: Path, readme: str = README.format(more="")) -> Path:
    write_parquet(folder / "corpus" / "corpus-00000-of-00002.parquet", records(DOCUMENTS[:2]))
    write_parquet(folder / "corpus" / "corpus-00001-of-00002.parquet", records(DOCUMENTS[2:]))
    write_parquet(folder / "queries" / "queries-00000-of-00001.parquet", records(QUERIES))
    (folder / "README.md").write_text(readme, encoding="utf-8")
    return folder


def write_qrels_apart(folder: Path) -> None:
    write_beir_folder(folder.with_name("scratch"), [], [], QRELS)
    shutil.move(folder.with_name("scratch") / "qrels", folder)
    shutil.rmtree(folder.with_name("scratch"))


@pytest.fixture
def two_part(tmp_path: Path) -> Path:
    folder = write_texts(tmp_path / "BeIR" / "nq")
    write_qrels_apart(tmp_path / "BeIR" / "nq-qrels")
    return folder


@pytest.fixture
def one_part(tmp_path: Path) -> Path:
    folder = write_texts(tmp_path / "mteb" / "nq", README.format(more=MTEB_QRELS))
    (folder / "qrels").mkdir()
    for split, judged in QRELS.items():
        rows = [
            {"query-id": query, "corpus-id": document, "score": float(grade)}
            for query, of_query in judged.items()
            for document, grade in of_query.items()
        ]
        (folder / "qrels" / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture
def original(tmp_path: Path) -> Path:
    """The layout that BEIR's data sets had on the Hub at first: gzipped files beside each other, no configs."""
    folder = tmp_path / "old" / "nq"
    folder.mkdir(parents=True)
    for stem, items in (("corpus", DOCUMENTS), ("queries", QUERIES)):
        lines = "".join(json.dumps(record) + "\n" for record in records(items))
        (folder / f"{stem}.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    write_qrels_apart(tmp_path / "old" / "nq-qrels")
    return folder


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    write_beir_folder(tmp_path / "beir" / "nq", DOCUMENTS, QUERIES, QRELS)
    return tmp_path / "beir" / "nq"


@pytest.mark.parametrize("layout", ["beir", "two_part", "one_part", "original"])
def test_every_layout_of_a_collection_reads_the_same(layout: str, request: pytest.FixtureRequest) -> None:
    collection = open_collection(request.getfixturevalue(layout))
    assert collection.name == "nq"
    assert list(collection.documents()) == DOCUMENTS
    assert collection.queries() == {query.id: query.text for query in QUERIES}
    assert collection.qrels("test") == QRELS["test"]
    assert collection.qrels("dev") == QRELS["dev"]
    assert collection.judged_queries("test") == {"01": "who?", "1": "what?"}
    assert [row.positives for row in training_rows_from_beir(collection, "test")] == [("Bond seven",), ("Namibia",)]


@pytest.mark.parametrize("layout", ["two_part", "one_part", "original"])
def test_corpus_and_queries_of_a_copy_can_be_read_alone(layout: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(layout)
    assert list(read_documents(folder)) == DOCUMENTS
    assert list(read_queries(folder)) == QUERIES
    assert count_documents(folder) == (None if layout == "original" else 3)


def test_a_name_is_read_from_the_hubs_cache_without_a_network(
    two_part: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    monkeypatch.chdir(tmp_path / "cache")
    for folder in (two_part, two_part.with_name("nq-qrels")):
        stored = tmp_path / "cache" / f"datasets--BeIR--{folder.name}"
        shutil.copytree(folder, stored / "snapshots" / ("0" * 40))
        (stored / "refs").mkdir()
        (stored / "refs" / "main").write_text("0" * 40)
    collection = open_collection("BeIR/nq")
    assert (collection.name, str(collection)) == ("nq", "BeIR/nq")
    assert list(collection.documents()) == DOCUMENTS
    assert collection.qrels("test") == QRELS["test"]
    assert list(read_queries("BeIR/nq:queries:queries")) == QUERIES


def test_a_path_that_exists_is_that_path_and_no_name(two_part: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(two_part.parents[1])
    assert open_collection("BeIR/nq").qrels("test") == QRELS["test"]
    shutil.rmtree("BeIR/nq-qrels")
    with pytest.raises(DataError, match="BeIR/nq has no judgements; expected a config qrels or default, or BeIR/nq-q"):
        _ = HubCollection("BeIR/nq").splits


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (
            "BeIR/absent",
            r"no path here and cannot be fetched .*network is off.*hf download BeIR/absent --repo",
        ),
        ("nq", "nq is not a folder; expected a BEIR folder, or owner/name"),
        ("./BeIR/nq", "is not a folder; expected a BEIR folder"),
        ("/absent/nq", "is not a folder; expected a BEIR folder"),
        ("data/corpus.jsonl", "is not a folder; expected a BEIR folder"),
    ],
)
def test_what_is_neither_path_nor_name_is_told_what_is(
    source: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=problem) as caught:
        open_collection(source)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_never_asked_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("data/corpus.jsonl", "data/corpus.tsv.gz", "data/corpus.parquet"):
        with pytest.raises(DataError, match=r"cannot be read \(.*No such file"):
            next(read_documents(name))


def test_an_unknown_split_lists_those_there_are(two_part: Path) -> None:
    with pytest.raises(DataError, match="no split 'train'; expected one of its splits: test, validation"):
        open_collection(two_part).qrels("train")


def test_several_configs_or_splits_ask_for_a_choice(tmp_path: Path) -> None:
    for config in ("20231101.en", "20231101.sv"):
        write_parquet(tmp_path / config / "train-0.parquet", [{"id": "1", "title": config, "text": "t", "url": "u"}])
    configs = [{"config_name": c, "data_files": f"{c}/*"} for c in ("20231101.en", "20231101.sv")]
    (tmp_path / "README.md").write_text(f"---\nconfigs: {json.dumps(configs)}\n---\n")
    with pytest.raises(DataError, match=r"several configs; expected one of 20231101\.en, 20231101\.sv; add it as "):
        read_documents(tmp_path)
    assert list(read_documents(f"{tmp_path}:20231101.sv")) == [Document("1", "t", "20231101.sv", {"url": "u"})]
    with pytest.raises(DataError, match=r"no config '20231101\.no'; expected one of 20231101\.en, "):
        read_documents(f"{tmp_path}:20231101.no")
    with pytest.raises(DataError, match="no split 'test'; expected one of train"):
        read_documents(f"{tmp_path}:20231101.sv:test")


@pytest.mark.parametrize(
    ("head", "problem"),
    [
        ("configs: [", "ParserError"),
        ("configs: [{data_files: x}]", "KeyError: 'config_name'"),
        ("configs: 3", "TypeError"),
        ("configs: [{config_name: corpus, data_files: ../secret.parquet}]", "not a path inside the data set"),
        ("configs: [{config_name: corpus, data_files: 'https://x.y/z.parquet'}]", "not a path inside the data set"),
    ],
)
def test_a_malformed_head_of_a_readme_is_explained(tmp_path: Path, head: str, problem: str) -> None:
    (tmp_path / "README.md").write_text(f"---\n{head}\n---\n")
    with pytest.raises(DataError, match=f"its head cannot be read .*{problem}"):
        read_documents(tmp_path)


def test_a_copy_without_its_files_is_incomplete(two_part: Path) -> None:
    shutil.rmtree(two_part / "corpus")
    with pytest.raises(DataError, match=r"has no file corpus/corpus-\*, which its README names"):
        open_collection(two_part).documents()


@pytest.mark.parametrize("config", [{"data_dir": "data"}, {"data_dir": "data", "data_files": "t*"}, {"default": True}])
def test_a_config_may_be_a_folder(tmp_path: Path, config: dict[str, object]) -> None:
    for split in ("train", "test"):
        write_parquet(tmp_path / "data" / f"{split}-00000.parquet", [{"_id": split, "text": "t"}])
    head = json.dumps([{"config_name": 2020, **config}])
    (tmp_path / "README.md").write_text(f"---\nconfigs: {head}\n---\n")
    ids = [document.id for document in read_documents(tmp_path)]
    assert ids == (["test", "train"] if "data_files" in config else ["train"])


def test_the_datasets_library_finds_the_same_files(two_part: Path) -> None:
    """Configs and splits are told as the library tells them that made the layout."""
    for folder in (two_part, two_part.with_name("nq-qrels")):
        ours = HubDataset(folder)
        for config in ours.configs or (None,):
            theirs = datasets.load_dataset(str(folder), config, streaming=True)
            assert {split: sum(1 for _ in rows) for split, rows in theirs.items()} == {
                split: sum(_num_records(file) for file in files) for split, files in ours.splits(config).items()
            }


def _num_records(file: Path) -> int:
    return sum(1 for _ in read_records(file)) if file.suffix != ".tsv" else len(file.read_text().splitlines()) - 1


def test_judgements_in_records_are_checked(one_part: Path) -> None:
    file = one_part / "qrels" / "test.jsonl"
    for line, problem in (
        ('{"query-id": "1", "corpus-id": "7"}', "no field score among query-id, corpus-id"),
        ('{"query-id": null, "corpus-id": "7", "score": 1}', "id None is NoneType"),
        ('{"query-id": 1, "corpus-id": "7", "score": true}', "grade 'True'"),
        ('{"query-id": 1, "corpus-id": "7", "score": 0.5}', r"grade '0\.5'"),
    ):
        file.write_text(line)
        with pytest.raises(DataError, match=rf"test\.jsonl line 1: {problem}"):
            open_collection(one_part).qrels("test")


def test_a_folder_of_beir_folders_gives_its_parts(tmp_path: Path) -> None:
    for part in ("wordpress", "android"):
        write_beir_folder(tmp_path / "cqadupstack" / part, DOCUMENTS, QUERIES, {"test": QRELS["test"]})
    (tmp_path / "cqadupstack" / "notes").mkdir()
    parts = open_collections(tmp_path / "cqadupstack")
    assert [part.name for part in parts] == ["cqadupstack/android", "cqadupstack/wordpress"]
    assert [part.splits for part in parts] == [("test",)] * 2


def test_anything_else_gives_one_collection(beir: Path, two_part: Path, tmp_path: Path) -> None:
    (one,) = open_collections(beir)
    assert isinstance(one, BeirFolder)
    assert [type(part) for part in open_collections(two_part)] == [HubCollection]
    with pytest.raises(DataError, match="holds neither"):
        open_collections(tmp_path)

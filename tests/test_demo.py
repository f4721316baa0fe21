"""The demo's way on a collection small enough for a test; its own recipe is checked, not run."""

import pytest

from aveyb_ir import demo
from aveyb_ir.config import load_recipe
from aveyb_ir.data import BeirFolder, read_documents, read_queries, write_beir_folder


@pytest.fixture
def small_sample(tmp_path, monkeypatch):
    folder = BeirFolder(demo.SAMPLE)
    qrels = {split: dict(list(folder.qrels(split).items())[:40]) for split in ("train", "test")}
    judged = {id for split in qrels.values() for grades in split.values() for id in grades}
    documents = [document for document in read_documents(demo.SAMPLE) if document.id in judged]
    write_beir_folder(tmp_path / "nq", documents, read_queries(demo.SAMPLE), qrels)
    (tmp_path / "demo.yaml").write_text(demo.DEMO_RECIPE.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(demo, "SAMPLE", tmp_path / "nq")
    monkeypatch.setattr(demo, "DEMO_RECIPE", tmp_path / "demo.yaml")


def test_demo_trains_indexes_and_searches_and_can_be_repeated(small_sample, tmp_path):
    said = []
    for _ in range(2):
        result = demo.run_demo(tmp_path / "out", say=said.append)
    assert 0.5 < result.bm25 < 1
    assert 0.5 < result.before < 1
    assert result.after > 0.9 * result.before
    assert [len(hits) for _, hits in result.searches] == [3, 3, 3]
    assert any(f"{result.after:.4f}" in line for line in said)
    assert (result.model / "modules.json").exists()
    assert (result.index / "manifest.json").exists()


def test_the_sample_is_what_its_source_says():
    folder = BeirFolder(demo.SAMPLE)
    assert sum(1 for _ in folder.documents()) == 2588
    assert {split: len(folder.qrels(split)) for split in folder.splits} == {"train": 1955, "dev": 200, "test": 500}
    assert "CC BY-SA 3.0" in (demo.SAMPLE / "SOURCE.txt").read_text(encoding="utf-8")


def test_the_recipe_trains_on_the_train_split_of_the_sample():
    recipe = load_recipe(demo.DEMO_RECIPE)
    assert recipe.data.beir == str(demo.SAMPLE)
    assert recipe.data.split == "train"

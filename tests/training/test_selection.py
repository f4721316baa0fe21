"""The best weights are kept, training ends when nothing gets better, and a resumed run decides alike."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer

from aveyb_ir.config import Recipe
from aveyb_ir.data import Document, Query, open_collection, write_beir_folder
from aveyb_ir.errors import RecipeError
from aveyb_ir.evaluation import evaluate
from aveyb_ir.training import train
from aveyb_ir.training.development import DevelopmentSet

MakeRecipe = Callable[..., Recipe]


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    documents = [Document(f"d{i}", f"document on subject{i} and subject{i % 5}") for i in range(40)]
    queries = [Query(f"q{i}", f"subject{i}") for i in range(24)]
    qrels = {
        "train": {f"q{i}": {f"d{i}": 1} for i in range(16)},
        "dev": {f"q{i}": {f"d{i}": 2, f"d{(i + 5) % 40}": 1, "d0": 0} for i in range(16, 24)},
    }
    write_beir_folder(tmp_path / "beir", documents, queries, qrels)
    return tmp_path / "beir"


@pytest.fixture
def scores(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """NDCG@10 that the evaluations of a run will give, in turn."""
    given: list[float] = []
    monkeypatch.setattr(DevelopmentSet, "__call__", lambda self, *args, **kwargs: {"ndcg@10": given.pop(0)})
    return given


def record(folder: Path) -> Mapping[str, Any]:
    values: Mapping[str, Any] = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    return values


def test_the_development_set_gives_the_numbers_of_an_evaluation(avey_dir: Path, beir: Path) -> None:
    model = SentenceTransformer(str(avey_dir), device="cpu")
    found = DevelopmentSet(open_collection(beir), "dev")(model)
    expected = evaluate(str(avey_dir), str(beir), split="dev").metrics
    assert 0 < found["ndcg@10"] < 1
    for name, value in found.items():
        assert value == pytest.approx(expected[name], abs=1e-9), name


def test_a_smaller_corpus_keeps_the_judged_documents(beir: Path) -> None:
    development = DevelopmentSet(open_collection(beir), "dev", max_documents=20)
    ids = [document.id for document in development._documents()]
    assert len(ids) == 20
    assert {f"d{i}" for i in range(16, 29)} <= set(ids)


def test_keeps_the_weights_of_the_best_evaluation(
    make_recipe: MakeRecipe, beir: Path, scores: list[float], tmp_path: Path
) -> None:
    data = {"beir": str(beir), "eval_split": "dev"}
    settings: dict[str, Any] = {"data": data, "batch_size": 4, "max_steps": 8, "eval_steps": 2}
    scores[:] = [0.1, 0.3, 0.7, 0.7, 0.2]  # before the first step, then after every second
    result = train(make_recipe(**settings), output=tmp_path / "best")
    assert (result.best_step, result.best_ndcg, result.kept_step, result.num_steps) == (4, 0.7, 4, 8)
    assert record(result.output)["kept_step"] == 4
    scores[:] = [0.1, 0.3, 0.7, 0.7, 0.2]
    last = train(make_recipe(**settings, keep="last", save_steps=4), output=tmp_path / "last")
    assert last.kept_step == 8
    step_four = load_file(tmp_path / "last.checkpoints" / "checkpoint-4" / "model.safetensors")
    kept, end = (load_file(folder / "model.safetensors") for folder in (result.output, last.output))
    assert all(torch.equal(kept[name], step_four[name]) for name in kept)
    assert not all(torch.equal(kept[name], end[name]) for name in kept)


def test_ends_when_nothing_got_better_and_resumes_to_the_same_end(
    make_recipe: MakeRecipe, beir: Path, scores: list[float], tmp_path: Path
) -> None:
    recipe = make_recipe(
        data={"beir": str(beir), "eval_split": "dev"},
        batch_size=4,
        max_steps=100,
        eval_steps=2,
        save_steps=4,
        early_stopping_patience=2,
    )
    scores[:] = [0.1, 0.5, 0.4, 0.45, 0.9]
    whole = train(recipe)
    assert (whole.num_steps, whole.kept_step, scores) == (6, 2, [0.9])
    weights, log = load_file(whole.output / "model.safetensors"), whole.loss_log.read_text(encoding="utf-8")
    shutil.rmtree(whole.output)
    newest = tmp_path / "out.checkpoints" / "checkpoint-4"
    scores[:] = [0.45, 0.9]
    again = train(recipe, resume=True)
    assert newest.is_dir()
    assert (again.num_steps, again.kept_step) == (6, 2)
    resumed = load_file(again.output / "model.safetensors")
    assert all(torch.equal(resumed[name], weights[name]) for name in weights)
    evaluations = [
        [line for line in text.splitlines() if "eval_" in line] for text in (log, again.loss_log.read_text())
    ]
    assert evaluations[0] == evaluations[1]


def test_patience_without_evaluations_is_refused(make_recipe: MakeRecipe) -> None:
    with pytest.raises(ValueError, match="early_stopping_patience` without evaluations"):
        make_recipe(early_stopping_patience=2)


def test_a_torn_checkpoint_is_skipped(make_recipe: MakeRecipe, tmp_path: Path) -> None:
    recipe = make_recipe(epochs=2, save_steps=3, save_total_limit=3)
    whole = train(recipe)
    weights = load_file(whole.output / "model.safetensors")
    shutil.rmtree(whole.output)
    checkpoints = tmp_path / "out.checkpoints"
    (checkpoints / "checkpoint-8" / "complete.json").unlink()  # killed before it was sealed
    optimizer = checkpoints / "checkpoint-6" / "optimizer.pt"
    optimizer.write_bytes(optimizer.read_bytes()[:-100])  # cut by a full disk
    again = train(recipe, resume=True)
    resumed = load_file(again.output / "model.safetensors")
    assert all(torch.equal(resumed[name], weights[name]) for name in weights)
    for name in ("checkpoint-3", "checkpoint-6", "checkpoint-8"):
        (checkpoints / name / "complete.json").unlink()
    shutil.rmtree(again.output)
    with pytest.raises(ValueError, match="got no checkpoint"):
        train(recipe, resume=True)


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # peft's, when the test reads its file
def test_lora_trains_only_additions_and_leaves_a_plain_model(
    make_recipe: MakeRecipe, avey_dir: Path, tmp_path: Path
) -> None:
    from peft import PeftModel

    model = {"start": str(avey_dir), "fresh": None, "train_tokenizer": None}
    settings: dict[str, Any] = {"model": model, "max_steps": 6, "save_steps": 3, "learning_rate": 1e-2}
    recipe = make_recipe(**settings, lora={"r": 4, "keep_adapter": True}, tensorboard=str(tmp_path / "events"))
    result = train(recipe)
    before, after = (load_file(folder / "model.safetensors") for folder in (avey_dir, result.output))
    assert before.keys() == after.keys()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {f"layers.{i}.{name}.weight" for i in range(3) for name in ("enricher", "fuser")}
    assert len(list((tmp_path / "events").glob("events.*"))) == 1
    plain = SentenceTransformer(str(result.output), device="cpu")
    vectors = plain.encode_query(["what about sunbird", "x " * 40])
    base = SentenceTransformer(str(avey_dir), device="cpu")
    base[0].model = PeftModel.from_pretrained(base[0].model, str(result.output / "adapter"))
    with_adapter = base.encode_query(["what about sunbird", "x " * 40])
    assert abs(vectors - with_adapter).max() < 1e-5
    shutil.rmtree(result.output)
    shutil.rmtree(tmp_path / "out.checkpoints" / "checkpoint-6")
    again = load_file(train(recipe, resume=True).output / "model.safetensors")
    assert all(torch.equal(again[name], after[name]) for name in after)


def test_lora_on_matrices_that_are_not_there_is_refused(make_recipe: MakeRecipe) -> None:
    with pytest.raises(RecipeError, match="target_modules: got \\['attention'\\]"):
        train(make_recipe(lora={"target_modules": ["attention"]}))


def test_a_model_keeps_its_pooling_unless_told_otherwise(
    make_recipe: MakeRecipe, bert_dir: Path, tmp_path: Path
) -> None:
    start = tmp_path / "start"
    shutil.copytree(bert_dir, start)
    config = next(start.glob("*_Pooling/config.json"))
    config.write_text(config.read_text(encoding="utf-8").replace('"mean"', '"cls"'), encoding="utf-8")
    model = {"start": str(start), "fresh": None, "train_tokenizer": None}
    kept = train(make_recipe(model=model, max_steps=1), output=tmp_path / "kept").output
    told = train(make_recipe(model={**model, "pooling": "mean"}, max_steps=1), output=tmp_path / "told").output
    assert SentenceTransformer(str(kept), device="cpu")[1].pooling_mode == "cls"
    assert SentenceTransformer(str(told), device="cpu")[1].pooling_mode == "mean"

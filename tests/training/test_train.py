import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer

import aveyb_ir
from aveyb_ir.config import Recipe, load_recipe
from aveyb_ir.data import Document, Query, write_beir_folder
from aveyb_ir.errors import DataError, ModelError, RecipeError
from aveyb_ir.training import TrainingResult, train
from aveyb_ir.training.batches import BalancedBatchSampler
from aveyb_ir.training.collate import PairCollator
from aveyb_ir.training.loss import InBatchNegativesLoss
from aveyb_ir.training.model import build_sentence_transformer
from aveyb_ir.training.sources import load_training_set, tokenizer_texts

MakeRecipe = Callable[..., Recipe]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(first[name], second[name]) for name in first)


def fresh_weights(recipe: Recipe) -> dict[str, torch.Tensor]:
    texts = tokenizer_texts(recipe.data, load_training_set(recipe.data))
    model = build_sentence_transformer(recipe.model, texts, seed=recipe.train.seed, device="cpu")
    return {name: tensor.clone() for name, tensor in model[0].auto_model.state_dict().items()}


def lines(result: TrainingResult) -> list[dict[str, float]]:
    return [json.loads(line) for line in result.loss_log.read_text(encoding="utf-8").splitlines()]


def accuracy(model: SentenceTransformer, pairs: Path) -> float:
    rows = [json.loads(line) for line in pairs.read_text(encoding="utf-8").splitlines()]
    queries = model.encode_query([row["anchor"] for row in rows])
    documents = model.encode_document([row["positive"] for row in rows])
    return float(((queries @ documents.T).argmax(axis=1) == np.arange(len(rows))).mean())


def test_learns_32_pairs_by_heart(make_recipe: MakeRecipe, pairs: Path) -> None:
    recipe = make_recipe(
        model={"fresh": {"d_embed": 64, "n_layers": 2, "chunk_size": 16}}, max_steps=40, batch_size=16, seed=1
    )
    start = fresh_weights(recipe)
    result = train(recipe)
    assert not any(torch.equal(weights(result.output)[name], tensor) for name, tensor in start.items())
    assert lines(result)[0]["loss"] > 10 * result.final_loss
    assert accuracy(SentenceTransformer(str(result.output), device="cpu"), pairs) == 1.0


def test_same_seed_same_weights_and_another_seed_others(make_recipe: MakeRecipe, tmp_path: Path) -> None:
    outputs = [tmp_path / name for name in "abc"]
    for output, seed in zip(outputs, (5, 5, 6), strict=True):
        train(make_recipe(seed=seed, mini_batch_size=4), output=output)
    first, second, third = map(weights, outputs)
    assert same(first, second)
    assert not same(first, third)


def test_folder_holds_recipe_record_and_losses(make_recipe: MakeRecipe, caplog: pytest.LogCaptureFixture) -> None:
    recipe = make_recipe(epochs=2, logging_steps=3, warmup_ratio=0.25)
    with caplog.at_level(logging.INFO, logger="aveyb_ir.training"):
        result = train(recipe)
    assert (result.num_rows, result.num_steps) == (32, 8)
    assert load_recipe(result.output / "recipe.yaml") == recipe
    record = json.loads((result.output / "training.json").read_text(encoding="utf-8"))
    assert record["num_steps"] == 8
    assert record["seed"] == recipe.train.seed
    assert record["final_loss"] == result.final_loss
    assert record["versions"]["torch"] == torch.__version__
    assert len(record["data_fingerprint"]) == 64
    log = lines(result)
    assert [line["step"] for line in log] == [1, 3, 6, 8]
    assert all(line.keys() >= {"loss", "learning_rate", "tokens_per_second"} for line in log)
    assert "32 rows, 0 explicit negatives, 4 batches of up to 8; the first has 7.0 negatives per query" in caplog.text
    assert "8 steps of 1 batches, about 128 tokens a step, warm-up of 2 steps" in caplog.text
    assert "s a step: about" in caplog.text
    assert (result.output / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert not list(result.output.parent.glob(".out*"))


@pytest.mark.slow
def test_another_process_reads_the_same_vectors(make_recipe: MakeRecipe, tmp_path: Path) -> None:
    result = train(make_recipe(model={"prompts": {"query": "ask: ", "document": ""}}))
    program = (
        "import sys, aveyb_ir, numpy; from sentence_transformers import SentenceTransformer; import torch;"
        "torch.set_num_threads(1);"
        "model = SentenceTransformer(sys.argv[1], device='cpu');"
        "numpy.save(sys.argv[2], model.encode_query(['what about rainfish', 'x ' * 100]))"
    )
    root = str(Path(aveyb_ir.__file__).parents[1])
    command = [sys.executable, "-c", program, str(result.output), str(tmp_path / "vectors.npy")]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": root}, capture_output=True)
    here = SentenceTransformer(str(result.output), device="cpu").encode_query(["what about rainfish", "x " * 100])
    np.testing.assert_array_equal(np.load(tmp_path / "vectors.npy"), here)


def test_accumulated_batches_make_one_update_by_the_mean_of_their_losses(make_recipe: MakeRecipe, cases: Path) -> None:
    recipe = make_recipe(
        data={"pairs": str(cases / "five_pairs.jsonl")},
        batch_size=3,
        gradient_accumulation_steps=4,
        warmup_ratio=0.0,
        weight_decay=0.0,
        max_grad_norm=0.0,
    )
    result = train(recipe)
    assert result.num_steps == 1
    training_set = load_training_set(recipe.data)
    texts = tokenizer_texts(recipe.data, training_set)
    model = build_sentence_transformer(recipe.model, texts, seed=recipe.train.seed, device="cpu")
    collator = PairCollator(model, training_set)
    loss = InBatchNegativesLoss(model, scale=20.0, mini_batch_size=64)
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.train.learning_rate, weight_decay=0.0)
    for indices in BalancedBatchSampler(training_set, 3, recipe.train.seed):
        batch = collator([{"pair": index} for index in indices])
        features = [
            {"input_ids": batch[f"{name}_input_ids"], "attention_mask": batch[f"{name}_attention_mask"]}
            for name in ("anchor", "document")
        ]
        (loss(features, batch["label"]) / 2).backward()
    optimizer.step()
    expected = model[0].auto_model.state_dict()
    for name, tensor in weights(result.output).items():
        torch.testing.assert_close(tensor, expected[name], rtol=1e-4, atol=1e-5)
    assert not same(weights(result.output), fresh_weights(recipe))


@pytest.mark.parametrize(
    "name", ["same_positive", "same_anchor", "negative_is_positive", "mixed_negatives", "five_pairs"]
)
def test_small_and_awkward_files_train(make_recipe: MakeRecipe, cases: Path, name: str) -> None:
    result = train(make_recipe(data={"pairs": str(cases / f"{name}.jsonl"), "negatives": 2}, batch_size=4))
    assert np.isfinite(result.final_loss)
    assert result.final_loss > 0


@pytest.mark.parametrize("name", ["one_pair", "no_pairs", "all_same_anchor"])
def test_data_that_cannot_teach_is_refused_before_a_model_is_built(
    make_recipe: MakeRecipe, cases: Path, name: str
) -> None:
    recipe = make_recipe(
        data={"pairs": str(cases / f"{name}.jsonl")},
        model={"fresh": None, "train_tokenizer": None, "start": "no/model"},
    )
    with pytest.raises(DataError, match=f"{name}.jsonl"):
        train(recipe)
    assert not Path(str(recipe.train.output)).exists()


def test_token_embeddings_can_have_their_own_learning_rate(make_recipe: MakeRecipe) -> None:
    recipe = make_recipe(max_steps=1, warmup_ratio=0.0, embedding_learning_rate=1e-12)
    start, end = fresh_weights(recipe), weights(train(recipe).output)
    torch.testing.assert_close(end["embed.weight"], start["embed.weight"], rtol=0, atol=1e-9)
    assert (end["ranker.down_proj"] - start["ranker.down_proj"]).abs().max() > 1e-4


@pytest.mark.parametrize("settings", [{"dtype": "bfloat16"}, {"gradient_checkpointing": True}])
def test_cheaper_arithmetic_and_memory_train_much_alike(
    make_recipe: MakeRecipe, tmp_path: Path, settings: dict[str, object]
) -> None:
    plain = train(make_recipe(max_steps=3), output=tmp_path / "plain")
    other = train(make_recipe(max_steps=3, **settings), output=tmp_path / "other")
    assert other.final_loss == pytest.approx(plain.final_loss, rel=0.05)
    assert weights(other.output)["embed.weight"].dtype == torch.float32


def test_evaluates_on_a_held_out_split(make_recipe: MakeRecipe, tmp_path: Path) -> None:
    documents = [Document(f"d{i}", f"document on subject{i}") for i in range(12)]
    queries = [Query(f"q{i}", f"subject{i}") for i in range(12)]
    qrels = {"train": {f"q{i}": {f"d{i}": 1} for i in range(8)}, "dev": {f"q{i}": {f"d{i}": 1} for i in range(8, 12)}}
    write_beir_folder(tmp_path / "beir", documents, queries, qrels)
    data = {"beir": str(tmp_path / "beir"), "eval_split": "dev"}
    result = train(make_recipe(data=data, batch_size=4, epochs=1, eval_steps=2))
    assert result.num_rows == 8
    evaluated = [line for line in lines(result) if "loss" not in line]
    assert [line["step"] for line in evaluated] == [0, 2]
    assert all(0 <= line["eval_ndcg@10"] <= 1 for line in evaluated)


def test_an_output_is_replaced_only_when_told_and_only_by_success(make_recipe: MakeRecipe) -> None:
    output = train(make_recipe(seed=1)).output
    before = weights(output)
    with pytest.raises(ValueError, match="overwrite=True"):
        train(make_recipe(seed=2))
    with pytest.raises(ModelError):
        train(make_recipe(model={"fresh": None, "train_tokenizer": None, "start": "./missing"}), overwrite=True)
    assert same(weights(output), before)
    assert [path.name for path in output.parent.iterdir() if "out" in path.name] == ["out"]
    train(make_recipe(seed=2), overwrite=True)
    assert not same(weights(output), before)


def test_a_folder_of_something_else_is_never_replaced(make_recipe: MakeRecipe, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(ValueError, match="not replaced"):
        train(make_recipe(), overwrite=True)
    assert (tmp_path / "out" / "thesis.txt").exists()


def test_no_output_is_an_error(make_recipe: MakeRecipe) -> None:
    with pytest.raises(ValueError, match="expected a folder"):
        train(make_recipe(output=None))


def test_a_loss_that_is_not_finite_ends_the_run(make_recipe: MakeRecipe, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"train\.learning_rate: got a loss of nan at step"):
        train(make_recipe(learning_rate=1e30, warmup_ratio=0.0, logging_steps=1, max_steps=5, max_grad_norm=0.0))
    assert not (tmp_path / "out").exists()


def test_resumes_from_a_checkpoint_to_the_same_weights(make_recipe: MakeRecipe, tmp_path: Path) -> None:
    recipe = make_recipe(epochs=2, save_steps=5, logging_steps=2)
    whole = train(recipe)
    expected, losses = weights(whole.output), [line["loss"] for line in lines(whole)]
    checkpoints = tmp_path / "out.checkpoints"
    assert (checkpoints / "checkpoint-5" / "model.safetensors").is_file()
    shutil.rmtree(whole.output)
    shutil.rmtree(checkpoints / "checkpoint-8")  # as if the run had ended after six or seven steps
    with pytest.raises(ValueError, match="resume=True"):
        train(recipe)
    with pytest.raises(RecipeError, match="another recipe"):
        train(make_recipe(epochs=2, save_steps=5, logging_steps=2, seed=9), resume=True)
    again = train(recipe, resume=True)
    assert same(weights(again.output), expected)
    assert [line["loss"] for line in lines(again)] == losses


def test_resume_without_a_checkpoint_is_an_error(make_recipe: MakeRecipe) -> None:
    with pytest.raises(ValueError, match="got no checkpoint"):
        train(make_recipe(save_steps=3), resume=True)

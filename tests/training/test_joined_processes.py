"""Two processes that share each batch compute what one process computes of the joined batch."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import aveyb_ir
from aveyb_ir.config import Recipe
from aveyb_ir.errors import RecipeError
from aveyb_ir.training import build_start, train
from aveyb_ir.training.batches import BalancedBatchSampler
from aveyb_ir.training.collate import PairCollator
from aveyb_ir.training.loss import InBatchNegativesLoss
from aveyb_ir.training.processes import Processes
from aveyb_ir.training.progress import LossLog
from aveyb_ir.training.sources import load_training_set
from aveyb_ir.training.trainer import ContrastiveTrainer

MakeRecipe = Callable[..., Recipe]

ROWS = [
    {"query": "colour of a lemon", "pos": "A lemon is yellow.", "neg": ["Iron is grey."]},
    {"query": "which colour has a lemon", "pos": "A lemon is yellow."},
    {"query": "colour of a lemon", "pos": "Ripe lemons look yellow, unripe ones green, as most people know."},
    {"query": "metal of a knife", "pos": "Iron is grey.", "neg": ["A lemon is yellow.", "Snow is cold."]},
    {"query": "is snow warm", "pos": "Snow is cold."},
    {"query": "depth of the sea", "pos": "The sea is four kilometres deep on the average, and eleven at most."},
    {"query": "height of a hill", "pos": "Hills rise to some hundred metres."},
    {"query": "what do cows eat", "pos": "Grass."},
]
SETTINGS = {"whole": {}, "cached": {"mini_batch_size": 2}, "both": {"mini_batch_tokens": 30, "both_directions": True}}


def batch_gradients(recipe: Recipe, processes: list[Processes]) -> dict[str, torch.Tensor]:
    """Mean gradients of the first batch where each of these processes knows nothing of the others."""
    training_set = load_training_set(recipe.data)
    model = build_start(recipe)
    loss = InBatchNegativesLoss(
        model, scale=recipe.train.scale, mini_batch_size=64, both_directions=recipe.train.both_directions
    )
    [batch, *_] = BalancedBatchSampler(training_set, recipe.train.batch_size, recipe.train.seed)
    for process in processes:
        own = [batch[place] for place in process.own(len(batch))]
        tensors = PairCollator(model, training_set)([{"pair": pair} for pair in own])
        features = [
            {key: tensors[f"{role}_{key}"] for key in ("input_ids", "attention_mask")}
            for role in ("anchor", "document")
        ]
        (loss(features, tensors["label"]) / len(processes)).backward()
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def run_together(folder: Path, names: list[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    root = str(Path(aveyb_ir.__file__).parents[1])
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(Path(__file__).parent / "cases" / "joined_run.py"), str(folder), *names]
    with ExitStack() as stack:
        said = [stack.enter_context((folder / f"stderr-{rank}").open("w+", encoding="utf-8")) for rank in (0, 1)]
        started = [
            stack.enter_context(
                subprocess.Popen(
                    command,
                    env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank), "PYTHONPATH": root},
                    stderr=said[rank],
                )
            )
            for rank in (0, 1)
        ]
        for process in started:
            stack.callback(process.kill)
        codes = [process.wait(timeout=900) for process in started]
        assert codes == [0, 0], [file.seek(0) or file.read() for file in said]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return path


@pytest.mark.slow
def test_two_processes_compute_what_one_does(make_recipe: MakeRecipe, rows: Path, tmp_path: Path) -> None:
    def recipe(**settings: object) -> Recipe:
        changed = {
            "data": {"pairs": str(rows)},
            "batch_size": 5,
            "max_steps": 3,
            "logging_steps": 1,
            "max_grad_norm": 0.0,
        }
        return make_recipe(**changed, save_steps=2, **settings)

    for name, settings in SETTINGS.items():
        (tmp_path / f"{name}.yaml").write_text(recipe(**settings).to_yaml(), encoding="utf-8")
    run_together(tmp_path, [f"{name}.yaml" for name in SETTINGS])
    for name, settings in SETTINGS.items():
        first, second = (load_file(tmp_path / f"{name}.yaml.{rank}.safetensors") for rank in (0, 1))
        one = batch_gradients(recipe(**settings), [Processes()])
        apart = batch_gradients(recipe(**settings), [Processes(0, 2), Processes(1, 2)])
        for key in one:
            torch.testing.assert_close(first[key], one[key], rtol=1e-4, atol=1e-5 * float(one[key].abs().max()))
            torch.testing.assert_close(first[key], second[key], rtol=0, atol=0)
        assert max(float((apart[key] - one[key]).abs().max() / one[key].abs().max()) for key in one) > 0.1
    alone = train(recipe(), output=tmp_path / "alone")
    losses = [json.loads(line) for line in alone.loss_log.read_text(encoding="utf-8").splitlines()]
    joined = [
        json.loads(line) for line in (tmp_path / "joined" / "loss.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    for ours, theirs in zip(joined, losses, strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-3)
        assert ours["grad_norm"] == pytest.approx(theirs["grad_norm"], rel=1e-2)
    assert (tmp_path / "joined.checkpoints" / "checkpoint-2" / "rng_state_1.pth").is_file()


def test_every_text_of_a_joined_batch_is_embedded_by_one_process(make_recipe: MakeRecipe, rows: Path) -> None:
    recipe = make_recipe(data={"pairs": str(rows)})
    training_set, model = load_training_set(recipe.data), build_start(recipe)
    features = [{"pair": pair} for pair in range(len(training_set))]
    whole = PairCollator(model, training_set)(features)
    parts = [PairCollator(model, training_set, Processes(rank, 3))(features) for rank in range(3)]
    for role, axis in (("anchor", 0), ("document", 1)):
        order = Processes(0, 3).order(whole["label"].shape[axis])
        texts = [row[row > 0].tolist() for part in parts for row in part[f"{role}_input_ids"]]
        assert texts == [whole[f"{role}_input_ids"][row][whole[f"{role}_input_ids"][row] > 0].tolist() for row in order]
    order_B, order_N = (Processes(0, 3).order(size) for size in whole["label"].shape)
    for part in parts:
        assert torch.equal(part["label"], whole["label"][order_B][:, order_N])
        assert part["num_tokens"] == whole["num_tokens"]


def test_a_process_without_a_document_of_its_own_gets_one_that_does_not_count(
    make_recipe: MakeRecipe, cases: Path
) -> None:
    recipe = make_recipe(data={"pairs": str(cases / "five_pairs.jsonl")})
    training_set, model = load_training_set(recipe.data), build_start(recipe)
    part = PairCollator(model, training_set, Processes(2, 3))([{"pair": 0}] * 3)
    assert (part["label"] == -1).all(dim=0).sum() == 1
    assert len(part["document_input_ids"]) == 1


def test_more_processes_than_rows_of_a_batch_are_refused(make_recipe: MakeRecipe, rows: Path, tmp_path: Path) -> None:
    recipe = make_recipe(data={"pairs": str(rows)}, batch_size=3)
    model = build_start(recipe)
    collator = PairCollator(model, load_training_set(recipe.data), Processes(0, 3))
    with pytest.raises(RecipeError, match="batches of 2 rows, expected at least one for each of 3 processes"):
        ContrastiveTrainer(model, recipe.train, collator, LossLog(tmp_path / "loss.jsonl"), tmp_path)

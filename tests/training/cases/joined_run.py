"""One of the processes that train together; argv are a folder and the recipes in it to take first gradients of.

The first recipe is also trained to the end.
"""

import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import TrainerCallback

from aveyb_ir.config import Recipe, load_recipe
from aveyb_ir.training import build_start, train
from aveyb_ir.training.collate import PairCollator
from aveyb_ir.training.processes import Processes, joined_processes
from aveyb_ir.training.progress import LossLog
from aveyb_ir.training.sources import load_training_set
from aveyb_ir.training.trainer import ContrastiveTrainer


class FirstGradients(TrainerCallback):  # type: ignore[misc]
    """Takes what the first update is made of."""

    def __init__(self) -> None:
        self.gradients: dict[str, torch.Tensor] = {}

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any, **kwargs: Any) -> None:
        model = getattr(model, "module", model)
        named = model.named_parameters()
        self.gradients = self.gradients or {name: p.grad.clone() for name, p in named if p.grad is not None}


def first_gradients(recipe: Recipe, model: Any, folder: Path, processes: Processes) -> dict[str, torch.Tensor]:
    collator = PairCollator(model, load_training_set(recipe.data), processes)
    trainer = ContrastiveTrainer(model, recipe.train, collator, LossLog(folder / "unused.jsonl"), folder)
    taken = FirstGradients()
    trainer.add_callback(taken)
    trainer.train()
    return taken.gradients


def main(folder: Path, names: list[str]) -> None:
    torch.set_num_threads(1)
    recipes = {name: load_recipe(folder / name) for name in names}
    models = {name: build_start(recipe) for name, recipe in recipes.items()}
    train(recipes[names[0]], output=folder / "joined")
    with joined_processes("cpu") as processes:
        for name, recipe in recipes.items():
            work = folder / f"work-{processes.rank}"
            work.mkdir(exist_ok=True)
            gradients = first_gradients(recipe, models[name], work, processes)
            save_file(gradients, folder / f"{name}.{processes.rank}.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])

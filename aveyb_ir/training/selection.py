"""Which weights of a run are kept: those of the best evaluation, and when to stop looking for better ones."""

import logging
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from aveyb_ir.training.development import SELECTED_BY

logger = logging.getLogger(__name__)

_METRIC = f"eval_{SELECTED_BY}"


class BestWeights(TrainerCallback):  # type: ignore[misc]
    """Keeps the trained weights of the best evaluation so far, by NDCG@10; of equal ones the earliest.

    What was best is read from the trainer's own record of evaluations, so a resumed run decides as an uninterrupted
    one.

    Args:
        path: where the weights are kept; written by the main process only.
        patience: evaluations without a better one after which training ends; None: never.
        is_main: whether this is the main process.

    Attributes:
        best: step and NDCG@10 of the best evaluation; None before the first.
        stopped: whether training ended early.
    """

    def __init__(self, path: Path, *, patience: int | None = None, is_main: bool = True) -> None:
        self.path = path
        self.patience = patience
        self.is_main = is_main
        self.best: tuple[int, float] | None = None
        self.stopped = False

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Have the last step evaluated too."""
        if state.global_step >= state.max_steps:
            control.should_evaluate = True

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        model: torch.nn.Module,
        **kwargs: Any,
    ) -> None:
        """Compare the evaluation that was just made, which is the last in the record, with those before."""
        made = [(entry["step"], entry[_METRIC]) for entry in state.log_history if _METRIC in entry]
        self.best = max(made, key=lambda one: one[1])
        if self.best == made[-1] and self.is_main:
            save_trained(self.path, model)
        since = len(made) - 1 - made.index(self.best)
        if self.patience is not None and since >= self.patience:
            logger.info("stopped at step %d: %d evaluations without a better one", state.global_step, since)
            control.should_training_stop = self.stopped = True

    def restore(self, model: torch.nn.Module) -> None:
        """Give a model the best weights, if there was an evaluation."""
        if self.best is None:
            return
        load_trained(self.path, model)
        logger.info("kept the weights of step %d, NDCG@10 %.4f", *self.best)


def save_trained(path: Path, model: torch.nn.Module) -> None:
    """Write the weights that are trained, whole or not at all."""
    partial = path.with_name(f".{path.name}.partial")
    save_file({name: parameter.detach().contiguous() for name, parameter in _trained(model).items()}, partial)
    partial.replace(path)


def load_trained(path: Path, model: torch.nn.Module) -> None:
    """Give a model the weights that `save_trained` wrote of it."""
    weights = load_file(path)
    with torch.no_grad():
        for name, parameter in _trained(model).items():
            parameter.copy_(weights[name])


def _trained(model: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    model = getattr(model, "module", model)  # as several processes wrap it
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}

"""How a run reports itself: a loss log on disk, and a progress bar on a terminal only."""

import json
import math
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transformers import ProgressCallback, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.utils import logging as transformers_logging

from aveyb_ir.errors import RecipeError


def on_terminal() -> bool:
    """Whether somebody is watching."""
    return sys.stderr.isatty()


@contextmanager
def loading_bars() -> Iterator[None]:
    """Let transformers draw its bars for loading and saving on a terminal only; as before afterwards."""
    enabled = transformers_logging.is_progress_bar_enabled()
    if not on_terminal():
        transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            transformers_logging.enable_progress_bar()


class TerminalProgress(ProgressCallback):  # type: ignore[misc]
    """The trainer's bar, with the loss beside it in place of lines on stdout, which is for results."""

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Show the loss."""
        if self.training_bar is not None and logs and "loss" in logs:
            self.training_bar.set_postfix(loss=f"{float(logs['loss']):.4f}")


class LossLog(TrainerCallback):  # type: ignore[misc]
    """Writes one JSON line per logged step: step, loss, learning_rate, grad_norm, tokens_per_second; or eval metrics.

    A resumed run keeps the lines up to its checkpoint and goes on after them.

    Args:
        path: the file.

    Attributes:
        losses: the logged losses in order; each is the mean since the one before.
        num_tokens: tokens trained on so far, padding not counted; the trainer adds to it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.losses: list[float] = []
        self.num_tokens = 0
        self._last = (0.0, 0)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Start the file with what a resumed run logged before."""
        earlier = [entry for entry in state.log_history if "loss" in entry or _is_evaluation(entry)]
        self.losses = [entry["loss"] for entry in earlier if "loss" in entry]
        lines = [_line(entry["step"], entry) for entry in earlier]
        self.path.write_text("".join(lines), encoding="utf-8", newline="\n")
        self._last = (time.perf_counter(), 0)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Have the last step and every checkpoint logged, so that no loss is lost at an end or a resumption."""
        if control.should_save or state.global_step >= state.max_steps:
            control.should_log = True

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Write a line."""
        logs = dict(logs or {})
        if "loss" in logs:
            self._append(logs["loss"], state.global_step)
            now = time.perf_counter()
            logs["tokens_per_second"] = round((self.num_tokens - self._last[1]) / (now - self._last[0]), 1)
            self._last = (now, self.num_tokens)
        elif not _is_evaluation(logs):
            return
        with self.path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(_line(state.global_step, logs))

    def lines(self) -> list[dict[str, float]]:
        """What the file holds."""
        return [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]

    def _append(self, loss: float, step: int) -> None:
        if not math.isfinite(loss):
            raise RecipeError(
                f"train.learning_rate: got a loss of {loss} at step {step}, expected a finite one; "
                "lower the learning rate or train.scale"
            )
        self.losses.append(loss)


# What the trainer adds to every evaluation; the others are metrics, and the same in a run that is repeated.
_CLOCKS = ("eval_runtime", "eval_samples_per_second", "eval_steps_per_second")


def _is_evaluation(logs: Mapping[str, Any]) -> bool:
    return any(key.startswith("eval_") for key in logs)


def _line(step: int, logs: dict[str, Any]) -> str:
    kept = ("loss", "accuracy", "learning_rate", "grad_norm", "tokens_per_second")
    values = {
        key: value for key, value in logs.items() if key in kept or (key.startswith("eval_") and key not in _CLOCKS)
    }
    return json.dumps({"step": step, **values}) + "\n"

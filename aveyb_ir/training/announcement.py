"""What is said at the start of a run: what decides its cost and its quality."""

import logging
import time
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from aveyb_ir.config import Recipe
from aveyb_ir.training.arguments import Schedule
from aveyb_ir.training.batches import BalancedBatchSampler
from aveyb_ir.training.collate import PairCollator
from aveyb_ir.training.loss import NEGATIVE

logger = logging.getLogger(__name__)

_TIMED_STEPS = 3


def announce(recipe: Recipe, collator: PairCollator) -> None:
    """Log the size of the run; negatives and tokens are those of its first batch."""
    training_set, section = collator.training_set, recipe.train
    schedule = Schedule.of(section, training_set)
    first = next(iter(BalancedBatchSampler(training_set, section.batch_size, section.seed)))
    batch = collator([{"pair": pair} for pair in first])
    logger.info(
        "%d rows, %d explicit negatives, %d batches of up to %d; the first has %.1f negatives per query, %d tokens",
        len(training_set),
        training_set.num_negatives,
        schedule.num_batches,
        len(first),
        (batch["label"] == NEGATIVE).sum().item() / len(first),
        batch["num_tokens"],
    )
    logger.info(
        "%d steps of %d batches, about %d tokens a step, warm-up of %d steps",
        schedule.num_steps,
        section.gradient_accumulation_steps,
        batch["num_tokens"] * section.gradient_accumulation_steps,
        schedule.num_warmup_steps,
    )
    _announce_sharing(collator)
    for name, table in (("queries", collator.anchors), ("documents", collator.documents)):
        if table.num_cut:
            logger.warning("%d of %d %s are cut at the length limit", table.num_cut, len(table.lengths), name)


def _announce_sharing(collator: PairCollator) -> None:
    mixture, count = collator.training_set.mixture, collator.processes.count
    if len(mixture.sizes) > 1:
        shares = ", ".join(f"{taken} of {size}" for taken, size in zip(mixture.taken, mixture.sizes, strict=True))
        batches = "batches of one set each" if mixture.single else "mixed batches"
        logger.info("%d data sets, %s, %s; rows an epoch: %s", len(mixture.sizes), mixture.mixing, batches, shares)
    if count > 1:
        logger.info("%d processes share every batch", count)


class ExpectedTime(TrainerCallback):  # type: ignore[misc]
    """Logs, after a few steps, how long the rest will take; the first step warms up and does not count."""

    def __init__(self) -> None:
        self._first_step = 0
        self._start = 0.0

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Start the clock, or read it."""
        if not self._start:
            self._first_step, self._start = state.global_step, time.perf_counter()
        elif state.global_step - self._first_step == _TIMED_STEPS:
            seconds = (time.perf_counter() - self._start) / _TIMED_STEPS
            left = state.max_steps - state.global_step
            logger.info("%.2f s a step: about %s for the %d steps left", seconds, _duration(left * seconds), left)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"

"""What every trainer is told alike: its schedule, its settings, and to keep stdout for results."""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import PrinterCallback, ProgressCallback, Trainer

from aveyb_ir.config import Optimization, TrainSection
from aveyb_ir.errors import RecipeError
from aveyb_ir.training.batches import num_batches
from aveyb_ir.training.pairs import TrainingSet
from aveyb_ir.training.progress import TerminalProgress, on_terminal
from aveyb_ir.training.seals import Seal


@dataclass(frozen=True, slots=True)
class Schedule:
    """How many steps a run takes, from the real number of batches.

    Attributes:
        num_batches: batches in an epoch.
        num_steps: updates of the weights in the whole run; the last update of an epoch may have fewer batches.
        num_warmup_steps: the first of these, with a rising learning rate.
    """

    num_batches: int
    num_steps: int
    num_warmup_steps: int

    @classmethod
    def of(cls, section: TrainSection, training_set: TrainingSet) -> "Schedule":
        """The schedule of a contrastive recipe for its data."""
        return cls.over(section, num_batches(training_set, section.batch_size))

    @classmethod
    def over(cls, section: Optimization, batches: int) -> "Schedule":
        """The schedule of any recipe for a number of batches in an epoch."""
        if section.max_steps is not None:
            steps = section.max_steps
        else:
            assert section.epochs is not None  # a checked recipe has one of the two
            steps = math.ceil(section.epochs * math.ceil(batches / section.gradient_accumulation_steps))
        return cls(batches, steps, math.ceil(steps * section.warmup_ratio))


def shared_arguments(section: Optimization, schedule: Schedule, folder: Path) -> dict[str, Any]:
    """The training arguments that transformers and Sentence Transformers have in common; checkpoints go to `folder`."""
    return {
        "output_dir": str(folder),
        "max_steps": schedule.num_steps,
        "warmup_steps": schedule.num_warmup_steps,
        "gradient_accumulation_steps": section.gradient_accumulation_steps,
        "learning_rate": section.learning_rate,
        "lr_scheduler_type": section.lr_scheduler_type,
        "weight_decay": section.weight_decay,
        "adam_beta1": section.adam_beta1,
        "adam_beta2": section.adam_beta2,
        "adam_epsilon": section.adam_epsilon,
        "max_grad_norm": section.max_grad_norm,
        "seed": section.seed,
        "bf16": section.dtype == "bfloat16",
        "use_cpu": section.device == "cpu",
        "logging_steps": section.logging_steps,
        "logging_first_step": True,
        "logging_nan_inf_filter": False,
        "save_strategy": "no" if section.save_steps is None else "steps",
        "save_steps": section.save_steps or 500,
        "save_total_limit": section.save_total_limit,
        "dataloader_pin_memory": section.device != "cpu" and torch.cuda.is_available(),
        "disable_tqdm": not on_terminal(),
        "report_to": "none",
    }


def embedding_rate(rate: float | None, model: Any) -> dict[str, float]:
    """The token embeddings' own learning rate, if they have one, by a pattern that only their name matches."""
    if rate is None:
        return {}
    embeddings = model[0].auto_model.get_input_embeddings().weight
    name = next(name for name, parameter in model.named_parameters() if parameter is embeddings)
    return {rf"\b{re.escape(name)}$": rate}


def report_to_log(trainer: Trainer) -> None:
    """Take away the callbacks that print to stdout, which is for results; keep a bar for a person who watches.

    Also have whole checkpoints told from torn ones.
    """
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(Seal)
    if on_terminal():
        trainer.remove_callback(ProgressCallback)
        trainer.add_callback(TerminalProgress)


def check_device(device: str, dtype: str) -> None:
    """Refuse a GPU that is not there, and what only one is fast at, before any work.

    Raises:
        RecipeError: `cuda` without a CUDA device, or `bfloat16` without one unless the CPU was asked for.
    """
    if torch.cuda.is_available():
        return
    if device == "cuda":
        raise RecipeError("train.device: got cuda, expected a visible CUDA device; set train.device to auto or cpu")
    if device == "auto" and dtype == "bfloat16":
        raise RecipeError(
            "train.dtype: got bfloat16 and no CUDA device, expected float32, as most CPUs are far slower in bfloat16; "
            "set train.dtype to float32, or train.device to cpu to have it anyway"
        )

"""Training steps side by side: encoders of one size, each through the trainer and through a bare loop."""

import gc
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from transformers import TrainerCallback

from aveyb_ir.config import Recipe
from aveyb_ir.training import build_start
from aveyb_ir.training.batches import BalancedBatchSampler
from aveyb_ir.training.collate import PairCollator
from aveyb_ir.training.loss import InBatchNegativesLoss
from aveyb_ir.training.progress import LossLog
from aveyb_ir.training.sources import load_training_set
from aveyb_ir.training.trainer import ContrastiveTrainer

TRAINING_NAMES = ("avey-b", "modernbert", "neobert")

# Small ones have 1.9 M parameters beside the embeddings; base ones are the released shapes.
_FRESH: dict[str, dict[str, dict[str, Any]]] = {
    "small": {
        "avey-b": {"d_embed": 256, "n_layers": 4, "chunk_size": 64},
        "modernbert": {
            "hidden_size": 256,
            "intermediate_size": 256,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
        },
        "neobert": {"hidden_size": 256, "intermediate_size": 720, "num_hidden_layers": 3, "num_attention_heads": 4},
    },
    "base": {"avey-b": {"d_embed": 768, "n_layers": 30, "chunk_size": 256}, "modernbert": {}, "neobert": {}},
}


@dataclass(frozen=True)
class TrainingTiming:
    """How fast one encoder trains.

    Attributes:
        model: its name.
        parameters: beside the token embeddings.
        tokens: of a batch on the average, padding not counted.
        tokens_per_second: of the trainer, the median of its steps.
        bare_tokens_per_second: of a loop over the same batches, collated beforehand: forward, loss, backward, clipping
            and AdamW, and nothing else.
        share_of_bare: of the two.
    """

    model: str
    parameters: int
    tokens: float
    tokens_per_second: float
    bare_tokens_per_second: float
    share_of_bare: float


def bench_training(
    models: Sequence[str] = ("avey-b", "modernbert"),
    *,
    batch_size: int = 64,
    steps: int = 4,
    size: str = "small",
    repeats: int = 3,
    device: str = "auto",
    dtype: str = "float32",
    progress: Callable[[str], object] = lambda line: None,
) -> list[TrainingTiming]:
    """Time contrastive training on the sample collection, encoders and loops in turns.

    Args:
        models: names; random weights.
        batch_size: rows; each batch has as many queries and about as many passages.
        steps: timed in each round, after one that warms up.
        size: "small" or "base".
        repeats: rounds.
        device: auto, cpu or cuda.
        dtype: float32, or bfloat16 for mixed precision.
        progress: called with a line for each round.

    Raises:
        ValueError: an unknown model or size.
        RecipeError: an impossible device or dtype.
    """
    if size not in _FRESH:
        raise ValueError(f"size is {size!r}; expected one of {', '.join(_FRESH)}.")
    if unknown := [name for name in models if name not in TRAINING_NAMES]:
        raise ValueError(f"model is {unknown[0]!r}; expected one of {', '.join(TRAINING_NAMES)} to train.")
    settings = {"batch_size": batch_size, "mini_batch_size": 4 * batch_size, "device": device, "dtype": dtype}
    subjects = [_Trained(name, _recipe(_FRESH[size][name], name, steps + 1, settings)) for name in models]
    for number in range(repeats):
        progress(f"round {number + 1} of {repeats}: {', '.join(models)}")
        for subject in subjects:
            subject.run_trainer()
            subject.run_bare()
    return [subject.timing() for subject in subjects]


def training_table(timings: Sequence[TrainingTiming]) -> str:
    """The timings as Markdown."""
    lines = [
        "| model | parameters beside embeddings | tokens a batch | tokens/s | against the first | share of bare loop |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {one.model} | {one.parameters:,} | {one.tokens:,.0f} | {one.tokens_per_second:,.0f} "
        f"| {one.tokens_per_second / timings[0].tokens_per_second:.2f}x | {one.share_of_bare:.2f} |"
        for one in timings
    ]
    return "\n".join(lines)


def _recipe(fields: dict[str, Any], name: str, steps: int, settings: dict[str, Any]) -> Recipe:
    fresh = {"fresh": fields} if name == "avey-b" else {"fresh_transformer": {"model_type": name, **fields}}
    return Recipe.model_validate(
        {
            "model": {**fresh, "train_tokenizer": {"vocab_size": 8000}},
            "data": {"beir": str(files("aveyb_ir") / "assets" / "nq")},
            "train": {"max_steps": steps, "logging_steps": steps, **settings},
        }
    )


@dataclass
class _Trained:
    """A model under measurement, with the speeds of its steps so far."""

    name: str
    recipe: Recipe
    trainer_speeds: list[float] = field(default_factory=list)
    bare_speeds: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.training_set = load_training_set(self.recipe.data)
        self.model: SentenceTransformer = build_start(self.recipe)
        self.collator = PairCollator(self.model, self.training_set)
        section = self.recipe.train
        sampler = iter(BalancedBatchSampler(self.training_set, section.batch_size, section.seed))
        assert section.max_steps is not None  # set for every recipe here
        batches = [self.collator([{"pair": pair} for pair in next(sampler)]) for _ in range(section.max_steps)]
        self.batches = [
            {
                key: value.to(self.model.device) if isinstance(value, torch.Tensor) else value
                for key, value in one.items()
            }
            for one in batches
        ]
        self.tokens = [int(batch["num_tokens"]) for batch in batches]

    def run_trainer(self) -> None:
        """Train through the trainer."""
        clock = _StepClock()
        with tempfile.TemporaryDirectory() as folder:
            log = LossLog(Path(folder) / "loss.jsonl")
            trainer = ContrastiveTrainer(self.model, self.recipe.train, self.collator, log, Path(folder))
            trainer.add_callback(clock)
            trainer.train()
        self._note(self.trainer_speeds, clock.times)

    def run_bare(self) -> None:
        """Train in a bare loop over the same batches."""
        section = self.recipe.train
        self.model.train()
        loss_of = InBatchNegativesLoss(self.model, scale=section.scale, mini_batch_size=section.mini_batch_size)
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=section.learning_rate, weight_decay=0.01)
        times = []
        for batch in self.batches:
            features = [
                {key: batch[f"{role}_{key}"] for key in ("input_ids", "attention_mask")}
                for role in ("anchor", "document")
            ]
            with torch.autocast(self.model.device.type, torch.bfloat16, enabled=section.dtype == "bfloat16"):
                loss = loss_of(features, batch["label"])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), section.max_grad_norm)
            optimizer.step()
            optimizer.zero_grad()
            times.append(_now())
        self._note(self.bare_speeds, times)

    def _note(self, speeds: list[float], times: Sequence[float]) -> None:
        speeds += [tokens / seconds for tokens, seconds in zip(self.tokens[1:], np.diff(times), strict=True)]
        gc.collect()

    def timing(self) -> TrainingTiming:
        """What was measured."""
        embeddings = self.model.transformers_model.get_input_embeddings()
        parameters = sum(parameter.numel() for parameter in self.model.parameters()) - embeddings.weight.numel()
        speed, bare = float(np.median(self.trainer_speeds)), float(np.median(self.bare_speeds))
        return TrainingTiming(self.name, parameters, float(np.mean(self.tokens[1:])), speed, bare, speed / bare)


class _StepClock(TrainerCallback):  # type: ignore[misc]
    """Notes the time at the end of every step."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        """Note it."""
        self.times.append(_now())


def _now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()

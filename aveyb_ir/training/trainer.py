"""The Sentence Transformers trainer, told what a recipe says."""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.base.evaluation import BaseEvaluator
from transformers import PrinterCallback, ProgressCallback

from aveyb_ir.config import TrainSection
from aveyb_ir.errors import RecipeError
from aveyb_ir.training.batches import BalancedBatchSampler, num_batches
from aveyb_ir.training.collate import PairCollator
from aveyb_ir.training.loss import InBatchNegativesLoss
from aveyb_ir.training.progress import LossLog, TerminalProgress, on_terminal


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
    def of(cls, section: TrainSection, num_pairs: int) -> "Schedule":
        """The schedule of a recipe for a number of pairs."""
        batches = num_batches(num_pairs, section.batch_size)
        if section.max_steps is not None:
            steps = section.max_steps
        else:
            assert section.epochs is not None  # a checked recipe has one of the two
            steps = math.ceil(section.epochs * math.ceil(batches / section.gradient_accumulation_steps))
        return cls(batches, steps, math.ceil(steps * section.warmup_ratio))


class ContrastiveTrainer(SentenceTransformerTrainer):  # type: ignore[misc]
    """Trains on `PairCollator` batches with `InBatchNegativesLoss`.

    Args:
        model: trained in place.
        section: the recipe's settings.
        collator: holds the training set.
        log: gets the losses and the count of tokens.
        folder: where checkpoints go, if the recipe asks for any.
        evaluator: run every `section.eval_steps`.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        section: TrainSection,
        collator: PairCollator,
        log: LossLog,
        folder: Path,
        evaluator: BaseEvaluator | None = None,
    ) -> None:
        training_set = collator.training_set
        if section.gradient_checkpointing:
            backbone = model[0].auto_model
            # transformers renames the method on its way to version 6
            getattr(backbone, "activation_checkpointing_enable", backbone.gradient_checkpointing_enable)()
        super().__init__(
            model=model,
            args=_arguments(section, Schedule.of(section, len(training_set)), model, folder),
            train_dataset=Dataset.from_dict({"pair": range(len(training_set))}),
            loss=InBatchNegativesLoss(model, scale=section.scale, mini_batch_size=section.mini_batch_size),
            data_collator=collator,
            evaluator=evaluator,
            callbacks=[log],
        )
        self.log_file = log
        self.batch_sampler = BalancedBatchSampler(training_set, section.batch_size, section.seed)
        self.remove_callback(PrinterCallback)  # it prints to stdout, which is for results
        if on_terminal():
            self.remove_callback(ProgressCallback)
            self.add_callback(TerminalProgress)

    def compute_loss(self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Count the tokens of a batch and compute its loss."""
        self.log_file.num_tokens += inputs.pop("num_tokens")
        return super().compute_loss(model, inputs, *args, **kwargs)

    def get_batch_sampler(self, *args: Any, **kwargs: Any) -> BalancedBatchSampler:
        """The one sampler of the run; the data set holds positions only, so there is nothing to choose it by."""
        return self.batch_sampler

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Leave it out: it describes columns of text, and this data set holds positions."""


def check_device(device: str) -> None:
    """Refuse a GPU that is not there, before any work.

    Raises:
        RecipeError: `cuda` without a CUDA device.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise RecipeError("train.device: got cuda, expected a visible CUDA device; set train.device to auto or cpu")


def _arguments(
    section: TrainSection, schedule: Schedule, model: SentenceTransformer, folder: Path
) -> SentenceTransformerTrainingArguments:
    return SentenceTransformerTrainingArguments(
        output_dir=str(folder),
        max_steps=schedule.num_steps,
        warmup_steps=schedule.num_warmup_steps,
        per_device_train_batch_size=section.batch_size,
        gradient_accumulation_steps=section.gradient_accumulation_steps,
        learning_rate=section.learning_rate,
        learning_rate_mapping=_embedding_rate(section, model),
        lr_scheduler_type=section.lr_scheduler_type,
        weight_decay=section.weight_decay,
        adam_beta1=section.adam_beta1,
        adam_beta2=section.adam_beta2,
        adam_epsilon=section.adam_epsilon,
        max_grad_norm=section.max_grad_norm,
        seed=section.seed,
        bf16=section.dtype == "bfloat16",
        use_cpu=section.device == "cpu",
        logging_steps=section.logging_steps,
        logging_first_step=True,
        logging_nan_inf_filter=False,
        save_strategy="no" if section.save_steps is None else "steps",
        save_steps=section.save_steps or 500,
        save_total_limit=section.save_total_limit,
        eval_strategy="no" if section.eval_steps is None else "steps",
        eval_steps=section.eval_steps,
        dataloader_pin_memory=section.device != "cpu" and torch.cuda.is_available(),
        disable_tqdm=not on_terminal(),
        report_to="none",
    )


def _embedding_rate(section: TrainSection, model: SentenceTransformer) -> dict[str, float]:
    """The token embeddings' own learning rate, by a pattern that only their name matches."""
    if section.embedding_learning_rate is None:
        return {}
    embeddings = model[0].auto_model.get_input_embeddings().weight
    name = next(name for name, parameter in model.named_parameters() if parameter is embeddings)
    return {rf"\b{re.escape(name)}$": section.embedding_learning_rate}

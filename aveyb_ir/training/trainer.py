"""The Sentence Transformers trainer, told what a recipe says."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.data_loader import prepare_data_loader
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.base.evaluation import BaseEvaluator
from torch.utils.data import DataLoader
from transformers.integrations import TensorBoardCallback

from aveyb_ir.config import TrainSection
from aveyb_ir.errors import MissingExtraError, RecipeError
from aveyb_ir.training.arguments import Schedule, embedding_rate, report_to_log, shared_arguments
from aveyb_ir.training.batches import BalancedBatchSampler
from aveyb_ir.training.collate import PairCollator
from aveyb_ir.training.loss import InBatchNegativesLoss
from aveyb_ir.training.progress import LossLog
from aveyb_ir.training.selection import load_trained, save_trained

_TRAINED_FILE = "trained.safetensors"


class ContrastiveTrainer(SentenceTransformerTrainer):  # type: ignore[misc]
    """Trains on `PairCollator` batches with `InBatchNegativesLoss`.

    Args:
        model: trained in place.
        section: the recipe's settings.
        collator: holds the training set, and knows which processes share its batches.
        log: gets the losses and the count of tokens.
        folder: where checkpoints go, if the recipe asks for any.
        evaluator: run every `section.eval_steps`.

    Raises:
        RecipeError: vectors cannot be cut to `section.matryoshka_dimensions`, or a batch has fewer rows than there are
            processes.
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
        _check_dimensions(section, model)
        _check_processes(section, collator)
        if section.gradient_checkpointing:
            backbone = model[0].auto_model
            # transformers renames the method on its way to version 6
            getattr(backbone, "activation_checkpointing_enable", backbone.gradient_checkpointing_enable)()
        super().__init__(
            model=model,
            args=_arguments(section, Schedule.of(section, training_set), model, folder),
            train_dataset=Dataset.from_dict({"pair": np.arange(len(training_set))}),
            loss=InBatchNegativesLoss(
                model,
                scale=section.scale,
                mini_batch_size=section.mini_batch_size,
                mini_batch_num_tokens=section.mini_batch_tokens,
                both_directions=section.both_directions,
                dimensions=section.matryoshka_dimensions or (),
                processes=collator.processes,
            ),
            data_collator=collator,
            evaluator=evaluator,
            callbacks=[log],
        )
        self.log_file = log
        self.batch_sampler = BalancedBatchSampler(training_set, section.batch_size, section.seed)
        self._saves_trained_only = section.lora is not None
        report_to_log(self)
        if section.tensorboard is not None and collator.processes.is_main:
            self.add_callback(tensorboard_callback(section.tensorboard))

    def compute_loss(self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Count the tokens of a batch and compute its loss."""
        self.log_file.num_tokens += inputs.pop("num_tokens")
        return super().compute_loss(model, inputs, *args, **kwargs)

    def get_train_dataloader(self) -> DataLoader[Any]:
        """The joined batches, the same for every process: each takes its own part of them."""
        loader = self._build_dataloader(self.train_dataset, self.args.train_batch_size, dataset_kind="train")
        joined: DataLoader[Any] = prepare_data_loader(loader, device=self.args.device, num_processes=1, process_index=0)
        return joined

    def get_batch_sampler(self, *args: Any, **kwargs: Any) -> BalancedBatchSampler:
        """The one sampler of the run; the data set holds positions only, so there is nothing to choose it by."""
        return self.batch_sampler

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Leave it out: it describes columns of text, and this data set holds positions."""

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """Write a checkpoint's model: whole, or only what is trained beside weights that never change."""
        if not self._saves_trained_only:
            super()._save(output_dir, state_dict)
            return
        folder = Path(output_dir or self.args.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        save_trained(folder / _TRAINED_FILE, self.model)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        if self._saves_trained_only:
            load_trained(Path(resume_from_checkpoint) / _TRAINED_FILE, self.model)
        else:
            super()._load_from_checkpoint(resume_from_checkpoint)


def _check_dimensions(section: TrainSection, model: SentenceTransformer) -> None:
    width = model.get_embedding_dimension()
    too_long = [number for number in section.matryoshka_dimensions or () if number > width]
    if too_long:
        raise RecipeError(
            f"train.matryoshka_dimensions: got {too_long[0]}, expected at most the {width} numbers of the model's "
            "vectors; remove it"
        )


def _check_processes(section: TrainSection, collator: PairCollator) -> None:
    """Every process must have a row of every batch."""
    training_set, count = collator.training_set, collator.processes.count
    smallest = min(map(len, BalancedBatchSampler(training_set, section.batch_size, section.seed)))
    if smallest < count:
        raise RecipeError(
            f"train.batch_size: got batches of {smallest} rows, expected at least one for each of {count} processes; "
            "raise it, or start fewer"
        )


def _arguments(
    section: TrainSection, schedule: Schedule, model: SentenceTransformer, folder: Path
) -> SentenceTransformerTrainingArguments:
    arguments = SentenceTransformerTrainingArguments(
        **shared_arguments(section, schedule, folder),
        per_device_train_batch_size=section.batch_size,
        learning_rate_mapping=embedding_rate(section.embedding_learning_rate, model),
        eval_strategy="no" if section.eval_steps is None else "steps",
        eval_steps=section.eval_steps,
        ddp_broadcast_buffers=False,  # processes may embed different numbers of slices
        ddp_find_unused_parameters=True,  # some backbones have a pooler that sentence embeddings do not use
    )
    arguments._n_gpu = min(1, arguments.n_gpu)  # one process a GPU; threads over several would split joined batches
    return arguments


def tensorboard_callback(folder: str) -> TensorBoardCallback:
    """Writes what is logged for TensorBoard.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtraError(
            "train.tensorboard: got no package tensorboard, expected it installed; pip install 'aveyb-ir[train]'"
        ) from error
    return TensorBoardCallback(SummaryWriter(log_dir=folder))

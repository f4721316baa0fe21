"""Sentence Transformers' trainers on columns of text, told what a recipe says."""

from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.cross_encoder import CrossEncoder, CrossEncoderTrainer, CrossEncoderTrainingArguments
from sentence_transformers.sentence_transformer.losses import EmbedDistillLoss
from torch import nn

from aveyb_ir.tasks import RowTrainSection
from aveyb_ir.training.arguments import Schedule, embedding_rate, report_to_log, shared_arguments
from aveyb_ir.training.progress import LossLog

_PROJECTION_FILE = "projection.safetensors"


class RetrieverRowTrainer(SentenceTransformerTrainer):  # type: ignore[misc]
    """Trains a retriever on rows of texts; a loss with a projection of its own has it in the checkpoints.

    Args:
        model: trained in place.
        section: the recipe's settings.
        rows: a column of queries, columns of documents, and `label`.
        loss: of the columns.
        log: gets the losses and the count of tokens.
        folder: where checkpoints go, if the recipe asks for any.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        section: RowTrainSection,
        rows: Dataset,
        loss: nn.Module,
        log: LossLog,
        folder: Path,
    ) -> None:
        _prepare(model, section, log)
        queries, *documents = [name for name in rows.column_names if name != "label"]
        prompts = dict.fromkeys(documents, model.prompts.get("document", ""))
        prompts[queries] = model.prompts.get("query", "")
        super().__init__(
            model=model,
            args=SentenceTransformerTrainingArguments(
                **_arguments(section, model, rows, folder),
                prompts={name: prompt for name, prompt in prompts.items() if prompt} or None,
            ),
            train_dataset=rows,
            loss=loss,
            callbacks=[log],
        )
        report_to_log(self)

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Leave it out: recipe and record say more."""

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        if _projects(self.loss):
            folder = Path(self.args.output_dir) / f"checkpoint-{self.state.global_step}"
            self.loss.save_projection(folder / _PROJECTION_FILE)

    def _load_from_checkpoint(self, checkpoint_path: str) -> None:
        super()._load_from_checkpoint(checkpoint_path)
        if _projects(self.loss):
            self.loss.load_projection(Path(checkpoint_path) / _PROJECTION_FILE)


class CrossEncoderRowTrainer(CrossEncoderTrainer):  # type: ignore[misc]
    """Trains a cross-encoder; arguments as those of `RetrieverRowTrainer`."""

    def __init__(
        self, model: CrossEncoder, section: RowTrainSection, rows: Dataset, loss: nn.Module, log: LossLog, folder: Path
    ) -> None:
        _prepare(model, section, log)
        super().__init__(
            model=model,
            args=CrossEncoderTrainingArguments(**_arguments(section, model, rows, folder)),
            train_dataset=rows,
            loss=loss,
            callbacks=[log],
        )
        report_to_log(self)

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Leave it out: recipe and record say more."""


def _projects(loss: nn.Module) -> bool:
    return isinstance(loss, EmbedDistillLoss) and loss.projection is not None


def _prepare(model: SentenceTransformer | CrossEncoder, section: RowTrainSection, log: LossLog) -> None:
    """Have the model count what it is trained on, and save memory where the recipe says so."""

    def count(module: nn.Module, arguments: tuple[dict[str, torch.Tensor], ...]) -> None:
        if module.training:
            log.num_tokens += int(arguments[0]["attention_mask"].sum())

    model.register_forward_pre_hook(count)
    if section.gradient_checkpointing:
        backbone = model[0].auto_model
        # transformers renames the method on its way to version 6
        getattr(backbone, "activation_checkpointing_enable", backbone.gradient_checkpointing_enable)()


def _arguments(
    section: RowTrainSection, model: SentenceTransformer | CrossEncoder, rows: Dataset, folder: Path
) -> dict[str, Any]:
    schedule = Schedule.over(section, -(-len(rows) // section.batch_size))
    return {
        **shared_arguments(section, schedule, folder),
        "per_device_train_batch_size": section.batch_size,
        "learning_rate_mapping": embedding_rate(section.embedding_learning_rate, model),
    }

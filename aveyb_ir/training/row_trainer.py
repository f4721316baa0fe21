"""Sentence Transformers' trainers on columns of texts that stay on disk, told what a recipe says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.base.data_collator import BaseDataCollator
from sentence_transformers.base.trainer import BaseTrainer
from sentence_transformers.cross_encoder import CrossEncoder, CrossEncoderTrainer, CrossEncoderTrainingArguments
from sentence_transformers.sentence_transformer.losses import EmbedDistillLoss
from torch import nn

from aveyb_ir.data import DiskTexts
from aveyb_ir.tasks import RowTrainSection
from aveyb_ir.training.arguments import Schedule, embedding_rate, report_to_log, shared_arguments
from aveyb_ir.training.progress import LossLog
from aveyb_ir.training.prompted_texts import PromptedTexts

_PROJECTION_FILE = "projection.safetensors"


@dataclass(frozen=True)
class Examples:
    """What a trainer of rows is given: columns that number texts, and the texts.

    Attributes:
        columns: `query` first; then columns of documents, or one of lists of documents; `label` last.
        queries: the texts that `query` numbers.
        documents: those that the other columns number.
    """

    columns: Dataset
    queries: DiskTexts | PromptedTexts
    documents: DiskTexts | PromptedTexts

    def with_texts(self, example: Mapping[str, Any]) -> dict[str, Any]:
        """An example with its texts in place of their numbers."""
        return {name: value if name == "label" else self._texts(name, value) for name, value in example.items()}

    def _texts(self, name: str, numbers: int | list[int]) -> str | list[str]:
        table = self.queries if name == "query" else self.documents
        return [table[number] for number in numbers] if isinstance(numbers, list) else table[numbers]


class _TextCollator:
    """Reads the texts of a batch, and has Sentence Transformers make tensors of them."""

    def __init__(self, collator: BaseDataCollator, examples: Examples) -> None:
        self._collator, self._examples = collator, examples
        self.valid_label_columns = collator.valid_label_columns

    def __call__(self, batch: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        collated: dict[str, Any] = self._collator([self._examples.with_texts(example) for example in batch])
        return collated


class _RowTrainer(BaseTrainer):  # type: ignore[misc]
    """What a trainer of rows does its own way, whatever it trains."""

    examples: Examples

    def get_data_collator(self, *args: Any, **kwargs: Any) -> _TextCollator:
        """The library's own, given texts."""
        return _TextCollator(super().get_data_collator(*args, **kwargs), self.examples)

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Leave it out: recipe and record say more."""


class RetrieverRowTrainer(_RowTrainer, SentenceTransformerTrainer):  # type: ignore[misc]
    """Trains a retriever on rows of texts; a loss with a projection of its own has it in the checkpoints.

    Args:
        model: trained in place.
        section: the recipe's settings.
        examples: with a column of queries and columns of documents.
        loss: of the columns.
        log: gets the losses and the count of tokens.
        folder: where checkpoints go, if the recipe asks for any.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        section: RowTrainSection,
        examples: Examples,
        loss: nn.Module,
        log: LossLog,
        folder: Path,
    ) -> None:
        _prepare(model, section, log)
        self.examples = examples
        queries, *documents = [name for name in examples.columns.column_names if name != "label"]
        prompts = dict.fromkeys(documents, model.prompts.get("document", ""))
        prompts[queries] = model.prompts.get("query", "")
        super().__init__(
            model=model,
            args=SentenceTransformerTrainingArguments(
                **_arguments(section, model, len(examples.columns), folder),
                prompts={name: prompt for name, prompt in prompts.items() if prompt} or None,
            ),
            train_dataset=examples.columns,
            loss=loss,
            callbacks=[log],
        )
        report_to_log(self)

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        if _projects(self.loss):
            folder = Path(self.args.output_dir) / f"checkpoint-{self.state.global_step}"
            self.loss.save_projection(folder / _PROJECTION_FILE)

    def _load_from_checkpoint(self, checkpoint_path: str) -> None:
        super()._load_from_checkpoint(checkpoint_path)
        if _projects(self.loss):
            self.loss.load_projection(Path(checkpoint_path) / _PROJECTION_FILE)


class CrossEncoderRowTrainer(_RowTrainer, CrossEncoderTrainer):  # type: ignore[misc]
    """Trains a cross-encoder; arguments as those of `RetrieverRowTrainer`."""

    def __init__(
        self,
        model: CrossEncoder,
        section: RowTrainSection,
        examples: Examples,
        loss: nn.Module,
        log: LossLog,
        folder: Path,
    ) -> None:
        _prepare(model, section, log)
        self.examples = examples
        super().__init__(
            model=model,
            args=CrossEncoderTrainingArguments(**_arguments(section, model, len(examples.columns), folder)),
            train_dataset=examples.columns,
            loss=loss,
            callbacks=[log],
        )
        report_to_log(self)


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
    section: RowTrainSection, model: SentenceTransformer | CrossEncoder, num_examples: int, folder: Path
) -> dict[str, Any]:
    schedule = Schedule.over(section, -(-num_examples // section.batch_size))
    return {
        **shared_arguments(section, schedule, folder),
        "per_device_train_batch_size": section.batch_size,
        "learning_rate_mapping": embedding_rate(section.embedding_learning_rate, model),
    }

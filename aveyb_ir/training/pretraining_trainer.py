"""Masked language modelling by transformers' trainer: loss and accuracy in the log, perplexity of held-out text."""

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, Trainer, TrainingArguments

from aveyb_ir.tasks import PretrainTrainSection
from aveyb_ir.training.arguments import Schedule, report_to_log, shared_arguments
from aveyb_ir.training.pretraining_batches import NOT_PREDICTED, MaskedBatches
from aveyb_ir.training.progress import LossLog


class PretrainingTrainer(Trainer):  # type: ignore[misc]
    """Trains a model with a masked language modelling head on `MaskedBatches`, in their order.

    Args:
        model: trained in place.
        section: the recipe's settings.
        batches: of the whole run.
        held_out: batches that tell the perplexity; None for none.
        log: gets the losses, the accuracies and the count of tokens.
        folder: where checkpoints go, if the recipe asks for any.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        section: PretrainTrainSection,
        batches: MaskedBatches,
        held_out: MaskedBatches | None,
        log: LossLog,
        folder: Path,
    ) -> None:
        if section.gradient_checkpointing:
            # transformers renames the method on its way to version 6
            getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()
        super().__init__(
            model=model,
            args=_arguments(section, batches, folder),
            train_dataset=batches,
            eval_dataset=held_out,
            data_collator=_only,
            callbacks=[log],
        )
        # The loss is the mean of a batch, so the trainer has to divide the sum over accumulated batches itself.
        self.model_accepts_loss_kwargs = False
        self.log_file = log
        self._num_right = torch.zeros((), dtype=torch.long, device=self.args.device)
        self._num_predicted = 0
        self._metrics: dict[str, float] = {}
        self._measured_at: int | None = None
        report_to_log(self)

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Any], return_outputs: bool = False, *args: Any, **kwargs: Any
    ) -> Tensor:
        """Count the tokens of a batch and what is predicted rightly, and compute its loss."""
        self.log_file.num_tokens += inputs.pop("num_tokens")
        loss, num_right, num_predicted = masked_lm_loss(model, inputs)
        self._num_right += num_right
        self._num_predicted += num_predicted
        return loss

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Put the accuracy since the last line beside the loss."""
        if "loss" in logs:
            logs["accuracy"] = round(int(self._num_right) / self._num_predicted, 4)
            self._num_right.zero_()
            self._num_predicted = 0
        super().log(logs, *args, **kwargs)

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Log what `held_out_metrics` finds, once a step."""
        metrics = {f"eval_{name}": value for name, value in self.held_out_metrics().items()}
        if self._measured_at != self.state.global_step and metrics:
            self.log(metrics)
        self._measured_at = self.state.global_step
        return metrics

    def held_out_metrics(self) -> dict[str, float]:
        """`loss`, `accuracy` and `perplexity` of the held-out batches, over all tokens predicted there alike.

        Empty where nothing is held out.
        """
        if self.eval_dataset is not None and self._measured_at != self.state.global_step:
            self._metrics = self._measure()
        return self._metrics

    @torch.no_grad()
    def _measure(self) -> dict[str, float]:
        self.model.eval()
        total, right, predicted = 0.0, 0, 0
        for number in range(len(self.eval_dataset)):
            batch = self._prepare_inputs(self.eval_dataset[number])
            batch.pop("num_tokens")
            with self.autocast_smart_context_manager():
                loss, num_right, num_predicted = masked_lm_loss(self.model, batch)
            total += float(loss) * num_predicted
            right += int(num_right)
            predicted += num_predicted
        loss_mean = total / predicted
        # Past e**700 there is no float; a model that wrong has a loss that says so.
        perplexity = math.exp(min(loss_mean, 700.0))
        return {"loss": loss_mean, "accuracy": right / predicted, "perplexity": perplexity}


def masked_lm_loss(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor, int]:
    """Mean cross entropy of the hidden tokens, how many are predicted rightly, and how many there are.

    Args:
        model: an Avey-B, which computes logits only where they are needed, or any other with a head for it.
        batch: `input_ids`, `attention_mask` and `labels`, (N, L).
    """
    labels = batch["labels"]
    predicted = labels != NOT_PREDICTED
    sparse = {"labelled_only": True} if getattr(model, "packs_texts", False) else {}
    output = model(**batch, **sparse)
    logits = output.logits if output.logits.dim() == 2 else output.logits[predicted]
    num_right = (logits.detach().argmax(-1) == labels[predicted]).sum()
    return output.loss, num_right, len(logits)


def _arguments(section: PretrainTrainSection, batches: MaskedBatches, folder: Path) -> TrainingArguments:
    return TrainingArguments(
        **shared_arguments(section, Schedule.over(section, batches.num_batches), folder),
        per_device_train_batch_size=1,  # an item is a batch
        train_sampling_strategy="sequential",  # and they are in order
        remove_unused_columns=False,
        eval_strategy="no" if section.eval_steps is None else "steps",
        eval_steps=section.eval_steps,
    )


def _only(items: list[dict[str, Any]]) -> dict[str, Any]:
    (item,) = items
    return item

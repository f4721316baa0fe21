"""What is measured: encoders that take token ids and give one vector a text, at sizes that can be compared."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from aveyb_ir.encoding import Encoder
from aveyb_ir.encoding.batching import token_budget_batches
from aveyb_ir.encoding.forward import choose_forward
from aveyb_ir.models import AveyBConfig, AveyBModel, NeoBERTConfig, NeoBERTModel
from aveyb_ir.models.reference_aveyb import reference_states
from aveyb_ir.packaged import DEFAULT_MODEL, packaged_model

# Released base sizes, and small ones of like width and cost.
_SIZES: dict[str, dict[str, dict[str, Any]]] = {
    "avey-b": {"base": {}, "small": {"vocab_size": 30522, "d_embed": 256, "n_layers": 4, "chunk_size": 64}},
    "modernbert": {
        "base": {},
        "small": {
            "hidden_size": 256,
            "intermediate_size": 384,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
        },
    },
    "neobert": {
        "base": {},
        "small": {"hidden_size": 256, "intermediate_size": 768, "num_hidden_layers": 3, "num_attention_heads": 4},
    },
}
NAMES = ("avey-b", "avey-b-reference", "modernbert", "neobert")
SIZES = ("base", "small")
_TOKEN_BUDGET = 16_384


@dataclass(frozen=True)
class Subject:
    """An encoder under measurement.

    Attributes:
        name: What the tables call it.
        encode: Takes texts as (tokens,) int64 tensors and gives (n, d) vectors.
        model: Its parameters.
        vocab_size: Token ids lie below this.
        reference: Slow on purpose; measured on short texts only.
        max_tokens: Longest text that it reads; None for any.
    """

    name: str
    encode: Callable[[Sequence[Tensor]], Tensor]
    model: nn.Module
    vocab_size: int
    reference: bool = False
    max_tokens: int | None = None

    @property
    def num_parameters(self) -> int:
        """Parameters, embeddings included."""
        return sum(parameter.numel() for parameter in self.model.parameters())


def build_subject(
    name: str, *, size: str = "base", tail: str = "mask", device: str = "cpu", dtype: torch.dtype = torch.float32
) -> Subject:
    """Build a model of random weights by name, or load a trained one.

    Raises:
        ValueError: Neither a known name nor one that a model could have, or an unknown size.
        ModelError: The model cannot be loaded.
    """
    if Path(name).is_dir() or packaged_model(name) is not None or "/" in name:
        return _trained(name, device, dtype)
    family = name.removesuffix("-reference")
    if family not in _SIZES or name not in NAMES:
        known = ", ".join((*NAMES, DEFAULT_MODEL))
        raise ValueError(f"model is {name!r}; expected one of {known}, a model folder, or OWNER/NAME on the Hub.")
    if size not in SIZES:
        raise ValueError(f"size is {size!r}; expected one of {', '.join(SIZES)}.")
    torch.manual_seed(0)
    model = _fresh(family, _SIZES[family][size], tail).to(device, dtype).eval()
    vocab_size = int(model.config.vocab_size)
    if name == "avey-b":
        return Subject(name, lambda texts: _whole(model, texts), model, vocab_size)
    if name == "avey-b-reference":
        return Subject(name, lambda texts: _by_equations(model, texts), model, vocab_size, reference=True)
    return Subject(name, lambda texts: _padded(model, texts), model, vocab_size)


def _fresh(family: str, fields: dict[str, Any], tail: str) -> Any:
    if family == "avey-b":
        return AveyBModel(AveyBConfig(tail=tail, **fields))
    if family == "neobert":
        return NeoBERTModel(NeoBERTConfig(**fields))
    from transformers import ModernBertConfig, ModernBertModel

    # Positions are rotary, so lengths beyond the released limit can be timed.
    return ModernBertModel(ModernBertConfig(max_position_embeddings=2**20, **fields))


def _trained(model: str, device: str, dtype: torch.dtype) -> Subject:
    encoder = Encoder(model, device=device, dtype=str(dtype).removeprefix("torch."))
    forward = choose_forward(encoder.model)

    def encode(texts: Sequence[Tensor]) -> Tensor:
        return torch.from_numpy(forward([text.cpu().numpy().astype("int32") for text in texts]))

    name, vocab_size = Path(model).name, len(encoder.model.tokenizer)
    return Subject(name, encode, encoder.model, vocab_size, max_tokens=encoder.max_length)


@torch.inference_mode()
def _whole(model: AveyBModel, texts: Sequence[Tensor]) -> Tensor:
    return model.encode_chunks(torch.cat(list(texts)), [len(text) for text in texts]).mean_of_texts()


@torch.inference_mode()
def _by_equations(model: AveyBModel, texts: Sequence[Tensor]) -> Tensor:
    return torch.stack([reference_states(model, text).mean(0) for text in texts])


def _padded(model: nn.Module, texts: Sequence[Tensor]) -> Tensor:
    """Batch texts of like length by the encoder's own rule, so that padding is what it is in use."""
    lengths = np.array([len(text) for text in texts], dtype=np.int64)
    batches = list(token_budget_batches(lengths, _TOKEN_BUDGET, padded=True))
    vectors = torch.cat([_padded_batch(model, [texts[i] for i in batch]) for batch in batches])
    return vectors[torch.from_numpy(np.argsort(np.concatenate(batches)))]


@torch.inference_mode()
def _padded_batch(model: nn.Module, texts: Sequence[Tensor]) -> Tensor:
    width = max(len(text) for text in texts)
    input_ids = torch.stack([F.pad(text, (0, width - len(text))) for text in texts])
    mask = torch.stack([torch.arange(width, device=text.device) < len(text) for text in texts]).long()
    same_length = all(len(text) == width for text in texts)
    states = model(input_ids=input_ids, attention_mask=None if same_length else mask).last_hidden_state
    pooled: Tensor = (states * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
    return pooled

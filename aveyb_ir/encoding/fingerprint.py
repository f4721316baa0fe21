"""What makes two encoders give the same vectors: a hash to compare and details to explain a difference."""

import hashlib
import json
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling

_DECISIVE_FIELDS = (
    "model_type",
    "chunk_size",
    "k",
    "eps",
    "tail",
    "hidden_act",
    "hidden_activation",
    "num_attention_heads",
    "layer_norm_eps",
    "norm_eps",
    "local_attention",
)
_PROBE = "The  Quick (brown) fox's n°1 café — ΑΒΓ Привет 漢字 👍\n2024-01-01 supercalifragilistic"


def describe(model: SentenceTransformer) -> dict[str, Any]:
    """Collect what decides a model's vectors beside its weights: tokenizer, pooling, prompts, length limit, …"""
    narrowed = {} if model.truncate_dim is None else {"truncate_dim": model.truncate_dim}
    return {
        "architecture": _architecture(model),
        "tokenizer": _hash_tokenizer(model.tokenizer),
        "pooling": [str(module.pooling_mode) for module in model if isinstance(module, Pooling)],
        "prompts": {name: prompt for name, prompt in sorted(model.prompts.items()) if prompt},
        "max_length": model.max_seq_length,
        "modules": [type(module).__name__ for module in model],
        **narrowed,
    }


def fingerprint_of(details: dict[str, Any]) -> str:
    """Hash a description to 32 hexadecimal digits."""
    return _digest(json.dumps(details, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


def _architecture(model: SentenceTransformer) -> dict[str, Any]:
    """Keep what changes results beside the weights; other fields come and go with versions of transformers."""
    fields = {name: getattr(model.config, name) for name in _DECISIVE_FIELDS if hasattr(model.config, name)}
    return fields | ({"pin_first_chunk": True} if getattr(model.config, "pin_first_chunk", False) else {})


def hash_weights(model: SentenceTransformer) -> str:
    """Hash names, shapes, dtypes and bytes of all parameters and stored buffers."""
    digest = _digest()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _hash_tokenizer(tokenizer: Any) -> str:
    """Hash the vocabulary and what it makes of a probe; the serialized form changes with versions of tokenizers."""
    digest = _digest(json.dumps(sorted(tokenizer.get_vocab().items())).encode())
    digest.update(json.dumps(tokenizer(_PROBE)["input_ids"]).encode())
    return digest.hexdigest()


def _digest(data: bytes = b"") -> "hashlib.blake2b":
    return hashlib.blake2b(data, digest_size=16)

"""Backbones that start from random weights: an Avey-B, or any other architecture to compare it with."""

import difflib
import logging
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedConfig, PreTrainedModel

from aveyb_ir.config import Backbone
from aveyb_ir.encoding import load_sentence_transformer
from aveyb_ir.errors import ModelError, RecipeError
from aveyb_ir.models import AveyBConfig
from aveyb_ir.training.static_start import static_embeddings
from aveyb_ir.training.tokenizer import train_tokenizer

logger = logging.getLogger(__name__)

_SYMBOLS = ("pad", "cls", "sep", "bos", "eos")


def save_fresh_backbone(folder: str, section: Backbone, texts: Iterable[str], *, seed: int) -> None:
    """Write a backbone with random weights and its tokenizer, so that they load the way any checkpoint does.

    Args:
        folder: an empty folder.
        section: has `fresh` or `fresh_transformer`, and a tokenizer or how to get one.
        texts: of the training data; read only where `section.train_tokenizer` or `section.embeddings_from` is set.
        seed: fixes the weights; the generators of the caller are left as they were.

    Raises:
        ModelError: `section.tokenizer` or `section.embeddings_from` cannot be loaded.
        RecipeError: `section.fresh_transformer` names no known architecture, or fields its config does not have, or
            embeddings wider than those of `section.embeddings_from`.
    """
    origin = None
    if section.embeddings_from is not None:
        origin = load_sentence_transformer(section.embeddings_from, device="cpu", dtype=torch.float32)
    tokenizer = _tokenizer(section, texts) if origin is None else origin.tokenizer
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model: PreTrainedModel = AutoModel.from_config(_config(section, tokenizer))
    if origin is not None:
        table = model.get_input_embeddings().weight
        with torch.no_grad():
            table.copy_(_first_embeddings(section, origin, texts, table.shape[1]))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    logger.info(
        "fresh %s: %d parameters, vocabulary of %d", model.config.model_type, model.num_parameters(), len(tokenizer)
    )


def _first_embeddings(section: Backbone, origin: SentenceTransformer, texts: Iterable[str], width: int) -> torch.Tensor:
    if section.embeddings == "alone":
        return torch.from_numpy(static_embeddings(origin, texts, width))
    table: torch.Tensor = origin[0].auto_model.get_input_embeddings().weight
    if table.shape[1] != width:
        raise RecipeError(
            f"model.embeddings: got the table of a model with {table.shape[1]} numbers a token for embeddings of "
            f"{width}, expected as many; choose another model.embeddings_from, or set model.embeddings to alone"
        )
    return table[: len(origin.tokenizer)]


def _tokenizer(section: Backbone, texts: Iterable[str]) -> Any:
    if section.train_tokenizer is not None:
        return train_tokenizer(texts, section.train_tokenizer)
    try:
        return AutoTokenizer.from_pretrained(section.tokenizer)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ModelError(
            f"model.tokenizer: got {section.tokenizer!r}, expected a tokenizer folder or a Hub name; "
            f"check the path or the network ({reason})"
        ) from error


def _config(section: Backbone, tokenizer: Any) -> PreTrainedConfig:
    if section.fresh is not None:
        return AveyBConfig(vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, **section.fresh.model_dump())
    assert section.fresh_transformer is not None  # a checked recipe without `start` has one of the two
    return _transformer_config(section.fresh_transformer, tokenizer)


def _transformer_config(fields: Mapping[str, Any], tokenizer: Any) -> PreTrainedConfig:
    """The config of another architecture, with the vocabulary and the special symbols of the tokenizer."""
    model_type = fields["model_type"]
    try:
        defaults = AutoConfig.for_model(model_type)
    except ValueError:
        raise RecipeError(
            f"model.fresh_transformer.model_type: got {model_type!r}, expected an architecture of transformers such as "
            "modernbert, neobert, bert or roberta; correct the name"
        ) from None
    known = {*defaults.to_dict(), *defaults.attribute_map}
    for name in fields:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1) or sorted(known)[:1]
            raise RecipeError(
                f"model.fresh_transformer.{name}: unknown key, expected a field of {type(defaults).__name__}; "
                f"did you mean {close[0]}?"
            )
    # Set to None too: a default beyond the vocabulary would name a token that is not there.
    symbols = {f"{symbol}_token_id": getattr(tokenizer, f"{symbol}_token_id") for symbol in _SYMBOLS}
    found = {name: number for name, number in symbols.items() if name in known}
    return AutoConfig.for_model(**{"vocab_size": len(tokenizer), **found, **fields})

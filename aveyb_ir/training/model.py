"""The model a recipe asks for, as a Sentence Transformer of stock modules."""

import tempfile
import warnings
from collections.abc import Iterable
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.model_card import SentenceTransformerModelCardData
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

from aveyb_ir.config import ModelSection
from aveyb_ir.encoding import load_sentence_transformer
from aveyb_ir.errors import ModelError
from aveyb_ir.training.fresh import save_fresh_backbone
from aveyb_ir.training.tokenizer import append_end_symbol

_UNBOUNDED_POSITIONS = 2**31
_STOCK_MODULES = ("Transformer", "Pooling", "Normalize")


def build_sentence_transformer(
    section: ModelSection, texts: Iterable[str] = (), *, seed: int = 0, device: str | None = None
) -> SentenceTransformer:
    """Build `Transformer` + `Pooling` + `Normalize` from a checkpoint or from random weights.

    Args:
        section: what the recipe says about the model.
        texts: of the training data; read only where `section.train_tokenizer` or `section.embeddings_from` is set.
        seed: fixes random weights; the generators of the caller are left as they were.
        device: where the weights go, such as "cpu"; None lets Sentence Transformers choose.

    Raises:
        ModelError: `section.start` or `section.tokenizer` cannot be loaded, or has modules besides the three, or no end
            symbol to append.
        RecipeError: `section.fresh_transformer` is no architecture that transformers knows, or has unknown fields.
    """
    if section.start is not None:
        loaded = _load(section.start, "model.start")
    else:
        with tempfile.TemporaryDirectory() as folder:
            save_fresh_backbone(folder, section, texts, seed=seed)
            loaded = _load(folder, "model.fresh")
    transformer = loaded[0]
    set_length_limit(transformer, section.max_length)
    if section.append_eos:
        append_end_symbol(transformer.tokenizer)
    prompts = loaded.prompts if section.prompts is None else section.prompts.model_dump()
    pooling = section.pooling or _pooling_of(loaded)
    if pooling == "cls" and hasattr(loaded.transformers_model, "encode_chunks"):
        warnings.warn(
            "model.pooling is cls: the first token of an Avey-B sees only the first chunk, so the rest of a long text "
            "does not reach its vector; mean pooling reads all of it",
            stacklevel=2,
        )
    return SentenceTransformer(
        modules=[
            transformer,
            Pooling(transformer.get_embedding_dimension(), pooling_mode=pooling),
            Normalize(),
        ],
        prompts=prompts,
        similarity_fn_name="cosine",
        device=device,
        model_card_data=SentenceTransformerModelCardData(local_files_only=True, generate_widget_examples=False),
    )


def _load(name: str, key: str) -> SentenceTransformer:
    # Training keeps its weights in float32, whatever the checkpoint was stored in.
    loaded = load_sentence_transformer(name, device="cpu", dtype=torch.float32)
    if other := [type(module).__name__ for module in loaded if type(module).__name__ not in _STOCK_MODULES]:
        raise ModelError(
            f"{key}: got {name!r} with the modules {', '.join(other)}, expected only {', '.join(_STOCK_MODULES)}; "
            "start from its backbone instead"
        )
    return loaded


def _pooling_of(model: SentenceTransformer) -> str:
    """How a loaded model pools; the mean where it is only a backbone."""
    pooling = next((module.pooling_mode for module in model if isinstance(module, Pooling)), "mean")
    return pooling if isinstance(pooling, str) else "+".join(pooling)


def set_length_limit(transformer: Any, max_length: int | None) -> None:
    """Apply the recipe's limit; without one, lift what the tokenizer says if the backbone can read any length."""
    num_positions = getattr(transformer.config, "max_position_embeddings", 0)
    if max_length is not None:
        transformer.max_seq_length = max_length
    elif num_positions >= _UNBOUNDED_POSITIONS:
        transformer.max_seq_length = num_positions

"""One batch of token ids to vectors: Avey-B whole and without padding, any other model padded."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.modules import Pooling

TokenIds = Sequence[NDArray[np.int32]]

_STREAMED_POOLING = ("mean", "cls")


def takes_token_ids(model: SentenceTransformer) -> bool:
    """Whether token ids are all that the model takes; others have to go through Sentence Transformers' own batches."""
    first = model[0]
    return (
        isinstance(first, Transformer)
        and set(first.modality_config) == {"text"}
        and all(module.include_prompt for module in model if isinstance(module, Pooling))
    )


def choose_forward(model: SentenceTransformer) -> "PaddedForward | WholeForward":
    """Take the way that computes nothing for padding where the backbone offers it and the pooling can be streamed."""
    streams = hasattr(model.transformers_model, "encode_chunks")
    if streams and len(model) > 1 and isinstance(model[1], Pooling) and model[1].pooling_mode in _STREAMED_POOLING:
        return WholeForward(model)
    return PaddedForward(model)


class PaddedForward:
    """Runs a batch at the length of its longest text, through all modules of the model."""

    padded = True

    def __init__(self, model: SentenceTransformer) -> None:
        self._model = model

    @torch.inference_mode()
    def __call__(self, token_ids: TokenIds) -> NDArray[np.float32]:
        """Encode texts of at least one token: (n, d) float32, not normalized unless the model does."""
        return _to_numpy(self._model(padded_features(self._model, token_ids))["sentence_embedding"])


class WholeForward:
    """Streams texts of any length through Avey-B; memory holds one micro-batch of states."""

    padded = False

    def __init__(self, model: SentenceTransformer) -> None:
        self._model = model

    @torch.inference_mode()
    def __call__(self, token_ids: TokenIds) -> NDArray[np.float32]:
        """Encode texts of at least one token: (n, d) float32, not normalized unless the model does."""
        states = self._states(token_ids)
        return self._finish(self._pooled(states))

    @torch.inference_mode()
    def chunks(self, token_ids: TokenIds) -> tuple[NDArray[np.float32], list[NDArray[np.float32]]]:
        """Encode texts and, in the same pass, each of their chunks: (n, d), and (chunks, d) for each text."""
        states = self._states(token_ids)
        texts = self._finish(self._pooled(states))
        chunks = self._finish(states.mean_CD)
        counts = np.bincount(states.chunks.text_C.numpy(), minlength=len(token_ids))
        return texts, np.split(chunks, np.cumsum(counts)[:-1])

    def _states(self, token_ids: TokenIds) -> Any:
        flat = torch.from_numpy(np.concatenate(token_ids).astype(np.int64)).to(self._model.device)
        return self._model.transformers_model.encode_chunks(flat, [len(ids) for ids in token_ids])

    def _pooled(self, states: Any) -> torch.Tensor:
        means = self._model[1].pooling_mode == "mean"
        pooled: torch.Tensor = states.mean_of_texts() if means else states.first_of_texts()
        return pooled

    def _finish(self, pooled: torch.Tensor) -> NDArray[np.float32]:
        """Run the modules after the pooling."""
        features: dict[str, Any] = {"sentence_embedding": pooled.to(self._model.dtype)}
        for module in list(self._model)[2:]:
            features = module(features)
        return _to_numpy(features["sentence_embedding"])


def padded_features(model: SentenceTransformer, token_ids: TokenIds) -> dict[str, torch.Tensor]:
    """Lay a batch out at the length of its longest text, on the model's device and on its tokenizer's side."""
    tokenizer = model.tokenizer
    width = max(len(ids) for ids in token_ids)
    input_ids = np.full((len(token_ids), width), tokenizer.pad_token_id or 0, dtype=np.int64)
    mask = np.zeros((len(token_ids), width), dtype=np.int64)
    for row, ids in enumerate(token_ids):
        place = slice(width - len(ids), width) if tokenizer.padding_side == "left" else slice(len(ids))
        input_ids[row, place], mask[row, place] = ids, 1
    features = {"input_ids": torch.from_numpy(input_ids), "attention_mask": torch.from_numpy(mask)}
    return {name: tensor.to(model.device) for name, tensor in features.items()}


def _to_numpy(embedding: torch.Tensor) -> NDArray[np.float32]:
    vectors: NDArray[np.float32] = embedding.float().cpu().numpy()
    return vectors

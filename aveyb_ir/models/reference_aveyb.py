"""Avey-B as its equations read, one text and one chunk at a time: slow, and what the packed model is measured against.

Shape letters: T tokens, S positions of a chunk (fewer in a last chunk whose tail is masked), D width.
"""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from .blocks_aveyb import AveyBLayer
from .modeling_aveyb import AveyBPreTrainedModel


def reference_states(model: AveyBPreTrainedModel, token_T: Tensor) -> Tensor:
    """Compute the states of one text without packing, blocks or buckets: (T, D). Differentiable.

    Args:
        model: Any Avey-B model; its `tail` decides what the end of the last chunk does.
        token_T: Token ids of one text, at least one.
    """
    size = model.config.chunk_size
    chunks = [F.embedding(ids, model.embed.weight) for ids in token_T.split(size)]
    if model.config.tail == "zero":
        chunks[-1] = F.pad(chunks[-1], (0, 0, 0, size - len(chunks[-1])))
    return torch.cat([chunk_states(model, chunks, i) for i in range(len(chunks))])[: len(token_T)]


def chunk_states(model: AveyBPreTrainedModel, chunks: list[Tensor], i: int) -> Tensor:
    """Compute the states of one chunk of a text: (S, D). Without data-dependent steps where it is the text's first.

    Args:
        model: Any Avey-B model.
        chunks: The text's embedded tokens, (S, D) each; the last may be shorter, unless its tail is computed.
        i: Which chunk.
    """
    hidden_SD = _compressed(model, chunks, i)
    for layer in model.layers:
        hidden_SD = _layer(cast(AveyBLayer, layer), hidden_SD)
    return hidden_SD


def _compressed(model: AveyBPreTrainedModel, chunks: list[Tensor], i: int) -> Tensor:
    """Bring the best earlier chunks to chunk i and compress: P·[zeros; w·X_j in descending score; X_i] + X_i."""
    size, k, own_SD = model.config.chunk_size, model.config.k, chunks[i]
    kept, width = min(i, k), own_SD.shape[0]  # `len` would fix the width where the model is exported
    brought = []
    if kept:
        unit = [F.normalize(chunk, dim=-1, eps=model.config.eps) for chunk in chunks]
        scores = torch.stack([(unit[i] @ unit[j].T).amax(-1).sum() for j in range(i)])
        best = scores.sort(descending=True, stable=True)
        weights = best.values[:kept] / best.values[kept - 1]
        chosen = best.indices[:kept].tolist()
        if model.config.pin_first_chunk and 0 not in chosen:
            chosen[-1] = 0
        brought = [weight * chunks[j] for weight, j in zip(weights, chosen, strict=True)]
    # Fewer than k chunks stand at the end of the matrix' columns for them; the first columns meet zeros.
    columns = model.ranker.down_proj[:width, (k - kept) * size : k * size + width]
    return columns @ torch.cat([*brought, own_SD]) + own_SD


def _layer(layer: AveyBLayer, hidden_SD: Tensor) -> Tensor:
    rows, width = hidden_SD.shape
    root_mean_square = (hidden_SD.square().mean(-1, keepdim=True) + layer.eps).sqrt()
    z_SZ = F.gelu(layer.enricher(hidden_SD / root_mean_square * layer.norm.weight))
    c_SD, g_SD, bypass = z_SZ[:, :width], z_SZ[:, width : 2 * width], z_SZ[:, 2 * width :]
    if layer.spatial_proj is not None:
        mixed_SD = layer.spatial_proj[:rows, :rows] @ c_SD
    else:
        unit_SD = F.normalize(c_SD, dim=-1, eps=layer.eps)
        similarity_SS = unit_SD @ unit_SD.T
        mixed_SD = similarity_SS / (similarity_SS.abs().sum(-1, keepdim=True) + layer.eps) @ c_SD
    return layer.fuser(torch.cat([g_SD * mixed_SD, bypass], dim=-1)) + layer.alpha * hidden_SD

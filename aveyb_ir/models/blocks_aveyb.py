"""Avey-B's parts: the ranker with its compressor, and the layer.

Shape letters: T tokens of all texts, C chunks of all texts, B chunks of a bucket, W its width, R rows, D width of the
states, K retrieved chunks, S positions of a whole chunk, P pairs of chunks, U distinct tokens, V vocabulary.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .configuration_aveyb import AveyBConfig
from .packing_aveyb import Bucket, Chunks
from .ranker_aveyb import distinct_token_scores, distinct_tokens_pay, maxsim, pin, select, unit_rows, weights

_FEW_ROWS = 128
_VERY_FEW_ROWS = 16


class AveyBRanker(nn.Module):
    """Retrieves earlier chunks for each chunk and compresses them into it (paper, ranker and compression)."""

    def __init__(self, config: AveyBConfig) -> None:
        super().__init__()
        self.chunk_size, self.k, self.eps = config.chunk_size, config.k, config.eps
        self.config = config
        self.down_proj = nn.Parameter(torch.empty(config.chunk_size, (config.k + 1) * config.chunk_size))

    def retrieve(self, embedding: nn.Embedding, token_T: Tensor, chunks: Chunks) -> tuple[Tensor, Tensor]:
        """Choose the chunks that come to each chunk, and their weights.

        With `pin_first_chunk`, where a text's first chunk is not among those chosen, it takes place and weight of the
        last of them; that weight is 1. The others keep theirs, which depend on the score of the chunk that left.

        Args:
            embedding: The token embeddings.
            token_T: Token ids of all texts, back to back.
            chunks: The chunks these make.

        Returns:
            (C, K) numbers of chunks, -1 for none, in slot order, and their (C, K) fp32 weights. The choice carries no
            gradient; where gradients are enabled, the weights do.
        """
        num_chunks, device = len(chunks), token_T.device
        chunk_CK = torch.full((num_chunks, self.k), -1, device=device)
        score_CK = torch.zeros(num_chunks, self.k, dtype=torch.float32, device=device)
        counts = torch.bincount(chunks.text_C).tolist()
        if not self.k or max(counts, default=0) < 2:
            return chunk_CK, score_CK
        first = 0
        for count in counts:
            if count > 1:
                own = slice(first, first + count)
                end = int(chunks.start_C[own.stop - 1] + chunks.length_C[own.stop - 1])
                with torch.no_grad():
                    scores_CC = self._scores(embedding.weight, token_T[int(chunks.start_C[first]) : end])
                    local_CK, score_CK[own] = select(scores_CC, self.k)
                chunk_CK[own] = torch.where(local_CK >= 0, local_CK + first, -1)
            first += count
        retrieved_CK = chunk_CK >= 0
        if torch.is_grad_enabled() and embedding.weight.requires_grad:
            score_CK = self._scores_with_gradient(embedding, token_T, chunks, chunk_CK)
        weight_CK = weights(score_CK, retrieved_CK)
        if self.config.pin_first_chunk:
            chunk_CK = pin(chunk_CK, torch.searchsorted(chunks.text_C, chunks.text_C).to(device))
        return chunk_CK, weight_CK

    def _scores(self, table_VD: Tensor, token_T: Tensor) -> Tensor:
        """Score every chunk of one text against every earlier one: (C, C) fp32, meaningful below the diagonal."""
        distinct_U, token_row_T = torch.unique(token_T, return_inverse=True)
        unit_UD = unit_rows(table_VD[distinct_U].float(), self.eps)
        if distinct_tokens_pay(token_T.numel(), distinct_U.numel(), self.chunk_size):
            return distinct_token_scores(unit_UD, token_row_T, self.chunk_size)
        num_chunks = -(-token_T.numel() // self.chunk_size)
        missing = num_chunks * self.chunk_size - token_T.numel()
        unit_CSD = F.pad(unit_UD[token_row_T], (0, 0, 0, missing)).unflatten(0, (num_chunks, self.chunk_size))
        query_P, key_P = torch.tril_indices(num_chunks, num_chunks, -1, device=token_T.device)
        scores_CC = unit_UD.new_zeros(num_chunks, num_chunks)
        scores_CC[query_P, key_P] = maxsim(unit_CSD[query_P], unit_CSD[key_P])
        return scores_CC

    def _scores_with_gradient(
        self, embedding: nn.Embedding, token_T: Tensor, chunks: Chunks, chunk_CK: Tensor
    ) -> Tensor:
        query_P, slot_P = (chunk_CK >= 0).nonzero(as_tuple=True)
        score_CK = torch.zeros(chunk_CK.shape, dtype=torch.float32, device=chunk_CK.device)
        if not query_P.numel():
            return score_CK
        unit_CSD = unit_rows(self._embed(embedding, token_T, chunks, torch.arange(len(chunks))).float(), self.eps)
        score_P = maxsim(unit_CSD[query_P], unit_CSD[chunk_CK[query_P, slot_P]])
        return score_CK.index_put((query_P, slot_P), score_P)

    def _embed(self, embedding: nn.Embedding, token_T: Tensor, chunks: Chunks, chunk_B: Tensor) -> Tensor:
        """Embed chunks by number as (B, S, D); positions after a text's last token are zeros."""
        position_S = torch.arange(self.chunk_size)
        present_BS = position_S < chunks.length_C[chunk_B].unsqueeze(-1)
        token_BS = (chunks.start_C[chunk_B].unsqueeze(-1) + position_S).masked_fill(~present_BS, -1)
        return _embed_grid(embedding, token_T, token_BS.to(token_T.device))

    def compress(
        self,
        embedding: nn.Embedding,
        token_T: Tensor,
        start_C: Tensor,
        bucket: Bucket,
        chunk_CK: Tensor,
        weight_CK: Tensor,
    ) -> Tensor:
        """Compress each chunk of a bucket with what was retrieved for it: P·[retrieved; own] + own, as (B, W, D)."""
        retrieved_rows = self.k * self.chunk_size
        own_BWD = _embed_grid(embedding, token_T, bucket.token_BW)
        own_columns = self.down_proj[: bucket.width, retrieved_rows : retrieved_rows + bucket.width]
        hidden_BWD = own_BWD + _left_multiply(own_columns, own_BWD)
        with_any = (chunk_CK[bucket.chunk_B] >= 0).any(-1).nonzero().flatten()
        if not with_any.numel():
            return hidden_BWD
        chunk_BK = chunk_CK[bucket.chunk_B[with_any]]
        token_BKS = start_C[chunk_BK.clamp(min=0)].unsqueeze(-1) + torch.arange(
            self.chunk_size, device=token_T.device
        )  # an earlier chunk is always whole
        weight_BK11 = weight_CK[bucket.chunk_B[with_any]].to(own_BWD.dtype)[..., None, None]
        retrieved_BKSD = F.embedding(token_T[token_BKS], embedding.weight) * weight_BK11
        retrieved_columns = self.down_proj[: bucket.width, :retrieved_rows]
        brought_BWD = _left_multiply(retrieved_columns, retrieved_BKSD.flatten(1, 2))
        if with_any.numel() == bucket.chunk_B.numel():
            return hidden_BWD + brought_BWD
        return hidden_BWD.index_add(0, with_any, brought_BWD.to(hidden_BWD.dtype))


class AveyBLayer(nn.Module):
    """One layer: norm, enricher, mixing of positions inside a chunk, fuser (paper, neural processor).

    With (c, g, b) the parts of z = GELU(enricher(norm(h))), h becomes fuser([g⊙y; b]) + α·h, where y mixes the
    positions of c: by a learned matrix in a static layer, by normalized similarity in a dynamic one.
    """

    def __init__(self, config: AveyBConfig, static: bool) -> None:
        super().__init__()
        width = config.d_embed
        self.eps = config.eps
        self.norm = nn.RMSNorm(width, eps=config.eps)
        self.enricher = nn.Linear(width, 4 * width)
        self.fuser = nn.Linear(3 * width, width)
        self.alpha = nn.Parameter(torch.empty(()))
        self.spatial_proj = nn.Parameter(torch.empty(config.chunk_size, config.chunk_size)) if static else None

    def forward(self, hidden_RD: Tensor, buckets: list[Bucket]) -> Tensor:
        """Process rows of any chunks; `buckets` say which rows make which chunk."""
        width = hidden_RD.shape[-1]
        normed_RD = _rms_norm(hidden_RD, self.norm.weight, self.eps)
        if torch.is_grad_enabled():
            # The gradients of a split are joined in one go; those of slices would each be padded and then added.
            c_RD, gate_RD, bypass_RB = F.gelu(self.enricher(normed_RD)).split((width, width, 2 * width), dim=-1)
            fused_RD = self._fuse(gate_RD * self._mix_rows(c_RD, buckets), bypass_RB)
            return torch.addcmul(fused_RD, hidden_RD, self.alpha)
        # The same without copies: the gated part is overwritten where it lies, beside the bypass.
        z_RZ = torch.ops.aten.gelu_(_linear(self.enricher, normed_RD))
        z_RZ[:, width : 2 * width] *= self._mix_rows(z_RZ[:, :width], buckets)
        return _linear(self.fuser, z_RZ[:, width:]).addcmul_(hidden_RD, self.alpha)

    def _fuse(self, gated_RD: Tensor, bypass_RB: Tensor) -> Tensor:
        """Apply the fuser to [gated; bypass]: part by part, which copies neither, where it is only a linear map."""
        if type(self.fuser) is not nn.Linear:
            fused_RD: Tensor = self.fuser(torch.cat([gated_RD, bypass_RB], dim=-1))
            return fused_RD
        of_gated, of_bypass = self.fuser.weight.split((gated_RD.shape[1], bypass_RB.shape[1]), dim=1)
        return torch.addmm(F.linear(bypass_RB, of_bypass, self.fuser.bias), gated_RD, of_gated.T)

    def _mix_rows(self, rows_RD: Tensor, buckets: list[Bucket]) -> Tensor:
        parts = [
            bucket.to_rows(self._mix(bucket.to_grid(part_RD)))
            for bucket, part_RD in zip(buckets, rows_RD.split([b.num_rows for b in buckets]), strict=True)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _mix(self, c_BWD: Tensor) -> Tensor:
        if self.spatial_proj is not None:
            width = c_BWD.shape[1]
            return _left_multiply(self.spatial_proj[:width, :width], c_BWD)
        unit_BWD = unit_rows(c_BWD, self.eps)
        similarity_BWW = torch.bmm(unit_BWD, unit_BWD.transpose(1, 2))
        floor = max(self.eps, torch.finfo(similarity_BWW.dtype).tiny)  # a zero row has a sum of zero
        total_BW1 = similarity_BWW.abs().sum(-1, keepdim=True).clamp_min(floor)
        return torch.bmm(similarity_BWW / total_BW1, c_BWD)


def _embed_grid(embedding: nn.Embedding, token_T: Tensor, token_BW: Tensor) -> Tensor:
    """Embed a grid of flat token positions as (B, W, D); -1 gives zeros."""
    embedded_BWD = F.embedding(token_T[token_BW.clamp(min=0)], embedding.weight)
    return embedded_BWD * (token_BW >= 0).unsqueeze(-1).to(embedded_BWD.dtype)


def _linear(linear: nn.Linear, x_RD: Tensor) -> Tensor:
    """Apply a linear map; for few rows on a CPU with the weights on the left, which BLAS mostly does faster.

    Not so for a narrowing map of very few rows, as of a short query.
    """
    is_plain = type(linear) is nn.Linear  # else it computes more than its weights say, as with a low-rank addition
    few = len(x_RD) <= _FEW_ROWS and (len(x_RD) >= _VERY_FEW_ROWS or linear.out_features > linear.in_features)
    if is_plain and few and x_RD.device.type == "cpu":
        return torch.addmm(linear.bias.unsqueeze(-1), linear.weight, x_RD.T).T
    return linear(x_RD)


def _left_multiply(matrix: Tensor, grid_BWD: Tensor) -> Tensor:
    """Multiply every chunk by one matrix from the left; `matmul` would copy the grid to fold it."""
    return torch.bmm(matrix.expand(grid_BWD.shape[0], -1, -1), grid_BWD)


def _rms_norm(x_RD: Tensor, weight_D: Tensor, eps: float) -> Tensor:
    """Root-mean-square norm, in fp32 inside: squares of half-precision states may overflow."""
    if x_RD.dtype == weight_D.dtype == torch.float32:
        return F.rms_norm(x_RD, x_RD.shape[-1:], weight_D, eps)
    return F.rms_norm(x_RD.float(), x_RD.shape[-1:], eps=eps).to(x_RD.dtype) * weight_D

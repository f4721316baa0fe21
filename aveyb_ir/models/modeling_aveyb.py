"""Avey-B, an attention-free bidirectional encoder, as Hugging Face models (arXiv 2602.15814).

A text is cut into chunks. The ranker brings to each chunk at most k earlier ones, a learned matrix compresses those k+1
chunks into one, and from there every chunk is processed alone, so a batch is a flat list of chunks of any texts.

A text's states do not depend on what else is in the batch, nor on the side or amount of padding: masked positions are
taken out before anything is computed.

Shape letters: N texts, L positions, T tokens of all texts, C chunks of all texts, B chunks of a bucket, W its width,
R rows, D width of the states, K retrieved chunks, S positions of a whole chunk.
"""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_outputs import BaseModelOutput, MaskedLMOutput, SequenceClassifierOutput

from .configuration_aveyb import AveyBConfig
from .packing_aveyb import Bucket, Chunks, micro_batches
from .ranker_aveyb import distinct_token_scores, distinct_tokens_pay, maxsim, select, unit_rows, weights
from .strict_loading import StrictPreTrainedModel

# Rows computed at a time without gradient: large enough to use the processor well, small enough for its caches.
_MICRO_BATCH_ROWS = {"cpu": 1024, "cuda": 32768}


class AveyBRanker(nn.Module):
    """Retrieves earlier chunks for each chunk and compresses them into it (paper, ranker and compression)."""

    def __init__(self, config: AveyBConfig) -> None:
        super().__init__()
        self.chunk_size, self.k, self.eps = config.chunk_size, config.k, config.eps
        self.down_proj = nn.Parameter(torch.empty(config.chunk_size, (config.k + 1) * config.chunk_size))

    def retrieve(self, embedding: nn.Embedding, token_T: Tensor, chunks: Chunks) -> tuple[Tensor, Tensor]:
        """Choose the chunks that come to each chunk, and their weights.

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
        score_CK = torch.zeros(num_chunks, self.k, device=device)
        if not self.k:
            return chunk_CK, score_CK
        counts = torch.bincount(chunks.text_C).tolist()
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
        return chunk_CK, weights(score_CK, retrieved_CK)

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
        score_CK = torch.zeros(chunk_CK.shape, device=chunk_CK.device)
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
            z_RZ = F.gelu(self.enricher(normed_RD))
            mixed_RD = self._mix_rows(z_RZ[:, :width], buckets)
            fused_RD = self.fuser(torch.cat([z_RZ[:, width : 2 * width] * mixed_RD, z_RZ[:, 2 * width :]], dim=-1))
            return fused_RD + self.alpha * hidden_RD
        # The same without copies: the gated part is overwritten where it lies, beside the bypass.
        z_RZ = torch.ops.aten.gelu_(self.enricher(normed_RD))
        z_RZ[:, width : 2 * width] *= self._mix_rows(z_RZ[:, :width], buckets)
        return self.fuser(z_RZ[:, width:]).addcmul_(hidden_RD, self.alpha)

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
        similarity_BWW = unit_BWD @ unit_BWD.transpose(1, 2)
        floor = max(self.eps, torch.finfo(similarity_BWW.dtype).tiny)  # a zero row has a sum of zero
        total_BW1 = similarity_BWW.abs().sum(-1, keepdim=True).clamp_min(floor)
        return (similarity_BWW / total_BW1) @ c_BWD


class AveyBPreTrainedModel(StrictPreTrainedModel):
    """The encoder that all heads share; every head keeps the released names of its weights, without a prefix."""

    config_class = AveyBConfig
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    # Batches may mix lengths freely: nothing is computed for padding.
    packs_texts = True
    _no_split_modules = ["AveyBLayer", "AveyBRanker"]  # noqa: RUF012 (transformers reads it as a plain class attribute)
    head_prefixes = ("dense.", "classifier.")

    def __init__(self, config: AveyBConfig) -> None:
        super().__init__(config)
        self.embed = nn.Embedding(config.vocab_size, config.d_embed)
        self.ranker = AveyBRanker(config)
        self.layers = nn.ModuleList(AveyBLayer(config, static=i % 2 == 0) for i in range(config.n_layers))
        self.gradient_checkpointing = False

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the token embeddings."""
        return self.embed

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        """Replace the token embeddings, for instance after the vocabulary was resized."""
        self.embed = value

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Start near a plain average of token embeddings: every layer a small correction to what it gets."""
        config = self.config
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=config.initializer_range)
        elif isinstance(module, AveyBRanker):
            nn.init.normal_(module.down_proj, std=0.1 / module.down_proj.shape[1] ** 0.5)
        elif isinstance(module, nn.RMSNorm):
            nn.init.ones_(module.weight)
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=module.in_features**-0.5)
            nn.init.zeros_(module.bias)
        elif isinstance(module, AveyBLayer):
            nn.init.ones_(module.alpha)
            nn.init.normal_(module.fuser.weight, std=config.initializer_range * module.fuser.in_features**-0.5)
            nn.init.zeros_(module.fuser.bias)
            if module.spatial_proj is not None:
                nn.init.normal_(module.spatial_proj, std=config.chunk_size**-0.5)

    def _states(self, input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
        mask_NL = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        mask_NL = mask_NL != 0
        place_T = mask_NL.flatten().nonzero().flatten()
        flat_PD = self.embed.weight.new_zeros(input_ids.numel(), self.config.d_embed)
        token_T = input_ids.flatten()[place_T]
        for token_R, states_RD in self._stream(token_T, mask_NL.sum(-1).tolist()):
            flat_PD = flat_PD.to(states_RD.dtype)  # autocast decides the dtype of the states
            place_R = place_T[token_R]
            if torch.is_grad_enabled():
                flat_PD = flat_PD.index_copy(0, place_R, states_RD)
            else:
                flat_PD.index_copy_(0, place_R, states_RD)
        return flat_PD.view(*input_ids.shape, self.config.d_embed)

    def _stream(self, token_T: Tensor, lengths: list[int]) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield (token positions, states) micro-batch by micro-batch, every token once."""
        chunks = Chunks.of(lengths, self.config.chunk_size)
        chunk_CK, weight_CK = self.ranker.retrieve(self.embed, token_T, chunks)
        start_C = chunks.start_C.to(token_T.device)
        bounded = not torch.is_grad_enabled() or self.gradient_checkpointing
        for buckets in micro_batches(
            chunks,
            self.config.chunk_size,
            mask_tails=self.config.tail == "mask",
            max_rows=_MICRO_BATCH_ROWS.get(token_T.device.type, 32768) if bounded else None,
            device=token_T.device,
        ):
            arguments = (buckets, token_T, start_C, chunk_CK, weight_CK)
            if self.gradient_checkpointing and torch.is_grad_enabled():
                states_RD = checkpoint(self._process, *arguments, use_reentrant=False)
            else:
                states_RD = self._process(*arguments)
            token_R = torch.cat([bucket.token_R for bucket in buckets])
            real_R = (token_R >= 0).nonzero().flatten()
            if real_R.numel() < token_R.numel():
                token_R, states_RD = token_R[real_R], states_RD[real_R]
            yield token_R, states_RD

    def _process(
        self, buckets: list[Bucket], token_T: Tensor, start_C: Tensor, chunk_CK: Tensor, weight_CK: Tensor
    ) -> Tensor:
        """Take a micro-batch of chunks from token ids through all layers: (R, D)."""
        hidden_RD = torch.cat(
            [
                bucket.to_rows(self.ranker.compress(self.embed, token_T, start_C, bucket, chunk_CK, weight_CK))
                for bucket in buckets
            ]
        )
        for layer in self.layers:
            hidden_RD = layer(hidden_RD, buckets)
        return hidden_RD


class AveyBModel(AveyBPreTrainedModel):
    """The encoder alone: token ids to one state per token."""

    def __init__(self, config: AveyBConfig) -> None:
        super().__init__(config)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> BaseModelOutput | tuple[Tensor]:
        """Encode texts.

        Args:
            input_ids: (N, L) int64, padded on either side.
            attention_mask: (N, L), nonzero at tokens; all are tokens when it is not given.
            return_dict: False for a tuple.
            kwargs: Accepted for tokenizers that give more (token types); not used.

        Returns:
            `last_hidden_state` (N, L, D); zeros at masked positions.
        """
        states_NLD = self._states(input_ids, attention_mask)
        return (states_NLD,) if return_dict is False else BaseModelOutput(last_hidden_state=states_NLD)


class AveyBForMaskedLM(AveyBPreTrainedModel):
    """The encoder with tied output embeddings: logits = states · Eᵀ."""

    def __init__(self, config: AveyBConfig) -> None:
        super().__init__(config)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> MaskedLMOutput | tuple[Tensor, ...]:
        """Predict tokens.

        Args:
            input_ids: As in `AveyBModel`.
            attention_mask: As in `AveyBModel`.
            labels: (N, L) int64; -100 where no loss is wanted.
            return_dict: False for a tuple.
            kwargs: Not used.

        Returns:
            `logits` (N, L, V), and `loss` where there are labels.
        """
        logits_NLV = F.linear(self._states(input_ids, attention_mask), self.embed.weight)
        loss = None if labels is None else F.cross_entropy(logits_NLV.flatten(0, 1).float(), labels.flatten())
        if return_dict is False:
            return (logits_NLV,) if loss is None else (loss, logits_NLV)
        return MaskedLMOutput(loss=loss, logits=logits_NLV)


class AveyBForSequenceClassification(AveyBPreTrainedModel):
    """The encoder with the published classification head: mean over tokens, three dense layers, classifier."""

    def __init__(self, config: AveyBConfig) -> None:
        super().__init__(config)
        width = config.d_embed
        self.dense = nn.Sequential(
            nn.Linear(width, 2 * width),
            nn.GELU(),
            nn.Linear(2 * width, 2 * width),
            nn.GELU(),
            nn.Linear(2 * width, width),
        )
        self.classifier = nn.Linear(width, config.num_labels)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutput | tuple[Tensor, ...]:
        """Classify texts.

        Args:
            input_ids: As in `AveyBModel`.
            attention_mask: As in `AveyBModel`.
            labels: (N,) class numbers, floats for one label (regression), or (N, classes) floats for several.
            return_dict: False for a tuple.
            kwargs: Not used.

        Returns:
            `logits` (N, num_labels), and `loss` where there are labels.
        """
        states_NLD = self._states(input_ids, attention_mask)
        mask_NL = torch.ones_like(input_ids) if attention_mask is None else attention_mask != 0
        pooled_ND = states_NLD.sum(1) / mask_NL.sum(-1, keepdim=True).clamp_min(1)
        logits_NV = self.classifier(self.dense(pooled_ND.to(states_NLD.dtype)))
        loss = None if labels is None else self._loss(logits_NV.float(), labels)
        if return_dict is False:
            return (logits_NV,) if loss is None else (loss, logits_NV)
        return SequenceClassifierOutput(loss=loss, logits=logits_NV)

    def _loss(self, logits_NV: Tensor, labels: Tensor) -> Tensor:
        if self.config.num_labels == 1:
            return F.mse_loss(logits_NV.squeeze(-1), labels.float())
        if labels.is_floating_point():
            return F.binary_cross_entropy_with_logits(logits_NV, labels)
        return F.cross_entropy(logits_NV, labels)


def _embed_grid(embedding: nn.Embedding, token_T: Tensor, token_BW: Tensor) -> Tensor:
    """Embed a grid of flat token positions as (B, W, D); -1 gives zeros."""
    embedded_BWD = F.embedding(token_T[token_BW.clamp(min=0)], embedding.weight)
    return embedded_BWD * (token_BW >= 0).unsqueeze(-1).to(embedded_BWD.dtype)


def _left_multiply(matrix: Tensor, grid_BWD: Tensor) -> Tensor:
    """Multiply every chunk by one matrix from the left; `matmul` would copy the grid to fold it."""
    return torch.bmm(matrix.expand(grid_BWD.shape[0], -1, -1), grid_BWD)


def _rms_norm(x_RD: Tensor, weight_D: Tensor, eps: float) -> Tensor:
    """Root-mean-square norm, in fp32 inside: squares of half-precision states may overflow."""
    return F.rms_norm(x_RD.float(), x_RD.shape[-1:], eps=eps).to(x_RD.dtype) * weight_D

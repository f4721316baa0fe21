"""NeoBERT, an attention encoder with rotary positions, as Hugging Face models (arXiv 2502.19587).

A text's states do not depend on what else is in the batch, nor on the side or amount of padding: no position attends to
padding, and rotary positions are relative.

Shape letters: N texts, L positions, D width of the states, H heads, E width of a head, F = E / 2 rotated pairs,
G width inside the feed-forward part, V vocabulary or labels.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutput, MaskedLMOutput, SequenceClassifierOutput

from .configuration_neobert import NeoBERTConfig
from .strict_loading import StrictPreTrainedModel

_ROTARY_BASE = 10000.0


class NeoBERTFeedForward(nn.Module):
    """The gated feed-forward part (SwiGLU): w3 · (SiLU(gate) ⊙ value), gate and value stacked in one matrix w12."""

    def __init__(self, config: NeoBERTConfig) -> None:
        super().__init__()
        self.w12 = nn.Linear(config.hidden_size, 2 * config.feed_forward_size, bias=False)
        self.w3 = nn.Linear(config.feed_forward_size, config.hidden_size, bias=False)

    def forward(self, x_NLD: Tensor) -> Tensor:
        """Transform each position alone: (N, L, D)."""
        gate_NLG, value_NLG = self.w12(x_NLD).chunk(2, dim=-1)
        return self.w3(F.silu(gate_NLG) * value_NLG)


class NeoBERTLayer(GradientCheckpointingLayer):
    """One layer: attention, then the feed-forward part, each on normed states and added to what came in."""

    def __init__(self, config: NeoBERTConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.num_heads = config.num_attention_heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.wo = nn.Linear(width, width, bias=False)
        self.ffn = NeoBERTFeedForward(config)
        self.attention_norm = nn.RMSNorm(width, eps=config.norm_eps)
        self.ffn_norm = nn.RMSNorm(width, eps=config.norm_eps)

    def forward(self, hidden_NLD: Tensor, rotation_LF: Tensor, key_mask_N11L: Tensor | None) -> Tensor:
        """Process texts; `key_mask_N11L` says which positions may be attended to, all when it is None."""
        hidden_NLD = hidden_NLD + self._attend(self.attention_norm(hidden_NLD), rotation_LF, key_mask_N11L)
        return hidden_NLD + self.ffn(self.ffn_norm(hidden_NLD))

    def _attend(self, x_NLD: Tensor, rotation_LF: Tensor, key_mask_N11L: Tensor | None) -> Tensor:
        qkv_NLH3E = self.qkv(x_NLD).unflatten(-1, (self.num_heads, 3, -1))  # the released rows go head by head
        query_NLHE, key_NLHE = _rotated(qkv_NLH3E[..., :2, :], rotation_LF).unbind(-2)
        mixed_NHLE = F.scaled_dot_product_attention(
            query_NLHE.transpose(1, 2),
            key_NLHE.transpose(1, 2),
            qkv_NLH3E[..., 2, :].transpose(1, 2),
            attn_mask=key_mask_N11L,
        )
        return self.wo(mixed_NHLE.transpose(1, 2).flatten(2))


class NeoBERTPreTrainedModel(StrictPreTrainedModel):
    """What the encoder and its heads share. A head nests the encoder's weights under `model.`; either form loads."""

    config_class = NeoBERTConfig
    base_model_prefix = "model"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    head_prefixes = ("decoder.", "dense.", "classifier.")
    _supports_sdpa = True
    _no_split_modules = ["NeoBERTLayer"]  # noqa: RUF012 (transformers reads it as a plain class attribute)

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the token embeddings."""
        return self.base_model.encoder

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        """Replace the token embeddings, for instance after the vocabulary was resized."""
        self.base_model.encoder = value

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Embedding):
            nn.init.uniform_(module.weight, -self.config.embedding_init_range, self.config.embedding_init_range)
        elif isinstance(module, nn.Linear):
            nn.init.uniform_(module.weight, -self.config.decoder_init_range, self.config.decoder_init_range)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.RMSNorm):
            nn.init.ones_(module.weight)


class NeoBERTModel(NeoBERTPreTrainedModel):
    """The encoder alone: token ids to one state per token."""

    def __init__(self, config: NeoBERTConfig) -> None:
        super().__init__(config)
        self.encoder = nn.Embedding(config.vocab_size, config.hidden_size)
        self.transformer_encoder = nn.ModuleList(NeoBERTLayer(config) for _ in range(config.num_hidden_layers))
        self.layer_norm = nn.RMSNorm(config.hidden_size, eps=config.norm_eps)
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
        hidden_NLD = self.encoder(input_ids)
        rotation_LF = _rotation(input_ids.shape[1], self.config.dim_head, input_ids.device)
        padded_NL = None if attention_mask is None or attention_mask.all() else attention_mask == 0
        key_mask_N11L = None if padded_NL is None else _key_mask(padded_NL)
        for layer in self.transformer_encoder:
            hidden_NLD = layer(hidden_NLD, rotation_LF, key_mask_N11L)
        states_NLD = self.layer_norm(hidden_NLD)
        if padded_NL is not None:
            states_NLD = states_NLD.masked_fill(padded_NL.unsqueeze(-1), 0)
        return (states_NLD,) if return_dict is False else BaseModelOutput(last_hidden_state=states_NLD)


class NeoBERTForMaskedLM(NeoBERTPreTrainedModel):
    """The encoder with the released masked-token head, `decoder`, which has embeddings of its own."""

    def __init__(self, config: NeoBERTConfig) -> None:
        super().__init__(config)
        self.model = NeoBERTModel(config)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)
        self.post_init()

    def get_output_embeddings(self) -> nn.Linear:
        """Return the head."""
        return self.decoder

    def set_output_embeddings(self, value: nn.Linear) -> None:
        """Replace the head, for instance after the vocabulary was resized."""
        self.decoder = value

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
            input_ids: As in `NeoBERTModel`.
            attention_mask: As in `NeoBERTModel`.
            labels: (N, L) int64; -100 where no loss is wanted.
            return_dict: False for a tuple.
            kwargs: Not used.

        Returns:
            `logits` (N, L, V), and `loss` where there are labels.
        """
        logits_NLV = self.decoder(self.model(input_ids, attention_mask).last_hidden_state)
        loss = None if labels is None else self.loss_function(logits_NLV, labels, vocab_size=logits_NLV.shape[-1])
        if return_dict is False:
            return (logits_NLV,) if loss is None else (loss, logits_NLV)
        return MaskedLMOutput(loss=loss, logits=logits_NLV)


class NeoBERTForSequenceClassification(NeoBERTPreTrainedModel):
    """The encoder with the published classification head on a text's first token: dense, tanh, classifier."""

    def __init__(self, config: NeoBERTConfig) -> None:
        super().__init__(config)
        self.model = NeoBERTModel(config)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
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
            input_ids: As in `NeoBERTModel`.
            attention_mask: As in `NeoBERTModel`.
            labels: (N,) class numbers, floats for one label (regression), or (N, V) floats for several.
            return_dict: False for a tuple.
            kwargs: Not used.

        Returns:
            `logits` (N, V), and `loss` where there are labels.
        """
        states_NLD = self.model(input_ids, attention_mask).last_hidden_state
        mask_NL = torch.ones_like(input_ids) if attention_mask is None else (attention_mask != 0).long()
        first_ND = states_NLD[torch.arange(len(states_NLD), device=mask_NL.device), mask_NL.argmax(-1)]
        hidden_ND = torch.tanh(self.dense(self.dropout(first_ND)))
        logits_NV = self.classifier(self.dropout(hidden_ND))
        loss = None
        if labels is not None:
            loss = self.loss_function(labels=labels, pooled_logits=logits_NV, config=self.config)
        if return_dict is False:
            return (logits_NV,) if loss is None else (loss, logits_NV)
        return SequenceClassifierOutput(loss=loss, logits=logits_NV)


def _rotation(length: int, head_width: int, device: torch.device) -> Tensor:
    """Compute how far each pair of a head is turned at each position: (L, F) complex64.

    It is computed in every forward pass, which costs next to nothing: kept as a buffer outside the checkpoint, it would
    be left unset by transformers' loading, bound to one length, and rounded where the model is cast.
    """
    pair_F = torch.arange(0, head_width, 2, device=device, dtype=torch.float32)
    position_L = torch.arange(length, device=device, dtype=torch.float32)
    angle_LF = position_L.unsqueeze(-1) * _ROTARY_BASE ** (-pair_F / head_width)
    return torch.polar(torch.ones_like(angle_LF), angle_LF)


def _rotated(x_NLH2E: Tensor, rotation_LF: Tensor) -> Tensor:
    """Turn neighbouring numbers, taken as complex ones, by their position's angle, in fp32 or better."""
    pairs_NLH2F2 = x_NLH2E.to(torch.promote_types(x_NLH2E.dtype, torch.float32)).unflatten(-1, (-1, 2))
    turned_NLH2F = torch.view_as_complex(pairs_NLH2F2) * rotation_LF[:, None, None]
    return torch.view_as_real(turned_NLH2F).flatten(-2).to(x_NLH2E.dtype)


def _key_mask(padded_NL: Tensor) -> Tensor:
    """Say which positions may be attended to, (N, 1, 1, L) bool; all of a text without tokens, as none gives NaN."""
    return (~padded_NL | padded_NL.all(-1, keepdim=True))[:, None, None]

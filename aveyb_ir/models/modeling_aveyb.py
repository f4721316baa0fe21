"""Avey-B, an attention-free bidirectional encoder, as Hugging Face models (arXiv 2602.15814).

A text is cut into chunks. The ranker brings to each chunk at most k earlier ones, a learned matrix compresses those k+1
chunks into one, and from there every chunk is processed alone, so a batch is a flat list of chunks of any texts.

A text's states do not depend on what else is in the batch, nor on the side or amount of padding: masked positions are
taken out before anything is computed.

Shape letters: N texts, L positions, T tokens of all texts, C chunks of all texts, B chunks of a bucket, W its width,
R rows, D width of the states, K retrieved chunks, S positions of a whole chunk.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_outputs import BaseModelOutput, MaskedLMOutput, SequenceClassifierOutput

from .blocks_aveyb import AveyBLayer, AveyBRanker
from .configuration_aveyb import AveyBConfig
from .packing_aveyb import Bucket, Chunks, ChunkStates, micro_batches
from .strict_loading import StrictPreTrainedModel

# Rows computed at a time without gradient: large enough to use the processor well, small enough for its caches.
_MICRO_BATCH_ROWS = {"cpu": 1024, "cuda": 32768}


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

    @torch.no_grad()
    def encode_chunks(self, token_T: Tensor, lengths: Sequence[int]) -> ChunkStates:
        """Encode texts of any length in bounded memory: states are pooled as they appear, chunk by chunk.

        Args:
            token_T: Token ids of all texts, back to back, on the model's device.
            lengths: Tokens of each text.
        """
        chunks = Chunks.of(lengths, self.config.chunk_size)
        width = self.config.d_embed
        mean_CD = torch.zeros(len(chunks), width, dtype=torch.float32, device=token_T.device)
        first_CD = torch.zeros_like(mean_CD)
        for buckets, states_RD in self._stream(token_T, chunks):
            for bucket, rows_RD in zip(buckets, states_RD.split([b.num_rows for b in buckets]), strict=True):
                grid_BWD = bucket.to_grid(rows_RD)
                mean_CD[bucket.chunk_B] = bucket.mean(grid_BWD)
                first_CD[bucket.chunk_B] = grid_BWD[:, 0].float()
        return ChunkStates(chunks, len(lengths), mean_CD, first_CD)

    @torch.no_grad()
    def stream_states(self, token_T: Tensor, lengths: Sequence[int]) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the states of texts of any length in bounded memory: those of a micro-batch of chunks at a time.

        Args:
            token_T: Token ids of all texts, back to back, on the model's device.
            lengths: Tokens of each text.

        Returns:
            Positions (R,) in `token_T` and the states (R, D) there, every token once; the tokens of a chunk together
            and in their order, chunks in any.
        """
        yield from self._token_states(token_T, Chunks.of(lengths, self.config.chunk_size))

    def _token_states(self, token_T: Tensor, chunks: Chunks) -> Iterator[tuple[Tensor, Tensor]]:
        for buckets, states_RD in self._stream(token_T, chunks):
            token_R = torch.cat([bucket.token_R for bucket in buckets])
            real_R = (token_R >= 0).nonzero().flatten()
            if real_R.numel() < token_R.numel():
                token_R, states_RD = token_R[real_R], states_RD[real_R]
            yield token_R, states_RD

    def _states(self, input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
        token_T, place_T, lengths = _unpadded(input_ids, attention_mask)
        chunks = Chunks.of(lengths, self.config.chunk_size)
        width = self.config.d_embed
        flat_PD = self.embed.weight.new_zeros(input_ids.numel(), width)
        places, states = [place_T[:0]], [flat_PD[:0]]
        for token_R, states_RD in self._token_states(token_T, chunks):
            places.append(place_T[token_R])
            states.append(states_RD)
        states_TD = torch.cat(states)
        return flat_PD.to(states_TD.dtype).index_copy(0, torch.cat(places), states_TD).view(*input_ids.shape, width)

    def _stream(self, token_T: Tensor, chunks: Chunks) -> Iterator[tuple[list[Bucket], Tensor]]:
        """Yield micro-batches of chunks with their final rows, every chunk once."""
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
                yield buckets, checkpoint(self._process, *arguments, use_reentrant=False)
            else:
                yield buckets, self._process(*arguments)

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
        labelled_only: bool = False,
        **kwargs: Any,
    ) -> MaskedLMOutput | tuple[Tensor, ...]:
        """Predict tokens.

        Args:
            input_ids: As in `AveyBModel`.
            attention_mask: As in `AveyBModel`.
            labels: (N, L) int64; -100 where no loss is wanted.
            return_dict: False for a tuple.
            labelled_only: Compute logits only where there are labels, which the loss does not notice: most of the
                output layer's time and memory is saved in pretraining.
            kwargs: Not used.

        Returns:
            `logits` (N, L, V), with `labelled_only` (labels that are not -100, V), and `loss` where there are labels.
        """
        states = self._states(input_ids, attention_mask)
        if labelled_only and labels is not None:
            states, labels = states[labels != -100], labels[labels != -100]
        logits = F.linear(states, self.embed.weight)
        loss = None if labels is None else F.cross_entropy(logits.flatten(0, -2).float(), labels.flatten())
        if return_dict is False:
            return (logits,) if loss is None else (loss, logits)
        return MaskedLMOutput(loss=loss, logits=logits)


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
        logits_NV = self.classifier(self.dense(self._pooled(input_ids, attention_mask)))
        loss = None if labels is None else self._loss(logits_NV.float(), labels)
        if return_dict is False:
            return (logits_NV,) if loss is None else (loss, logits_NV)
        return SequenceClassifierOutput(loss=loss, logits=logits_NV)

    def _pooled(self, input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
        """Average the states of each text: (N, D), in bounded memory where no gradient is wanted."""
        token_T, _, lengths = _unpadded(input_ids, attention_mask)
        if not torch.is_grad_enabled():
            return self.encode_chunks(token_T, lengths).mean_of_texts().to(self.dtype)
        states_NLD = self._states(input_ids, attention_mask)
        length_N1 = torch.tensor(lengths, device=states_NLD.device).clamp_min(1).unsqueeze(-1)
        return (states_NLD.sum(1) / length_N1).to(states_NLD.dtype)

    def _loss(self, logits_NV: Tensor, labels: Tensor) -> Tensor:
        if self.config.num_labels == 1:
            return F.mse_loss(logits_NV.squeeze(-1), labels.float())
        if labels.is_floating_point():
            return F.binary_cross_entropy_with_logits(logits_NV, labels)
        return F.cross_entropy(logits_NV, labels)


def _unpadded(input_ids: Tensor, attention_mask: Tensor | None) -> tuple[Tensor, Tensor, list[int]]:
    """Take out masked positions: token ids (T,), their places in the flat batch (T,), and the tokens of each text."""
    mask_NL = torch.ones_like(input_ids, dtype=torch.bool) if attention_mask is None else attention_mask != 0
    place_T = mask_NL.flatten().nonzero().flatten()
    return input_ids.flatten()[place_T], place_T, mask_NL.sum(-1).tolist()

"""The configuration of NeoBERT, with the field names of the released checkpoints."""

from typing import Any

from transformers import PreTrainedConfig


class NeoBERTConfig(PreTrainedConfig):
    """Describes a NeoBERT encoder; the defaults are the released base model (about 222M parameters).

    Args:
        vocab_size: Number of token ids.
        hidden_size: Width of the states.
        num_hidden_layers: Number of layers.
        num_attention_heads: Number of heads; they share the width equally.
        intermediate_size: Width the feed-forward part would have without a gate; `feed_forward_size` is what it has.
        max_length: Longest text in tokens that programs should give, also named `max_position_embeddings`. The model
            itself computes any length.
        norm_eps: What the norms add under the root.
        pad_token_id: Token id of padding; what padding positions hold never matters where there is an attention mask.
        dim_head: Width of a head, for configs that state it.
        embedding_init_range: Fresh token embeddings are uniform between minus this and this.
        decoder_init_range: The same for all other fresh matrices.
        classifier_dropout: Share of the classification head's inputs that is dropped in training.

    Raises:
        ValueError: A value that no model can have.
    """

    model_type = "neobert"
    attribute_map = {"max_position_embeddings": "max_length"}  # noqa: RUF012 (transformers reads it as a plain class attribute)

    # Declared on the class, or transformers takes it for a setting of text generation and refuses to save it.
    max_length: int = 4096

    def __init__(
        self,
        vocab_size: int = 30522,
        hidden_size: int = 768,
        num_hidden_layers: int = 28,
        num_attention_heads: int = 12,
        intermediate_size: int = 3072,
        max_length: int = 4096,
        norm_eps: float = 1e-5,
        pad_token_id: int | None = 0,
        dim_head: int | None = None,
        embedding_init_range: float = 0.02,
        decoder_init_range: float = 0.02,
        classifier_dropout: float = 0.1,
        tie_word_embeddings: bool = False,
        **kwargs: Any,
    ) -> None:
        for name, value in (
            ("vocab_size", vocab_size),
            ("hidden_size", hidden_size),
            ("num_hidden_layers", num_hidden_layers),
            ("num_attention_heads", num_attention_heads),
            ("intermediate_size", intermediate_size),
            ("max_length", max_length),
        ):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"NeoBERT config: {name} is {value!r}; expected an integer of at least 1.")
        if hidden_size % (2 * num_attention_heads):
            raise ValueError(
                f"NeoBERT config: hidden_size {hidden_size} does not give each of {num_attention_heads} heads the same "
                f"even width; expected a multiple of {2 * num_attention_heads}."
            )
        if dim_head not in (None, hidden_size // num_attention_heads):
            raise ValueError(
                f"NeoBERT config: dim_head is {dim_head!r}; expected {hidden_size // num_attention_heads}, which is "
                "hidden_size / num_attention_heads; set those only."
            )
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.intermediate_size = intermediate_size
        self.max_length = max_length
        self.norm_eps = norm_eps
        self.pad_token_id = pad_token_id
        self.dim_head = hidden_size // num_attention_heads
        self.embedding_init_range = embedding_init_range
        self.decoder_init_range = decoder_init_range
        self.classifier_dropout = classifier_dropout
        super().__init__(tie_word_embeddings=tie_word_embeddings, **kwargs)

    @property
    def feed_forward_size(self) -> int:
        """Width inside the feed-forward part: two thirds of `intermediate_size`, up to a multiple of 8.

        A gated part has three matrices instead of two; two thirds of the width keep its number of weights.
        """
        return -(-(2 * self.intermediate_size // 3) // 8) * 8

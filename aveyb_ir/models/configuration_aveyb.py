"""The configuration of Avey-B, with the field names of the released checkpoints."""

from typing import Any

from transformers import PreTrainedConfig

TAILS = ("zero", "mask")


class AveyBConfig(PreTrainedConfig):
    """Describes an Avey-B encoder; the defaults are the released base model (about 165M parameters).

    Args:
        vocab_size: Number of token ids.
        d_embed: Width of the states.
        n_layers: Number of layers; even ones mix positions with a learned matrix, odd ones by similarity.
        chunk_size: Tokens per chunk (the paper says split).
        k: How many earlier chunks the ranker may bring to each chunk.
        eps: Floor of the norms and sums that are divided by.
        max_position_embeddings: Longest text in tokens; there are no position embeddings, so any length works.
        tail: What the positions after the last token of a text's last chunk do. ``"zero"`` is the published arithmetic:
            they start as zeros and are computed like tokens. ``"mask"``: they contribute nothing, and cost nothing.
        initializer_range: Standard deviation of fresh token embeddings.
        pin_first_chunk: Bring a text's first chunk to every other one, whatever its score, so that all of a long text
            sees what stands first, such as the query of a cross-encoder; `AveyBRanker.retrieve` says how. The released
            models do not.

    Raises:
        ValueError: A value that no model can have.
    """

    model_type = "avey-b"
    attribute_map = {"num_hidden_layers": "n_layers"}  # noqa: RUF012 (transformers reads it as a plain class attribute)

    def __init__(
        self,
        vocab_size: int = 50368,
        d_embed: int = 768,
        n_layers: int = 30,
        chunk_size: int = 256,
        k: int = 3,
        eps: float = 1e-12,
        max_position_embeddings: int = 4294967296,
        hidden_size: int | None = None,
        tail: str = "zero",
        initializer_range: float = 0.02,
        pin_first_chunk: bool = False,
        tie_word_embeddings: bool = True,
        **kwargs: Any,
    ) -> None:
        for name, value, least in (
            ("vocab_size", vocab_size, 1),
            ("d_embed", d_embed, 1),
            ("n_layers", n_layers, 1),
            ("chunk_size", chunk_size, 1),
            ("k", k, 0),
        ):
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ValueError(f"Avey-B config: {name} is {value!r}; expected an integer of at least {least}.")
        if hidden_size not in (None, d_embed):
            raise ValueError(
                f"Avey-B config: hidden_size {hidden_size} differs from d_embed {d_embed}; set d_embed only."
            )
        if tail not in TAILS:
            raise ValueError(f"Avey-B config: tail is {tail!r}; expected one of {', '.join(TAILS)}.")
        if not isinstance(pin_first_chunk, bool) or (pin_first_chunk and not k):
            raise ValueError(
                f"Avey-B config: pin_first_chunk is {pin_first_chunk!r} with k {k}; "
                "expected false, or true and a k from 1."
            )
        self.vocab_size = vocab_size
        self.d_embed = d_embed
        self.n_layers = n_layers
        self.chunk_size = chunk_size
        self.k = k
        self.eps = eps
        self.max_position_embeddings = max_position_embeddings
        self.hidden_size = d_embed
        self.tail = tail
        self.initializer_range = initializer_range
        self.pin_first_chunk = pin_first_chunk
        super().__init__(tie_word_embeddings=tie_word_embeddings, **kwargs)

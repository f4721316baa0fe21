"""How many tokens texts have, without encoding them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.encoding.encoder import Encoder, Kind
from aveyb_ir.encoding.forward import takes_token_ids
from aveyb_ir.encoding.tokenization import tokenize

_TOKENIZE_AT_ONCE = 1024


def token_counts(encoder: Encoder, texts: Sequence[str], kind: Kind = "document") -> NDArray[np.int64]:
    """Count the tokens of whole texts as an encoder reads them: with prompt and special tokens, before any cut.

    Returns:
        (n,) int64, the numbers that `Encoder.counts.tokens` adds up when the same texts are encoded.

    Raises:
        ValueError: The encoder's model takes something else than token ids.
    """
    if not takes_token_ids(encoder.model):
        raise ValueError(f"{encoder.name} takes no token ids to count; expected a model that reads text as tokens.")
    prompt, tokenizer = encoder.prompt(kind), encoder.model.tokenizer
    counts = [
        tokenize(tokenizer, [prompt + text for text in texts[first : first + _TOKENIZE_AT_ONCE]], None).full_lengths
        for first in range(0, len(texts), _TOKENIZE_AT_ONCE)
    ]
    return np.concatenate(counts) if counts else np.zeros(0, dtype=np.int64)

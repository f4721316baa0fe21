"""A start for token embeddings: what a trained bi-encoder says of each token alone, made fit for being averaged.

The mean of such embeddings is already a usable vector of a text, so a fresh Avey-B, which starts near the mean of its
token embeddings, starts as a usable retriever.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from aveyb_ir.data.blocks import blocks
from aveyb_ir.encoding.tokenization import tokenize
from aveyb_ir.errors import RecipeError

_TOKENS_AT_ONCE = 512
_FREQUENT = 1e-3  # share of a text's tokens at which a token weighs half; Arora et al. use 1e-3 to 1e-4
_STANDARD_DEVIATION = 0.3
_PROBE = "a"
_SAME_DIRECTION = 1e-6  # of the largest variance; less is rounding


def static_embeddings(model: SentenceTransformer, texts: Iterable[str], width: int) -> NDArray[np.float32]:
    """Embeddings (vocabulary, width) of a bi-encoder's tokens.

    A token's vector is the mean of the bi-encoder's states of it between the special tokens (Dufter et al. 2021, arXiv
    2109.07833, mean-pool whole contexts instead). Over the tokens of `texts` the vectors are centred and whitened, the
    directions of largest variance first, so that no direction that all texts share drowns what tells them apart (Su et
    al. 2021, arXiv 2103.15316). Each is then weighted by a / (a + share of the tokens), with which a mean of tokens
    heeds the rare ones (Arora et al. 2017, "A simple but tough-to-beat baseline for sentence embeddings").

    Args:
        model: the bi-encoder, with special tokens around a text.
        texts: say how frequent each token is.
        width: numbers of an embedding.

    Raises:
        RecipeError: the bi-encoder's vectors differ in fewer than `width` directions.
    """
    alone_VD = _token_vectors(model).astype(np.float64)
    share_V = _token_shares(model.tokenizer, texts, len(alone_VD))
    centred_VD = alone_VD - share_V @ alone_VD
    variance_D, direction_DD = np.linalg.eigh((centred_VD.T * share_V) @ centred_VD)
    variance_D, direction_DD = variance_D[::-1], direction_DD[:, ::-1]
    num_directions = int((variance_D > _SAME_DIRECTION * variance_D[0]).sum())
    if width > num_directions:
        raise RecipeError(
            f"model.embeddings_from: got a model whose tokens differ in {num_directions} directions for embeddings of "
            f"{width} numbers, expected a model at least as wide; choose a wider one, or narrower embeddings"
        )
    white_VW = centred_VD @ (direction_DD[:, :width] / np.sqrt(variance_D[:width]))
    weighted_VW = white_VW * (_FREQUENT / (_FREQUENT + share_V))[:, None]
    scaled_VW: NDArray[np.float32] = (weighted_VW * (_STANDARD_DEVIATION / weighted_VW.std())).astype(np.float32)
    return scaled_VW


@torch.inference_mode()
def _token_vectors(model: SentenceTransformer) -> NDArray[np.float32]:
    """Mean state of each token of the vocabulary between the special tokens of a text, (vocabulary, d)."""
    tokenizer, backbone = model.tokenizer, model[0].auto_model
    (first, second), token_V = _frame(tokenizer), torch.arange(len(tokenizer))
    vectors = []
    for token_N in token_V.split(_TOKENS_AT_ONCE):
        framed_NL = torch.cat(
            [first.expand(len(token_N), -1), token_N.unsqueeze(1), second.expand(len(token_N), -1)], dim=1
        ).to(model.device)
        states_NLD = backbone(input_ids=framed_NL, attention_mask=torch.ones_like(framed_NL)).last_hidden_state
        vectors.append(states_NLD.float().mean(1).cpu().numpy())
    return np.concatenate(vectors)


def _frame(tokenizer: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """The special tokens before and after a text."""
    framed, alone = tokenizer(_PROBE)["input_ids"], tokenizer(_PROBE, add_special_tokens=False)["input_ids"]
    before = next(at for at in range(len(framed)) if framed[at : at + len(alone)] == alone)
    return torch.tensor(framed[:before]), torch.tensor(framed[before + len(alone) :])


def _token_shares(tokenizer: Any, texts: Iterable[str], num_tokens: int) -> NDArray[np.float64]:
    """Share of each token among all tokens of the texts; a token that is not there counts as half of one."""
    counts_V = np.full(num_tokens, 0.5)
    for block in blocks(texts, len):
        counts_V += np.bincount(np.concatenate(tokenize(tokenizer, block, None).token_ids), minlength=num_tokens)
    shares_V: NDArray[np.float64] = counts_V / counts_V.sum()
    return shares_V

"""The states of single tokens, before any pooling."""

from collections.abc import Iterator

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from aveyb_ir.encoding.forward import TokenIds, padded_features


@torch.inference_mode()
def token_states(model: SentenceTransformer, token_ids: TokenIds) -> Iterator[tuple[Tensor, Tensor]]:
    """Compute the states of a batch of texts: Avey-B's micro-batch by micro-batch, those of any other model padded.

    Args:
        model: One that takes token ids; see `takes_token_ids`.
        token_ids: Of texts of at least one token.

    Returns:
        Positions (R,) in the concatenated ids, and the states (R, d) there, on the model's device and in its dtype.
        Every token comes once.
    """
    backbone = model.transformers_model
    if hasattr(backbone, "stream_states"):
        flat = torch.from_numpy(np.concatenate(token_ids).astype(np.int64)).to(model.device)
        yield from backbone.stream_states(flat, [len(ids) for ids in token_ids])
    else:
        features = padded_features(model, token_ids)
        place = features["attention_mask"].flatten().nonzero().flatten()
        states = model[0](features)["token_embeddings"]
        yield torch.arange(len(place), device=place.device), states.flatten(0, 1)[place]

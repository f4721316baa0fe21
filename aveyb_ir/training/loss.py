"""The contrastive loss: each anchor finds its positive among the candidates of its batch.

InfoNCE with in-batch negatives (van den Oord et al. 2018, arXiv 1807.03748), computed with cached gradients
(GradCache, Gao et al. 2021, arXiv 2101.06983) where a batch is larger than what fits in memory at once.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.losses.gradcache import CachedLossMixin

POSITIVE, NEGATIVE, IGNORED = 1, 0, -1
"""What a document is to an anchor, in the labels of a batch."""


_SLICE_TOKENS = {"cpu": 4096, "cuda": 65_536}
"""Padded tokens that keep a device busy; more at once would only add padding."""


def contrastive_loss(
    queries_BD: torch.Tensor, documents_ND: torch.Tensor, labels_BN: torch.Tensor, scale: float
) -> torch.Tensor:
    """Mean cross entropy of the positives under softmax(scale * cosine); a scalar.

    B anchors, N documents, D dimensions. Each row of `labels_BN` has exactly one POSITIVE; IGNORED documents do not
    count. Scores are computed in float32 at least: at a scale of 20 the eight bits of bfloat16 would round them to
    tenths.
    """
    with torch.autocast(queries_BD.device.type, enabled=False):
        if queries_BD.dtype != torch.float64:
            queries_BD, documents_ND = queries_BD.float(), documents_ND.float()
        scores_BN = scale * F.normalize(queries_BD, dim=1) @ F.normalize(documents_ND, dim=1).T
        scores_BN = scores_BN.masked_fill(labels_BN == IGNORED, -torch.inf)
        return F.cross_entropy(scores_BN, (labels_BN == POSITIVE).int().argmax(dim=1))


class InBatchNegativesLoss(CachedLossMixin, torch.nn.Module):  # type: ignore[misc]
    """`contrastive_loss` of a Sentence Transformer, for batches of any number of documents per anchor.

    Takes two groups of texts, anchors and documents, and int8 labels (anchors, documents). A batch that fits in one
    mini batch is computed directly, a larger one with cached gradients; loss and gradients are the same.

    Args:
        model: the model to train.
        scale: factor on the cosine, 1 / temperature.
        mini_batch_size: texts whose activations are in memory at once.
    """

    model: SentenceTransformer

    def __init__(self, model: SentenceTransformer, *, scale: float, mini_batch_size: int) -> None:
        super().__init__()
        self.model = model
        self.scale = scale
        self.mini_batch_size = mini_batch_size

    def forward(self, sentence_features: Iterable[dict[str, torch.Tensor]], labels: torch.Tensor) -> torch.Tensor:
        """The loss of one batch; `backward` on it reaches the weights of the model."""
        features = list(sentence_features)
        if max(len(group["input_ids"]) for group in features) > self.mini_batch_size:
            cached: torch.Tensor = CachedLossMixin.forward_cached(self, features, labels)
            return cached
        queries, documents = (self._embed(group) for group in features)
        return contrastive_loss(queries, documents, labels, self.scale)

    def _embed(self, group: dict[str, torch.Tensor]) -> torch.Tensor:
        """Embed texts (n, d) in slices, each as wide as its longest text; Avey-B computes no padding anyway."""
        if hasattr(self.model.transformers_model, "encode_chunks"):
            whole: torch.Tensor = self.model(group)["sentence_embedding"]
            return whole
        lengths = group["attention_mask"].sum(dim=1).tolist()
        budget = _SLICE_TOKENS.get(group["input_ids"].device.type, _SLICE_TOKENS["cuda"])
        slices = (_sliced(group, *place) for place in _slices(lengths, budget))
        return torch.cat([self.model(part)["sentence_embedding"] for part in slices])

    def calculate_loss(
        self, reps: list[list[torch.Tensor]], labels: torch.Tensor, *, with_backward: bool = False
    ) -> torch.Tensor:
        """The loss from embeddings in mini batches, as `CachedLossMixin` asks for it."""
        queries, documents = (torch.cat(group) for group in reps)
        loss = contrastive_loss(queries, documents, labels, self.scale)
        if not with_backward:
            return loss
        loss.backward()
        return loss.detach()

    def get_config_dict(self) -> dict[str, Any]:
        """What the loss was set to, for the model card."""
        return {"scale": self.scale, "mini_batch_size": self.mini_batch_size}


def _slices(lengths: Sequence[int], budget: int) -> Iterator[tuple[int, int, int]]:
    """Cut rows in their order into slices of at most `budget` padded tokens: start, stop and longest text of each."""
    start, width = 0, 0
    for row, length in enumerate(lengths):
        if row > start and (row + 1 - start) * max(width, length) > budget:
            yield start, row, width
            start, width = row, 0
        width = max(width, length)
    yield start, len(lengths), width


def _sliced(group: dict[str, Any], start: int, stop: int, width: int) -> dict[str, Any]:
    """Some rows of a batch that is padded on the right; what is no tensor is kept."""
    return {
        name: value[start:stop, :width] if isinstance(value, torch.Tensor) else value for name, value in group.items()
    }

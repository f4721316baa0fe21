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

from aveyb_ir.training.processes import Processes

POSITIVE, NEGATIVE, IGNORED = 1, 0, -1
"""What a document is to an anchor, in the labels of a batch."""


_SLICE_TOKENS = {"cpu": 4096, "cuda": 65_536}
"""Padded tokens that keep a device busy; more at once would only add padding."""


def contrastive_loss(
    queries_BD: torch.Tensor,
    documents_ND: torch.Tensor,
    labels_BN: torch.Tensor,
    scale: float,
    *,
    both_directions: bool = False,
    dimensions: Sequence[int] = (),
) -> torch.Tensor:
    """Mean cross entropy of the positives under softmax(scale * cosine); a scalar.

    B anchors, N documents, D dimensions. Each row of `labels_BN` has exactly one POSITIVE; IGNORED documents do not
    count. Scores are computed in float32 at least: at a scale of 20 the eight bits of bfloat16 would round them to
    tenths.

    Args:
        queries_BD: of any length each.
        documents_ND: likewise.
        labels_BN: int8.
        scale: 1 / temperature.
        both_directions: take the mean with the loss of the other direction, in which each positive finds its anchor
            among those that it is a NEGATIVE of.
        dimensions: take the mean over vectors cut to these many numbers (Matryoshka representation learning, Kusupati
            et al. 2022, arXiv 2205.13147); none: whole vectors only.
    """
    with torch.autocast(queries_BD.device.type, enabled=False):
        if queries_BD.dtype != torch.float64:
            queries_BD, documents_ND = queries_BD.float(), documents_ND.float()
        losses = [
            _loss_of_scores(
                scale * F.normalize(queries_BD[:, :width], dim=1) @ F.normalize(documents_ND[:, :width], dim=1).T,
                labels_BN,
                both_directions,
            )
            for width in dimensions or (queries_BD.shape[1],)
        ]
        return torch.stack(losses).mean()


def _loss_of_scores(scores_BN: torch.Tensor, labels_BN: torch.Tensor, both_directions: bool) -> torch.Tensor:
    positive_B = (labels_BN == POSITIVE).int().argmax(dim=1)
    forward = F.cross_entropy(scores_BN.masked_fill(labels_BN == IGNORED, -torch.inf), positive_B)
    if not both_directions:
        return forward
    # Row b holds the positive of pair b against every anchor.
    own_BB = torch.eye(len(positive_B), dtype=torch.bool, device=scores_BN.device)
    other_BB = (labels_BN[:, positive_B].T != NEGATIVE) & ~own_BB
    scores_BB = scores_BN[:, positive_B].T.masked_fill(other_BB, -torch.inf)
    return (forward + F.cross_entropy(scores_BB, own_BB.int().argmax(dim=1))) / 2


class InBatchNegativesLoss(CachedLossMixin, torch.nn.Module):  # type: ignore[misc]
    """`contrastive_loss` of a Sentence Transformer, for batches of any number of documents per anchor.

    Takes two groups of texts, anchors and documents, and int8 labels (anchors, documents). A batch that fits in one
    mini batch is computed directly, a larger one with cached gradients; loss and gradients are the same. Several
    processes give each their own texts and the labels of all; see `Processes`.

    Args:
        model: the model to train.
        scale: factor on the cosine, 1 / temperature.
        mini_batch_size: texts whose activations are in memory at once.
        mini_batch_num_tokens: tokens, padding not counted, instead of texts.
        both_directions: as in `contrastive_loss`.
        dimensions: as in `contrastive_loss`.
        processes: that share each batch.
    """

    model: SentenceTransformer

    def __init__(
        self,
        model: SentenceTransformer,
        *,
        scale: float,
        mini_batch_size: int,
        mini_batch_num_tokens: int | None = None,
        both_directions: bool = False,
        dimensions: Sequence[int] = (),
        processes: Processes | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.scale = scale
        self.mini_batch_size = mini_batch_size
        self.mini_batch_num_tokens = mini_batch_num_tokens
        self.both_directions = both_directions
        self.dimensions = tuple(dimensions)
        self.processes = processes or Processes()
        self._packs = hasattr(model.transformers_model, "encode_chunks")

    def forward(self, sentence_features: Iterable[dict[str, torch.Tensor]], labels: torch.Tensor) -> torch.Tensor:
        """The loss of one batch; `backward` on it reaches the weights of the model."""
        features = list(sentence_features)
        if all(self._fits(group) for group in features):
            queries, documents = (self._embed(group) for group in features)
            return self.processes.summed(self._loss(queries, documents, labels))
        cached: torch.Tensor = CachedLossMixin.forward_cached(self, features, labels)
        return self.processes.summed(cached)

    def _fits(self, group: dict[str, torch.Tensor]) -> bool:
        """Whether a group is one mini batch."""
        if self.mini_batch_num_tokens is None:
            return len(group["input_ids"]) <= self.mini_batch_size
        return int(group["attention_mask"].sum()) <= self.mini_batch_num_tokens

    def _loss(self, queries: torch.Tensor, documents: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The loss of the joined batch, from the embeddings of this process."""
        num_queries, num_documents = labels.shape
        return contrastive_loss(
            self.processes.gather(queries, num_queries),
            self.processes.gather(documents, num_documents),
            labels,
            self.scale,
            both_directions=self.both_directions,
            dimensions=self.dimensions,
        )

    def _embed(self, group: dict[str, torch.Tensor]) -> torch.Tensor:
        """Embed texts (n, d) in slices, each as wide as its longest text; Avey-B computes no padding anyway."""
        if self._packs:
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
        loss = self._loss(queries, documents, labels)
        if not with_backward:
            return loss
        loss.backward()
        return loss.detach()

    def get_config_dict(self) -> dict[str, Any]:
        """What the loss was set to, for the model card."""
        return {"scale": self.scale, "both_directions": self.both_directions, "dimensions": self.dimensions}


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

"""Which pairs meet in a batch: every pair once an epoch, in a number of batches that is known beforehand."""

from collections.abc import Iterator

import numpy as np
from sentence_transformers.base.sampler import DefaultBatchSampler

from aveyb_ir.training.pairs import TrainingSet


class BalancedBatchSampler(DefaultBatchSampler):  # type: ignore[misc]
    """Deals pairs to batches like cards, so that pairs of one anchor land in different batches as far as they can.

    There are ceil(pairs / batch_size) batches, whose sizes differ by at most one: no nearly empty last batch, nothing
    dropped, and a length that the learning rate schedule can rely on. The order depends on seed and epoch only.

    Args:
        training_set: the pairs; batches are lists of positions in `training_set.pairs`.
        batch_size: pairs in a batch, at most.
        seed: together with the epoch fixes the order.
    """

    def __init__(self, training_set: TrainingSet, batch_size: int, seed: int = 0) -> None:
        super().__init__(range(len(training_set)), batch_size=batch_size, drop_last=False, seed=seed)
        self._anchors = np.array([pair.anchor for pair in training_set.pairs])

    def __len__(self) -> int:
        return num_batches(len(self._anchors), self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        generator = np.random.default_rng((self.seed, self.epoch))
        anchor_ranks = generator.permutation(self._anchors.max() + 1)[self._anchors]
        order = np.lexsort((generator.random(len(self._anchors)), anchor_ranks))
        for first in range(len(self)):
            yield order[first :: len(self)].tolist()


def num_batches(num_pairs: int, batch_size: int) -> int:
    """Batches in an epoch."""
    return -(-num_pairs // batch_size)

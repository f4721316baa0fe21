"""Which pairs meet in a batch: in a number of batches that is known beforehand, none of them nearly empty."""

from collections.abc import Iterator

from sentence_transformers.base.sampler import DefaultBatchSampler

from aveyb_ir.training.pairs import TrainingSet


class BalancedBatchSampler(DefaultBatchSampler):  # type: ignore[misc]
    """Deals the pairs of an epoch to batches, by the mixture of the training set.

    Batches of a set differ in size by at most one: no nearly empty last batch, nothing dropped, and a length that the
    learning rate schedule can rely on. The order depends on seed and epoch only.

    Args:
        training_set: the pairs; batches are lists of positions in `training_set.pairs`.
        batch_size: pairs in a batch, at most.
        seed: together with the epoch fixes the order.
    """

    def __init__(self, training_set: TrainingSet, batch_size: int, seed: int = 0) -> None:
        super().__init__(range(len(training_set)), batch_size=batch_size, drop_last=False, seed=seed)
        self._anchors = training_set.pairs.anchors
        self._mixture = training_set.mixture

    def __len__(self) -> int:
        return self._mixture.num_batches(self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self._mixture.batches(self.batch_size, self._anchors, seed=self.seed, epoch=self.epoch):
            yield batch.tolist()


def num_batches(training_set: TrainingSet, batch_size: int) -> int:
    """Batches in an epoch."""
    return training_set.mixture.num_batches(batch_size)

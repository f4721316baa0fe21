"""How several data sets share an epoch and its batches."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Mixture:
    """Which pairs of which data set an epoch uses, and whether its batches mix them.

    Pairs are numbered through all sets, those of the first set first.

    Attributes:
        sizes: pairs of each set.
        mixing: "proportional": every pair once an epoch. "round_robin": the same number of each set, that of the
            smallest. "weighted": as many as all sets have together, shared out by `weights`, so that a set may be used
            in part or more than once an epoch; what an epoch leaves out comes first in the next.
        weights: of each set; "weighted" only reads them.
        single: a batch holds pairs of one set only, so that its negatives are of the same kind. Otherwise each batch
            has its share of every set.
    """

    sizes: tuple[int, ...]
    mixing: Literal["proportional", "round_robin", "weighted"] = "proportional"
    weights: tuple[float, ...] = ()
    single: bool = False

    @property
    def taken(self) -> tuple[int, ...]:
        """Pairs of each set in one epoch."""
        if self.mixing == "round_robin":
            return (min(self.sizes),) * len(self.sizes)
        if self.mixing == "weighted":
            total = sum(self.sizes) / sum(self.weights)
            return tuple(max(1, round(weight * total)) for weight in self.weights)
        return self.sizes

    def num_batches(self, batch_size: int) -> int:
        """Batches of at most `batch_size` pairs in an epoch."""
        return sum(self._counts(batch_size))

    def batches(self, batch_size: int, anchors: npt.NDArray[np.integer], *, seed: int, epoch: int) -> list[Rows]:
        """The batches of an epoch, which depend on seed and epoch only.

        Pairs are dealt like cards, so that those of one anchor land in different batches as far as they can, batches of
        a set differ in size by at most one, and nothing is dropped.

        Args:
            batch_size: pairs in a batch, at most.
            anchors: the anchor of each pair.
            seed: fixes, with the epoch, the order.
            epoch: from 0.
        """
        generator = np.random.default_rng((seed, epoch))
        ranks = generator.permutation(int(anchors.max()) + 1)
        groups = [self._sorted(rows, ranks[anchors[rows]], generator) for rows in self._rows(seed, epoch)]
        hands = groups if self.single else [np.concatenate(groups)]
        dealt = [
            [hand[first::count] for first in range(count)]
            for hand, count in zip(hands, self._counts(batch_size), strict=True)
        ]
        if len(dealt) == 1:
            return dealt[0]
        if self.mixing == "round_robin":
            return [batch for turn in zip(*dealt, strict=True) for batch in turn]
        together = [batch for batches in dealt for batch in batches]
        return [together[place] for place in generator.permutation(len(together))]

    def _counts(self, batch_size: int) -> list[int]:
        hands: Sequence[int] = self.taken if self.single else [sum(self.taken)]
        return [-(-hand // batch_size) for hand in hands]

    def _rows(self, seed: int, epoch: int) -> list[Rows]:
        """The pairs that an epoch uses, set by set: a piece of an endless row of shuffled sets."""
        chosen, first = [], 0
        for number, (size, taken) in enumerate(zip(self.sizes, self.taken, strict=True)):
            rounds = range(epoch * taken // size, -(-(epoch + 1) * taken // size))
            endless = np.concatenate([np.random.default_rng((seed, number, turn)).permutation(size) for turn in rounds])
            start = epoch * taken - rounds.start * size
            chosen.append(first + endless[start : start + taken])
            first += size
        return chosen

    @staticmethod
    def _sorted(rows: Rows, ranks: Rows, generator: np.random.Generator) -> Rows:
        sorted_rows: Rows = rows[np.lexsort((generator.random(len(rows)), ranks))]
        return sorted_rows

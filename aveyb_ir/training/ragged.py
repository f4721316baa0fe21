"""Lists of numbers of any length, in two arrays."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Ragged:
    """List i is `values[bounds[i] : bounds[i + 1]]`; 8 bytes a list and 4 a number.

    Attributes:
        bounds: int64 (lists + 1,), ascending from 0.
        values: int32, of all lists one after the other.
    """

    bounds: npt.NDArray[np.int64]
    values: Numbers

    @classmethod
    def of(cls, counts: npt.NDArray[np.integer], values: Numbers) -> "Ragged":
        """Lists of these lengths."""
        bounds = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=bounds[1:])
        return cls(bounds, values)

    @classmethod
    def joined(cls, parts: "list[Ragged]") -> "Ragged":
        """The lists of all parts, those of the first first."""
        if len(parts) == 1:
            return parts[0]
        counts = np.concatenate([part.counts for part in parts])
        return cls.of(counts, np.concatenate([part.values for part in parts]))

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getitem__(self, number: int) -> Numbers:
        return self.values[self.bounds[number] : self.bounds[number + 1]]

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Length of each list."""
        return np.diff(self.bounds)

    def part(self, start: int, stop: int) -> "Ragged":
        """Some lists that follow each other; the values are shared."""
        bounds = self.bounds[start : stop + 1]
        return Ragged(bounds - bounds[0], self.values[bounds[0] : bounds[-1]])

    def owners(self) -> Numbers:
        """The list that each value is of."""
        return np.repeat(np.arange(len(self), dtype=np.int32), self.counts)

    def where(self, chosen: npt.NDArray[np.bool_]) -> "Ragged":
        """The lists with the chosen of their values."""
        counts = np.bincount(self.owners()[chosen], minlength=len(self))
        return Ragged.of(counts, self.values[chosen])

    def followed_by(self, other: "Ragged") -> "Ragged":
        """Each list with the list of the same number of another after it."""
        order = np.concatenate([self.owners(), other.owners()]).argsort(kind="stable")
        return Ragged.of(self.counts + other.counts, np.concatenate([self.values, other.values])[order])

    def filled(self, value: int) -> "Ragged":
        """Lists of the same lengths that hold nothing but a value."""
        return Ragged(self.bounds, np.full_like(self.values, value))

    def places(self) -> npt.NDArray[np.int64]:
        """The place of each value in its list, from 0."""
        return np.arange(len(self.values)) - np.repeat(self.bounds[:-1], self.counts)

"""Whether a difference between two systems could be chance: paired tests over queries, made for many pairs at once.

Differences come as *strata*, one array a data set, of shape (queries, comparisons), float64: what each comparison's
system gains on each query. The statistic of a comparison is the mean over strata, weighted if asked for, of the mean
over queries: with one stratum the mean difference on a set, with several the difference of the means over sets.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

EXACT_QUERIES = 16
"""With up to so many queries that differ every assignment of signs is counted instead of a sample of them."""

_BLOCK_VALUES = 1 << 22  # random numbers held at a time, so memory does not grow with queries or permutations


def randomization_test(
    strata: Sequence[NDArray[np.float64]],
    *,
    weights: Sequence[float] | None = None,
    permutations: int = 100_000,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Find how often swapping the two systems at random, query by query, gives a difference as large as the real one.

    Under the null hypothesis the two systems are interchangeable on every query, so the sign of each difference is a
    coin toss. The test is two-sided. Queries without a difference change nothing; if at most `EXACT_QUERIES` differ,
    all assignments of signs are counted, else `permutations` random ones and the observed one:
    (count + 1) / (permutations + 1). See Fisher 1935; Smucker, Allan and Carterette, CIKM 2007.

    Returns:
        (comparisons,) the p-values.

    Raises:
        ValueError: there is no stratum, an empty one, shapes that do not fit, or fewer than one permutation.
    """
    _check(strata, "permutations", permutations)
    portions = _portions(strata, weights)
    shares = np.concatenate(
        [portion * stratum / len(stratum) for portion, stratum in zip(portions, strata, strict=True)]
    )
    p_values = np.ones(shares.shape[1])
    sampled = np.count_nonzero(shares, axis=0) > EXACT_QUERIES
    for column in np.flatnonzero(~sampled):
        p_values[column] = _exact(shares[shares[:, column] != 0, column])
    if sampled.any():
        p_values[sampled] = _sampled(shares[:, sampled], permutations, seed)
    return p_values


def bootstrap_interval(
    strata: Sequence[NDArray[np.float64]],
    *,
    weights: Sequence[float] | None = None,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Give the range in which the difference would lie if other queries of the same kind had been asked.

    Queries are drawn with replacement inside each stratum; the ends are percentiles of the statistic. See Efron and
    Tibshirani 1993, chapter 13.

    Returns:
        (comparisons, 2) low and high.

    Raises:
        ValueError: as `randomization_test`, or a level outside (0, 1).
    """
    _check(strata, "resamples", resamples)
    if not 0 < level < 1:
        raise ValueError(f"level {level}; expected a share between 0 and 1 such as 0.95; choose one")
    random = np.random.default_rng(seed)
    means = np.zeros((resamples, strata[0].shape[1]))
    for portion, stratum in zip(_portions(strata, weights), strata, strict=True):
        size = len(stratum)
        for rows in _blocks(resamples, size):
            drawn = random.integers(size, size=(len(rows), size)) + size * np.arange(len(rows))[:, None]
            times = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape)
            means[rows.start : rows.stop] += times @ stratum * (portion / size)
    tail = (1 - level) / 2
    ends: NDArray[np.float64] = np.quantile(means, [tail, 1 - tail], axis=0).T
    return ends


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust the p-values of one family so that one false alarm among them all stays as rare as each alone would be.

    See Holm 1979: the smallest is multiplied by their number, the next by one less, and so on; none falls below the
    one before.
    """
    adjusted = [0.0] * len(p_values)
    least = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = least
    return adjusted


def _check(strata: Sequence[NDArray[np.float64]], name: str, count: int) -> None:
    shapes = [stratum.shape for stratum in strata]
    if not shapes or any(len(shape) != 2 or shape[0] == 0 or shape[1] != shapes[0][-1] for shape in shapes):
        raise ValueError(
            f"strata of shapes {shapes}; expected at least one, each (queries, comparisons); stack them so"
        )
    if count < 1:
        raise ValueError(f"{name} is {count}; expected at least 1; raise it")


def _portions(strata: Sequence[NDArray[np.float64]], weights: Sequence[float] | None) -> list[float]:
    weights = [1.0] * len(strata) if weights is None else weights
    if len(weights) != len(strata) or min(weights) <= 0:
        raise ValueError(
            f"weights {list(weights)} for {len(strata)} strata; expected a positive one for each; mend them"
        )
    return [weight / sum(weights) for weight in weights]


def _exact(shares: NDArray[np.float64]) -> float:
    signs = 1.0 - 2.0 * ((np.arange(1 << len(shares))[:, None] >> np.arange(len(shares))) & 1)
    return float(np.mean(np.abs(signs @ shares) >= _reached(shares)))


def _sampled(shares: NDArray[np.float64], permutations: int, seed: int) -> NDArray[np.float64]:
    """One sample of signs serves all comparisons: each p-value is as valid as with its own."""
    random = np.random.default_rng(seed)
    reached, total, size = _reached(shares), shares.sum(axis=0), len(shares)
    counts = np.zeros(shares.shape[1], dtype=np.int64)
    for rows in _blocks(permutations, size):
        bits = random.integers(256, size=(len(rows), -(-size // 8)), dtype=np.uint8)
        kept = np.unpackbits(bits, axis=1, count=size).astype(np.float64)
        counts += np.count_nonzero(np.abs(2 * (kept @ shares) - total) >= reached, axis=0)
    p_values: NDArray[np.float64] = (counts + 1) / (permutations + 1)
    return p_values


def _reached(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """The observed statistic, less what rounding can take from an equal one."""
    reached: NDArray[np.float64] = np.abs(shares.sum(axis=0)) - 1e-12 * np.abs(shares).sum(axis=0)
    return reached


def _blocks(count: int, width: int) -> Iterator[range]:
    step = max(1, _BLOCK_VALUES // width)
    for start in range(0, count, step):
        yield range(start, min(start + step, count))

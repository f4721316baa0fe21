"""How far two systems are apart on each set and over the sets, and whether that could be chance."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.evaluation.comparison_scores import SetScores
from aveyb_ir.evaluation.significance import bootstrap_interval, holm, randomization_test

ALPHA = 0.05
"""A Holm-adjusted p-value below this is marked."""

_TIE = 1e-9  # a mean over seeds is rounded


@dataclass(frozen=True, slots=True)
class Difference:
    """What a system gains over another on one set, or on the mean over sets.

    Attributes:
        system: The one that gains or loses.
        against: The one it is compared with.
        data: The set; None for the mean over the sets that all systems have.
        mean: Mean of the system's values minus the other's.
        low: Lower end of the 95 % bootstrap interval of `mean`.
        high: Its upper end.
        p: From the paired randomization test, two-sided.
        p_holm: Holm-adjusted, in the family of all comparisons of the report on the same set (or on the mean).
        wins: Queries on which the system is better.
        ties: Queries without a difference.
        losses: Queries on which it is worse.
    """

    system: str
    against: str
    data: str | None
    mean: float
    low: float
    high: float
    p: float
    p_holm: float
    wins: int
    ties: int
    losses: int

    @property
    def significant(self) -> bool:
        """Whether chance is an unlikely explanation: `p_holm` is below `ALPHA`."""
        return self.p_holm < ALPHA


def pairs_of(systems: Sequence[str], baseline: str, *, all_pairs: bool) -> list[tuple[str, str]]:
    """List who is compared with whom: all with the baseline, or all with all, the baseline being the first."""
    ordered = [baseline, *(system for system in systems if system != baseline)]
    if all_pairs:
        return [(system, against) for against, system in combinations(ordered, 2)]
    return [(system, baseline) for system in ordered[1:]]


def find_differences(
    sets: Sequence[SetScores],
    shared: Sequence[SetScores],
    pairs: Sequence[tuple[str, str]],
    metric: str,
    *,
    permutations: int,
    resamples: int,
    seed: int,
) -> tuple[Difference, ...]:
    """Test every pair on every set that both have, and on the mean over the `shared` sets if there are several."""
    groups = [(one.data, [one]) for one in sets]
    found: list[Difference] = []
    for data, members in [*groups, *([(None, list(shared))] if len(shared) > 1 else [])]:
        here = [pair for pair in pairs if all(system in one.values for one in members for system in pair)]
        if here:
            found += _family(data, members, here, metric, permutations=permutations, resamples=resamples, seed=seed)
    return tuple(found)


def differences_by_query(scores: SetScores, pairs: Sequence[tuple[str, str]], metric: str) -> NDArray[np.float64]:
    """(queries, pairs) differences of values averaged over seeds; what rounding leaves of that average is a tie."""
    columns = [scores.of_queries(system, metric) - scores.of_queries(against, metric) for system, against in pairs]
    differences = np.stack(columns, axis=1)
    return np.where(np.abs(differences) < _TIE, 0.0, differences)


def _family(
    data: str | None,
    sets: Sequence[SetScores],
    pairs: Sequence[tuple[str, str]],
    metric: str,
    *,
    permutations: int,
    resamples: int,
    seed: int,
) -> list[Difference]:
    by_set = [differences_by_query(one, pairs, metric) for one in sets]
    strata = [found[rows] for one, found in zip(sets, by_set, strict=True) for rows in one.parts]
    weights = [1 / len(one.parts) for one in sets for _ in one.parts]
    p_values = randomization_test(strata, weights=weights, permutations=permutations, seed=seed).tolist()
    ends = bootstrap_interval(strata, weights=weights, resamples=resamples, seed=seed).tolist()
    means = np.average([stratum.mean(axis=0) for stratum in strata], axis=0, weights=weights).tolist()
    queries = np.concatenate(strata)
    wins, losses = (queries > 0).sum(axis=0).tolist(), (queries < 0).sum(axis=0).tolist()
    return [
        Difference(
            system=system,
            against=against,
            data=data,
            mean=means[place],
            low=ends[place][0],
            high=ends[place][1],
            p=p_values[place],
            p_holm=adjusted,
            wins=wins[place],
            ties=len(queries) - wins[place] - losses[place],
            losses=losses[place],
        )
        for place, ((system, against), adjusted) in enumerate(zip(pairs, holm(p_values), strict=True))
    ]

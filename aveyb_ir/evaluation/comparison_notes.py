"""What a reader must know before believing a comparison, a sentence each."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from aveyb_ir.data import listed
from aveyb_ir.evaluation.comparison_differences import ALPHA
from aveyb_ir.evaluation.result import Evaluation
from aveyb_ir.evaluation.significance import EXACT_QUERIES

if TYPE_CHECKING:
    from aveyb_ir.evaluation.comparison import Comparison


def data_notes(evaluations: Sequence[Evaluation]) -> Iterator[str]:
    """Say what is unlike between the evaluations, or unanswered in them."""
    for what in ("top_k", "own_document"):
        found = {one.name: known for one in evaluations if (known := getattr(one, what)) is not None}
        if len(set(found.values())) > 1:
            yield f"{what} differs: " + listed([f"{system} {value}" for system, value in found.items()])
    for data in dict.fromkeys(one.data for one in evaluations):
        sizes = {
            one.name: one.num_documents for one in evaluations if one.data == data and one.num_documents is not None
        }
        if len(set(sizes.values())) > 1:
            searched = listed([f"{system} {size:,}" for system, size in sizes.items()])
            yield f"not the same documents of {data} were searched: {searched}"
    for one in evaluations:
        if one.unanswered:
            yield (
                f"{one.name} found nothing for {len(one.unanswered)} of {one.num_queries} "
                f"queries of {one.data}; they count as 0"
            )


def method_notes(comparison: "Comparison") -> Iterator[str]:
    """Say how the numbers came about."""
    yield from _mean_notes(comparison)
    yield from _seed_notes(comparison)
    if comparison.differences:
        yield (
            f"p: paired randomization test over queries, two-sided; exact where at most {EXACT_QUERIES} queries "
            f"differ, else {comparison.permutations:,} random assignments of signs (seed {comparison.seed})"
        )
        yield (
            "p (Holm): adjusted for all comparisons of this report on the same set, which are one family; those on the "
            f"mean are another. ▲ and ▼ mark what is better or worse than {comparison.baseline} with p (Holm) below "
            f"{ALPHA}"
        )
        yield (
            f"95 % interval of the difference: percentiles of {comparison.resamples:,} bootstrap samples of the queries"
            + (", drawn set by set" if len(comparison.shared) > 1 else "")
        )


def _mean_notes(comparison: "Comparison") -> Iterator[str]:
    shared = [one.data for one in comparison.shared]
    missing = [
        f"{one.data} (not measured for {listed([s for s in comparison.systems if s not in one.values])})"
        for one in comparison.sets
        if one not in comparison.shared
    ]
    if len(shared) > 1:
        left_out = f"; left out: {listed(missing)}" if missing else ""
        found = f"{len(shared)} sets that all systems have, each set counting alike ({listed(shared)})"
        yield f"mean: over the {found}{left_out}"
    elif missing:
        yield f"no mean: fewer than two sets are measured for all systems; incomplete: {listed(missing)}"
    for one in comparison.sets:
        if len(one.parts) > 1:
            yield f"{one.data} is the mean of its {len(one.parts)} parts, each counting alike"


def _seed_notes(comparison: "Comparison") -> Iterator[str]:
    counts = {
        system: {
            one.data: len(one.values[system][comparison.metric]) for one in comparison.sets if system in one.values
        }
        for system in comparison.systems
    }
    if all(count == 1 for of_sets in counts.values() for count in of_sets.values()):
        yield "one seed of each system: how far another training run would scatter is not known"
        return
    for system, of_sets in counts.items():
        if len(set(of_sets.values())) > 1:
            found = listed([f"{count} on {data}" for data, count in of_sets.items()])
            yield f"seeds of {system}: {found}; its mean over sets has no deviation for that"
    several = [f"{system} {max(of_sets.values())}" for system, of_sets in counts.items() if max(of_sets.values()) > 1]
    single = [system for system, of_sets in counts.items() if max(of_sets.values()) == 1]
    yield (
        f"±: standard deviation over seeds, n - 1 ({listed(several)}"
        + (f"; one seed, so none: {listed(single)}" if single else "")
        + "). Tests take each query's mean over seeds, so they speak of these models on other queries, not of new seeds"
    )

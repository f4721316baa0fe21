"""What a comparison says about systems whose values are known, and what it refuses to put in one table."""

from dataclasses import replace
from statistics import fmean, stdev

import numpy as np
import pytest

from aveyb_ir.errors import DataError
from aveyb_ir.evaluation import Evaluation, compare


def evaluated(name, values, *, data="nq", parts=(), **others):
    """An evaluation with these values of ndcg@10 by query, and their squares as map."""
    per_query = {id: {"ndcg@10": value, "map": value**2} for id, value in values.items()}
    of_part = {part: [v for id, v in per_query.items() if id.startswith(f"{part}/")] for part in parts}
    means = {part: {m: fmean(v[m] for v in of) for m in ("ndcg@10", "map")} for part, of in of_part.items()}
    over = list(means.values()) or list(per_query.values())
    return Evaluation(
        name=name,
        data=data,
        metrics={m: fmean(v[m] for v in over) for m in ("ndcg@10", "map")},
        per_query=per_query,
        num_queries=len(per_query),
        parts=means,
        **{"split": "test", "protocol": "full", **others},
    )


def values_of(seed, num_queries=30, shift=0.0):
    random = np.random.default_rng(seed)
    return {f"q{i}": float(v) for i, v in enumerate(np.clip(random.random(num_queries) + shift, 0, 1).round(3))}


BASE = {"a": 0.5, "b": 0.25, "c": 1.0, "d": 0.0}
BETTER = {"d": 0.5, "c": 0.75, "b": 0.75, "a": 0.5}  # another order of queries means nothing


def test_means_wins_and_p_by_hand():
    comparison = compare([evaluated("base", BASE), evaluated("better", BETTER)])
    (difference,) = comparison.differences
    assert (difference.system, difference.against, difference.data) == ("better", "base", "nq")
    assert difference.mean == pytest.approx((0 + 0.5 - 0.25 + 0.5) / 4)
    assert (difference.wins, difference.ties, difference.losses) == (2, 1, 1)
    # Of the 8 assignments to +-0.5, +-0.25, +-0.5 four reach 0.75: two of size 1.25 and two of size 0.75.
    assert difference.p == difference.p_holm == 0.5
    assert difference.low <= difference.mean <= difference.high
    assert [(query.query_id, query.difference) for query in comparison.queries] == [
        ("c", -0.25),
        ("b", 0.5),
        ("d", 0.5),
    ]
    assert comparison.score("better").mean == pytest.approx(0.625)


def test_the_baseline_is_the_first_unless_named():
    systems = [evaluated(name, values_of(seed)) for seed, name in enumerate("abc")]
    pairs = [(d.system, d.against) for d in compare(systems).differences]
    assert pairs == [("b", "a"), ("c", "a")]
    pairs = [(d.system, d.against) for d in compare(systems, baseline="b").differences]
    assert pairs == [("a", "b"), ("c", "b")]
    pairs = [(d.system, d.against) for d in compare(systems, all_pairs=True, baseline="c").differences]
    assert pairs == [("a", "c"), ("b", "c"), ("b", "a")]


def test_a_comparison_turned_round_is_its_mirror():
    systems = [evaluated("a", values_of(0)), evaluated("b", values_of(1))]
    (there,), (back,) = compare(systems).differences, compare(systems[::-1]).differences
    assert (there.mean, there.wins, there.p) == (-back.mean, back.losses, back.p)
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low), abs=0.01)


def test_seeds_are_averaged_query_by_query_and_scatter_with_n_minus_1():
    seeds = [{"a": 0.0, "b": 0.2}, {"a": 0.4, "b": 0.2}, {"a": 0.8, "b": 0.5}]
    comparison = compare([evaluated("base", {"a": 0.4, "b": 0.0}), *(evaluated("model", values) for values in seeds)])
    score = comparison.score("model", "nq")
    assert score.seeds == pytest.approx([0.1, 0.3, 0.65])
    assert score.sd == pytest.approx(stdev([0.1, 0.3, 0.65]))
    assert comparison.score("base", "nq").sd is None
    (difference,) = comparison.differences
    assert (difference.wins, difference.ties, difference.losses) == (1, 1, 0)  # on "a" all are 0.4, but for rounding
    assert "0.3500 ± 0.2784" in comparison.to_markdown()
    assert any("one seed, so none: base" in note for note in comparison.notes)


def test_the_mean_over_sets_weighs_sets_alike_and_leaves_out_what_some_lack():
    small, large = {"x": 0.2, "y": 0.4}, values_of(3, 50)
    lifted = {id: value + 0.1 for id, value in small.items()}
    systems = [
        evaluated("base", small, data="small"),
        evaluated("base", large, data="large"),
        evaluated("base", BASE, data="alone"),
        evaluated("other", lifted, data="small"),
        evaluated("other", large, data="large"),
    ]
    comparison = compare(systems)
    assert [one.data for one in comparison.shared] == ["small", "large"]
    assert comparison.score("other").mean == pytest.approx((0.4 + fmean(large.values())) / 2)
    assert comparison.score("other", "alone") is None
    on_mean = comparison.difference("other")
    assert on_mean.mean == pytest.approx(0.05)
    assert (on_mean.wins, on_mean.ties, on_mean.losses) == (2, 50, 0)
    assert comparison.difference("other", "alone") is None
    row = next(line for line in comparison.to_markdown().splitlines() if line.startswith("| other "))
    assert row.split("|")[4].strip() == "-"
    assert any("left out: alone (not measured for other)" in note for note in comparison.notes)


def test_without_two_shared_sets_there_is_no_mean():
    systems = [evaluated("a", BASE), evaluated("a", BASE, data="x"), evaluated("b", BETTER)]
    comparison = compare(systems)
    assert {d.data for d in comparison.differences} == {"nq"}
    assert comparison.score("b") is None
    assert any(note.startswith("no mean:") for note in comparison.notes)
    row = next(line for line in comparison.to_markdown().splitlines() if line.startswith("| b "))
    assert [cell.strip() for cell in row.split("|")[3:5]] == ["-", "-"]


def test_parts_of_a_set_count_alike():
    base = {"p/1": 0.5, "q/1": 0.5, "q/2": 0.5, "q/3": 0.5}
    other = {"p/1": 0.9, "q/1": 0.6, "q/2": 0.6, "q/3": 0.6}
    systems = [evaluated(name, of, data="cqa", parts=("p", "q")) for name, of in (("base", base), ("other", other))]
    comparison = compare(systems)
    assert comparison.score("other", "cqa").mean == pytest.approx((0.9 + 0.6) / 2)
    assert comparison.difference("other", "cqa").mean == pytest.approx((0.4 + 0.1) / 2)
    assert any("mean of its 2 parts" in note for note in comparison.notes)


def test_holm_counts_the_comparisons_of_one_set():
    base = values_of(0, 200)
    systems = [evaluated("base", base)] + [
        evaluated(name, {id: min(1.0, max(0.0, v + d)) for (id, v), d in zip(base.items(), noise, strict=True)})
        for name, noise in (
            ("clear", np.random.default_rng(1).normal(0.10, 0.1, 200)),
            ("even", np.random.default_rng(2).normal(0.00, 0.1, 200)),
        )
    ]
    found = {d.system: d for d in compare(systems).differences}
    assert found["clear"].significant
    assert not found["even"].significant
    assert found["clear"].p_holm == pytest.approx(2 * found["clear"].p)
    assert found["even"].p_holm == pytest.approx(found["even"].p)


def test_equal_systems_do_not_differ():
    (difference,) = compare([evaluated("a", BASE), evaluated("b", BASE)]).differences
    assert (difference.mean, difference.p, difference.wins, difference.losses) == (0, 1, 0, 0)
    assert not difference.significant


def test_the_ten_worst_and_the_ten_best():
    base = {f"q{i:02}": 0.5 for i in range(50)}
    other = {f"q{i:02}": i / 50 for i in range(50)}
    picked = [query.query_id for query in compare([evaluated("a", base), evaluated("b", other)]).queries]
    assert picked == [f"q{i:02}" for i in (*range(10), *range(49, 39, -1))]


def test_any_common_metric_can_be_tested():
    systems = [evaluated("a", BASE), evaluated("b", BETTER)]
    comparison = compare(systems, metric="map")
    assert comparison.differences[0].mean == pytest.approx(fmean(v**2 for v in BETTER.values()) - 1.3125 / 4)
    assert comparison.metrics == ("ndcg@10", "map")


def refused():
    a, b = evaluated("a", BASE), evaluated("b", BETTER)
    paper = {id: {"paper-ndcg@10": 0.5} for id in BASE}
    fewer = evaluated("b", {"a": 0.5, "b": 0.5, "z": 0.5})
    return [
        (DataError, [a, replace(b, protocol="paper")], {}, "protocol is 'full' for a and 'paper' for b"),
        (DataError, [a, replace(b, split="dev")], {}, "split of nq is 'test' for a and 'dev' for b"),
        (DataError, [a, fewer], {}, "only a: c, d; only b: z"),
        (DataError, [a, replace(b, metrics={"paper-ndcg@10": 0.5}, per_query=paper)], {}, "no metric is common"),
        (ValueError, [a], {}, "at least two"),
        (ValueError, [a, a], {}, "at least two"),
        (ValueError, [], {}, "at least two"),
        (ValueError, [a, b], {"metric": "mrr"}, "ndcg@10, map"),
        (ValueError, [a, b], {"baseline": "c"}, "a, b"),
        (ValueError, [a, b], {"extras": {"c": {"MB": 1}}}, "label in extras 'c'"),
        (ValueError, [a, b], {"permutations": 0}, "permutations"),
    ]


@pytest.mark.parametrize(("error", "systems", "options", "said"), refused(), ids=lambda value: str(value)[:30])
def test_what_must_not_be_compared_is_refused(error, systems, options, said):
    with pytest.raises(error) as raised:
        compare(systems, **options)
    assert said in str(raised.value)
    assert "expected" in str(raised.value)


def test_splits_may_differ_between_sets():
    systems = [
        evaluated(name, values, data=data, split=split)
        for name, values in (("a", BASE), ("b", BETTER))
        for data, split in (("nq", "test"), ("msmarco", "dev"))
    ]
    assert [one.split for one in compare(systems).sets] == ["test", "dev"]


def test_unlike_settings_and_unanswered_queries_are_said():
    notes = compare([evaluated("a", BASE, top_k=10, unanswered=("a", "b")), evaluated("b", BETTER, top_k=1000)]).notes
    assert "top_k differs: a 10, b 1000" in notes
    assert "a found nothing for 2 of 4 queries of nq; they count as 0" in notes

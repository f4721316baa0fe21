"""A comparison as text: Markdown for people, booktabs for papers, one value a row for everything else."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from aveyb_ir.evaluation.comparison_queries import SHOWN_QUERIES, Found, QueryDifference
from aveyb_ir.evaluation.comparison_wording import mark, number, p_value, set_name, signed, value

if TYPE_CHECKING:
    from aveyb_ir.evaluation.comparison import Comparison
    from aveyb_ir.evaluation.comparison_differences import Difference

_MARKDOWN_SPECIAL = str.maketrans({char: f"\\{char}" for char in r"\`*_[]|~#"})
_TEX_SPECIAL = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "±": r"$\pm$",
        "▲": r"$^{\blacktriangle}$",
        "▼": r"$^{\blacktriangledown}$",
        **{char: f"\\{char}" for char in "&%$#_{}"},
    }
)


def score_rows(comparison: "Comparison") -> tuple[list[str], list[list[str]]]:
    """Lay out the main table: a column for each set, the mean and the extras; a row for each system."""
    columns = [*(one.data for one in comparison.sets), *([None] if len(comparison.sets) > 1 else [])]
    extras = list(dict.fromkeys(name for found in comparison.extras.values() for name in found))
    rows = [
        [
            system,
            *(cell_text(comparison, system, data) for data in columns),
            *(number(comparison.extras.get(system, {}).get(name)) for name in extras),
        ]
        for system in comparison.systems
    ]
    return ["system", *(set_name(data) for data in columns), *extras], rows


def cell_text(comparison: "Comparison", system: str, data: str | None, metric: str | None = None) -> str:
    """One system's score on a set (None: the mean), with its deviation and, for the tested metric, its mark."""
    if data is None and len(comparison.shared) < 2:
        return "-"
    text = value(comparison.score(system, data, metric))
    tested = metric in (None, comparison.metric)
    return f"{text} {mark(comparison.difference(system, data))}".rstrip() if tested else text


def to_markdown(comparison: "Comparison") -> str:
    """Everything for people, as Markdown."""
    return "\n".join(_markdown(comparison))


def to_tex(comparison: "Comparison") -> str:
    """The main table for a paper, in the commands of LaTeX's booktabs (marks: amssymb)."""
    header, rows = score_rows(comparison)
    lines = [
        r"\begin{tabular}{l" + "r" * (len(header) - 1) + "}",
        r"\toprule",
        _tex_row(header),
        r"\midrule",
        *map(_tex_row, rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join([*(f"% {' '.join(note.split())}" for note in comparison.notes), *lines]) + "\n"


def scores_csv(comparison: "Comparison") -> str:
    """Every system's score on every set, one seed and metric a row."""
    return _csv(
        ("system", "data", "seed", "metric", "value"),
        (
            (system, one.data, seed, metric, score)
            for one in comparison.sets
            for system in one.values
            for metric in comparison.metrics
            for seed, score in enumerate(one.seeds(system, metric), start=1)
        ),
    )


def queries_csv(comparison: "Comparison") -> str:
    """Every system's value for every query, one seed and metric a row."""
    return _csv(
        ("system", "data", "seed", "query_id", "metric", "value"),
        (
            (system, one.data, seed, query_id, metric, score)
            for one in comparison.sets
            for system, by_metric in one.values.items()
            for metric, values in by_metric.items()
            for seed, of_seed in enumerate(values.tolist(), start=1)
            for query_id, score in zip(one.query_ids, of_seed, strict=True)
        ),
    )


def _csv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def _markdown(comparison: "Comparison") -> Iterator[str]:
    yield f"# {comparison.metric} ({comparison.protocol} protocol)"
    yield ""
    yield from _markdown_table(*score_rows(comparison))
    yield ""
    yield f"## Differences in {comparison.metric}"
    yield ""
    yield from _markdown_table(*difference_rows(comparison.differences))
    others = [metric for metric in comparison.metrics if metric != comparison.metric]
    if others:
        yield from ("", "## Other metrics", "")
        yield from _markdown_table(*metric_rows(comparison, others))
    yield from ("", "## How to read this", "")
    yield from (f"- {markdown_text(note)}." for note in comparison.notes)
    for pair in dict.fromkeys((query.system, query.against) for query in comparison.queries):
        yield from _markdown_queries([q for q in comparison.queries if (q.system, q.against) == pair])


def difference_rows(differences: Sequence["Difference"]) -> tuple[list[str], list[list[str]]]:
    """Lay out the tests: a row for each pair of systems on each set."""
    header = ["system", "against", "set", "difference", "95 % interval", "p", "p (Holm)", "wins", "ties", "losses"]
    rows = [
        [
            one.system,
            one.against,
            set_name(one.data),
            signed(one.mean) + (" ▲" if one.mean > 0 else " ▼") * one.significant,
            f"{signed(one.low)} to {signed(one.high)}",
            p_value(one.p),
            p_value(one.p_holm),
            f"{one.wins:,}",
            f"{one.ties:,}",
            f"{one.losses:,}",
        ]
        for one in differences
    ]
    return header, rows


def metric_rows(comparison: "Comparison", metrics: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Lay out the metrics that are not tested: a row for each set and system."""
    sets = [*(one.data for one in comparison.sets), *([None] if len(comparison.shared) > 1 else [])]
    rows = [
        [set_name(data), system, *(cell_text(comparison, system, data, metric) for metric in metrics)]
        for data in sets
        for system in comparison.systems
    ]
    return ["set", "system", *metrics], rows


def markdown_text(text: str) -> str:
    """Keep a text from being read as markup, on one line."""
    return escape(" ".join(text.split()), quote=False).translate(_MARKDOWN_SPECIAL)


def _markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield _markdown_row(header)
    yield "|" + "---|" * len(header)
    yield from map(_markdown_row, rows)


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(markdown_text, cells)) + " |"


def _markdown_queries(queries: Sequence[QueryDifference]) -> Iterator[str]:
    first = queries[0]
    title = f"{first.system} against {first.against}"
    by_difference = sorted(queries, key=lambda query: query.difference)
    worst = [query for query in by_difference[:SHOWN_QUERIES] if query.difference < 0]
    best = [query for query in by_difference[::-1][:SHOWN_QUERIES] if query.difference > 0]
    for name, picked in (("worst", worst), ("best", best)):
        if picked:
            yield from ("", f"## {markdown_text(title)}: the {len(picked)} {name} queries", "")
            for query in picked:
                yield from _markdown_query(query)


def _markdown_query(query: QueryDifference) -> Iterator[str]:
    values = f"{query.values[query.system]:.4f} against {query.values[query.against]:.4f}"
    asked = markdown_text(f"{query.data} {query.query_id}: {query.text or 'text not at hand'}")
    yield f"- **{signed(query.difference)}** ({values}) {asked}"
    for system in (query.system, query.against):
        if system in query.top:
            yield f"  - {markdown_text(system)} first finds {_markdown_found(query.top[system])}"
    for found in query.relevant:
        yield f"  - relevant: {_markdown_found(found)}; {rank_text(found, (query.system, query.against))}".rstrip("; ")


def _markdown_found(found: Found | None) -> str:
    if found is None:
        return "nothing"
    grade = "not judged" if found.grade is None else f"grade {found.grade}"
    return markdown_text(f"{found.id} ({grade})" + (f" {found.text}" if found.text else ""))


def rank_text(found: Found, systems: Sequence[str]) -> str:
    """Say in which place systems have a document."""
    ranks = [(system, found.ranks[system]) for system in systems if system in found.ranks]
    return ", ".join(
        markdown_text(f"{system}: {'not found' if rank is None else f'#{rank:,}'}") for system, rank in ranks
    )


def _tex_row(cells: Sequence[str]) -> str:
    return " & ".join(" ".join(cell.split()).translate(_TEX_SPECIAL) for cell in cells) + r" \\"

"""A comparison as text: Markdown for people, booktabs for papers, one value a row for everything else."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import shorten
from typing import TYPE_CHECKING

from aveyb_ir.evaluation.comparison_queries import SHOWN_QUERIES, Found, QueryDifference
from aveyb_ir.evaluation.comparison_wording import (
    about_document,
    mark,
    number,
    p_value,
    set_name,
    shown_documents,
    signed,
    value,
)

if TYPE_CHECKING:
    from aveyb_ir.evaluation.comparison import Comparison

_MARKDOWN_SPECIAL = re.compile(r"[\\`*\[\]|~]|^#|(?<!\w)_|_(?!\w)|<(?=[A-Za-z/!?])|&(?=#?\w+;)")
_MARKDOWN_CHARACTERS = 160
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


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as text; `strong` holds row and column of those that stand out."""

    header: list[str]
    rows: list[list[str]]
    strong: frozenset[tuple[int, int]] = frozenset()


def score_table(comparison: "Comparison") -> Table:
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
    strong = frozenset(
        (row, place) for place, data in enumerate(columns, start=1) for row in _highest(comparison, data)
    )
    return Table(["system", *(set_name(data) for data in columns), *extras], rows, strong)


def _highest(comparison: "Comparison", data: str | None) -> list[int]:
    scores = [comparison.score(system, data) for system in comparison.systems]
    shown = [-1.0 if score is None else round(score.mean, 4) for score in scores]
    return [row for row, mean in enumerate(shown) if mean == max(shown) and mean >= 0]


def cell_text(comparison: "Comparison", system: str, data: str | None, metric: str | None = None) -> str:
    """One system's score on a set (None: the mean), with its deviation and, for the tested metric, its mark."""
    text = value(comparison.score(system, data, metric))
    tested = metric in (None, comparison.metric)
    return f"{text} {mark(comparison.difference(system, data))}".rstrip() if tested else text


def to_markdown(comparison: "Comparison", *, queries: bool = True) -> str:
    """Everything for people, as Markdown; the queries that made the difference only if wanted."""
    return "\n".join([*_markdown_tables(comparison), *(_markdown_pairs(comparison) if queries else ())])


def to_tex(comparison: "Comparison") -> str:
    """The main table for a paper, in the commands of LaTeX's booktabs (marks: amssymb)."""
    table = score_table(comparison)
    lines = [
        r"\begin{tabular}{l" + "r" * (len(table.header) - 1) + "}",
        r"\toprule",
        _tex_row(map(_tex_text, table.header)),
        r"\midrule",
        *map(_tex_row, _cells(table, _tex_text, r"\textbf{%s}")),
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


def _markdown_tables(comparison: "Comparison") -> Iterator[str]:
    yield f"# {comparison.metric} ({comparison.protocol} protocol)"
    yield ""
    yield from _markdown_table(score_table(comparison))
    yield ""
    yield f"## Differences in {comparison.metric}"
    yield ""
    yield from _markdown_table(difference_table(comparison))
    others = [metric for metric in comparison.metrics if metric != comparison.metric]
    if others:
        yield from ("", "## Other metrics", "")
        yield from _markdown_table(metric_table(comparison, others))
    yield from ("", "## How to read this", "")
    yield from (f"- {markdown_text(note)}." for note in comparison.notes)


def _markdown_pairs(comparison: "Comparison") -> Iterator[str]:
    for pair in dict.fromkeys((query.system, query.against) for query in comparison.queries):
        yield from _markdown_queries([q for q in comparison.queries if (q.system, q.against) == pair])


def difference_table(comparison: "Comparison") -> Table:
    """Lay out the tests: a row for each pair of systems on each set."""
    header = ["system", "against", "set", "difference", "95 % interval", "p", "p (Holm)", "wins", "ties", "losses"]
    rows = [
        [
            one.system,
            one.against,
            set_name(one.data),
            f"{signed(one.mean)} {mark(one)}".rstrip(),
            f"{signed(one.low)} to {signed(one.high)}",
            p_value(one.p),
            p_value(one.p_holm),
            f"{one.wins:,}",
            f"{one.ties:,}",
            f"{one.losses:,}",
        ]
        for one in comparison.differences
    ]
    return Table(header, rows)


def metric_table(comparison: "Comparison", metrics: Sequence[str]) -> Table:
    """Lay out the metrics that are not tested: a row for each set and system."""
    sets = [*(one.data for one in comparison.sets), *([None] if len(comparison.shared) > 1 else [])]
    rows = [
        [set_name(data), system, *(cell_text(comparison, system, data, metric) for metric in metrics)]
        for data in sets
        for system in comparison.systems
    ]
    return Table(["set", "system", *metrics], rows)


def markdown_text(text: str) -> str:
    """Keep a text from being read as markup, on one line."""
    return _MARKDOWN_SPECIAL.sub(r"\\\g<0>", " ".join(text.split()))


def _cells(table: Table, convert: Callable[[str], str], strong: str) -> Iterator[list[str]]:
    for row, cells in enumerate(table.rows):
        yield [
            strong % convert(cell) if (row, column) in table.strong else convert(cell)
            for column, cell in enumerate(cells)
        ]


def _markdown_table(table: Table) -> Iterator[str]:
    yield _markdown_row(map(markdown_text, table.header))
    yield "|" + "---|" * len(table.header)
    yield from map(_markdown_row, _cells(table, markdown_text, "**%s**"))


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


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
    pair = (query.system, query.against)
    values = f"{query.values[query.system]:.4f} against {query.values[query.against]:.4f}"
    asked = markdown_text(f"{query.data} {query.query_id}: {query.text or 'text not at hand'}")
    yield f"- **{signed(query.difference)}** ({values}) {asked}"
    for name, found in shown_documents(query, pair):
        yield f"  - {markdown_text(name)}: {markdown_text(_document(found, pair))}"


def _document(found: Found | None, systems: Sequence[str]) -> str:
    if found is None:
        return "nothing"
    text = f" {shorten(found.text, _MARKDOWN_CHARACTERS, placeholder=' …')}" if found.text else ""
    return f"{found.id} ({about_document(found, systems)}){text}"


def _tex_row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _tex_text(text: str) -> str:
    return " ".join(text.split()).translate(_TEX_SPECIAL)

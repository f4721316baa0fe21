"""A comparison as one HTML page."""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

from aveyb_ir.evaluation.comparison_differences import Difference, differences_by_query
from aveyb_ir.evaluation.comparison_plots import curve_svg, intervals_svg
from aveyb_ir.evaluation.comparison_queries import Found, QueryDifference
from aveyb_ir.evaluation.comparison_tables import Table, difference_table, metric_table, score_table
from aveyb_ir.evaluation.comparison_wording import MARKS, about_document, set_name, shown_documents, signed
from aveyb_ir.html_page import html_page

if TYPE_CHECKING:
    from aveyb_ir.evaluation.comparison import Comparison


def to_html(comparison: "Comparison") -> str:
    """Everything for people, as a page: tables, pictures, and the queries that made the difference."""
    title = f"{comparison.metric} of {len(comparison.systems)} systems on {_count(len(comparison.sets), 'set')}"
    return html_page(title, "comparison.css", _body(comparison))


def _body(comparison: "Comparison") -> Iterator[str]:
    sets = ", ".join(
        f"{set_name(one.data)} ({f'{one.split}, ' * bool(one.split)}{_count(len(one.query_ids), 'query', 'queries')})"
        for one in comparison.sets
    )
    baseline = escape(comparison.baseline)
    yield f'<p class="lead">{escape(sets)}. Protocol: {comparison.protocol}. Baseline: {baseline}.</p>'
    yield "<h2>Scores</h2>"
    yield _table(score_table(comparison))
    yield (
        f'<p class="caption">Bold: the highest. {_marked("▲ ▼")}: better or worse than {baseline} by more than chance '
        "explains; the notes at the end say how that was tested. ±: standard deviation over seeds.</p>"
    )
    yield "<h2>Differences</h2>"
    yield f"<figure>{intervals_svg(comparison.differences)}<figcaption>Mean difference in {escape(comparison.metric)} "
    yield "with its 95 % interval; coloured where significant.</figcaption></figure>"
    yield _table(difference_table(comparison), "words")
    yield "<h2>Query by query</h2>"
    yield '<p class="caption">All queries of a set, sorted by difference, from −1 to +1: above the line the first '
    yield "system is better, below it the second.</p>"
    yield from _curves(comparison)
    if comparison.queries:
        yield "<h2>The queries that made the difference</h2>"
        yield from _queries(comparison)
    others = [metric for metric in comparison.metrics if metric != comparison.metric]
    if others:
        yield "<h2>Other metrics</h2>"
        yield _table(metric_table(comparison, others), "names")
    notes = "".join(f"<li>{_marked(escape(note))}.</li>" for note in comparison.notes)
    yield f'<h2>How to read this</h2><ul class="notes">{notes}</ul>'


def _table(table: Table, kind: str = "") -> str:
    marked = {column for cells in table.rows for column, cell in enumerate(cells) if _mark_of(cell)}
    head = "".join(f"<th>{escape(cell)}{_slot('') * (place in marked)}</th>" for place, cell in enumerate(table.header))
    rows = []
    for row, cells in enumerate(table.rows):
        shown = [_cell(cell, (row, place) in table.strong, place in marked) for place, cell in enumerate(cells)]
        rows.append(f"<tr>{''.join(shown)}</tr>")
    body = f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return f'<div class="scroll"><table class="{kind}">{body}</table></div>'


def _cell(cell: str, strong: bool, marked: bool) -> str:
    mark = _mark_of(cell)
    value, plus_minus, deviation = escape(cell.removesuffix(f" {mark}") if mark else cell).partition(" ± ")
    text = f"<strong>{value}</strong>" if strong else value
    return f"<td>{text}{f'<small>{plus_minus}{deviation}</small>' * bool(deviation)}{_slot(mark) * marked}</td>"


def _mark_of(cell: str) -> str:
    return cell[-1] if cell[-2:-1] == " " and cell[-1] in MARKS else ""


def _slot(mark: str) -> str:
    """Leave room for a mark in cells that have none too, so that numbers stand below each other."""
    return f'<span class="mark {MARKS.get(mark, "")}">{mark}</span>'


def _marked(text: str) -> str:
    for sign, name in MARKS.items():
        text = text.replace(sign, f'<span class="{name}">{sign}</span>')
    return text


def _curves(comparison: "Comparison") -> Iterator[str]:
    for one in comparison.sets:
        tested = [difference for difference in comparison.differences if difference.data == one.data]
        if not tested:
            continue
        columns = differences_by_query(one, [(d.system, d.against) for d in tested], comparison.metric)
        yield f'<h3>{escape(set_name(one.data))}</h3><div class="curves">'
        for column, difference in enumerate(tested):
            name = f"{difference.system} − {difference.against}"
            yield f"<figure><figcaption>{escape(name)}</figcaption>{curve_svg(columns[:, column], name)}"
            yield f"{_counts(difference)}</figure>"
        yield "</div>"


def _counts(difference: Difference) -> str:
    return (
        f'<div class="counts"><span class="gain">{_count(difference.wins, "win")}</span>'
        f"<span>{_count(difference.ties, 'tie')}</span>"
        f'<span class="loss">{_count(difference.losses, "loss", "losses")}</span></div>'
    )


def _queries(comparison: "Comparison") -> Iterator[str]:
    is_first = True
    for pair, of_pair in groupby(comparison.queries, key=lambda query: (query.system, query.against)):
        yield f"<details{' open' * is_first}><summary>{escape(' against '.join(pair))}</summary>"
        for data, of_set in groupby(of_pair, key=lambda query: query.data):
            found = list(of_set)
            losses = sum(query.difference < 0 for query in found)
            summary = (
                f"{_count(losses, 'largest loss', 'largest losses')}, {_count(len(found) - losses, 'largest gain')}"
            )
            yield f"<details{' open' * is_first}><summary>{escape(set_name(data))} <small>{summary}</small></summary>"
            yield from map(_query, found)
            yield "</details>"
            is_first = False
        yield "</details>"


def _query(query: QueryDifference) -> str:
    kind = "gain" if query.difference > 0 else "loss"
    pair = (query.system, query.against)
    others = [system for system in query.values if system not in pair]
    values = " · ".join(f"{escape(system)} {query.values[system]:.4f}" for system in (*pair, *others))
    asked = escape(query.text) if query.text is not None else '<span class="even">text not at hand</span>'
    return (
        f'<article class="query {kind}"><p class="asked"><b class="{kind}">{signed(query.difference)}</b>{asked}</p>'
        f'<div class="values">{escape(query.query_id)} · {values}</div>{_documents(query, [*pair, *others])}</article>'
    )


def _documents(query: QueryDifference, systems: Sequence[str]) -> str:
    shown = "".join(
        f"<dt>{escape(name)}</dt><dd>{_document(found, systems)}</dd>"
        for name, found in shown_documents(query, systems)
    )
    return f"<dl>{shown}</dl>" if shown else ""


def _document(found: Found | None, systems: Sequence[str]) -> str:
    if found is None:
        return "nothing"
    where = escape(f"{found.id} · {about_document(found, systems)}")
    return f'{escape(found.text or "")}<span class="where">{where}</span>'


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"

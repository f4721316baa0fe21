"""A needle test as tables, files and the heat map that people know."""

import csv
import json
from collections.abc import Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aveyb_ir.evaluation.needle_quality import NeedleCell, NeedleReport
from aveyb_ir.evaluation.saved_views import save_views

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLUMNS = ("model", "view", "length", "depth", "questions", "success_at_1", "mrr", "found_in_place")


def needle_table(report: NeedleReport) -> str:
    """Success@1 by length and depth as Markdown, a table for each model and view, with means and cost."""
    return "\n".join(_lines(report))


def save_needle(report: NeedleReport, folder: str | Path) -> list[Path]:
    """Write `needle.json`, `needle.csv`, `needle.md` and `needle.png` and return their paths."""
    rows = StringIO()
    writer = csv.DictWriter(rows, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    for cell in report.cells:
        values = {**cell.to_json(), "questions": len(cell.ranks)}
        writer.writerow({name: values[name] for name in _COLUMNS})
    texts = {"json": json.dumps(report.to_json(), indent=1) + "\n", "csv": rows.getvalue()}
    texts["md"] = needle_table(report) + "\n"
    return save_views(folder, "needle", texts, _drawn(report))


def panels(report: NeedleReport) -> dict[tuple[str, str], list[NeedleCell]]:
    """The cells of each model and view."""
    found: dict[tuple[str, str], list[NeedleCell]] = {}
    for cell in report.cells:
        found.setdefault((cell.model, cell.view), []).append(cell)
    return found


def _lines(report: NeedleReport) -> Iterator[str]:
    setting = report.setting
    yield (
        f"Success@1 of {setting['needles']} questions a cell among {report.candidates} documents "
        f"(chance {1 / report.candidates:.2f}); {setting['kind']} as needles, filler: {setting['corpus']}."
    )
    for (model, view), cells in panels(report).items():
        lengths, grid = _grid(cells)
        yield from ("", f"{model}, {_named(view)}", "")
        yield "| depth | " + " | ".join(f"{length:,}" for length in lengths) + " |"
        yield "|---" * (len(lengths) + 1) + "|"
        for depth, row in grid.items():
            yield f"| {depth:g} % | " + " | ".join(f"{cell.success_at_1:.2f}" for cell in row) + " |"
        for name, values in _means(grid, len(lengths)).items():
            yield f"| {name} | " + " | ".join(f"{value:.2f}" for value in values) + " |"
    yield ""
    for cost in report.costs:
        cut = "" if cost.tokens == cost.tokens_used else f" of {cost.tokens:,}, the rest cut at its limit"
        yield f"{cost.model}: {cost.documents:,} documents, {cost.tokens_used:,} tokens{cut}, {cost.seconds:.0f} s."


def _grid(cells: Sequence[NeedleCell]) -> tuple[list[int], dict[float, list[NeedleCell]]]:
    """Lengths in order, and for each depth the cells of all lengths."""
    lengths = list(dict.fromkeys(cell.length for cell in cells))
    depths = dict.fromkeys(cell.depth for cell in cells)
    return lengths, {depth: [cell for cell in cells if cell.depth == depth] for depth in depths}


def _means(grid: dict[float, list[NeedleCell]], num_lengths: int) -> dict[str, list[float]]:
    """Means over depths, by length."""
    columns = [[row[number] for row in grid.values()] for number in range(num_lengths)]
    means = {
        "mean": [sum(cell.success_at_1 for cell in column) / len(column) for column in columns],
        "MRR": [sum(cell.mrr for cell in column) / len(column) for column in columns],
    }
    if columns[0][0].found_in_place is not None:
        means["in place"] = [sum(cell.found_in_place or 0.0 for cell in column) / len(column) for column in columns]
    return means


def _named(view: str) -> str:
    return "the document's one vector" if view == "document" else "the document's best chunk"


def _drawn(report: NeedleReport) -> "Figure":
    from matplotlib.figure import Figure

    shown = panels(report)
    lengths, grid = _grid(next(iter(shown.values())))
    figure = Figure(figsize=(2.2 + 0.75 * len(lengths), (1.3 + 0.4 * len(grid)) * len(shown)), layout="constrained")
    image: Any = None
    for axes, ((model, view), cells) in zip(
        figure.subplots(len(shown), squeeze=False)[:, 0], shown.items(), strict=True
    ):
        lengths, grid = _grid(cells)
        values = [[cell.success_at_1 for cell in row] for row in grid.values()]
        image = axes.imshow(values, cmap="RdYlGn", vmin=0, vmax=1, aspect="auto")
        for y, row in enumerate(values):
            for x, value in enumerate(row):
                color = "white" if abs(value - 0.5) > 0.4 else "black"
                axes.text(x, y, f"{value:.2f}", ha="center", va="center", fontsize=8, color=color)
        axes.set_title(f"{'/'.join(Path(model).parts[-2:])}, {_named(view)}", fontsize=10)
        axes.set_xticks(range(len(lengths)), [f"{length:,}" for length in lengths])
        axes.set_yticks(range(len(grid)), [f"{depth:g} %" for depth in grid])
        axes.set_ylabel("depth of the needle")
    axes.set_xlabel("tokens per document")
    label = f"success@1 among {report.candidates} documents (chance {1 / report.candidates:.2f})"
    figure.colorbar(image, ax=figure.axes, label=label if len(shown) > 1 else "success@1")
    return figure

"""A benchmark's results as tables, files and a picture."""

import csv
import json
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path

from aveyb_ir.bench.measure import Cell
from aveyb_ir.bench.run import BenchReport


def table(report: BenchReport) -> str:
    """Everything that was measured as Markdown."""
    return "\n".join(_lines(report))


def save(report: BenchReport, folder: str | Path) -> list[Path]:
    """Write `bench.json`, `bench.csv`, `bench.md` and `bench.png` and return their paths."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"bench.{kind}" for kind in ("json", "csv", "md", "png")]
    paths[0].write_text(json.dumps(report.to_json(), indent=1) + "\n", encoding="utf-8")
    with paths[1].open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Cell)])
        writer.writeheader()
        writer.writerows(asdict(cell) for cell in report.cells)
    paths[2].write_text(table(report) + "\n", encoding="utf-8")
    _plot(report, paths[3])
    return paths


def _lines(report: BenchReport) -> Iterator[str]:
    yield ", ".join(f"{name} {value}" for name, value in report.setting.items())
    yield from (
        "",
        "| tokens | model | ms | tokens/s | against the first | share of matrix rate |",
        "|---|---|---|---|---|---|",
    )
    for cell in report.cells:
        yield f"| {cell.tokens:,} " + _columns(cell, _first(report.cells, cell.tokens))
    for cell in report.mixed:
        yield "| mixed " + _columns(cell, report.mixed[0])
    if report.decay:
        found = ", ".join(f"{name} {alpha:.3f}" for name, alpha in report.decay.items())
        yield from ("", f"Decay exponent α of throughput from 2,048 tokens: {found}.")
    for name, peaks in report.peak_bytes.items():
        yield (
            f"Peak memory of {name}: " + ", ".join(f"{n:,} tokens {b / 2**30:.2f} GiB" for n, b in peaks.items()) + "."
        )
    for timing in report.ranker:
        yield (
            f"Ranker at {timing.tokens:,} tokens ({timing.distinct_tokens:,} distinct): {timing.seconds:.3f} s, "
            f"plain loop {timing.plain_seconds:.3f} s ({timing.plain_seconds / timing.seconds:.1f}x), scores equal to "
            f"{timing.largest_difference:.1e}."
        )
    yield from (f"Not measured: {what}." for what in report.skipped)


def _columns(cell: Cell, first: Cell) -> str:
    return (
        f"| {cell.model} | {cell.seconds * 1e3:,.1f} | {cell.tokens_per_second:,.0f} "
        f"| {first.seconds / cell.seconds:.2f}x | {cell.share_of_rate:.0%} |"
    )


def _first(cells: list[Cell], tokens: int) -> Cell:
    return next(cell for cell in cells if cell.tokens == tokens)


def _plot(report: BenchReport, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for model in dict.fromkeys(cell.model for cell in report.cells):
        cells = [cell for cell in report.cells if cell.model == model]
        alpha = f" (α = {report.decay[model]:.2f})" if model in report.decay else ""
        rates = [cell.tokens_per_second for cell in cells]
        axes.plot([cell.tokens for cell in cells], rates, marker="o", label=model + alpha)
    axes.set(xscale="log", yscale="log", xlabel="tokens per text", ylabel="tokens per second")
    lengths = sorted({cell.tokens for cell in report.cells})
    axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend()
    axes.set_title(f"{report.setting['size']} size, {report.setting['device']}, {report.setting['dtype']}", fontsize=10)
    figure.savefig(path, dpi=150)

"""The picture people look at before they pick a specification."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from aveyb_ir.data import replacing


class _Row(Protocol):
    @property
    def spec(self) -> str: ...
    @property
    def recall(self) -> float: ...
    @property
    def queries_per_second(self) -> float: ...
    @property
    def bytes_per_vector(self) -> float: ...


def plot_recall(path: Path, rows: Sequence[_Row], top_k: int) -> None:
    """Draw recall against queries per second; the area of a point is the size of a vector."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    largest = max(row.bytes_per_vector for row in rows)
    for row in rows:
        area = 40 + 800 * row.bytes_per_vector / largest
        axes.scatter(row.queries_per_second, row.recall, s=area, alpha=0.5)
        label = f"{row.spec}\n{row.bytes_per_vector:.0f} bytes"
        axes.annotate(label, (row.queries_per_second, row.recall), ha="center", va="center")
    axes.set_xscale("log")
    axes.set_xlabel("queries per second, in batches of 64")
    axes.set_ylabel(f"recall@{top_k} against exact search")
    axes.margins(0.2)
    axes.grid(alpha=0.3)
    with replacing(path) as partial:
        figure.savefig(partial, format="png", dpi=150)

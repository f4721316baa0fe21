"""What reading more of each document bought, as a table, files and a curve."""

import csv
import json
from collections.abc import Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from aveyb_ir.evaluation.first_tokens_quality import FirstTokens
from aveyb_ir.evaluation.saved_views import save_views

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLUMNS = (
    *("model", "view", "limit", "ndcg_at_10", "interval_low", "interval_high", "loss", "loss_low", "loss_high"),
    *("tokens_used", "tokens", "documents_cut", "seconds"),
)


def first_tokens_table(rows: Sequence[FirstTokens]) -> str:
    """All rows as Markdown."""
    return "\n".join(_lines(rows))


def save_first_tokens(rows: Sequence[FirstTokens], folder: str | Path) -> list[Path]:
    """Write `first_tokens.json` (single queries too), `.csv`, `.md` and `.png` and return their paths."""
    texts = {
        "json": json.dumps([row.to_json() for row in rows], indent=1) + "\n",
        "csv": _csv(rows),
        "md": first_tokens_table(rows) + "\n",
    }
    return save_views(folder, "first_tokens", texts, _drawn(rows))


def _lines(rows: Sequence[FirstTokens]) -> Iterator[str]:
    yield "| model | vector | tokens read | NDCG@10 | 95 % | loss | 95 % | tokens encoded | cut | s |"
    yield "|---" * 10 + "|"
    for row in rows:
        limit = "whole" if row.limit is None else f"{row.limit:,}"
        low, high = row.interval
        least, most = row.loss_interval
        yield (
            f"| {row.model} | {row.view} | {limit} | {row.ndcg_at_10:.4f} | {low:.3f} to {high:.3f} | {row.loss:.4f} | "
            f"{least:.3f} to {most:.3f} | {row.tokens_used:,} | {row.documents_cut:,} | {row.seconds:.1f} |"
        )


def _csv(rows: Sequence[FirstTokens]) -> str:
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for row in rows:
        limit = "" if row.limit is None else row.limit
        quality = (row.ndcg_at_10, *row.interval, row.loss, *row.loss_interval)
        cost = (row.tokens_used, row.tokens, row.documents_cut, round(row.seconds, 3))
        writer.writerow([row.model, row.view, limit, *quality, *cost])
    return text.getvalue()


def _drawn(rows: Sequence[FirstTokens]) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    numbers = sorted({row.limit for row in rows if row.limit is not None})
    ticks: list[int | None] = [*numbers, *([None] if any(row.limit is None for row in rows) else [])]
    for model, view in dict.fromkeys((row.model, row.view) for row in rows):
        line = [row for row in rows if (row.model, row.view) == (model, view)]
        places = [ticks.index(row.limit) for row in line]
        name = "/".join(Path(model).parts[-2:])
        (drawn,) = axes.plot(places, [row.ndcg_at_10 for row in line], marker="o", label=f"{name}, {view}")
        lows, highs = zip(*(row.interval for row in line), strict=True)
        axes.fill_between(places, lows, highs, color=drawn.get_color(), alpha=0.12, linewidth=0)
    axes.set_xticks(range(len(ticks)), ["whole" if tick is None else f"{tick:,}" for tick in ticks])
    axes.set(xlabel="tokens read of each document", ylabel="NDCG@10, with 95 % bootstrap interval")
    axes.grid(alpha=0.3)
    axes.legend()
    return figure

"""What the commands print: results on stdout, everything else on stderr, progress on a terminal only."""

import json
import shutil
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from aveyb_ir.retrieval import Hit


def print_json(value: Any) -> None:
    """Print one JSON value on one line."""
    typer.echo(json.dumps(value, ensure_ascii=False))


def print_fields(fields: dict[str, Any]) -> None:
    """Print names and values in two columns."""
    width = max(len(name) for name in fields)
    for name, value in fields.items():
        typer.echo(f"{name:<{width}}  {value}")


def print_rows(rows: Sequence[dict[str, Any]]) -> None:
    """Print a table whose columns are the keys of the first row; "-" for what is None."""
    shown = [list(rows[0]), *([_cell(value) for value in row.values()] for row in rows)]
    widths = [max(len(cell) for cell in column) for column in zip(*shown, strict=True)]
    for cells in shown:
        typer.echo("  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip())


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def one_line(text: str) -> str:
    """What a line of a table shows of a text: white space folded, control characters left out."""
    return "".join(character for character in " ".join(text.split()) if character.isprintable())


def print_hits(hits: "Sequence[Hit]", *, lines: int = 2) -> None:
    """Print hits with rank, score, id, title and the beginning of what matched."""
    width = shutil.get_terminal_size((100, 20)).columns
    for rank, hit in enumerate(hits, start=1):
        typer.echo(f"{rank:>2}  {hit.score:.4f}  {one_line(hit.id)}  {one_line(hit.title)}".rstrip())
        shown = textwrap.wrap(
            " ".join(hit.passage.split()), width=max(40, width - 4), max_lines=lines, placeholder=" …"
        )
        for line in shown:
            typer.echo(f"    {line}")
    if not hits:
        typer.echo("no documents")


@contextmanager
def counting() -> Iterator[Callable[[str, int], None]]:
    """Show on a terminal what is being done, how much of it is done and how fast; yields what to call."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.completed:,.0f} {task.description}"),
        TextColumn("{task.speed:,.0f}/s"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        tasks: dict[str, Any] = {}

        def tell(what: str, count: int) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=None)
            progress.advance(tasks[what], count)

        yield tell

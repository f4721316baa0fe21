"""`aveyb-ir demo`."""

from pathlib import Path
from typing import Annotated

import typer

from aveyb_ir.cli.output import print_hits


def demo(
    output: Annotated[Path, typer.Option(help="Folder for the demo's model and index.")] = Path("aveyb-demo"),
) -> None:
    """Train, index, search and evaluate on a sample of Natural Questions, offline, in minutes."""
    from aveyb_ir.demo import run_demo

    result = run_demo(output, say=typer.echo)
    for query, hits in result.searches:
        typer.echo(f"\n“{query}”")
        print_hits(hits)

"""`aveyb-ir study`."""

from pathlib import Path
from typing import Annotated

import typer

from aveyb_ir.cli.options import Json
from aveyb_ir.cli.output import print_json


def study(
    recipe: Annotated[Path, typer.Argument(help="Study recipe, a YAML file; see recipes/README.md.")],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Replace a value of the recipe; may be repeated."),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Folder of the study, instead of the recipe's.")] = None,
    json: Json = False,
) -> None:
    """Train architectures alike, evaluate and compare them; goes on where an earlier call stopped."""
    from aveyb_ir.study import load_study

    checked = load_study(recipe, set_ or [])
    if output is None and checked.output is None:
        raise typer.BadParameter(f"{recipe} sets no output; give --output FOLDER")
    from aveyb_ir.study import study as run

    result = run(checked, output=output)
    if json:
        print_json({protocol: comparison.to_json() for protocol, comparison in result.comparisons.items()})
    else:
        typer.echo("\n\n".join(comparison.to_markdown(queries=False) for comparison in result.comparisons.values()))
    typer.echo(f"The reports, with the queries that made the difference, are in {result.folder}.", err=True)

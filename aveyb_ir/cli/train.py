"""`aveyb-ir train`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from aveyb_ir.cli.options import Json, Overwrite
from aveyb_ir.cli.output import print_fields, print_json


def train(
    recipe: Annotated[Path, typer.Argument(help="Recipe, a YAML file; see recipes/README.md.")],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Replace a value of the recipe; may be repeated."),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Model folder to write, instead of the recipe's.")] = None,
    overwrite: Overwrite = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last whole checkpoint.")] = False,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda, instead of the recipe's.")] = None,
    json: Json = False,
) -> None:
    """Train as a recipe says and write a model folder: a retriever, or by its `task` pretrain, distill or reranker."""
    from aveyb_ir.tasks import load_task

    checked = load_task(recipe, set_ or [])
    if output is None and checked.train.output is None:
        raise typer.BadParameter(f"{recipe} sets no train.output; give --output FOLDER")
    from aveyb_ir.training import train_task
    from aveyb_ir.training.processes import Processes

    result = asdict(train_task(checked, output=output, overwrite=overwrite, resume=resume, device=device))
    if not Processes.here().is_main:  # torchrun starts several; one speaks
        return
    shown = {name: str(value) if isinstance(value, Path) else value for name, value in result.items()}
    (print_json if json else print_fields)(shown)

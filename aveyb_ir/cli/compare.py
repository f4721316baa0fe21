"""`aveyb-ir compare`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from aveyb_ir.cli.options import Json
from aveyb_ir.cli.output import print_json


def compare(
    systems: Annotated[
        list[str],
        typer.Argument(
            help="PATH or LABEL=PATH of a report, a folder of reports, a run or a model; or bm25. The first is the "
            "baseline; several of one label are its seeds."
        ),
    ],
    data: Annotated[
        list[str] | None,
        typer.Option(help="Collection that judges runs and models and gives the texts; may be repeated."),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="Judgements that runs and models are evaluated by; by default each set's usual ones."),
    ] = None,
    protocol: Annotated[str, typer.Option(help="How runs and models are evaluated: full or paper.")] = "full",
    metric: Annotated[str | None, typer.Option(help="What is tested; by default the first that all have.")] = None,
    baseline: Annotated[str | None, typer.Option(help="Label that all are compared with.")] = None,
    all_pairs: Annotated[bool, typer.Option("--all-pairs", help="Compare all with all.")] = False,
    output: Annotated[
        Path | None, typer.Option(file_okay=False, help="Folder for report.html, .md, .csv, .json and .tex.")
    ] = None,
    json: Json = False,
) -> None:
    """Compare systems on the same queries: paired tests, intervals, and the queries that made the difference."""
    for system in systems:
        if system[0] == "=" or (system[-1] == "=" and not Path(system).exists()):
            raise typer.BadParameter(f"{system!r} lacks its label or its path; give PATH or LABEL=PATH")
    comparison = _compared(systems, data, split, protocol, metric, baseline, all_pairs)
    if output is not None:
        typer.echo("Wrote " + ", ".join(str(path) for path in comparison.write(output)), err=True)
    if json:
        print_json(comparison.to_json())
    else:
        typer.echo(comparison.to_markdown(queries=output is None))


def _compared(
    systems: list[str],
    data: list[str] | None,
    split: str | None,
    protocol: Any,
    metric: str | None,
    baseline: str | None,
    all_pairs: bool,
) -> Any:
    from aveyb_ir.evaluation import compare as run

    return run(
        systems,
        data=data or (),
        split=split,
        protocol=protocol,
        metric=metric,
        baseline=baseline,
        all_pairs=all_pairs,
        progress=lambda line: typer.echo(line, err=True),
    )

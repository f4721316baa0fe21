"""`aveyb-ir fuse`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from aveyb_ir.cli.options import Json, several, weight
from aveyb_ir.cli.output import print_json


def fuse(
    runs: Annotated[list[Path], typer.Argument(help="Answers to fuse, at least two: TREC runs, or .json.")],
    output: Annotated[Path, typer.Option(help="Run to write: TREC, or JSON if its name ends in .json.")],
    method: Annotated[str, typer.Option(help="rrf: by ranks; weighted: by scores, each run's scaled to 0 to 1.")] = (
        "rrf"
    ),
    weights: Annotated[str | None, typer.Option(help="One for each run, such as 2,1; by default all weigh 1.")] = None,
    depth: Annotated[int, typer.Option(min=1, help="Documents of each run and query that count.")] = 1000,
    top_k: Annotated[
        int | None, typer.Option(min=1, help="Documents per query that are kept; as many as --depth.")
    ] = None,
    rrf_k: Annotated[int, typer.Option(min=1, help="With rrf: the constant that ranks are added to.")] = 60,
    json: Json = False,
) -> None:
    """Fuse the answers of several systems into one run."""
    shares = None if weights is None else several(weights, weight)
    if output.exists() and any(one.exists() and output.samefile(one) for one in runs):
        raise typer.BadParameter(f"--output {output} is read; write to another file")
    from aveyb_ir.data import check_replaceable, read_run, write_run
    from aveyb_ir.retrieval import fuse as fused

    check_replaceable(output)
    options: dict[str, Any] = {"method": method, "weights": shares, "depth": depth, "top_k": top_k, "rrf_k": rrf_k}
    run = fused([read_run(one) for one in runs], **options)
    write_run(output, run)
    typer.echo(f"{len(run)} queries of {len(runs)} runs, written to {output}", err=True)
    if json:
        print_json({"output": str(output), "queries": len(run), "runs": [str(one) for one in runs], **options})

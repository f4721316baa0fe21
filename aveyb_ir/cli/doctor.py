"""`aveyb-ir doctor`."""

from typing import TYPE_CHECKING

import typer

from aveyb_ir.cli.options import Json
from aveyb_ir.cli.output import print_fields, print_json

if TYPE_CHECKING:
    from aveyb_ir.doctor import Diagnosis


def doctor(json: Json = False) -> None:
    """Show versions, devices, precision, kernels and threads as they are here, and how to mend what is wrong."""
    from aveyb_ir.doctor import diagnose

    diagnosis = diagnose()
    if json:
        print_json(diagnosis.to_json())
    else:
        _print(diagnosis)


def _print(diagnosis: "Diagnosis") -> None:
    facts = diagnosis.facts
    print_fields({package: found or "not installed" for package, found in facts.versions.items()})
    typer.echo()
    for device in facts.devices:
        free, memory = device.free_memory / 2**30, device.memory / 2**30
        typer.echo(f"{device.device}  {device.name}, {free:.1f} of {memory:.1f} GiB free")
        typer.echo(f"    {device.dtype}: {device.why}")
    typer.echo()
    gpus = facts.faiss.num_gpus if facts.faiss else 0
    fields = {
        **facts.kernels,
        "threads": f"{facts.num_threads} on {facts.num_cores} cores",
        "faiss": f"sees {gpus} GPUs; built for {facts.faiss.options}" if facts.faiss else "cannot be loaded",
        "hub": f"{'offline' if facts.hub_offline else 'online'}, local copies in {facts.hub_cache}",
        "compiler": facts.compiler or "none; needed for compile on a CPU",
    }
    print_fields(fields)
    typer.echo()
    for problem in diagnosis.problems:
        typer.echo(f"Problem: {problem.what}\n    {problem.mend}")
    if not diagnosis.problems:
        typer.echo("No problems found.")

"""`aveyb-ir bench`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from aveyb_ir.cli.options import Device, Dtype, Json, count, several
from aveyb_ir.cli.output import print_json


def bench(
    models: Annotated[
        list[str] | None,
        typer.Argument(help="avey-b, avey-b-reference, modernbert, neobert or model folders; by default the four."),
    ] = None,
    lengths: Annotated[str, typer.Option(help="Tokens per text, separated by commas.")] = "16,128,512,2048,8192",
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Texts per batch, by default 1; rows with --training, by default 64.")
    ] = None,
    size: Annotated[
        str | None, typer.Option(help="base or small, by default base; with --training by default small.")
    ] = None,
    tail: Annotated[str, typer.Option(help="How Avey-B ends a text: mask or zero.")] = "mask",
    repeats: Annotated[int, typer.Option(min=1, help="Rounds; medians are reported.")] = 5,
    max_seconds: Annotated[float, typer.Option(help="Skip batches that would take longer.")] = 60.0,
    mixed: Annotated[bool, typer.Option("--mixed", help="Also a corpus of mixed lengths.")] = False,
    memory: Annotated[str, typer.Option(help="Lengths whose peak memory is measured, separated by commas.")] = "",
    ranker: Annotated[str, typer.Option(help="Lengths at which the ranker is timed against the plain loop.")] = "",
    training: Annotated[
        bool, typer.Option("--training", help="Measure training steps instead, also against a bare loop.")
    ] = False,
    output: Annotated[Path | None, typer.Option(help="Folder for bench.json, .csv, .md and .png.")] = None,
    device: Device = None,
    dtype: Dtype = None,
    json: Json = False,
) -> None:
    """Measure encoders side by side: tokens per second, share of the machine's rate, memory, decay with length."""
    if training:
        _training(models, batch_size or 64, size or "small", repeats, device, dtype, json)
        return
    texts = {"lengths": lengths, "memory": memory, "ranker": ranker}
    counts = {name: several(text, count) for name, text in texts.items()}
    from aveyb_ir.bench import bench as run
    from aveyb_ir.bench import save, table
    from aveyb_ir.bench.subjects import NAMES

    report = run(
        models or NAMES,
        batch_size=batch_size or 1,
        size=size or "base",
        tail=tail,
        device=device,
        dtype=dtype,
        repeats=repeats,
        max_seconds=max_seconds,
        mixed=mixed,
        progress=lambda line: typer.echo(line, err=True),
        **counts,
    )
    if output is not None:
        typer.echo(", ".join(str(path) for path in save(report, output)), err=True)
    if json:
        print_json(report.to_json())
    else:
        typer.echo(table(report))


def _training(
    models: list[str] | None,
    batch_size: int,
    size: str,
    repeats: int,
    device: str | None,
    dtype: str | None,
    json: bool,
) -> None:
    from aveyb_ir.bench.training import bench_training, training_table

    timings = bench_training(
        models or ("avey-b", "modernbert"),
        batch_size=batch_size,
        size=size,
        repeats=repeats,
        device=device or "auto",
        dtype=dtype or "float32",
        progress=lambda line: typer.echo(line, err=True),
    )
    if json:
        print_json([asdict(timing) for timing in timings])
    else:
        typer.echo(training_table(timings))

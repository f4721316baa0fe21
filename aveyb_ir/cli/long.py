"""`aveyb-ir long …`: what length does to retrieval."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from aveyb_ir.cli.options import Device, Dtype, Json, count, several, share
from aveyb_ir.cli.output import print_json

app = typer.Typer(help="Measure what the length of documents does to retrieval.", no_args_is_help=True)

Models = Annotated[list[str], typer.Argument(help="Model folders or Hub names.")]
Views = Annotated[
    Literal["document", "chunk", "both"],
    typer.Option("--granularity", help="Rank by a document's one vector, by its best chunk's (Avey-B only), or both."),
]


@app.command()
def needle(
    models: Models,
    lengths: Annotated[
        str, typer.Option(help="Tokens per document, by each model's tokenizer, separated by commas.")
    ] = "1000,2000,4000,8000,16000,32000,64000,96000",
    depths: Annotated[
        str, typer.Option(help="Where needles lie, in per cent, separated by commas.")
    ] = "0,25,50,75,100",
    needles: Annotated[int, typer.Option(min=1, help="Questions for each length and depth.")] = 4,
    distractors: Annotated[int, typer.Option(min=0, help="Further documents of each length with other needles.")] = 6,
    granularity: Views = "both",
    corpus: Annotated[Path | None, typer.Option(help="Filler text; by default the package's sample.")] = None,
    data: Annotated[
        str | None, typer.Option(help="BEIR folder whose passages and questions are the needles, instead of facts.")
    ] = None,
    split: Annotated[str, typer.Option(help="Judgements of --data to use.")] = "test",
    seed: Annotated[int, typer.Option(help="Of needles, filler and distractors.")] = 0,
    output: Annotated[Path | None, typer.Option(help="Folder for needle.json, .csv, .md and .png.")] = None,
    device: Device = None,
    dtype: Dtype = None,
    json: Json = False,
) -> None:
    """Hide facts at several depths of longer and longer documents and see which questions still find theirs."""
    counts, places = several(lengths, count), several(depths, share)
    from aveyb_ir.evaluation import needle as run
    from aveyb_ir.evaluation import needle_table, save_needle

    report = run(
        models,
        lengths=counts,
        depths=places,
        needles=needles,
        distractors=distractors,
        granularity=granularity,
        corpus=corpus,
        data=data,
        split=split,
        seed=seed,
        device=device,
        dtype=dtype,
        say=lambda line: typer.echo(line, err=True),
    )
    if output is not None:
        typer.echo(", ".join(str(path) for path in save_needle(report, output)), err=True)
    if json:
        print_json(report.to_json())
    else:
        typer.echo(needle_table(report))


@app.command("first-tokens")
def first_tokens(
    models: Models,
    data: Annotated[str, typer.Option(help="BEIR folder, or a Hub name, of long documents.")],
    split: Annotated[str, typer.Option(help="Judgements of the folder to use.")] = "test",
    limits: Annotated[
        str, typer.Option(help="Tokens read of each document, separated by commas; whole for all of it.")
    ] = "256,512,1024,2048,4096,8192,whole",
    granularity: Views = "both",
    seed: Annotated[int, typer.Option(help="Of the bootstrap.")] = 0,
    output: Annotated[Path | None, typer.Option(help="Folder for first_tokens.json, .csv, .md and .png.")] = None,
    device: Device = None,
    dtype: Dtype = None,
    json: Json = False,
) -> None:
    """Measure retrieval by the first tokens of documents only, for more and more of them, against whole documents."""
    wanted = several(limits, lambda part: None if part == "whole" else count(part))
    from aveyb_ir.evaluation import first_tokens as run
    from aveyb_ir.evaluation import first_tokens_table, save_first_tokens

    rows = run(
        models,
        data,
        split=split,
        limits=wanted,
        granularity=granularity,
        device=device,
        dtype=dtype,
        seed=seed,
        say=lambda line: typer.echo(line, err=True),
    )
    if output is not None:
        typer.echo(", ".join(str(path) for path in save_first_tokens(rows, output)), err=True)
    if json:
        print_json([row.to_json() for row in rows])
    else:
        typer.echo(first_tokens_table(rows))

"""The commands of `aveyb-ir`, put together."""

from typing import Annotated

import typer

from aveyb_ir import __version__
from aveyb_ir.cli import (
    bench,
    compare,
    demo,
    doctor,
    evaluate,
    explain,
    export,
    fuse,
    index,
    long,
    mine,
    plan,
    rerank,
    search,
    study,
    train,
)
from aveyb_ir.cli.command import NothingEmpty

app = typer.Typer(
    name="aveyb-ir",
    help="Dense retrieval over long documents with Avey-B: train, index, search, evaluate.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


app.command("demo")(demo.demo)
app.command("train")(train.train)
app.command("mine")(mine.mine)
app.add_typer(index.app, name="index")
app.command("search")(search.search)
app.command("explain")(explain.explain)
app.command("fuse", cls=NothingEmpty)(fuse.fuse)
app.command("rerank", cls=NothingEmpty)(rerank.rerank)
app.command("evaluate", cls=NothingEmpty)(evaluate.evaluate)
app.command("compare", cls=NothingEmpty)(compare.compare)
app.command("study")(study.study)
app.add_typer(long.app, name="long")
app.command("bench")(bench.bench)
app.command("plan")(plan.plan)
app.add_typer(export.app, name="export")
app.command("doctor")(doctor.doctor)

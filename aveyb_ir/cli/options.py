"""Options that several commands share."""

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what an earlier run wrote there.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, …; by default a GPU where there is one.")]
Dtype = Annotated[str | None, typer.Option(help="float32, bfloat16 or float16; by default what is fast there.")]
MaxLength = Annotated[
    int | None, typer.Option(min=1, help="Tokens kept of each text; by default the model's own limit.")
]

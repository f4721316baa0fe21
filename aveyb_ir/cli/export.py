"""`aveyb-ir export …`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aveyb_ir.cli.options import Json, MaxLength, TruncateDim
from aveyb_ir.cli.output import print_fields, print_json

if TYPE_CHECKING:
    from aveyb_ir.encoding import OnnxExport

app = typer.Typer(help="Write a model for other runtimes.", no_args_is_help=True)


@app.callback()
def _formats() -> None:
    """Keeps the name of the format in the command while there is only one."""


@app.command()
def onnx(
    model: Annotated[str, typer.Argument(help="Avey-B with mean pooling: folder, Hub name or aveyb-mini.")],
    output: Annotated[Path, typer.Argument(help="Folder to make, for search --query-encoder.")],
    int8: Annotated[
        bool, typer.Option("--int8", help="Compute in int8: faster, and vectors are only near the model's.")
    ] = False,
    max_length: MaxLength = None,
    truncate_dim: TruncateDim = None,
    json: Json = False,
) -> None:
    """Write a query encoder for ONNX Runtime, and say how near its vectors are to the model's."""
    from aveyb_ir.encoding import export_onnx

    report = export_onnx(model, output, int8=int8, max_length=max_length, truncate_dim=truncate_dim)
    if json:
        print_json(report.to_json())
    else:
        print_fields(_fields(report))


def _fields(report: "OnnxExport") -> dict[str, object]:
    cosines = f"at least {report.min_cosine:.6f}, {report.mean_cosine:.6f} on average"
    return {
        "folder": f"{report.path}, {report.bytes / 1e6:.1f} MB, {report.precision}",
        "compared": f"{report.texts} texts of up to {report.longest} tokens",
        "difference": f"at most {report.max_difference:.1g} in any number of a vector",
        "cosine": cosines,
    }

"""Options that several commands share."""

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

import typer

_T = TypeVar("_T")

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what an earlier run wrote there.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, …; by default a GPU where there is one.")]
Dtype = Annotated[str | None, typer.Option(help="float32, bfloat16 or float16; by default what is fast there.")]
FaissDevice = Annotated[
    Literal["auto", "cpu", "cuda"] | None,
    typer.Option(help="Where FAISS searches IVF indexes: cpu, cuda, or auto, on a GPU it sees; cpu if not said."),
]
FaissBuildDevice = Annotated[
    Literal["auto", "cpu", "cuda"], typer.Option("--faiss-device", help="Where FAISS builds; auto: on GPUs it sees.")
]
K1 = Annotated[
    float | None, typer.Option("--k1", min=0, help="Of BM25: how slowly a word that comes again stops counting; 0.9.")
]
B = Annotated[
    float | None, typer.Option("--b", min=0, max=1, help="Of BM25: how much long documents are held back; 0.4.")
]
MaxLength = Annotated[
    int | None, typer.Option(min=1, help="Tokens kept of each text; by default the model's own limit.")
]
TruncateDim = Annotated[
    int | None, typer.Option(min=1, help="Numbers kept of each vector, for models trained for it; by default all.")
]


def several(text: str, read: Callable[[str], _T]) -> list[_T]:
    """Take an option's comma-separated values apart; what `read` refuses is wrong usage."""
    try:
        return [read(part.strip()) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} has {error}") from None


def given(**options: Any) -> dict[str, Any]:
    """The options that were given, for functions whose own defaults count otherwise."""
    return {name: value for name, value in options.items() if value is not None}


def count(text: str) -> int:
    """Read a whole number from 1. Raises ValueError."""
    if not text.replace("_", "").isdecimal() or int(text) < 1:
        raise ValueError(f"{text!r}, expected whole numbers from 1, such as 1000,2000")
    return int(text)


def share(text: str) -> float:
    """Read a number of per cent. Raises ValueError."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:
        raise ValueError(f"{text!r}, expected numbers from 0 to 100, such as 0,50,100")
    return value


def weight(text: str) -> float:
    """Read a weight. Raises ValueError."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise ValueError(f"{text!r}, expected numbers from 0, such as 2,1")
    return value

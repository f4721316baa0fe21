"""One result as files of several kinds: for programs, for spreadsheets, for reading and to look at."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from aveyb_ir.data import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def save_views(folder: str | Path, name: str, texts: Mapping[str, str], figure: "Figure") -> list[Path]:
    """Write `texts` by their file ending, and the figure as `.png`, all called `name`; gives the paths.

    Raises DataError for a name that holds no file to replace, OSError for what cannot be written.
    """
    paths = [Path(folder) / f"{name}.{ending}" for ending in (*texts, "png")]
    for path, text in zip(paths, texts.values(), strict=False):
        with replacing(path) as partial:
            partial.write_text(text, encoding="utf-8", newline="\n")
    with replacing(paths[-1]) as partial:
        figure.savefig(partial, format="png", dpi=150)
    return paths

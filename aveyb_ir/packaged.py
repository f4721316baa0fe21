"""What comes with the package: a small model and a sample collection."""

from importlib.resources import files
from pathlib import Path

_ASSETS = Path(str(files("aveyb_ir"))) / "assets"

DEFAULT_MODEL = "aveyb-mini"
"""Name of the small Avey-B retriever; a folder of that name in the working directory goes before it."""

SAMPLE = _ASSETS / "nq"
"""A sample of Natural Questions in BEIR layout."""

DEMO_RECIPE = _ASSETS / "demo.yaml"


def packaged_model(name: str) -> Path | None:
    """The folder of the model that comes with the package under this name; None for any other name."""
    return _ASSETS / name if name == DEFAULT_MODEL else None

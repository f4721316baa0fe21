"""Loads any Sentence Transformers model from a folder or the Hub, with errors a person can act on."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import torch
from sentence_transformers import SentenceTransformer
from transformers.utils import logging as transformers_logging

import aveyb_ir.models  # noqa: F401 (registers Avey-B with transformers)
from aveyb_ir.errors import ModelError
from aveyb_ir.packaged import DEFAULT_MODEL, packaged_model


def load_sentence_transformer(
    name: str | Path, *, device: torch.device | str | None = None, dtype: torch.dtype | Literal["auto"] = "auto"
) -> SentenceTransformer:
    """Load a model by folder, Hub name or the name of one that comes with the package; "auto" keeps the stored dtype.

    Raises:
        ModelError: No such folder, an incomplete one, or a Hub name that cannot be had.
    """
    folder = locate(name)
    place = None if device is None else str(device)
    try:
        with quietly():
            return SentenceTransformer(folder, device=place, model_kwargs={"dtype": dtype})
    except Exception as error:  # the library raises a dozen kinds of these; all mean that this model cannot be loaded
        reason = " ".join(str(error).split())
        where = "" if Path(name).is_dir() else "There is no such folder here, and the Hub did not give it. "
        raise ModelError(
            f"Cannot load the model {str(name)!r}; expected a model folder or a Hub name. "
            f"{where}{type(error).__name__}: {reason}"
        ) from error


@contextmanager
def quietly() -> Iterator[None]:
    """Keep a bar from a load of a second, and advice on the dtype of half-precision weights: who loads here chooses."""
    logger = logging.getLogger("sentence_transformers.base.model")

    def keep(record: logging.LogRecord) -> bool:
        return "inference may be significantly slower" not in record.getMessage()

    had_bar = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    logger.addFilter(keep)
    try:
        yield
    finally:
        logger.removeFilter(keep)
        if had_bar:
            transformers_logging.enable_progress_bar()


def locate(name: str | Path) -> str:
    """Say where a model is loaded from: a folder, the one of a model that comes with the package, or a Hub name.

    Raises:
        ModelError: What is there is no model, and the name is none that the Hub could have.
    """
    path = Path(name)
    if (folder := packaged_model(str(name))) is not None and not path.exists():
        return str(folder)
    if path.is_dir():
        if not (path / "modules.json").exists() and not (path / "config.json").exists():
            raise ModelError(
                f"{path} is not a model folder: it has neither modules.json (Sentence Transformers) nor config.json "
                "(transformers). Give the folder that a training run wrote, or a Hub name."
            )
    elif path.is_absolute() or str(name).startswith((".", "~")) or len(path.parts) != 2 or path.parent.exists():
        if len(path.parts) == 1 and not path.exists() and not str(name).startswith((".", "~")):
            return str(name)  # a Hub name without an owner, as in "all-MiniLM-L6-v2"
        raise ModelError(
            f"No model folder {str(name)!r}. Give a folder, a Hub name such as owner/model, or "
            f"{DEFAULT_MODEL}, which comes with the package."
        )
    return str(name)

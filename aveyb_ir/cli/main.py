"""Runs a command: errors become one line and an exit code, output is UTF-8 whatever the locale says."""

import logging
import os
import signal
import sys
import warnings
from typing import Any

import typer

from aveyb_ir.cli.app import app
from aveyb_ir.errors import AveybError

# The shell's own number for a process that was interrupted.
_INTERRUPTED = 130


def main() -> None:
    """Run the command line and exit: 0 fine, 1 expected failure, 2 wrong usage, 130 interrupted."""
    _prepare_streams()
    _prepare_messages()
    signal.signal(signal.SIGINT, _interrupt)
    try:
        app()
    except (AveybError, ValueError, OSError) as error:
        if os.environ.get("AVEYB_DEBUG"):
            raise
        typer.echo(f"Error: {' '.join(str(error).split())}", err=True)
        sys.exit(1)


def _interrupt(*_: object) -> None:
    """Leave by the way of any exit, so that half-written files are cleaned up."""
    typer.echo("Interrupted.", err=True)
    sys.exit(_INTERRUPTED)


def _prepare_streams() -> None:
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace")


def _prepare_messages() -> None:
    """Send what the package logs and warns of to stderr, a line each; keep other libraries' chatter out."""
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")  # else every attempt to reach the Hub is a line
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    logger = logging.getLogger("aveyb_ir")
    logger.handlers = [_ToStderr()]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    warnings.showwarning = _show_warning


class _ToStderr(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(self.format(record), err=True)


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    if issubclass(category, UserWarning):
        typer.echo(f"Warning: {message}", err=True)

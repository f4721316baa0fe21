"""Draws how far an encoding run is, on a terminal only."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aveyb_ir.encoding import EncodingProgress


@contextmanager
def encoding_progress() -> "Iterator[Callable[[EncodingProgress], None] | None]":
    """Show documents, speed and remaining time; yields what to call with each report, or None off a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with console.status("Encoding") as status:
        yield lambda progress: status.update(describe(progress))


def describe(progress: "EncodingProgress") -> str:
    """Say in a line how far a run is."""
    total = "" if progress.total_documents is None else f" of {progress.total_documents:,}"
    parts = [f"Encoded {progress.documents:,}{total} documents"]
    if progress.new_tokens:
        parts.append(f"{progress.tokens_per_second:,.0f} tokens/s")
    if progress.remaining_seconds is not None:
        parts.append(f"about {timedelta(seconds=round(progress.remaining_seconds))} left")
    return ", ".join(parts)

"""A command that takes an empty value for what it mostly is: a shell variable that was not set."""

from itertools import pairwise
from typing import Any

import typer
from typer.core import TyperCommand


class NothingEmpty(TyperCommand):
    """Refuses empty values, which would otherwise be taken for none at all or for the folder one is in."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Check the arguments as they were typed, and go on."""
        for before, value in pairwise(["", *args]):
            if not value or (value.startswith("--") and value.endswith("=")):
                name = value.removesuffix("=") or (before if before.startswith("-") else "an argument")
                raise typer.BadParameter(f"{name} has an empty value; give it one, or leave it out", ctx)
        return super().parse_args(ctx, args)

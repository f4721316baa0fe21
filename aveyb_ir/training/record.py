"""What a run leaves beside its model, so that anyone can see and repeat how it was made."""

import json
import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from aveyb_ir._version import __version__

_PACKAGES = ("torch", "transformers", "sentence-transformers", "tokenizers", "accelerate", "numpy")


def environment() -> dict[str, Any]:
    """Versions of what computed the result, and the git commit of the working directory if it is in a repository."""
    versions = {"python": platform.python_version(), "aveyb-ir": __version__}
    versions |= {package: version(package) for package in _PACKAGES}
    return {"versions": versions, "git_commit": _git_commit()}


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file that is there whole or not at all."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8", newline="\n")
    partial.replace(path)


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write a JSON file for people and programs."""
    write_text(path, json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def _git_commit() -> str | None:
    """The commit, with `-dirty` if files differ from it; None outside a repository, which is nothing wrong."""
    command = ["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout.strip()

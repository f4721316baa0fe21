"""The README's commands and options exist, and its two set-up commands are the ones that are checked."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from aveyb_ir.cli.app import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^(aveyb-ir .+)$", README, flags=re.MULTILINE)


def options_of(words):
    """Follow command words down the tree; the options of the command they name."""
    command = typer.main.get_command(app)
    while words and hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    return {name for parameter in command.params for name in parameter.opts}


def test_the_readme_shows_commands():
    assert len(COMMANDS) >= 8


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_exist(line):
    words = shlex.split(line, comments=True)[1:]
    used = {word for word in words if word.startswith("--")}
    assert used <= options_of([word for word in words if not word.startswith("-")]), line


@pytest.mark.parametrize("name", re.findall(r"\]\(([^)#]+)\)", README))
def test_links_to_files_resolve(name):
    assert name.startswith("https://") or (ROOT / name).exists()


def test_ci_runs_the_readmes_test_command():
    (command,) = re.findall(r"^python3 -m venv .*python -m pytest.*$", README, flags=re.MULTILINE)
    assert "grep -m 1 'python -m pytest' README.md" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert ".[dev]" in command

import logging
import signal
import sys
import warnings

import pytest

from aveyb_ir.cli import main


@pytest.fixture(autouse=True)
def _process_as_before():
    """The command sets up its process; tests that follow in this one get theirs back."""
    logger = logging.getLogger("aveyb_ir")
    before = (logger.handlers, logger.level, logger.propagate, warnings.showwarning, signal.getsignal(signal.SIGINT))
    yield
    logger.handlers, logger.level, logger.propagate, warnings.showwarning, interrupt = before
    signal.signal(signal.SIGINT, interrupt)


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a command in this process: exit code, stdout, stderr."""

    def command(*arguments):
        monkeypatch.setattr(sys, "argv", ["aveyb-ir", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit:
            main()
        out, err = capsys.readouterr()
        return exit.value.code or 0, out, err

    return command

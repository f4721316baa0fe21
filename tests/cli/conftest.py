import logging
import signal
import warnings

import pytest


@pytest.fixture(autouse=True)
def _process_as_before():
    """The command sets up its process; tests that follow in this one get theirs back."""
    logger = logging.getLogger("aveyb_ir")
    before = (logger.handlers, logger.level, logger.propagate, warnings.showwarning, signal.getsignal(signal.SIGINT))
    yield
    logger.handlers, logger.level, logger.propagate, warnings.showwarning, interrupt = before
    signal.signal(signal.SIGINT, interrupt)

"""What reading training rows came upon: told once, when all rows have been seen."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from aveyb_ir.data.pair_fields import has_role
from aveyb_ir.data.records import unit
from aveyb_ir.data.wording import listed
from aveyb_ir.errors import DataError

_MAX_LISTED_PROBLEMS = 50
_MAX_LISTED_IDS = 10

_logger = logging.getLogger(__name__)


class RowReport:
    """Collects, for the rows of some files, what was malformed, left out or not used, and what their corpus lacks."""

    def __init__(self, source: str | Path, files: Sequence[Path], corpus: str | Path | None = None) -> None:
        self._source = source
        self._corpus = corpus
        self._several = len(files) > 1
        self._problems: list[str] = []
        self._num_problems = 0
        self._num_rows = 0
        self._left_out: defaultdict[str, list[str]] = defaultdict(list)
        self._lacking: list[str] = []
        self._num_lacking = 0
        self._unused: set[str] = set()

    def fail(self, file: Path, number: int, problem: ValueError) -> None:
        """Note a malformed row."""
        self._num_problems += 1
        if self._num_problems <= _MAX_LISTED_PROBLEMS:
            where = f"{file.name} " if self._several else ""
            self._problems.append(f"{where}{unit(file)} {number}: {problem}")

    def leave_out(self, file: Path, number: int, reason: ValueError) -> None:
        """Note a row that teaches nothing."""
        self._left_out[f"{reason}, {unit(file)}s"].append(f"{file.name}:{number}" if self._several else str(number))

    def lack(self, file: Path, number: int, id_: str) -> None:
        """Note a document that a row names and the corpus has no text for."""
        self._num_lacking += 1
        if self._num_lacking <= _MAX_LISTED_IDS:
            where = f"{file.name} " if self._several else ""
            self._lacking.append(f"{id_} ({where}{unit(file)} {number})")

    def take(self, fields: Iterable[str]) -> None:
        """Note the fields of a row that is used."""
        self._num_rows += 1
        self._unused.update(name for name in fields if not has_role(name))

    def finish(self) -> None:
        """Log what is worth knowing.

        Raises:
            DataError: rows were malformed, or there is none to use.
        """
        if self._num_lacking:
            more = self._num_lacking - len(self._lacking)
            found = ", ".join(self._lacking) + (f" and {more} more" if more else "")
            _logger.warning("%s has no text for documents that %s names: %s", self._corpus, self._source, found)
        for reason, places in self._left_out.items():
            _logger.warning("%s: left out rows %s %s", self._source, reason, listed(places))
        if self._num_problems:
            more = self._num_problems - len(self._problems)
            found = "; ".join(self._problems) + (f" and {more} more" if more else "")
            raise DataError(f"{self._source} has {self._num_problems} unusable rows; mend or remove them: {found}")
        if self._unused:
            _logger.warning("%s: fields not used: %s", self._source, listed(sorted(self._unused)))
        if not self._num_rows:
            raise DataError(
                f"{self._source} holds no training row; expected an anchor and a positive a line; check the file"
            )

"""How far the encoding of a corpus is, how fast it goes and how long it will take."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class EncodingProgress:
    """The state of a run; what an earlier run had finished is in `documents` and `characters`, not in the speed.

    Attributes:
        documents: Finished so far.
        characters: Of these documents.
        new_documents: Encoded by this run.
        new_characters: Of these documents.
        new_tokens: Computed by this run; 0 for a model that takes no token ids.
        seconds: Since this run began to encode.
        total_documents: In the whole corpus; None where it is not known.
        total_characters: In the whole corpus; None where it is not known.
    """

    documents: int
    characters: int
    new_documents: int
    new_characters: int
    new_tokens: int
    seconds: float
    total_documents: int | None = None
    total_characters: int | None = None

    @property
    def tokens_per_second(self) -> float:
        """Mean speed of this run; 0 before anything is done."""
        return self.new_tokens / self.seconds if self.seconds > 0 else 0.0

    @property
    def remaining_seconds(self) -> float | None:
        """Time left at the mean speed of this run; None where the total is not known or nothing is done yet.

        By characters where their total is known: the longest texts of a block come first, so a count of documents rises
        slowly at first.
        """
        if self.total_characters is not None:
            done, new, total = self.characters, self.new_characters, self.total_characters
        elif self.total_documents is not None:
            done, new, total = self.documents, self.new_documents, self.total_documents
        else:
            return None
        return max(0, total - done) * self.seconds / new if new else None


ProgressCallback = Callable[[EncodingProgress], None]


class ProgressMeter:
    """Counts finished blocks and the finished texts of the current one, and tells a callback of every change."""

    def __init__(
        self,
        callback: ProgressCallback | None = None,
        total_documents: int | None = None,
        total_characters: int | None = None,
    ) -> None:
        self._callback = callback
        self._totals = total_documents, total_characters
        self._documents = self._characters = 0
        self._new_documents = self._new_characters = self._new_tokens = 0
        self._begin: float | None = None

    def start(self) -> None:
        """Start the clock, once."""
        if self._begin is None:
            self._begin = time.perf_counter()

    def batches_of(self, texts: Sequence[str]) -> Callable[[NDArray[np.int64], NDArray[np.int64]], None]:
        """Give what to call after each batch of a block: with the positions of its texts and the tokens of each."""
        characters = np.array([len(text) for text in texts], dtype=np.int64)
        done = np.zeros(len(texts), dtype=bool)
        tokens = np.zeros(len(texts), dtype=np.int64)

        def on_batch(batch: NDArray[np.int64], tokens_of_batch: NDArray[np.int64]) -> None:
            done[batch], tokens[batch] = True, tokens_of_batch
            self._tell(int(done.sum()), int(characters[done].sum()), int(tokens.sum()))

        return on_batch

    def finish_block(self, texts: Sequence[str], num_tokens: int | None) -> None:
        """Count a finished block: the tokens it took, or None if an earlier run had finished it."""
        num_characters = sum(map(len, texts))
        self._documents += len(texts)
        self._characters += num_characters
        if num_tokens is not None:
            self._new_documents += len(texts)
            self._new_characters += num_characters
            self._new_tokens += num_tokens
        self._tell(0, 0, 0)

    def _tell(self, documents: int, characters: int, tokens: int) -> None:
        """Report, with what is done of the current block."""
        if self._callback is None:
            return
        self._callback(
            EncodingProgress(
                documents=self._documents + documents,
                characters=self._characters + characters,
                new_documents=self._new_documents + documents,
                new_characters=self._new_characters + characters,
                new_tokens=self._new_tokens + tokens,
                seconds=0.0 if self._begin is None else time.perf_counter() - self._begin,
                total_documents=self._totals[0],
                total_characters=self._totals[1],
            )
        )

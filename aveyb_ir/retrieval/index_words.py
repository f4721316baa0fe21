"""BM25 over the documents of an index, in step with it: counts never change where documents do not, weights may."""

import logging
import math

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.errors import DataError
from aveyb_ir.index import IndexDir, Segment
from aveyb_ir.retrieval.best_hits import BestHits
from aveyb_ir.retrieval.bm25 import K1, B, checked_bm25
from aveyb_ir.retrieval.word_table import WordTable
from aveyb_ir.retrieval.words import words_of

_logger = logging.getLogger(__name__)


class IndexWords:
    """Searches one state of an index for words; any number of threads may.

    Scores are those of `Bm25.build` over the index's documents in the order of rows, to the last bit. How rare a word
    is and how long documents are on average changes with every document that comes or goes, and all weights with them;
    so it keeps none, but computes those of a query's words from counts. The counts of a segment are made when it is
    first searched, and kept beside its documents (`words.sqlite`) where the folder can be written to.

    Args:
        directory: The state to search.
        k1: As in `Bm25.build`.
        b: As in `Bm25.build`.

    Raises:
        ValueError: An impossible k1 or b.
    """

    def __init__(self, directory: IndexDir, *, k1: float = K1, b: float = B) -> None:
        k1, b = checked_bm25(k1, b)
        self.directory = directory
        self._segments = [_SegmentWords(segment) for segment in directory.segments]
        self._rows = np.concatenate([np.empty(0, np.int64), *(words.rows for words in self._segments)])
        is_live = np.concatenate([np.empty(0, np.bool_), *(words.is_live for words in self._segments)])
        lengths = np.concatenate([np.empty(0, np.int32), *(words.table.lengths for words in self._segments)])
        live_lengths = lengths[is_live]
        self._num_live = len(live_lengths)
        mean = live_lengths.mean() if live_lengths.any() else 1.0
        self._norms: NDArray[np.float64] = k1 * ((1 - b) + b * lengths / mean)

    def search(self, query: str, top_k: int, *, allowed: NDArray[np.int64] | None = None) -> list[tuple[int, float]]:
        """Find the best documents that share a word with a query.

        Args:
            query: A text.
            top_k: Hits at the most.
            allowed: Rows that may be hits, by default all; they change no score.

        Returns:
            (row, score) of each, best first; of equal scores the lower row first.
        """
        scores = self._scores(query)
        found = scores > 0
        if allowed is not None:
            found &= np.isin(self._rows, allowed)
        positions = np.flatnonzero(found)
        best = BestHits(1, top_k)
        best.add(np.zeros_like(positions), positions, scores[positions])
        of_hits, of_scores = best.of(0)
        return list(zip(self._rows[of_hits].tolist(), of_scores.tolist(), strict=True))

    def _scores(self, query: str) -> NDArray[np.float32]:
        """Lucene's BM25, which its authors give as idf * tf / (tf + k1 * (1 - b + b * length / mean length))."""
        scores = np.zeros(len(self._rows), np.float32)
        for word in words_of(query):
            first, found = 0, []
            for words in self._segments:
                documents, counts = words.live_postings(word)
                found.append((documents + first, counts))
                first += len(words.rows)
            frequency = sum(len(documents) for documents, _ in found)
            idf = np.float32(math.log(1 + (self._num_live - frequency + 0.5) / (frequency + 0.5)))
            for positions, counts in found:
                tf = counts.astype(np.float32)
                scores[positions] += (idf * (tf / (self._norms[positions] + tf))).astype(np.float32)
        return scores


class _SegmentWords:
    """The words of one segment, and which of its documents are live."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self.rows = segment.stored_rows()
        self.is_live = segment.is_live(self.rows)
        self._all_live = bool(self.is_live.all())
        self.table = _kept(segment)

    def live_postings(self, word: str) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Give positions in `rows` of the live documents with a word, and how often it comes in each."""
        try:
            documents, counts = self.table.postings(word)
        except DataError as error:
            self.table = _counted_again(self._segment, error)
            documents, counts = self.table.postings(word)
        if self._all_live:
            return documents, counts
        live = self.is_live[documents]
        return documents[live], counts[live]


def _kept(segment: Segment) -> WordTable:
    path = segment.folder / "words.sqlite"
    try:
        table = WordTable.open(path, _source(segment))
    except FileNotFoundError:
        return _counted(segment)
    except (DataError, OSError) as error:
        return _counted_again(segment, error)
    if len(table) != segment.info.documents:
        return _counted_again(segment, f"{path} counts {len(table)} documents, expected {segment.info.documents}")
    return table


def _counted_again(segment: Segment, reason: object) -> WordTable:
    _logger.warning("%s; the words are counted again", reason)
    return _counted(segment)


def _counted(segment: Segment) -> WordTable:
    path = segment.folder / "words.sqlite"
    _logger.info("Counting the words of %d documents, once, for %s", segment.info.documents, path)
    table = WordTable.count((document.full_text for document in segment.stored_documents()), _source(segment))
    try:
        table.save(path)
    except OSError as error:
        if segment.folder.exists():  # else a writer has replaced the segment, and what is kept of it is no one's gain
            _logger.warning("The words of %s are not kept and will be counted again: %s", segment.folder, error)
    return table


def _source(segment: Segment) -> str:
    return segment.info.files["documents.sqlite"].sha256

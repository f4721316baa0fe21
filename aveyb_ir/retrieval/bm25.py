"""BM25 over the same documents and queries as a dense model: the line that a model has to beat."""

from array import array
from collections.abc import Collection, Iterable, Mapping
from numbers import Real
from typing import Any

import bm25s
import numpy as np
from bm25s.tokenization import Tokenizer

from aveyb_ir.data import Document, Run
from aveyb_ir.errors import DataError
from aveyb_ir.retrieval.best_hits import BestHits
from aveyb_ir.retrieval.words import new_tokenizer

K1, B = 0.9, 0.4
"""How BM25 counts unless told otherwise; Anserini's defaults."""
_MAX_K1 = 1000.0  # words count as often as they come long before that, and float32 still tells scores apart


def checked_bm25(k1: object, b: object) -> tuple[float, float]:
    """The parameters of BM25. Raises ValueError for a k1 that is no number from 0 or a b that is not within 0 to 1."""
    checked = []
    for name, value, most, expected in (("k1", k1, _MAX_K1, f"0 to {_MAX_K1:g}"), ("b", b, 1.0, "0 to 1")):
        if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) <= most:
            raise ValueError(f"{name} is {value!r}, expected a number from {expected}: usual are k1 {K1} and b {B}")
        checked.append(float(value))
    return checked[0], checked[1]


class Bm25:
    """A corpus to be searched for words, by BM25 as Lucene counts it (bm25s), made by `Bm25.build`.

    Words are lower-cased runs of letters and digits, without scikit-learn's English stop words and not stemmed. Memory
    holds the ids of documents and a weight for each different word of each document; texts are not kept.
    """

    def __init__(self, index: bm25s.BM25, tokenizer: Tokenizer, ids: list[str]) -> None:
        self._index = index
        self._tokenizer = tokenizer
        self._ids = ids

    @classmethod
    def build(cls, documents: Iterable[Document], *, k1: float = K1, b: float = B) -> "Bm25":
        """Count the words of documents, title and text, as an encoder is given them.

        Args:
            documents: Any iterable, read once.
            k1: How slowly a word that comes again stops counting, from 0.
            b: How much a long document is held against it, 0 to 1.

        Raises:
            DataError: There are no documents, or none has a word.
            ValueError: An impossible k1 or b.
        """
        k1, b = checked_bm25(k1, b)
        tokenizer = new_tokenizer()
        ids: list[str] = []
        words: list[array[int]] = []
        for document in documents:
            ids.append(document.id)
            (found,) = tokenizer.streaming_tokenize([document.full_text], allow_empty=False)
            words.append(array("i", found))
        if not tokenizer.word_to_id:
            raise DataError(
                f"{len(ids)} documents without any word; expected some text to search for words; check the corpus"
            )
        index = bm25s.BM25(k1=k1, b=b, method="lucene")
        index.index((words, tokenizer.word_to_id), create_empty_token=False, show_progress=False)
        return cls(index, tokenizer, ids)

    @property
    def settings(self) -> dict[str, Any]:
        """What decides the scores."""
        return {
            "k1": self._index.k1,
            "b": self._index.b,
            "method": self._index.method,
            "stop_words": "English, of scikit-learn",
            "stemmer": None,
        }

    def __len__(self) -> int:
        """How many documents there are."""
        return len(self._ids)

    def search(self, queries: Mapping[str, str], *, top_k: int, without_own: Collection[str] = ()) -> Run:
        """Find the best documents that share a word with each query; of equal scores the earlier document comes first.

        Args:
            queries: Texts by query id.
            top_k: Hits per query; fewer where fewer documents share a word.
            without_own: Ids of queries whose own document, the one with the query's id, is no hit.

        Raises:
            ValueError: `top_k` is below 1.
        """
        if top_k < 1:
            raise ValueError(f"top_k is {top_k}; expected at least 1; raise it")
        own = set(without_own)
        own_position = {id: position for position, id in enumerate(self._ids) if id in own}
        run: Run = {}
        for id, text in queries.items():
            scores = self._scores(text)
            if id in own_position:
                scores[own_position[id]] = 0
            positions = np.flatnonzero(scores)
            best = BestHits(1, top_k)
            best.add(np.zeros_like(positions), positions, scores[positions])
            found, of_found = best.of(0)
            run[id] = {
                self._ids[position]: score for position, score in zip(found.tolist(), of_found.tolist(), strict=True)
            }
        return run

    def _scores(self, query: str) -> np.ndarray[Any, np.dtype[np.float32]]:
        (words,) = self._tokenizer.streaming_tokenize([query], update_vocab="never", allow_empty=False)
        scores: np.ndarray[Any, np.dtype[np.float32]] = self._index.get_scores_from_ids(words)
        return scores

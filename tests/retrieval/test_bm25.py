"""BM25 against its formula."""

import math
import re
from collections import Counter

import pytest

from aveyb_ir.data import Document
from aveyb_ir.errors import DataError
from aveyb_ir.retrieval import Bm25

DOCUMENTS = [
    Document("1", "Penicillin stops bacteria; penicillin, discovered in 1928.", title="Penicillin"),
    Document("2", "Bacteria swim in rivers and in the sea."),
    Document("empty", ""),
    Document("stop", "the of and"),
    Document("copy", "Bacteria swim in rivers and in the sea."),
    Document("café", "A small CAFÉ near the river."),
]
WORDS = [
    ["penicillin", "penicillin", "stops", "bacteria", "discovered", "1928"],
    ["bacteria", "swim", "rivers", "sea"],
    [],
    [],
    ["bacteria", "swim", "rivers", "sea"],
    ["small", "café", "near", "river"],
]
WORDS[0].insert(0, "penicillin")


def bm25(query, k1, b):
    """Lucene's: idf = ln(1 + (N - df + 0.5) / (df + 0.5)), term part tf / (tf + k1 (1 - b + b |d| / mean |d|))."""
    mean = sum(map(len, WORDS)) / len(WORDS)
    scores = {}
    for document, words in zip(DOCUMENTS, WORDS, strict=True):
        counts, score = Counter(words), 0.0
        for word in query:
            df = sum(word in other for other in WORDS)
            if counts[word]:
                idf = math.log(1 + (len(WORDS) - df + 0.5) / (df + 0.5))
                score += idf * counts[word] / (counts[word] + k1 * (1 - b + b * len(words) / mean))
        if score:
            scores[document.id] = score
    return scores


@pytest.mark.parametrize(("k1", "b"), [(0.9, 0.4), (1.5, 0.75)])
@pytest.mark.parametrize("query", ["Penicillin and BACTERIA", "rivers, rivers?", "the café near a sea", "1928"])
def test_scores_are_those_of_the_formula(query, k1, b):
    found = Bm25.build(DOCUMENTS, k1=k1, b=b).search({"q": query}, top_k=10)["q"]
    words = [word for word in re.findall(r"\w+", query.lower()) if word not in ("and", "the", "a")]
    assert found == pytest.approx(bm25(words, k1, b), rel=1e-5)
    assert list(found.values()) == sorted(found.values(), reverse=True)


@pytest.mark.parametrize(
    ("k1", "b", "message"),
    [
        (-0.1, 0.4, "k1 is -0.1, expected a number from 0"),
        (math.inf, 0.4, "k1 is inf"),
        (math.nan, 0.4, "k1 is nan"),
        (True, 0.4, "k1 is True"),
        ("1", 0.4, "k1 is '1'"),
        (0.9, 1.1, "b is 1.1, expected a number from 0 to 1"),
        (0.9, None, "b is None"),
    ],
)
def test_impossible_parameters_are_refused(k1, b, message):
    with pytest.raises(ValueError, match=message):
        Bm25.build(DOCUMENTS, k1=k1, b=b)


def test_of_equal_documents_the_earlier_comes_first_and_stays():
    index = Bm25.build(DOCUMENTS)
    assert list(index.search({"q": "swim"}, top_k=10)["q"]) == ["2", "copy"]
    assert list(index.search({"q": "swim"}, top_k=1)["q"]) == ["2"]


def test_a_query_without_known_words_finds_nothing():
    assert Bm25.build(DOCUMENTS).search({"a": "kites", "b": "", "c": "the"}, top_k=3) == {"a": {}, "b": {}, "c": {}}


def test_own_documents_give_their_place_to_others():
    index = Bm25.build(iter(DOCUMENTS))
    assert len(index) == 6
    run = index.search({"2": "swim", "copy": "swim", "new": "swim"}, top_k=1, without_own=["2", "new"])
    assert {id: list(hits) for id, hits in run.items()} == {"2": ["copy"], "copy": ["2"], "new": ["2"]}


def test_nothing_to_search_is_an_error():
    with pytest.raises(DataError, match="0 documents without any word"):
        Bm25.build([])
    with pytest.raises(DataError, match="1 documents without any word"):
        Bm25.build([Document("1", "the")])
    with pytest.raises(ValueError, match="top_k is 0"):
        Bm25.build(DOCUMENTS).search({}, top_k=0)

"""What a word is: lower-cased runs of letters and digits, without scikit-learn's English stop words, not stemmed."""

import hashlib

from bm25s.tokenization import Tokenizer
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

_WORDS = r"\b\w+\b"
_STOP_WORDS = sorted(ENGLISH_STOP_WORDS)
WORD_RULE = f"{_WORDS} without {hashlib.blake2b(' '.join(_STOP_WORDS).encode('utf-8'), digest_size=8).hexdigest()}"
"""Another text where the same document would have other words."""


def new_tokenizer() -> Tokenizer:
    """Make what takes texts apart and numbers the words that it meets."""
    return Tokenizer(splitter=_WORDS, stopwords=_STOP_WORDS)


def words_of(text: str) -> list[str]:
    """The words of a text, in their order."""
    tokenizer = new_tokenizer()
    (numbers,) = tokenizer.streaming_tokenize([text], allow_empty=False)
    words = list(tokenizer.word_to_id)
    return [words[number] for number in numbers]

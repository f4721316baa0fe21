"""Documents of a wanted number of tokens, made of real sentences around a needle at a wanted depth."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from aveyb_ir.data import Document
from aveyb_ir.encoding import Encoder
from aveyb_ir.encoding.token_counts import token_counts

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'“‘(]?[A-Z0-9])|\n+")
_MOST_WORDS = 40  # of what counts as a sentence, where a text has no full stops


@dataclass(frozen=True)
class Haystack:
    """A document with a needle in it.

    Attributes:
        text: The document.
        span: (start, end) characters of the needle.
        num_tokens: Of the document as the encoder reads it, before any cut.
    """

    text: str
    span: tuple[int, int]
    num_tokens: int


def split_sentences(documents: Iterable[Document], *, without: Iterable[str] = ()) -> list[str]:
    """Cut texts into sentences, and what is longer than 40 words into pieces of them.

    Args:
        documents: Filler.
        without: Texts that are left out, compared without regard to white space.
    """
    unwanted = {" ".join(text.split()) for text in without}
    pieces: list[str] = []
    for document in documents:
        if " ".join(document.full_text.split()) in unwanted:
            continue
        for sentence in _SENTENCE_END.split(document.text):
            words = sentence.split()
            pieces += [" ".join(words[first : first + _MOST_WORDS]) for first in range(0, len(words), _MOST_WORDS)]
    return pieces


class HaystackMaker:
    """Makes haystacks by the token counts of one encoder.

    Args:
        encoder: Its tokenizer, prompt and special tokens count.
        sentences: Filler, in order; a haystack longer than all of it begins again at its start.

    Raises:
        ValueError: No sentences, or an encoder that takes no token ids.
    """

    def __init__(self, encoder: Encoder, sentences: list[str]) -> None:
        if not sentences:
            raise ValueError("the filler has no sentences; expected a corpus with text: check --corpus")
        self._encoder = encoder
        self._sentences = sentences
        self._around = int(token_counts(encoder, [""])[0])
        # With a word before it, as inside a document: byte-pair tokens hold the space before a word.
        after_word, word = (
            token_counts(encoder, [f"a {sentence}" for sentence in sentences]),
            token_counts(encoder, ["a"]),
        )
        self._tokens = np.maximum(1, after_word - word)

    def make(self, needle: str, length: int, depth: float, *, start: int) -> Haystack:
        """Put a needle between two sentences at `depth` (0 to 1) of a document of at most `length` tokens.

        A document is short of `length` by less than two sentences. The same `start` gives the same filler at every
        depth.

        Raises:
            ValueError: The needle alone is longer, or a depth outside 0 to 1.
        """
        if not 0 <= depth <= 1:
            raise ValueError(f"depth is {depth}; expected 0 (before the first sentence) to 1 (after the last)")
        room = length - self._around - self._of(needle)
        if room < 0:
            raise ValueError(
                f"length is {length} tokens, but a needle takes {length - room}; expected longer documents, or shorter "
                f"needles than {needle[:60]!r}"
            )
        filler, ends = self._filler(room, start)
        while True:
            found = self._joined(filler, ends, needle, depth)
            if found.num_tokens <= length or not filler:
                return found
            filler, ends = filler[:-1], ends[:-1]

    def _of(self, text: str) -> int:
        return int(token_counts(self._encoder, [text])[0]) - self._around

    def _filler(self, room: int, start: int) -> tuple[list[str], list[int]]:
        """Sentences from a place on that fit into so many tokens, and the tokens up to the end of each."""
        total = int(self._tokens.sum())
        order = np.roll(np.arange(len(self._sentences)), -(start % len(self._sentences)))
        ends = np.cumsum(np.tile(self._tokens[order], room // total + 1))
        num = int(np.searchsorted(ends, room, side="right"))
        return [self._sentences[order[i % len(order)]] for i in range(num)], ends[:num].tolist()

    def _joined(self, filler: list[str], ends: list[int], needle: str, depth: float) -> Haystack:
        borders = np.array([0, *ends])
        place = int(np.abs(borders - depth * borders[-1]).argmin())
        before = " ".join(filler[:place])
        first = len(before) + bool(before)
        text = " ".join([*filler[:place], needle, *filler[place:]])
        return Haystack(text, (first, first + len(needle)), int(token_counts(self._encoder, [text])[0]))

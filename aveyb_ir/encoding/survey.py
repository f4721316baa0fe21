"""The tokens of a corpus and what a limit would cut of them: counted where it is small, estimated where it is not."""

import json
import math
import random
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.data import Document
from aveyb_ir.encoding.encoder import Encoder
from aveyb_ir.encoding.token_counts import token_counts

_NORMAL_95 = 1.96


@dataclass(frozen=True)
class Estimate:
    """A number and the range it lies in; all three are equal where it was counted."""

    value: float
    low: float
    high: float

    @classmethod
    def counted(cls, value: float) -> "Estimate":
        """A number that is known."""
        return cls(float(value), float(value), float(value))


@dataclass(frozen=True)
class CorpusSurvey:
    """A corpus as an encoder would read it.

    Attributes:
        num_documents: Counted.
        num_characters: Of all texts, counted.
        stored_bytes: UTF-8 bytes of all ids, titles, texts and metadata, counted.
        id_bytes: UTF-8 bytes of all ids, counted.
        texts: The sampled texts; all of them, in order, where the corpus is no larger than the sample.
        full_lengths: (texts,) tokens of each before any cut.
        lengths: (texts,) tokens that the encoder uses of each.
        longest: The text with the most characters, sampled or not.
        longest_tokens: Its tokens before any cut, or those of the longest sampled text where these are more.
    """

    num_documents: int
    num_characters: int
    stored_bytes: int
    id_bytes: int
    texts: list[str]
    full_lengths: NDArray[np.int64]
    lengths: NDArray[np.int64]
    longest: str
    longest_tokens: int

    @property
    def is_complete(self) -> bool:
        """Whether every text was tokenized."""
        return len(self.texts) == self.num_documents

    @property
    def weight(self) -> float:
        """How many sampled texts a sampled text stands for, by characters."""
        sampled = sum(map(len, self.texts))
        return self.num_characters / sampled if sampled else 1.0

    def total(self, values: NDArray[np.generic]) -> Estimate:
        """Sum a quantity over the whole corpus from its values for the sampled texts, (texts,).

        A ratio estimate: characters are known of all texts, so only what a text has more or less of the quantity than
        its characters say is left to chance. The range is the 95 % interval of the normal approximation (Cochran 1977,
        section 6.4).
        """
        numbers = values.astype(np.float64)
        if self.is_complete:
            return Estimate.counted(numbers.sum())
        sampled, spread = float(numbers.sum()), self._spread(numbers)
        value = self.weight * sampled
        return Estimate(value, max(sampled, value - spread), value + spread)

    def _spread(self, values: NDArray[np.float64]) -> float:
        """Half the width of the interval."""
        characters = np.array([len(text) for text in self.texts], dtype=np.float64)
        sampled = len(values)
        if sampled < 2:
            return math.inf
        residuals = values - characters * (values.sum() / max(1.0, characters.sum()))
        variance = (1 - sampled / self.num_documents) * float(residuals @ residuals) / (sampled - 1) / sampled
        return _NORMAL_95 * self.num_documents * math.sqrt(variance)


def survey_corpus(
    encoder: Encoder, documents: Iterable[Document], *, sample: int = 5000, seed: int = 0
) -> CorpusSurvey:
    """Read a corpus once and tokenize all of it, or a random sample; memory holds the sample.

    Args:
        encoder: Gives tokenizer, prompt and length limit.
        documents: Any iterable.
        sample: Texts that are tokenized at the most.
        seed: Fixes the sample.

    Raises:
        ValueError: A sample below 1, or an encoder that takes no token ids.
    """
    if sample < 1:
        raise ValueError(f"sample is {sample}; expected at least 1 text.")
    generator = random.Random(seed)
    texts: list[str] = []
    longest, num_documents, num_characters, stored_bytes, id_bytes = "", 0, 0, 0, 0
    for document in documents:
        text = document.full_text
        place = num_documents if num_documents < sample else generator.randrange(num_documents + 1)
        if place < sample:
            texts[place : place + 1] = [text]
        longest = max(longest, text, key=len)
        num_documents += 1
        num_characters += len(text)
        stored_bytes += _stored_bytes(document)
        id_bytes += len(document.id.encode("utf-8", "surrogatepass"))
    counts = token_counts(encoder, [*texts, longest])
    full_lengths = counts[:-1]
    limit = encoder.max_length
    lengths = full_lengths if limit is None else np.minimum(full_lengths, limit)
    return CorpusSurvey(
        num_documents, num_characters, stored_bytes, id_bytes, texts, full_lengths, lengths, longest, int(counts.max())
    )


def _stored_bytes(document: Document) -> int:
    metadata = json.dumps(dict(document.metadata), ensure_ascii=False) if document.metadata else "{}"
    return sum(
        len(text.encode("utf-8", "surrogatepass")) for text in (document.id, document.title, document.text, metadata)
    )

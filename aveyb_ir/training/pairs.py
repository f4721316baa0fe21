"""What is trained on: anchors with one positive each, over tables of distinct texts.

Texts are compared as they were read, before a tokenizer may cut them. A document that is a known positive of an anchor,
in whichever row, is never a negative for that anchor.
"""

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from aveyb_ir.data import TrainingRow
from aveyb_ir.errors import DataError
from aveyb_ir.training.mixing import Mixture


@dataclass(frozen=True, slots=True)
class Pair:
    """One anchor, one of its positives and its explicit negatives, as positions in the tables of a `TrainingSet`."""

    anchor: int
    positive: int
    negatives: tuple[int, ...] = ()


@dataclass(frozen=True)
class RowSource:
    """Rows of one data set, and how they are used.

    Attributes:
        rows: as read.
        name: names the data set in messages.
        max_negatives: explicit negatives used of a row, the first; None: all.
        query_prompt: put before its anchors; None: the model's own.
        document_prompt: put before its documents; None: the model's own.
    """

    rows: Sequence[TrainingRow]
    name: str = "training rows"
    max_negatives: int | None = None
    query_prompt: str | None = None
    document_prompt: str | None = None


@dataclass(frozen=True)
class TrainingSet:
    """Every distinct anchor and document once, and the pairs that refer to them.

    A text under two prompts is two entries of a table, but the same text: `positives[a]` holds the documents whose
    texts any row calls a positive of anchor `a`, whatever the prompts.

    Attributes:
        anchors: texts.
        documents: texts.
        pairs: of all data sets, those of the first first.
        positives: of each anchor.
        anchor_prompts: the prompt of each anchor; None: the model's.
        document_prompts: the same for documents.
        mixture: how the data sets share an epoch.
    """

    anchors: tuple[str, ...]
    documents: tuple[str, ...]
    pairs: tuple[Pair, ...]
    positives: tuple[frozenset[int], ...]
    anchor_prompts: tuple[str | None, ...]
    document_prompts: tuple[str | None, ...]
    mixture: Mixture

    @classmethod
    def from_rows(
        cls, rows: Sequence[TrainingRow], *, source: str = "training rows", max_negatives: int | None = None
    ) -> "TrainingSet":
        """Make a training set of one data set; see `from_sources`."""
        return cls.from_sources([RowSource(rows, source, max_negatives)])

    @classmethod
    def from_sources(
        cls,
        sources: Sequence[RowSource],
        *,
        mixing: Literal["proportional", "round_robin", "weighted"] = "proportional",
        weights: Sequence[float] = (),
        single: bool = False,
    ) -> "TrainingSet":
        """Make one pair of every positive of every row; the keywords are those of `Mixture`.

        A row with fewer than `max_negatives` explicit negatives trains with the fewer; of a row with more, the first
        are used. Explicit negatives that are a positive of the same anchor elsewhere are left out.

        Raises:
            DataError: a source without rows, or an anchor for which no document of the whole set could be a negative;
                names the source and the line.
        """
        for source in sources:
            if not source.rows:
                raise DataError(
                    f"{source.name}: got no rows, expected at least 2 pairs; check that the file is the right one"
                )
        anchors, documents = _Table(), _Table()
        texts = _texts_of_positives(sources)
        pairs: list[Pair] = []
        sizes: list[int] = []
        for source in sources:
            for row in source.rows:
                documents.add(row.positives, source.document_prompt)
        for source in sources:
            before = len(pairs)
            for row in source.rows:
                (anchor,) = anchors.add([row.anchor], source.query_prompt)
                usable = [text for text in row.negatives if text not in texts[row.anchor]]
                negatives = tuple(documents.add(usable[: source.max_negatives], source.document_prompt))
                pairs += [
                    Pair(anchor, positive, negatives)
                    for positive in documents.add(row.positives, source.document_prompt)
                ]
            sizes.append(len(pairs) - before)
        known = tuple(
            frozenset(entry for text in texts[anchor] for entry in documents.entries_of[text])
            for anchor in anchors.texts
        )
        _check_negatives(sources, texts, len(documents.entries_of))
        return cls(
            anchors.texts,
            documents.texts,
            tuple(pairs),
            known,
            anchors.prompts,
            documents.prompts,
            Mixture(tuple(sizes), mixing, tuple(weights), single),
        )

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def num_negatives(self) -> int:
        """Explicit negatives of all pairs together."""
        return sum(len(pair.negatives) for pair in self.pairs)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of texts and pairs: equal for equal training data, whatever file it came from."""
        digest = hashlib.sha256()
        for table in (self.anchors, self.documents):
            for text in table:
                data = text.encode("utf-8", "surrogatepass")
                digest.update(len(data).to_bytes(8, "little") + data)
        for pair in self.pairs:
            digest.update(repr((pair.anchor, pair.positive, pair.negatives)).encode())
        if len(self.mixture.sizes) > 1 or any(map(bool, (*self.anchor_prompts, *self.document_prompts))):
            digest.update(repr((self.mixture, self.anchor_prompts, self.document_prompts)).encode())
        return digest.hexdigest()

    def spare_negative(self, pair: Pair) -> int:
        """A document that is not a positive of the pair's anchor: the first one in the table after its positive."""
        known = self.positives[pair.anchor]
        total = len(self.documents)
        return next(i % total for i in range(pair.positive + 1, pair.positive + total) if i % total not in known)


class _Table:
    """Numbers texts under their prompts in the order in which they are first met."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str | None], int] = {}
        self.entries_of: defaultdict[str, list[int]] = defaultdict(list)

    def add(self, texts: Sequence[str], prompt: str | None) -> list[int]:
        """The entries of these texts, each once; new ones are made as needed."""
        for text in texts:
            if (text, prompt) not in self._numbers:
                self.entries_of[text].append(len(self._numbers))
                self._numbers[text, prompt] = len(self._numbers)
        return [self._numbers[text, prompt] for text in dict.fromkeys(texts)]

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(text for text, _ in self._numbers)

    @property
    def prompts(self) -> tuple[str | None, ...]:
        return tuple(prompt for _, prompt in self._numbers)


def _texts_of_positives(sources: Sequence[RowSource]) -> Mapping[str, set[str]]:
    """What any row calls a positive of an anchor, by its text."""
    positives: defaultdict[str, set[str]] = defaultdict(set)
    for source in sources:
        for row in source.rows:
            positives[row.anchor].update(row.positives)
    return positives


def _check_negatives(sources: Sequence[RowSource], positives: Mapping[str, set[str]], num_texts: int) -> None:
    """Refuse an anchor that every document answers: each positive is a document, so equal counts leave no negative."""
    for source in sources:
        for row in source.rows:
            if len(positives[row.anchor]) == num_texts:
                raise DataError(
                    f"{source.name} line {row.line}: got no negative for {row.anchor[:60]!r}, whose positives are all "
                    f"{num_texts} documents of the set, expected at least one other document; "
                    "add rows with other anchors or explicit negatives"
                )

"""What is trained on: anchors with one positive each, over tables of distinct texts.

Texts are compared as they were read, before a tokenizer may cut them. A document that is a known positive of an anchor,
in whichever row, is never a negative for that anchor. Texts are on disk; what memory holds does not grow with their
length.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from aveyb_ir.data import DiskTexts, TextTable, TrainingRow, report_dropped
from aveyb_ir.data.disk_rows import as_bytes
from aveyb_ir.errors import DataError
from aveyb_ir.training.mixing import Mixture
from aveyb_ir.training.pair_rows import KnownPositives, NumberedRows
from aveyb_ir.training.prompted_texts import PromptedTexts
from aveyb_ir.training.ragged import Numbers, Ragged


@dataclass(frozen=True, slots=True)
class Pair:
    """One anchor, one of its positives and its explicit negatives, as positions in the tables of a `TrainingSet`."""

    anchor: int
    positive: int
    negatives: tuple[int, ...] = ()


@dataclass(frozen=True)
class Pairs:
    """All pairs of a training set, in arrays; `pairs[i]` is a `Pair`.

    Attributes:
        anchors: of each pair, int32.
        positives: of each pair, int32.
        rows: the row that each pair is of, int32.
        negatives: of each row.
    """

    anchors: Numbers
    positives: Numbers
    rows: Numbers
    negatives: Ragged

    def __len__(self) -> int:
        return len(self.anchors)

    def __getitem__(self, pair: int) -> Pair:
        negatives = self.negatives[self.rows[pair]]
        return Pair(int(self.anchors[pair]), int(self.positives[pair]), tuple(negatives.tolist()))

    def __iter__(self) -> Iterator[Pair]:
        return (self[pair] for pair in range(len(self)))


@dataclass(frozen=True)
class Positives:
    """The documents whose texts any row calls a positive of an anchor, whatever the prompts.

    Attributes:
        of_texts: documents, for each text of an anchor.
        anchors: what is asked for.
    """

    of_texts: Ragged
    anchors: PromptedTexts

    def __len__(self) -> int:
        return len(self.anchors)

    def __getitem__(self, anchor: int) -> frozenset[int]:
        return frozenset(self.of_texts[self.anchors.number(anchor)].tolist())

    def __iter__(self) -> Iterator[frozenset[int]]:
        return (self[anchor] for anchor in range(len(self)))


@dataclass(frozen=True)
class RowSource:
    """Rows of one data set, and how they are used.

    Attributes:
        rows: as read; a stream is read once.
        name: names the data set in messages.
        max_negatives: explicit negatives used of a row, the first; None: all.
        query_prompt: put before its anchors; None: the model's own.
        document_prompt: put before its documents; None: the model's own.
    """

    rows: Iterable[TrainingRow]
    name: str = "training rows"
    max_negatives: int | None = None
    query_prompt: str | None = None
    document_prompt: str | None = None


@dataclass(frozen=True)
class TrainingSet:
    """Every distinct anchor and document once, and the pairs that refer to them.

    A text under two prompts is two entries of a table, but the same text.

    Attributes:
        anchors: texts, with their prompts; a prompt of None is the model's.
        documents: likewise.
        pairs: of all data sets, those of the first first.
        positives: `positives[a]` holds the positives of anchor `a`.
        mixture: how the data sets share an epoch.
        folder: on whose disk the texts are; None: the folder for temporary files.
    """

    anchors: PromptedTexts
    documents: PromptedTexts
    pairs: Pairs
    positives: Positives
    mixture: Mixture
    folder: Path | None = None

    @classmethod
    def from_rows(
        cls, rows: Iterable[TrainingRow], *, source: str = "training rows", max_negatives: int | None = None
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
        folder: Path | None = None,
    ) -> "TrainingSet":
        """Make one pair of every positive of every row; the other keywords are those of `Mixture`.

        A row with fewer than `max_negatives` explicit negatives trains with the fewer; of a row with more, the first
        are used. Explicit negatives that are a positive of the same anchor elsewhere are left out, with a warning.

        Raises:
            DataError: a source without rows, or an anchor for which no document of the whole set could be a negative;
                names the source and the line.
        """
        anchor_texts, document_texts = TextTable(folder), TextTable(folder)
        sets = [_read(source, anchor_texts, document_texts) for source in sources]
        known = KnownPositives(sets, len(document_texts.texts))
        anchors = PromptedTexts(anchor_texts.texts, [source.query_prompt for source in sources])
        documents = PromptedTexts(document_texts.texts, [source.document_prompt for source in sources])
        positives = [
            documents.add(rows.positives.values, source.document_prompt)
            for source, rows in zip(sources, sets, strict=True)
        ]
        of_anchors, negatives = [], []
        for source, rows in zip(sources, sets, strict=True):
            of_anchors.append(anchors.add(rows.anchors, source.query_prompt).repeat(rows.positives.counts))
            negatives.append(_negatives(source, rows, known, documents))
        answers = known.by_anchor(len(anchor_texts.texts))
        _check_negatives(sources, sets, answers, documents.num_texts, anchor_texts.texts)
        owners = Ragged.joined([rows.positives for rows in sets]).owners()
        pairs = Pairs(np.concatenate(of_anchors), np.concatenate(positives), owners, Ragged.joined(negatives))
        mixture = Mixture(tuple(map(len, positives)), mixing, tuple(weights), single)
        return cls(anchors, documents, pairs, Positives(documents.entries(answers), anchors), mixture, folder)

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def num_negatives(self) -> int:
        """Explicit negatives of all pairs together."""
        return int(self.pairs.negatives.counts[self.pairs.rows].sum())

    @property
    def fingerprint(self) -> str:
        """SHA-256 of texts and pairs: equal for equal training data, whatever file it came from."""
        digest = hashlib.sha256()
        for table in (self.anchors, self.documents):
            for text in table:
                data = as_bytes(text)
                digest.update(len(data).to_bytes(8, "little") + data)
        for pair in self.pairs:
            digest.update(repr((pair.anchor, pair.positive, pair.negatives)).encode())
        prompts = tuple(self.anchors.prompts), tuple(self.documents.prompts)
        if len(self.mixture.sizes) > 1 or any(map(any, prompts)):
            digest.update(repr((self.mixture, *prompts)).encode())
        return digest.hexdigest()

    def spare_negative(self, pair: Pair) -> int:
        """A document that is not a positive of the pair's anchor: the first one in the table after its positive."""
        known = self.positives[pair.anchor]
        total = len(self.documents)
        return next(i % total for i in range(pair.positive + 1, pair.positive + total) if i % total not in known)


def _read(source: RowSource, anchors: TextTable, documents: TextTable) -> NumberedRows:
    rows = NumberedRows.read(source.rows, anchors, documents)
    if not len(rows):
        raise DataError(f"{source.name}: got no rows, expected at least 2 pairs; check that the file is the right one")
    return rows


def _negatives(source: RowSource, rows: NumberedRows, known: KnownPositives, documents: PromptedTexts) -> Ragged:
    usable, lines = known.usable_negatives(rows, source.max_negatives)
    report_dropped(source.name, lines.tolist())
    return Ragged(usable.bounds, documents.add(usable.values, source.document_prompt))


def _check_negatives(
    sources: Sequence[RowSource],
    sets: Sequence[NumberedRows],
    answers: Ragged,
    num_texts: int,
    anchor_texts: DiskTexts,
) -> None:
    """Refuse an anchor that every document answers: each positive is a document, so equal counts leave no negative."""
    answered_by_all = answers.counts == num_texts
    for source, rows in zip(sources, sets, strict=True):
        for row in np.flatnonzero(answered_by_all[rows.anchors])[:1]:
            raise DataError(
                f"{source.name} line {rows.lines[row]}: got no negative for {anchor_texts[rows.anchors[row]][:60]!r}, "
                f"whose positives are all {num_texts} documents of the set, expected at least one other document; "
                "add rows with other anchors or explicit negatives"
            )

"""What is trained on: anchors with one positive each, over tables of distinct texts.

Texts are compared as they were read, before a tokenizer may cut them. A document that is a known positive of an anchor,
in whichever row, is never a negative for that anchor.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from aveyb_ir.data import TrainingRow
from aveyb_ir.errors import DataError


@dataclass(frozen=True, slots=True)
class Pair:
    """One anchor, one of its positives and its explicit negatives, as positions in the tables of a `TrainingSet`."""

    anchor: int
    positive: int
    negatives: tuple[int, ...] = ()


@dataclass(frozen=True)
class TrainingSet:
    """Every distinct anchor and document once, and the pairs that refer to them.

    `positives[a]` holds the documents that any row calls a positive of anchor `a`.
    """

    anchors: tuple[str, ...]
    documents: tuple[str, ...]
    pairs: tuple[Pair, ...]
    positives: tuple[frozenset[int], ...]

    @classmethod
    def from_rows(
        cls, rows: Sequence[TrainingRow], *, source: str = "training rows", max_negatives: int | None = None
    ) -> "TrainingSet":
        """Make one pair of every positive of every row.

        A row with fewer than `max_negatives` explicit negatives trains with the fewer; of a row with more, the first
        are used. Explicit negatives that are a positive of the same anchor elsewhere are left out.

        Raises:
            DataError: no rows, or an anchor for which no document of the whole set could be a negative; names `source`
                and the line.
        """
        if not rows:
            raise DataError(f"{source}: got no rows, expected at least 2 pairs; check that the file is the right one")
        anchor_ids: dict[str, int] = {}
        document_ids: dict[str, int] = {}
        positives: defaultdict[int, set[int]] = defaultdict(set)
        for row in rows:
            anchor = anchor_ids.setdefault(row.anchor, len(anchor_ids))
            positives[anchor].update(_numbered(row.positives, document_ids))
        pairs: list[Pair] = []
        for row in rows:
            anchor = anchor_ids[row.anchor]
            usable = [text for text in row.negatives if document_ids.get(text) not in positives[anchor]]
            negatives = tuple(_numbered(usable[:max_negatives], document_ids))
            pairs += [Pair(anchor, positive, negatives) for positive in _numbered(row.positives, document_ids)]
        for row in rows:
            # Every positive is among the documents, so equal counts mean that no document is left to be a negative.
            if len(positives[anchor_ids[row.anchor]]) == len(document_ids):
                raise DataError(
                    f"{source} line {row.line}: got no negative for {row.anchor[:60]!r}, whose positives are all "
                    f"{len(document_ids)} documents of the set, expected at least one other document; "
                    "add rows with other anchors or explicit negatives"
                )
        known = tuple(frozenset(positives[anchor]) for anchor in range(len(anchor_ids)))
        return cls(tuple(anchor_ids), tuple(document_ids), tuple(pairs), known)

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
        return digest.hexdigest()

    def spare_negative(self, pair: Pair) -> int:
        """A document that is not a positive of the pair's anchor: the first one in the table after its positive."""
        known = self.positives[pair.anchor]
        total = len(self.documents)
        return next(i % total for i in range(pair.positive + 1, pair.positive + total) if i % total not in known)


def _numbered(texts: Iterable[str], ids: dict[str, int]) -> list[int]:
    return [ids.setdefault(text, len(ids)) for text in dict.fromkeys(texts)]

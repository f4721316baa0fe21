"""A collection as a comparison needs it: one name, one line of a table, whether it comes in one piece or in parts."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from aveyb_ir.data import Collection, Qrels, open_collections

Source = Collection | str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class ComparedData:
    """Texts and judgements of one set.

    Attributes:
        name: What evaluations call it.
        source: What the user gave, which `evaluate` takes too.
        collections: The set itself, or its parts, named `collection/part`. Ids of queries and documents of a part are
            then `part/id`, as ids of queries are in evaluations.
    """

    name: str
    source: Source
    collections: tuple[Collection, ...]

    @classmethod
    def open(cls, source: Source) -> "ComparedData":
        """Open what a user named; raises DataError as `open_collections`."""
        collections = open_collections(Path(source)) if isinstance(source, str | os.PathLike) else (source,)
        name = collections[0].name
        return cls(name if len(collections) == 1 else name.rpartition("/")[0], source, tuple(collections))

    def queries(self) -> dict[str, str]:
        """Texts of all queries by id."""
        return {prefix + id: text for prefix, part in self._parts() for id, text in part.queries().items()}

    def qrels(self, split: str) -> Qrels:
        """Judgements of a split; raises DataError if there is none of that name."""
        return {
            prefix + query_id: {prefix + id: grade for id, grade in judged.items()}
            for prefix, part in self._parts()
            for query_id, judged in part.qrels(split).items()
        }

    def documents(self) -> Iterator[tuple[str, str]]:
        """Stream ids and texts."""
        return ((prefix + document.id, document.full_text) for prefix, p in self._parts() for document in p.documents())

    def _parts(self) -> Iterator[tuple[str, Collection]]:
        for part in self.collections:
            yield f"{part.name.rpartition('/')[2]}/" if len(self.collections) > 1 else "", part

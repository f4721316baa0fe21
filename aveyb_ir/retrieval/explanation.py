"""Why a document matches a query: its parts, what flowed into them, and the tokens that met."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from aveyb_ir.data import Document
from aveyb_ir.retrieval.late_interaction import TokenMatch


@dataclass(frozen=True, slots=True)
class RetrievedChunk:
    """An earlier chunk that Avey-B's ranker brought to a chunk, to be compressed into it.

    Attributes:
        number: Of the earlier chunk.
        weight: What it is multiplied by. The weakest of those chosen has 1, the others their ranker score relative to
            its score.
    """

    number: int
    weight: float


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a document and how well it answers the query.

    Attributes:
        number: In the order of the document, from 1.
        span: Its (start, end) characters in `Document.full_text`.
        cosine: Of the query's vector and the part's: of a chunk the one from the forward pass over the whole document,
            which an index of chunks holds.
        cosine_alone: The same had the part been the whole text; what `cosine` is above it came from retrieved chunks.
        retrieved: The chunks that came to it, in the order of the model's slots.
    """

    number: int
    span: tuple[int, int]
    cosine: float
    cosine_alone: float
    retrieved: tuple[RetrievedChunk, ...] = ()


@dataclass(frozen=True)
class Explanation:
    """What a document's score for a query is made of.

    Attributes:
        query: The text searched for.
        document: What was found.
        encoder: Name of the model that compares them.
        cosine: Of the query's vector and that of the whole document. An index of documents scores by it, an index of
            chunks by `best_part.cosine`, and one of both by their weighted mean.
        parts: In the order of the document.
        unit: What the parts are: an Avey-B's own "chunk", or for other models a "passage" of as many tokens as
            `explain` says, encoded alone.
        num_read: Characters of `document.full_text` that were read; fewer than it has where a length limit cut it.
        token_matches: For each token of the query what it found in the document; None where it was not asked for.
        token_model: Name of the model whose token states these are; None without them.
        score: Of the hit; None for a document that was asked for by id.
        scores: Those that stages of the search gave it, as in `Hit`.
        ranks: Likewise.
    """

    query: str
    document: Document
    encoder: str
    cosine: float
    parts: tuple[Part, ...]
    unit: Literal["chunk", "passage"]
    num_read: int
    token_matches: tuple[TokenMatch, ...] | None
    token_model: str | None
    score: float | None
    scores: Mapping[str, float]
    ranks: Mapping[str, int]

    @property
    def best_parts(self) -> list[Part]:
        """The parts, nearest to the query first; of equal ones the earlier."""
        return sorted(self.parts, key=lambda part: -part.cosine)

    @property
    def best_part(self) -> Part | None:
        """The part nearest to the query; None for a document without a token."""
        return self.best_parts[0] if self.parts else None

    @property
    def extent(self) -> str:
        """How many parts there are, in words."""
        return f"{len(self.parts)} {self.unit}{'' if len(self.parts) == 1 else 's'}"

    @property
    def late_interaction_score(self) -> float | None:
        """Sum of the tokens' similarities: the score of `LateInteraction`. None where tokens were not asked for."""
        return None if self.token_matches is None else sum(match.similarity for match in self.token_matches)

    def text_of(self, part: Part) -> str:
        """The characters a part stands for."""
        return self.document.full_text[slice(*part.span)]

    @property
    def stretches(self) -> list[tuple[int, int]]:
        """The document in one stretch of characters for each part, which together are all that was read.

        What lies between two spans goes to the first part, and so does a character whose tokens are in two.
        """
        starts = [0, *(max(before.span[1], part.span[0]) for before, part in pairwise(self.parts))]
        return list(zip(starts, [*starts[1:], self.num_read], strict=True)) if self.parts else []

    def part_at(self, character: int) -> Part | None:
        """The part to whose stretch a character belongs; None for one that was not read."""
        pairs = zip(self.parts, self.stretches, strict=True)
        return next((part for part, (start, end) in pairs if start <= character < end), None)

    def to_json(self) -> dict[str, Any]:
        """Give all of it as JSON values; parts and tokens with their text."""
        return {
            "query": self.query,
            "id": self.document.id,
            "title": self.document.title,
            "encoder": self.encoder,
            "score": self.score,
            "scores": dict(self.scores),
            "ranks": dict(self.ranks),
            "cosine": self.cosine,
            "unit": self.unit,
            "characters": len(self.document.full_text),
            "characters_read": self.num_read,
            "parts": [self._part_json(part) for part in self.parts],
            "token_model": self.token_model,
            "late_interaction_score": self.late_interaction_score,
            "token_matches": None if self.token_matches is None else list(map(self._match_json, self.token_matches)),
        }

    def to_html(self) -> str:
        """Give all of it as one page that needs nothing else: the whole document, shaded by what matched."""
        from aveyb_ir.retrieval.explanation_page import to_html

        return to_html(self)

    def _part_json(self, part: Part) -> dict[str, Any]:
        return {
            "number": part.number,
            "span": part.span,
            "cosine": part.cosine,
            "cosine_alone": part.cosine_alone,
            "retrieved": [{"number": chunk.number, "weight": chunk.weight} for chunk in part.retrieved],
            "text": self.text_of(part),
        }

    def _match_json(self, match: TokenMatch) -> dict[str, Any]:
        found = match.document_span
        return {
            "query_span": match.query_span,
            "query_text": self.query[slice(*match.query_span)],
            "document_span": found,
            "document_text": None if found is None else self.document.full_text[slice(*found)],
            "similarity": match.similarity,
        }

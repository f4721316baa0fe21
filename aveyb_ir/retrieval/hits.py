"""What a search gives back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aveyb_ir.data import Document

if TYPE_CHECKING:
    from aveyb_ir.retrieval.explanation import Explanation


class _Bound:
    """Where a hit keeps what explains it: beside its fields, so that no copy, pickle or comparison takes it along."""

    __slots__ = ("_explainer",)


@dataclass(frozen=True, slots=True)
class Hit(_Bound):
    """A document that was found, and which part of it.

    `score` is higher for better hits. `span` holds the characters of `document.full_text` that matched, None where the
    whole document did, or where only its words were searched for. `scores` and `ranks` (from 1) tell what each stage
    that found it made of it: "dense", "bm25", "hybrid" and "reranker".
    """

    document: Document
    score: float
    span: tuple[int, int] | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    ranks: Mapping[str, int] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Id of the document."""
        return self.document.id

    @property
    def title(self) -> str:
        """Title of the document, "" without one."""
        return self.document.title

    @property
    def text(self) -> str:
        """Text of the document, without its title."""
        return self.document.text

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Whatever else the corpus said of the document."""
        return self.document.metadata

    @property
    def passage(self) -> str:
        """The part that matched: the characters of `span`, or the whole text."""
        return self.text if self.span is None else self.document.full_text[slice(*self.span)]

    def explain(self, *, tokens: bool = False) -> "Explanation":
        """Say why it matched, as `Retriever.explain` does, with the query and the retriever that found it.

        Raises:
            ValueError: It is a copy, or was made by hand, and so knows neither.
        """
        explainer: Callable[..., Explanation] | None = getattr(self, "_explainer", None)
        if explainer is None:
            raise ValueError(
                f"the hit {self.id!r} does not know what found it; expected one as a search gave it, not a copy; use "
                "Retriever.explain(query, hit)"
            )
        return explainer(self, tokens=tokens)

    def bind(self, explainer: "Callable[..., Explanation]") -> "Hit":
        """Let `explain` call this with the hit and its own arguments; gives the hit itself."""
        object.__setattr__(self, "_explainer", explainer)
        return self

    def to_json(self) -> dict[str, Any]:
        """Give id, score, title, text, metadata, span, scores and ranks as JSON values."""
        return {
            "id": self.id,
            "score": self.score,
            "title": self.title,
            "text": self.text,
            "metadata": dict(self.metadata),
            "span": self.span,
            "scores": dict(self.scores),
            "ranks": dict(self.ranks),
        }

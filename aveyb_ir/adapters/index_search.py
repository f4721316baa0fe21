"""What the retrievers for all libraries share: opening an index, and what a hit becomes."""

import os
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

from aveyb_ir.retrieval import Hit, Mode, Reranker, Retriever

IndexSource: TypeAlias = Retriever | str | os.PathLike[str]
Content: TypeAlias = Literal["document", "passage"]
"""What a hit is in another library: title and text of its document, or the part of them that matched."""


def open_retriever(
    index: IndexSource,
    *,
    mode: Mode | None,
    reranker: Reranker | str | os.PathLike[str] | None,
    options: Mapping[str, Any] | None,
) -> Retriever:
    """Give the retriever itself, or open that of a path.

    Raises:
        AveybError: As `Retriever`.
        ValueError: As `Retriever`, or settings for opening come with a Retriever, which is open.
    """
    if not isinstance(index, Retriever):
        return Retriever(index, mode="dense" if mode is None else mode, reranker=reranker, **(options or {}))
    if reranker is not None or options:
        raise ValueError(
            f"reranker is {reranker!r} and options are {options!r} beside a Retriever; expected them only with the "
            "path of an index; give them to the Retriever"
        )
    return index


def content_of(hit: Hit, content: Content) -> str:
    """Choose the text that stands for a hit.

    Raises:
        ValueError: There is no such choice.
    """
    if content not in get_args(Content):
        raise ValueError(f"content is {content!r}; expected one of {', '.join(get_args(Content))}; choose one")
    return hit.document.full_text if content == "document" else hit.passage


def metadata_of(hit: Hit) -> dict[str, Any]:
    """Join the document's metadata with its title and the characters that matched, all values ready for JSON."""
    return {**hit.metadata, "title": hit.title, "span": None if hit.span is None else list(hit.span)}

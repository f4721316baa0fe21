"""What a retriever is given, checked before anything is loaded."""

import os
from collections.abc import Mapping, Sequence
from typing import get_args

from aveyb_ir.encoding import Encoder
from aveyb_ir.index import FaissDevice
from aveyb_ir.retrieval.index import Index
from aveyb_ir.retrieval.stages import Mode


def checked_mode(mode: Mode) -> Mode:
    """Raise ValueError unless there is such a mode."""
    if mode not in get_args(Mode):
        raise ValueError(f"mode is {mode!r}; expected one of {', '.join(get_args(Mode))}; choose one")
    return mode


def refuse_unused(index: object, encoder: Encoder | str | os.PathLike[str] | None, faiss_device: FaissDevice) -> None:
    """Raise ValueError for what only the opening of an index with vectors takes."""
    where = "an Index, which is open" if isinstance(index, Index) else "mode 'bm25', which searches no vectors"
    for name, value, default in (("encoder", encoder, None), ("faiss_device", faiss_device, "cpu")):
        if value != default:
            raise ValueError(f"{name} is {value!r:.80} beside {where}; expected {default!r} there: leave it out")


def check_query_encoder(mode: Mode, query_encoder: object, allow_int8: bool) -> None:
    """Raise ValueError for a query encoder without a use, and for a permission without a query encoder."""
    if mode == "bm25" and query_encoder is not None:
        raise ValueError(
            f"query_encoder is {query_encoder!r:.80} beside mode 'bm25', which encodes no queries; expected None "
            "there: leave it out"
        )
    if allow_int8 and query_encoder is None:
        raise ValueError("allow_int8 is True without a query_encoder; expected the one that it is for: give it, too")


def checked_share(weight: float) -> float:
    """The reranker's share of a score. Raises ValueError for what is not a number within 0 to 1."""
    if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 <= weight <= 1:
        raise ValueError(f"rerank_weight is {weight!r}; expected the reranker's share of a score, from 0 to 1")
    return float(weight)


def checked_queries(queries: Sequence[str]) -> Sequence[str]:
    """Raise ValueError unless these are texts."""
    if isinstance(queries, (bytes, Mapping)) or not isinstance(queries, Sequence):
        raise ValueError(f"query is {queries!r:.80}, expected a text or a sequence of texts: give one")
    for query in queries:
        if not isinstance(query, str):
            raise ValueError(f"query is {query!r:.80}, expected a text: give one")
    return queries

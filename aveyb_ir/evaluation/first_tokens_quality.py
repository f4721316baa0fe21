"""What encoding documents whole buys: retrieval by their first tokens only, for more and more of them."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.data import Collection, Document, Run, open_collection
from aveyb_ir.encoding import Encoder, EncodingCounts, Granularity
from aveyb_ir.encoding.granularity import check_granularity
from aveyb_ir.evaluation.long_views import encode_views, views_of
from aveyb_ir.evaluation.result import Evaluation
from aveyb_ir.evaluation.runs import evaluate_run
from aveyb_ir.evaluation.significance import bootstrap_interval
from aveyb_ir.retrieval.best_hits import BestHits

LIMITS: tuple[int | None, ...] = (256, 512, 1024, 2048, 4096, 8192, None)

_METRIC = "ndcg@10"
_BLOCK_DOCUMENTS = 256
_TOP_K = 100

Interval = tuple[float, float]


@dataclass(frozen=True)
class FirstTokens:
    """One model that reads so many tokens of each document, as seen through one kind of vector.

    Attributes:
        model: As it was given.
        view: "document", or "chunk" for the best chunk of a document.
        limit: Tokens read of each document at the most; None for all that the model can read.
        ndcg_at_10: Mean over all judged queries.
        interval: 95 % bootstrap interval of that mean.
        loss: How much less it is than that of the largest limit, on the same queries.
        loss_interval: 95 % paired bootstrap interval of that difference.
        tokens_used: Encoded of all documents.
        tokens: That all documents have.
        documents_cut: That lost their end.
        seconds: To encode the documents and score them; one pass serves both views.
        per_query: NDCG@10 of each judged query.
    """

    model: str
    view: str
    limit: int | None
    ndcg_at_10: float
    interval: Interval
    loss: float
    loss_interval: Interval
    tokens_used: int
    tokens: int
    documents_cut: int
    seconds: float
    per_query: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries, lists and numbers."""
        return asdict(self)


def first_tokens(
    models: Sequence[Encoder | str | os.PathLike[str]],
    data: Collection | str | os.PathLike[str],
    *,
    split: str = "test",
    limits: Sequence[int | None] = LIMITS,
    granularity: Granularity = "both",
    device: str | None = None,
    dtype: str | None = None,
    seed: int = 0,
    say: Callable[[str], object] = lambda line: None,
) -> list[FirstTokens]:
    """Measure a collection once for each limit on the tokens read of its documents; queries are read whole.

    Every limit is an encoding of its own, as a user of it would have.

    Args:
        models: Encoders, model folders or Hub names. An Encoder gets its own length limit back.
        data: A collection, or the path or name of one.
        split: Which judgements.
        limits: Tokens, None for whole documents. Limits above a model's own are left out for that model, and said.
        granularity: As in `needle`.
        device: Where models given by name compute.
        dtype: In which precision they do.
        seed: Of the bootstrap.
        say: Called with a line for a person after each encoding.

    Returns:
        By model, view and limit, the shortest first.

    Raises:
        DataError: A broken collection, or no such split.
        ModelError: A model cannot be loaded.
        ValueError: Impossible arguments, or chunks of a model that has none.
    """
    if not models or not limits:
        raise ValueError("models or limits are empty; expected at least one of each")
    check_granularity(granularity)
    collection = open_collection(os.fspath(data)) if isinstance(data, (str, os.PathLike)) else data
    found: list[FirstTokens] = []
    for given in models:
        encoder = given if isinstance(given, Encoder) else Encoder(os.fspath(given), device=device, dtype=dtype)
        rows = _of_model(encoder, collection, split, _usable(encoder, limits, say), granularity, say)
        for view in dict.fromkeys(row.view for row in rows):
            found += _with_intervals([row for row in rows if row.view == view], seed)
    return found


def _usable(encoder: Encoder, limits: Sequence[int | None], say: Callable[[str], object]) -> list[int | None]:
    """The limits that a model can be held to, shortest first."""
    own = encoder.max_length
    numbers = sorted({limit for limit in limits if limit is not None})
    if numbers and numbers[0] < 1:
        raise ValueError(f"limit is {numbers[0]}; expected at least 1 token")
    usable: list[int | None] = [limit for limit in numbers if own is None or limit < own]
    beyond = len(numbers) - len(usable)
    if beyond:
        say(f"{encoder.name} reads at most {own:,} tokens: {beyond} limits from there on are one with whole documents")
    return [*usable, None] if beyond or None in limits else usable


def _of_model(
    encoder: Encoder,
    collection: Collection,
    split: str,
    limits: Sequence[int | None],
    granularity: Granularity,
    say: Callable[[str], object],
) -> list[FirstTokens]:
    qrels, queries = collection.qrels(split), collection.judged_queries(split)
    granularity = views_of(encoder, granularity)
    vectors = encoder.encode_queries(list(queries.values()))
    own_limit = encoder.model.max_seq_length
    rows = []
    for limit in limits:
        encoder.model.max_seq_length = own_limit if limit is None else limit
        try:
            start = time.perf_counter()
            runs, seen = _search(encoder, vectors, list(queries), collection.documents(), granularity)
            seconds = time.perf_counter() - start
        finally:
            encoder.model.max_seq_length = own_limit
        rows += [
            _row(encoder.name, view, limit, evaluate_run(qrels, run, metrics=[_METRIC]), seen, seconds)
            for view, run in runs.items()
        ]
        shown = ", ".join(f"{row.view} {row.ndcg_at_10:.4f}" for row in rows[-len(runs) :])
        read = "whole" if limit is None else f"first {limit:,} tokens"
        say(f"{encoder.name}, {read}: {shown} ({seen.tokens_used:,} tokens, {seconds:.0f} s)")
    return rows


def _row(
    model: str, view: str, limit: int | None, evaluation: Evaluation, seen: EncodingCounts, seconds: float
) -> FirstTokens:
    """What was found, still without intervals."""
    mean = evaluation.metrics[_METRIC]
    return FirstTokens(
        model=model,
        view=view,
        limit=limit,
        ndcg_at_10=mean,
        interval=(mean, mean),
        loss=0.0,
        loss_interval=(0.0, 0.0),
        tokens_used=seen.tokens_used,
        tokens=seen.tokens,
        documents_cut=seen.texts_cut,
        seconds=seconds,
        per_query={query: values[_METRIC] for query, values in evaluation.per_query.items()},
    )


def _search(
    encoder: Encoder,
    query_vectors: NDArray[np.float32],
    query_ids: list[str],
    documents: Iterable[Document],
    granularity: Granularity,
) -> tuple[dict[str, Run], EncodingCounts]:
    """The best documents of each query, by each view, and what was read."""
    best: dict[str, BestHits] = {}
    document_ids: list[str] = []
    seen = EncodingCounts()
    for block in _blocks(documents):
        views = encode_views(encoder, query_vectors, [document.full_text for document in block], granularity)
        seen.add(views.seen)
        rows, columns = (place.ravel() for place in np.indices((len(query_ids), len(block))))
        for view, scores in views.scores.items():
            best.setdefault(view, BestHits(len(query_ids), _TOP_K)).add(
                rows, columns + len(document_ids), scores.ravel()
            )
        document_ids += [document.id for document in block]
    return {view: _run(hits, query_ids, document_ids) for view, hits in best.items()}, seen


def _run(best: BestHits, query_ids: list[str], document_ids: list[str]) -> Run:
    run: Run = {}
    for row, query in enumerate(query_ids):
        positions, scores = best.of(row)
        run[query] = dict(zip([document_ids[p] for p in positions.tolist()], scores.tolist(), strict=True))
    return run


def _with_intervals(rows: list[FirstTokens], seed: int) -> list[FirstTokens]:
    """Add what resampling the queries says, the largest limit being what others lose against."""
    values = np.array([list(row.per_query.values()) for row in rows]).T
    losses = values[:, -1:] - values
    ends = bootstrap_interval([np.concatenate([values, losses], axis=1)], seed=seed).tolist()
    return [
        replace(
            row,
            interval=(ends[number][0], ends[number][1]),
            loss=float(losses[:, number].mean()),
            loss_interval=(ends[len(rows) + number][0], ends[len(rows) + number][1]),
        )
        for number, row in enumerate(rows)
    ]


def _blocks(documents: Iterable[Document]) -> Iterator[list[Document]]:
    stream = iter(documents)
    while block := list(islice(stream, _BLOCK_DOCUMENTS)):
        yield block

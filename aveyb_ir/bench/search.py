"""How long a search takes: latency of one query and throughput of many, by each way of searching an index."""

import csv
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from aveyb_ir.bench.run import machine_setting
from aveyb_ir.data import replacing
from aveyb_ir.encoding import OnnxQueryEncoder
from aveyb_ir.errors import DataError
from aveyb_ir.retrieval import Index, Mode, Reranker, Retriever
from aveyb_ir.retrieval.bm25 import K1, B

_SECONDS_BETWEEN_LINES = 5.0


@dataclass(frozen=True, slots=True)
class SearchTiming:
    """One way of searching.

    Attributes:
        system: "dense", "dense, ONNX queries" (or "ONNX int8"), "bm25", "hybrid" or "hybrid + reranker".
        queries: Distinct queries that were timed; fewer than there are where time ran out.
        searches: Single searches that the percentiles are over.
        p50_ms: Median latency of a query that comes alone, in milliseconds.
        p95_ms: Its 95th percentile.
        batched_queries_per_second: Of the same queries given at once.
    """

    system: str
    queries: int
    searches: int
    p50_ms: float
    p95_ms: float
    batched_queries_per_second: float


@dataclass(frozen=True, slots=True)
class SearchReport:
    """What was measured, with what it depends on; ready for JSON."""

    setting: dict[str, Any]
    timings: list[SearchTiming]

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries, lists and numbers."""
        return asdict(self)

    def table(self) -> str:
        """Give it as Markdown."""
        return "\n".join(self._lines())

    def save(self, folder: str | Path) -> list[Path]:
        """Write `search.json`, `search.csv` and `search.md` and return their paths. Raises DataError or OSError."""
        paths = [Path(folder) / f"search.{kind}" for kind in ("json", "csv", "md")]
        with replacing(paths[0]) as partial:
            partial.write_text(json.dumps(self.to_json(), indent=1) + "\n", encoding="utf-8")
        with replacing(paths[1]) as partial, partial.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, [field.name for field in fields(SearchTiming)])
            writer.writeheader()
            writer.writerows(asdict(timing) for timing in self.timings)
        with replacing(paths[2]) as partial:
            partial.write_text(self.table() + "\n", encoding="utf-8")
        return paths

    def _lines(self) -> Iterator[str]:
        yield ", ".join(f"{name} {value}" for name, value in self.setting.items() if value is not None)
        yield from ("", "| search | p50 ms | p95 ms | queries/s in batches | queries |", "|---|---|---|---|---|")
        for one in self.timings:
            rate = one.batched_queries_per_second
            yield f"| {one.system} | {one.p50_ms:,.1f} | {one.p95_ms:,.1f} | {rate:.3g} | {one.queries} |"


def bench_search(
    index: Index,
    queries: Sequence[str],
    *,
    reranker: Reranker | None = None,
    query_encoder: OnnxQueryEncoder | None = None,
    top_k: int = 10,
    depth: int = 100,
    batch_size: int = 32,
    repeats: int = 3,
    max_seconds: float = 60.0,
    k1: float = K1,
    b: float = B,
    progress: Callable[[str], object] = lambda line: None,
) -> SearchReport:
    """Time searches of an index by vectors, by words, by both, and by both through a reranker.

    The ways take turns, query by query, so that what else the machine does falls on all. Each has searched before the
    clock starts. A search goes from the query's text to hits with their documents.

    Args:
        index: Open, with its encoder.
        queries: Texts.
        reranker: Scores the hybrid hits again.
        query_encoder: Encodes the queries of one more dense search; one in int8 will do.
        top_k: Hits per query.
        depth: Hits that are fused and reranked.
        batch_size: Queries encoded at once where many are given at once.
        repeats: Times that each query is searched for.
        max_seconds: A way that has been timed for as long is not timed further, alone and again in batches.
        k1: Of BM25, as in `Bm25.build`.
        b: Of BM25.
        progress: Called with a line for each step, and every few seconds of a long one.

    Raises:
        DataError: There are no queries.
        ValueError: An impossible `top_k`, `depth`, `batch_size`, k1 or b.
    """
    if not queries:
        raise DataError("There are no queries; expected at least one text to search for.")
    systems = _systems(index, reranker, query_encoder, batch_size=batch_size, k1=k1, b=b)
    options: dict[str, Any] = {"top_k": top_k, "depth": depth}
    for name, retriever in systems.items():
        progress(f"warming up {name}")
        retriever.search(queries[0], **options)
    progress(f"{len(queries)} queries one at a time, {repeats} rounds")
    seconds = _latencies(systems, [*queries] * repeats, options, max_seconds, progress)
    timings = []
    for name, retriever in systems.items():
        progress(f"queries in batches by {name}")
        timed = min(len(queries), len(seconds[name]))
        rate = _throughput(retriever, queries[:timed], options, max_seconds)
        p50, p95 = np.percentile(seconds[name], [50, 95]) * 1000
        timings.append(SearchTiming(name, timed, len(seconds[name]), float(p50), float(p95), rate))
    setting = {**_setting(index, reranker, query_encoder, top_k, depth, batch_size), "k1": k1, "b": b}
    return SearchReport(setting, timings)


def _systems(
    index: Index, reranker: Reranker | None, query_encoder: OnnxQueryEncoder | None, **settings: Any
) -> dict[str, Retriever]:
    modes: tuple[Mode, ...] = ("dense", "bm25", "hybrid")
    systems = {str(mode): Retriever(index, mode=mode, **settings) for mode in modes}
    if query_encoder is not None:
        precision = "ONNX int8" if query_encoder.int8 else "ONNX"
        systems[f"dense, {precision} queries"] = Retriever(
            index, query_encoder=query_encoder, allow_int8=True, **settings
        )
    if reranker is not None:
        systems["hybrid + reranker"] = Retriever(index, mode="hybrid", reranker=reranker, **settings)
    return systems


def _latencies(
    systems: Mapping[str, Retriever],
    queries: Sequence[str],
    options: dict[str, Any],
    max_seconds: float,
    progress: Callable[[str], object],
) -> dict[str, list[float]]:
    taken: dict[str, list[float]] = {name: [] for name in systems}
    told = time.monotonic()
    for number, query in enumerate(queries):
        if time.monotonic() - told >= _SECONDS_BETWEEN_LINES:
            progress(f"{number} of {len(queries)} searches one at a time")
            told = time.monotonic()
        for name, retriever in systems.items():
            if not taken[name] or sum(taken[name]) < max_seconds:
                start = time.perf_counter()
                retriever.search(query, **options)
                taken[name].append(time.perf_counter() - start)
    return taken


def _throughput(retriever: Retriever, queries: Sequence[str], options: dict[str, Any], max_seconds: float) -> float:
    """Queries a second, given all at once as often as time allows, at least once."""
    found, start = 0, time.perf_counter()
    while not found or time.perf_counter() - start < min(max_seconds, 1.0):
        retriever.search(queries, **options)
        found += len(queries)
    return found / (time.perf_counter() - start)


def _setting(
    index: Index,
    reranker: Reranker | None,
    query_encoder: OnnxQueryEncoder | None,
    top_k: int,
    depth: int,
    batch_size: int,
) -> dict[str, Any]:
    info, model = index.info(), index.encoder.model
    return {
        **machine_setting(str(model.device), model.dtype),
        "index": Path(info["path"]).name,
        "documents": info["documents"],
        "spec": info["spec"],
        "encoder": Path(index.encoder.name).name,
        "query_encoder": None if query_encoder is None else Path(query_encoder.name).name,
        "reranker": None if reranker is None else Path(reranker.name).name,
        "top_k": top_k,
        "depth": depth,
        "batch_size": batch_size,
    }

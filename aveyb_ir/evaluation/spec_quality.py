"""What an approximate specification loses and gains against exact search, on the vectors of an index."""

import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.data import BeirFolder, Qrels, Run
from aveyb_ir.encoding import Encoder
from aveyb_ir.evaluation.recall_plot import plot_recall
from aveyb_ir.evaluation.runs import evaluate_run
from aveyb_ir.index import BUILT_IN, Hit, IndexDir, IndexWriter
from aveyb_ir.retrieval import Index

_OWN_QUERIES = 1000
_BATCH_QUERIES = 64
_TIMED_ALONE = 200
_DEPTH = 10


@dataclass(frozen=True, slots=True)
class SpecQuality:
    """One specification, measured.

    Attributes:
        spec: Its name or factory string.
        recall: Share of exact search's `top_k` hits that it finds, or their equals in score.
        ndcg_at_10: NDCG@10 by the judgements; None without any.
        queries_per_second: In batches of 64.
        milliseconds: For one query asked alone, the median.
        bytes_per_vector: What FAISS keeps of a vector.
        build_seconds: Time to train it and add the vectors.
    """

    spec: str
    recall: float
    ndcg_at_10: float | None
    queries_per_second: float
    milliseconds: float
    bytes_per_vector: float
    build_seconds: float

    def to_json(self) -> dict[str, Any]:
        """Give the numbers by name."""
        return asdict(self)


def index_recall(
    index: str | os.PathLike[str],
    *,
    specs: Sequence[str] | None = None,
    data: BeirFolder | str | os.PathLike[str] | None = None,
    split: str = "test",
    top_k: int = 10,
    plot: str | os.PathLike[str] | None = None,
    encoder: Encoder | str | os.PathLike[str] | None = None,
) -> list[SpecQuality]:
    """Build each specification over the vectors of an index, in a temporary folder, and compare it with flat.

    Args:
        index: The index directory, which is left as it is.
        specs: Names, files or factory strings; by default every built-in one.
        data: A folder in BEIR layout with queries for this index. Without one, vectors of the index itself are the
            queries, which are easier than real ones, and no NDCG is measured.
        split: Which judgements of `data`.
        top_k: Hits per query.
        plot: A .png file to draw recall against speed into.
        encoder: The encoder of the index, for the queries of `data`, if it has moved.

    Returns:
        One row for each specification, flat first.

    Raises:
        ValueError: A specification that cannot be built over these vectors.
    """
    source = IndexDir.open(index)
    qrels: Qrels = {}
    if data is None:
        ids, queries = _own_queries(source)
    else:
        folder = data if isinstance(data, BeirFolder) else BeirFolder(Path(data))
        qrels, texts = folder.qrels(split), folder.judged_queries(split)
        ids, queries = list(texts), Index.open(index, encoder=encoder).encoder.encode_queries(list(texts.values()))
    names = ["flat", *(name for name in specs or BUILT_IN if name != "flat")]
    rows: list[SpecQuality] = []
    exact: list[list[Hit]] = []
    for name in names:
        with TemporaryDirectory(prefix="aveyb-recall-") as temporary:
            built, seconds = _rebuilt(source, name, Path(temporary) / "index")
            hits, speed, alone = _timed(built, queries, max(top_k, _DEPTH))
            exact = exact or hits
            run = {id: {hit.id: hit.score for hit in found} for id, found in zip(ids, hits, strict=True)}
            rows.append(
                SpecQuality(name, _recall(hits, exact, top_k), _ndcg(qrels, run), speed, alone, _bytes(built), seconds)
            )
    if plot is not None:
        plot_recall(Path(plot), rows, top_k)
    return rows


def _own_queries(index: IndexDir) -> tuple[list[str], NDArray[np.float32]]:
    rows = index.rows(index.ids())
    chosen = np.random.default_rng(0).permutation(rows)[:_OWN_QUERIES].tolist()
    return [str(row) for row in chosen], np.concatenate([index.vectors(row)[:1] for row in chosen])


def _rebuilt(source: IndexDir, spec: str, path: Path) -> tuple[IndexDir, float]:
    shutil.copytree(source.info()["path"], path, ignore=shutil.ignore_patterns("writer.lock"))
    with IndexWriter.open(path) as writer:
        writer.compact(spec="flat")  # what every spec starts from, so that their times can be compared
    start = time.perf_counter()
    with IndexWriter.open(path) as writer:
        writer.compact(spec=spec)
    return IndexDir.open(path), time.perf_counter() - start


def _timed(index: IndexDir, queries: NDArray[np.float32], top_k: int) -> tuple[list[list[Hit]], float, float]:
    index.search(queries[:1], top_k)
    start = time.perf_counter()
    hits = [
        found
        for first in range(0, len(queries), _BATCH_QUERIES)
        for found in index.search(queries[first : first + _BATCH_QUERIES], top_k)
    ]
    speed = len(queries) / (time.perf_counter() - start)
    alone = []
    for query in queries[:_TIMED_ALONE]:
        start = time.perf_counter()
        index.search(query[None], top_k)
        alone.append(time.perf_counter() - start)
    return hits, speed, 1000 * median(alone)


def _recall(hits: list[list[Hit]], exact: list[list[Hit]], top_k: int) -> float:
    shares = []
    for found, true in zip(hits, exact, strict=True):
        least = true[:top_k][-1].score
        shares.append(sum(hit.score >= least for hit in found[:top_k]) / len(true[:top_k]))
    return float(np.mean(shares))


def _ndcg(qrels: Qrels, run: Run) -> float | None:
    return evaluate_run(qrels, run, metrics=["ndcg@10"]).metrics["ndcg@10"] if qrels else None


def _bytes(index: IndexDir) -> float:
    info = index.info()
    return float(info["faiss_bytes"]) / int(info["vectors"])

"""What a study measures beside quality: speed, index size and latency, of all systems in turns on this machine."""

import logging
import time
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from pydantic import BaseModel, ValidationError

from aveyb_ir.bench import bench
from aveyb_ir.data import Collection, open_collection, write_lines
from aveyb_ir.encoding import Encoder
from aveyb_ir.encoding.loading import locate
from aveyb_ir.retrieval import Index, Retriever
from aveyb_ir.study.content import files_hash
from aveyb_ir.study.recipe import EvaluationSet, Speed

logger = logging.getLogger(__name__)


def measure_speed(
    models: Mapping[str, str], speed: Speed, collection: EvaluationSet, file: Path
) -> dict[str, dict[str, float]]:
    """Measure all models in one run, or read what was measured of the same models before.

    Args:
        models: Folders or names by label.
        speed: What is measured.
        collection: Where documents and queries come from.
        file: Keeps the numbers.

    Returns:
        Numbers by label and column; a length that a model cannot read is left out.

    Raises like `bench` and `Index.build`.
    """
    made_from = {
        "models": {label: files_hash(Path(locate(model))) for label, model in models.items()},
        "documents": files_hash(Path(collection.data)),
        "speed": speed.model_dump(),
    }
    if (known := _known(file)) is not None and known.made_from == made_from:
        return known.columns
    logger.info("measuring speed")
    report = bench(models, lengths=speed.lengths, repeats=speed.repeats)
    columns: dict[str, dict[str, float]] = {label: {} for label in models}
    for cell in report.cells:
        columns[cell.model][f"tokens/s at {cell.tokens:,}"] = cell.tokens_per_second
    for label, numbers in _index_numbers(models, speed, open_collection(collection.data), collection.split).items():
        columns[label] |= numbers
    found = _Measured(made_from=made_from, setting=report.setting, columns=columns)
    write_lines(file, found.model_dump_json(indent=1).split("\n"))
    return columns


class _Measured(BaseModel):
    made_from: dict[str, Any]
    setting: dict[str, Any]
    columns: dict[str, dict[str, float]]


def _known(file: Path) -> _Measured | None:
    """What was measured before, if it can still be read."""
    try:
        return _Measured.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError:
        logger.warning("%s cannot be read; speed is measured again", file)
        return None


def _index_numbers(
    models: Mapping[str, str], speed: Speed, collection: Collection, split: str
) -> dict[str, dict[str, float]]:
    documents = list(islice(collection.documents(), speed.documents))
    queries = list(islice(collection.judged_queries(split).values(), speed.queries))
    encoders = {label: Encoder(model) for label, model in models.items()}
    texts = [document.full_text for document in documents]
    for encoder in encoders.values():  # warm up
        encoder.encode_documents(texts[:16])
    taken: dict[str, list[float]] = {label: [] for label in models}
    for _ in range(speed.repeats):
        for label, encoder in encoders.items():
            taken[label].append(_seconds(encoder.encode_documents, texts))
    numbers = {label: {"docs/s": len(texts) / float(np.median(times))} for label, times in taken.items()}
    with TemporaryDirectory(prefix="aveyb-study-") as temporary:
        retrievers = {}
        for label, encoder in encoders.items():
            index = Index.build(Path(temporary) / label, documents, encoder=encoder)
            numbers[label]["index bytes/doc"] = index.info()["bytes"] / len(documents)
            retrievers[label] = Retriever(index)
        latencies = _latencies(retrievers, queries)
    for label, milliseconds in latencies.items():
        numbers[label]["query ms p50"] = float(np.percentile(milliseconds, 50))
        numbers[label]["query ms p95"] = float(np.percentile(milliseconds, 95))
    return numbers


def _latencies(retrievers: Mapping[str, Retriever], queries: list[str]) -> dict[str, list[float]]:
    """Ask every query of every system in turns, one at a time."""
    found: dict[str, list[float]] = {label: [] for label in retrievers}
    for retriever in retrievers.values():
        retriever.search(queries[0])
    for query in queries:
        for label, retriever in retrievers.items():
            found[label].append(1000 * _seconds(retriever.search, query))
    return found


def _seconds(work: Callable[[Any], object], given: Any) -> float:
    start = time.perf_counter()
    work(given)
    return time.perf_counter() - start

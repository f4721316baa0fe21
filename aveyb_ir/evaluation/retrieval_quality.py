"""The BEIR job: encode a collection, search it exactly, score the run."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from aveyb_ir.data import BeirFolder, OwnDocument, Run
from aveyb_ir.encoding import Encoder
from aveyb_ir.evaluation.protocols import DEFAULT_METRICS
from aveyb_ir.evaluation.result import Evaluation
from aveyb_ir.evaluation.runs import evaluate_run
from aveyb_ir.retrieval import exact_search


def evaluate(
    model: Encoder | str | os.PathLike[str],
    data: BeirFolder | str | os.PathLike[str],
    *,
    split: str = "test",
    metrics: Sequence[str] = DEFAULT_METRICS,
    top_k: int = 1000,
    own_document: OwnDocument = "auto",
    progress: Callable[[int], None] | None = None,
) -> Evaluation:
    """Measure how well a model retrieves on one split of a BEIR folder, by exact search of the whole corpus.

    Args:
        model: An Encoder, or a model folder or Hub name.
        data: The folder.
        split: Which judgements.
        metrics: Names such as "ndcg@10", "recall@100", "map", "mrr@10".
        top_k: Hits per query that are scored.
        own_document: Whether a query's own document may be a hit; see `aveyb_ir.retrieval.exact_search`.
        progress: Called with the number of documents after each block.

    Raises:
        DataError: A broken folder, or no such split.
        ModelError: The model cannot be loaded.
        ValueError: An unknown metric or an impossible depth.
    """
    return evaluate_with_run(
        model, data, split=split, metrics=metrics, top_k=top_k, own_document=own_document, progress=progress
    )[0]


def evaluate_with_run(
    model: Encoder | str | os.PathLike[str],
    data: BeirFolder | str | os.PathLike[str],
    *,
    split: str = "test",
    metrics: Sequence[str] = DEFAULT_METRICS,
    top_k: int = 1000,
    own_document: OwnDocument = "auto",
    progress: Callable[[int], None] | None = None,
) -> tuple[Evaluation, Run]:
    """Do what `evaluate` does and give the run too, to write or to compare."""
    folder = data if isinstance(data, BeirFolder) else BeirFolder(Path(data))
    qrels, queries = folder.qrels(split), folder.judged_queries(split)
    encoder = model if isinstance(model, Encoder) else Encoder(os.fspath(model))
    run, ignored = exact_search(
        encoder, folder.documents(), queries, top_k=top_k, own_document=own_document, progress=progress
    )
    evaluation = evaluate_run(
        qrels, run, metrics=metrics, own_document="keep", name=encoder.name, data=folder.path.name, split=split
    )
    return replace(evaluation, own_document=own_document, own_documents_ignored=ignored, top_k=top_k), run

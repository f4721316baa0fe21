"""The BEIR job: search a collection with a system and score what it found."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace

from aveyb_ir import data as data_room
from aveyb_ir.data import Collection, OwnDocument, check_own_document, open_collections
from aveyb_ir.encoding import Encoder
from aveyb_ir.evaluation.averages import average_of_parts
from aveyb_ir.evaluation.metrics import parse_metric
from aveyb_ir.evaluation.protocols import Protocol, metrics_of, pool_of, usual_split
from aveyb_ir.evaluation.result import Evaluation, check_label
from aveyb_ir.evaluation.runs import check_top_k, evaluate_run
from aveyb_ir.evaluation.systems import System, Task, system_of
from aveyb_ir.retrieval import Retriever


def evaluate(
    model: Encoder | Retriever | str | os.PathLike[str],
    data: Collection | str | os.PathLike[str],
    *,
    split: str | None = None,
    metrics: Sequence[str] | None = None,
    top_k: int = 1000,
    own_document: OwnDocument = "auto",
    protocol: Protocol = "full",
    name: str | None = None,
    vectors: str | os.PathLike[str] | None = None,
    k1: float | None = None,
    b: float | None = None,
    write_run: str | os.PathLike[str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Evaluation:
    """Measure how well a system retrieves on one split of a collection, as BEIR does.

    A model is measured by exact search of the corpus, an index as its specification has it searched.

    Args:
        model: An Encoder, a model folder or Hub name, the word "bm25", or a Retriever for an index of the collection.
        data: A collection, or where one is: a BEIR folder or a public name; see `open_collection`. A folder of parts,
            as CQADupStack comes in, gives the mean over its parts.
        split: Which judgements; by default "test", and "dev" for msmarco, which BEIR reports so.
        metrics: Names such as "ndcg@10", "recall@100", "map", "mrr@10"; by default the protocol's usual ones.
        top_k: Hits per query that are scored.
        own_document: Whether a query's own document may be a hit; see `aveyb_ir.data.OwnDocuments`.
        protocol: "full" as trec_eval, or "paper" to stand beside Avey-B's paper; see `aveyb_ir.evaluation.protocols`.
        name: What tables call the system; by default the model's name, "bm25" or the index's.
        vectors: A folder where the vectors of documents are kept, by collection and encoder. What is there is not
            encoded again, whatever the split, metrics, protocol or `top_k`; what was killed goes on.
        k1: Of "bm25", as in `Bm25.build`, 0.9 if not said; a Retriever has its own.
        b: Of "bm25", 0.4 if not said.
        write_run: Write the hits that were scored as a TREC run, or as JSON to a name ending in `.json`.
        progress: Called with the number of documents after each block.

    Returns:
        The metrics, with the hits in `run`.

    Raises:
        DataError: A broken collection, no such split, or vectors of another corpus.
        ModelError: The model cannot be loaded.
        ValueError: An unknown metric, protocol or rule, an impossible depth, k1 or b, a k1 or b for something else than
            "bm25", or a name with control characters.
    """
    check_own_document(own_document)
    check_top_k(top_k)
    metrics = [parse_metric(metric).name for metric in metrics_of(protocol, metrics)]  # before anything is read
    collections = open_collections(os.fspath(data)) if isinstance(data, (str, os.PathLike)) else (data,)
    split = split or usual_split(collections[0].name)
    for what, label in (("name", name or ""), ("data", collections[0].name), ("split", split)):
        check_label(what, label)
    tasks = [_task(collection, split, top_k, own_document, protocol, progress) for collection in collections]
    system = system_of(model, vectors, k1, b)
    evaluations = [_measured(system, task, metrics, protocol, name or system.name) for task in tasks]
    evaluation = evaluations[0] if len(evaluations) == 1 else average_of_parts(evaluations)
    if write_run is not None:
        data_room.write_run(os.fspath(write_run), evaluation.run)
    return evaluation


def _task(
    collection: Collection,
    split: str,
    top_k: int,
    own_document: OwnDocument,
    protocol: Protocol,
    progress: Callable[[int], None] | None,
) -> Task:
    """What is asked on one collection; a missing split or query is found here, before a model is loaded."""
    qrels = collection.qrels(split)
    return Task(
        data=collection.name,
        split=split,
        qrels=qrels,
        documents=collection.documents,
        queries=collection.judged_queries(split),
        top_k=top_k,
        own_document=own_document,
        pool=pool_of(qrels) if protocol == "paper" else None,
        progress=progress,
    )


def _measured(system: System, task: Task, metrics: Sequence[str], protocol: Protocol, name: str) -> Evaluation:
    answers = system.answer(task)
    # Own documents are out of the run, by their texts: the judgements need not be asked about them again.
    evaluation = evaluate_run(
        task.qrels,
        answers.run,
        metrics=metrics,
        own_document="keep",
        protocol=protocol,
        name=name,
        data=task.data,
        split=task.split,
    )
    return replace(
        evaluation,
        num_documents=answers.num_documents,
        top_k=task.top_k,
        own_document=task.own_document,
        own_documents_ignored=answers.own_documents_ignored,
        system=system.details(),
    )

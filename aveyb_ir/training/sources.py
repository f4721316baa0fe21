"""What the data section of a recipe names, read."""

from collections.abc import Iterator

from sentence_transformers.base.evaluation import BaseEvaluator
from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

from aveyb_ir.config import DataSection
from aveyb_ir.data import Collection, open_collection, read_training_rows, training_rows_from_beir
from aveyb_ir.training.pairs import TrainingSet


def load_training_set(data: DataSection) -> TrainingSet:
    """The pairs to train on.

    Raises:
        DataError: the files are missing or malformed, or some anchor can have no negative.
    """
    if data.pairs is not None:
        rows, source = read_training_rows(data.pairs), data.pairs
    else:
        rows, source = training_rows_from_beir(_collection(data), data.split), f"{data.beir} split {data.split}"
    return TrainingSet.from_rows(rows, source=source, max_negatives=data.negatives)


def training_data_fingerprint(data: DataSection) -> str:
    """What `training.json` records of the data that a model was trained on. Raises like `load_training_set`."""
    return load_training_set(data).fingerprint


def tokenizer_texts(data: DataSection, training_set: TrainingSet) -> Iterator[str]:
    """What a tokenizer is learnt from: the anchors and, where there is one, the whole corpus."""
    yield from training_set.anchors
    if data.beir is None:
        yield from training_set.documents
    else:
        yield from (document.full_text for document in _collection(data).documents())


def load_evaluator(data: DataSection, batch_size: int) -> BaseEvaluator | None:
    """NDCG@10, MRR@10 and recall@100 of `data.eval_split` over the whole corpus, held in memory; None without a split.

    Raises:
        DataError: the data set has no such split, or none of its queries.
    """
    if data.eval_split is None:
        return None
    collection = _collection(data)
    relevant = {
        query_id: {document_id for document_id, grade in judged.items() if grade >= 1}
        for query_id, judged in collection.qrels(data.eval_split).items()
    }
    return InformationRetrievalEvaluator(
        queries=collection.judged_queries(data.eval_split),
        corpus={document.id: document.full_text for document in collection.documents()},
        relevant_docs=relevant,
        mrr_at_k=[10],
        ndcg_at_k=[10],
        accuracy_at_k=[10],
        precision_recall_at_k=[100],
        map_at_k=[100],
        batch_size=batch_size,
        write_csv=False,
        query_prompt_name="query",
        corpus_prompt_name="document",
    )


def _collection(data: DataSection) -> Collection:
    assert data.beir is not None  # a checked recipe has it where it has no pairs
    return open_collection(data.beir)

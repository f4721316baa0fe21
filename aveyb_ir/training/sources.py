"""What the data section of a recipe names, read."""

from collections.abc import Iterator
from pathlib import Path

from aveyb_ir.config import DataSection, DataSet
from aveyb_ir.data import TrainingRow, iter_training_rows, iter_training_rows_from_beir, open_collection
from aveyb_ir.tasks import RowsSection
from aveyb_ir.training.development import DevelopmentSet
from aveyb_ir.training.pairs import RowSource, TrainingSet


def load_training_set(data: DataSection, folder: Path | None = None) -> TrainingSet:
    """The pairs to train on, read as streams.

    Args:
        data: of a recipe.
        folder: on whose disk texts are kept; None: that for temporary files.

    Raises:
        DataError: the files are missing or malformed, or some anchor can have no negative.
    """
    sets = data.training_sets
    return TrainingSet.from_sources(
        [_rows(one, folder) for one in sets],
        mixing=data.mixing,
        weights=[one.weight for one in sets],
        single=data.batches == "single",
        folder=folder,
    )


def _rows(data: DataSet, folder: Path | None) -> RowSource:
    prompts = (None, None) if data.prompts is None else (data.prompts.query, data.prompts.document)
    return RowSource(*stream_rows(data, folder), data.negatives, *prompts)


def stream_rows(data: DataSet | RowsSection, folder: Path | None) -> tuple[Iterator[TrainingRow], str]:
    """The rows that `pairs` or `beir` names, to be read once, and how messages name them."""
    if data.pairs is not None:
        return iter_training_rows(data.pairs, corpus=data.corpus, folder=folder), data.pairs
    assert data.beir is not None  # a checked recipe has it where it has no pairs
    rows = iter_training_rows_from_beir(open_collection(data.beir), data.split, folder=folder)
    return rows, f"{data.beir} split {data.split}"


def tokenizer_texts(data: DataSection, training_set: TrainingSet) -> Iterator[str]:
    """What a tokenizer is learnt from: the anchors and, where there is one, the whole corpus."""
    yield from training_set.anchors
    collections = [one.beir for one in data.training_sets if one.beir is not None]
    if len(collections) < len(data.training_sets):
        yield from training_set.documents
    for collection in dict.fromkeys(collections):
        yield from (document.full_text for document in open_collection(collection).documents())


def load_development_set(data: DataSection) -> DevelopmentSet | None:
    """What the model is evaluated on while it trains; None without `data.eval_split`.

    Raises:
        DataError: the data set has no such split, or none of its queries.
    """
    if data.eval_split is None:
        return None
    assert data.eval_collection is not None  # a checked recipe has one where it has a split
    return DevelopmentSet(open_collection(data.eval_collection), data.eval_split, max_documents=data.eval_documents)

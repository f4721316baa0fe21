from pathlib import Path

import numpy as np
import pytest

from aveyb_ir.data import TrainingRow, read_training_rows
from aveyb_ir.errors import DataError
from aveyb_ir.training.batches import BalancedBatchSampler
from aveyb_ir.training.collate import candidates
from aveyb_ir.training.loss import IGNORED, NEGATIVE, POSITIVE
from aveyb_ir.training.pairs import TrainingSet


def read(path: Path, max_negatives: int | None = None) -> TrainingSet:
    return TrainingSet.from_rows(read_training_rows(path), source=path.name, max_negatives=max_negatives)


def batches(training_set: TrainingSet, batch_size: int, epoch: int = 0, seed: int = 0) -> list[list[int]]:
    sampler = BalancedBatchSampler(training_set, batch_size, seed)
    sampler.set_epoch(epoch)
    return list(sampler)


def labelled(training_set: TrainingSet, batch: list[int]) -> tuple[list[str], np.ndarray]:
    lengths = np.ones(len(training_set.documents), dtype=np.int64)
    documents, labels = candidates(training_set, [training_set.pairs[i] for i in batch], lengths)
    return [training_set.documents[document] for document in documents], labels


def crowded_rows(seed: int) -> list[TrainingRow]:
    """Few anchors and few documents, so that most rows of a batch are in each other's way."""
    generator = np.random.default_rng(seed)
    rows = []
    for _ in range(40):
        anchor, *texts = generator.integers(0, 7, 4)
        rows.append(TrainingRow(f"q{anchor % 4}", (f"d{texts[0]}",), (f"d{texts[1]}", f"n{texts[2]}")))
    return rows


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("batch_size", [1, 2, 8, 64])
def test_every_row_has_one_positive_and_a_negative_and_no_known_positive_is_one(seed: int, batch_size: int) -> None:
    rows = crowded_rows(seed)
    training_set = TrainingSet.from_rows(rows)
    known = {(row.anchor, text) for row in rows for text in row.positives}
    for batch in batches(training_set, batch_size):
        documents, labels = labelled(training_set, batch)
        assert len(set(documents)) == len(documents)
        assert ((labels == POSITIVE).sum(axis=1) == 1).all()
        assert (labels == NEGATIVE).any(axis=1).all()
        for index, row in zip(batch, labels, strict=True):
            anchor = training_set.anchors[training_set.pairs[index].anchor]
            for text, label in zip(documents, row, strict=True):
                assert (label == NEGATIVE) == ((anchor, text) not in known)


def test_crowded_rows_would_push_positives_away_without_the_rule() -> None:
    training_set = TrainingSet.from_rows(crowded_rows(0))
    assert any((labelled(training_set, batch)[1] == IGNORED).any() for batch in batches(training_set, 8))


def test_an_epoch_uses_every_pair_once_in_the_promised_number_of_even_batches() -> None:
    for num_pairs in range(2, 40):
        rows = [TrainingRow(f"q{i % 9}", (f"d{i}",)) for i in range(num_pairs)] + [TrainingRow("other", ("other",))]
        training_set = TrainingSet.from_rows(rows)
        for batch_size in (1, 2, 7, 100):
            made = batches(training_set, batch_size)
            sizes = [len(batch) for batch in made]
            assert sorted(index for batch in made for index in batch) == list(range(len(training_set)))
            assert len(made) == len(BalancedBatchSampler(training_set, batch_size))
            assert max(sizes) <= batch_size
            assert max(sizes) - min(sizes) <= 1


def test_rows_of_one_anchor_are_spread_over_the_batches() -> None:
    rows = [TrainingRow("common", (f"a{i}",)) for i in range(5)] + [TrainingRow(f"q{i}", (f"b{i}",)) for i in range(15)]
    training_set = TrainingSet.from_rows(rows)
    for batch in batches(training_set, 4):
        assert sum(training_set.pairs[i].anchor == 0 for i in batch) == 1


def test_order_depends_on_seed_and_epoch_only() -> None:
    training_set = TrainingSet.from_rows([TrainingRow(f"q{i}", (f"d{i}",)) for i in range(50)])
    assert batches(training_set, 8) == batches(training_set, 8)
    assert batches(training_set, 8, epoch=1) != batches(training_set, 8, epoch=0)
    assert batches(training_set, 8, seed=1) != batches(training_set, 8, seed=0)


@pytest.mark.parametrize("name", ["same_positive", "same_anchor", "negative_is_positive"])
def test_the_same_answer_is_not_a_negative(cases: Path, name: str) -> None:
    training_set = read(cases / f"{name}.jsonl")
    for batch in batches(training_set, 4):
        documents, labels = labelled(training_set, batch)
        for index, row in zip(batch, labels, strict=True):
            lemon = "lemon" in training_set.anchors[training_set.pairs[index].anchor]
            negatives = [text for text, label in zip(documents, row, strict=True) if label == NEGATIVE]
            assert negatives
            assert all(("emon" in text) != lemon for text in negatives)


def test_an_anchor_that_every_document_answers_is_refused_with_its_line(cases: Path) -> None:
    with pytest.raises(DataError, match=r"all_same_anchor\.jsonl line 1: got no negative for 'the one question'"):
        read(cases / "all_same_anchor.jsonl")


def test_one_pair_alone_is_refused_and_with_an_explicit_negative_trains(cases: Path) -> None:
    with pytest.raises(DataError, match=r"one_pair\.jsonl line 1: .*explicit negatives"):
        read(cases / "one_pair.jsonl")
    training_set = TrainingSet.from_rows([TrainingRow("question", ("answer",), ("other",))])
    assert labelled(training_set, [0])[1].tolist() == [[POSITIVE, NEGATIVE]]


def test_no_rows_are_refused(cases: Path) -> None:
    with pytest.raises(DataError):
        read(cases / "no_pairs.jsonl")
    with pytest.raises(DataError, match="got no rows"):
        TrainingSet.from_rows([])


def test_five_pairs_make_batches_that_all_teach(cases: Path) -> None:
    training_set = read(cases / "five_pairs.jsonl")
    assert [len(batch) for batch in batches(training_set, 4)] == [3, 2]
    assert [len(batch) for batch in batches(training_set, 8)] == [5]


def test_rows_with_fewer_negatives_train_with_fewer(cases: Path) -> None:
    training_set = read(cases / "mixed_negatives.jsonl", max_negatives=2)
    assert [[training_set.documents[n] for n in pair.negatives] for pair in training_set.pairs] == [
        [],
        ["e"],
        ["h", "i"],
        [],
    ]
    [batch] = batches(training_set, 4)
    documents, labels = labelled(training_set, batch)
    assert sorted(documents) == ["b", "d", "e", "g", "h", "i", "l"]
    assert (labels == NEGATIVE).sum(axis=1).tolist() == [6, 6, 6, 6]


def test_every_positive_of_a_row_is_a_pair_and_none_is_a_negative_of_another() -> None:
    training_set = TrainingSet.from_rows([TrainingRow("a", ("b", "c", "b")), TrainingRow("d", ("e",))])
    assert len(training_set) == 3
    _, labels = labelled(training_set, [0, 1, 2])
    assert labels.tolist() == [[1, -1, 0], [-1, 1, 0], [0, 0, 1]]


def test_the_fingerprint_follows_the_data(tmp_path: Path) -> None:
    rows = [TrainingRow("a", ("b",), line=1), TrainingRow("c", ("d",), line=2)]
    moved = [TrainingRow("a", ("b",), line=7), TrainingRow("c", ("d",), line=9)]
    changed = [TrainingRow("a", ("b",)), TrainingRow("c", ("D",))]
    prints = [TrainingSet.from_rows(each).fingerprint for each in (rows, moved, changed)]
    assert prints[0] == prints[1] != prints[2]

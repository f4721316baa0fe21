"""Several data sets in one run: who meets whom in a batch, under which prompt, and how often."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from aveyb_ir.config import Recipe
from aveyb_ir.data import TrainingRow
from aveyb_ir.errors import RecipeError
from aveyb_ir.training import build_start, train
from aveyb_ir.training.batches import BalancedBatchSampler, num_batches
from aveyb_ir.training.collate import PairCollator
from aveyb_ir.training.pairs import RowSource, TrainingSet
from aveyb_ir.training.sources import load_training_set

MakeRecipe = Callable[..., Recipe]
SIZES = (30, 6, 12)
SOURCES = [
    RowSource([TrainingRow(f"q{letter}{i}", (f"d{letter}{i}",)) for i in range(size)], letter)
    for letter, size in zip("abc", SIZES, strict=True)
]


def epoch(training_set: TrainingSet, batch_size: int, number: int = 0) -> list[Counter[str]]:
    """How many pairs of each set are in each batch."""
    sampler = BalancedBatchSampler(training_set, batch_size, 0)
    sampler.set_epoch(number)
    batches = list(sampler)
    assert len(batches) == len(sampler) == num_batches(training_set, batch_size)
    assert all(0 < len(batch) <= batch_size for batch in batches)
    return [Counter(training_set.anchors[training_set.pairs[i].anchor][1] for i in batch) for batch in batches]


def total(batches: list[Counter[str]]) -> dict[str, int]:
    return dict(sum(batches, Counter()))


def test_proportional_mixed_batches_use_every_pair_once_and_hold_every_sets_share() -> None:
    batches = epoch(TrainingSet.from_sources(SOURCES), 8)
    assert total(batches) == {"a": 30, "b": 6, "c": 12}
    assert all(batch == Counter(a=5, b=1, c=2) for batch in batches)


@pytest.mark.parametrize("mixing", ["proportional", "round_robin", "weighted"])
def test_single_batches_hold_one_set_each(mixing: str) -> None:
    training_set = TrainingSet.from_sources(SOURCES, mixing=mixing, weights=(1, 1, 2), single=True)  # type: ignore[arg-type]
    batches = epoch(training_set, 4)
    assert all(len(batch) == 1 for batch in batches)
    assert len({next(iter(batch)) for batch in batches}) == 3


def test_round_robin_takes_turns_until_the_smallest_set_is_used_up_and_goes_on_with_the_rest() -> None:
    training_set = TrainingSet.from_sources(SOURCES, mixing="round_robin", single=True)
    batches = epoch(training_set, 3)
    assert [next(iter(batch)) for batch in batches] == ["a", "b", "c"] * 2
    assert total(batches) == {"a": 6, "b": 6, "c": 6}
    used: set[int] = set()
    for number in range(5):
        sampler = BalancedBatchSampler(training_set, 3)
        sampler.set_epoch(number)
        used |= {index for batch in sampler for index in batch if index < 30}
    assert used == set(range(30))


def test_weights_say_how_often_a_set_is_used() -> None:
    training_set = TrainingSet.from_sources(SOURCES, mixing="weighted", weights=(1, 2, 1))
    batches = epoch(training_set, 8)
    assert total(batches) == {"a": 12, "b": 24, "c": 12}
    assert all(batch == Counter(a=2, b=4, c=2) for batch in batches)


@pytest.mark.parametrize("mixing", ["proportional", "round_robin", "weighted"])
def test_an_epoch_is_the_same_again_and_another_one_is_not(mixing: str) -> None:
    training_set = TrainingSet.from_sources(SOURCES, mixing=mixing, weights=(3, 1, 1))  # type: ignore[arg-type]

    def order(seed: int, number: int) -> list[list[int]]:
        sampler = BalancedBatchSampler(training_set, 8, seed)
        sampler.set_epoch(number)
        return list(sampler)

    assert order(1, 2) == order(1, 2)
    assert order(1, 2) != order(1, 3)
    assert order(1, 2) != order(2, 2)


def test_a_positive_in_one_set_is_no_negative_in_another_whatever_the_prompts() -> None:
    training_set = TrainingSet.from_sources(
        [
            RowSource([TrainingRow("q", ("d",)), TrainingRow("other", ("e",))], "first", None, "ask: ", "text: "),
            RowSource([TrainingRow("q", ("f",), ("d", "g"))], "second"),
        ]
    )
    known = {
        training_set.anchors[a]: {training_set.documents[d] for d in ds} for a, ds in enumerate(training_set.positives)
    }
    assert known["q"] == {"d", "f"}
    assert [training_set.documents[n] for n in training_set.pairs[2].negatives] == ["g"]
    assert list(zip(training_set.anchors, training_set.anchors.prompts, strict=True)) == [
        ("q", "ask: "),
        ("other", "ask: "),
        ("q", None),
    ]


def test_texts_are_tokenized_under_the_prompt_of_their_set(make_recipe: MakeRecipe, pairs: Path) -> None:
    one = {"pairs": str(pairs)}
    prompts = {"query": "rockfish ", "document": ""}
    recipe = make_recipe(
        data={"sets": [one, {**one, "prompts": prompts}]},
        model={"prompts": {"query": "snowbird ", "document": "leaf "}},
    )
    training_set, model = load_training_set(recipe.data), build_start(recipe)
    collator = PairCollator(model, training_set)
    batch = collator([{"pair": 0}, {"pair": 32}])
    first, second = (model.tokenizer.decode(row) for row in batch["anchor_input_ids"])
    assert "snowbird" in first
    assert "rockfish" in second
    documents = [model.tokenizer.decode(row) for row in batch["document_input_ids"]]
    assert sorted("leaf" in document for document in documents if "sunbird" in document) == [False, True]
    assert (batch["label"] == 1).sum() == 2
    assert (batch["label"] == -1).sum() == 2  # the same text under the other prompt


def test_trains_on_several_sets_and_says_how(
    make_recipe: MakeRecipe, pairs: Path, cases: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sets = [{"pairs": str(pairs), "weight": 3.0}, {"pairs": str(cases / "five_pairs.jsonl")}]
    recipe = make_recipe(data={"sets": sets, "mixing": "weighted", "batches": "single"}, max_steps=3)
    with caplog.at_level("INFO"):
        result = train(recipe)
    assert result.num_rows == 37
    assert "2 data sets, weighted, batches of one set each; rows an epoch: 28 of 32, 9 of 5" in caplog.text
    record = json.loads((result.output / "training.json").read_text(encoding="utf-8"))
    assert record["data_fingerprint"] != load_training_set(make_recipe().data).fingerprint


def test_vectors_can_be_cut_to_the_lengths_they_were_trained_for(make_recipe: MakeRecipe) -> None:
    from sentence_transformers import SentenceTransformer

    recipe = make_recipe(matryoshka_dimensions=[32, 8], both_directions=True, mini_batch_tokens=60, epochs=2)
    folder = str(train(recipe).output)
    texts = ["what about sunbird", "what about rockfish"]
    whole = SentenceTransformer(folder, device="cpu").encode_query(texts)
    cut = SentenceTransformer(folder, device="cpu", truncate_dim=8).encode_query(texts)
    assert cut.shape == (2, 8)
    np.testing.assert_allclose(cut, whole[:, :8], atol=1e-6)
    with pytest.raises(RecipeError, match="matryoshka_dimensions: got 64, expected at most the 32 numbers"):
        train(make_recipe(matryoshka_dimensions=[64, 8]), overwrite=True)

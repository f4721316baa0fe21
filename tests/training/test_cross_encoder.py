import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file
from sentence_transformers import CrossEncoder
from torch import Tensor

from aveyb_ir.errors import DataError, ModelError, RecipeError
from aveyb_ir.retrieval import load_reranker
from aveyb_ir.tasks import RerankerModel, RerankerRecipe, RerankerTrainSection
from aveyb_ir.training import train_reranker
from aveyb_ir.training.cross_encoder import _load, _loss

NAMES = ["sun", "moon", "star", "rain", "wind", "snow", "leaf", "rock"]
FRESH = {"d_embed": 32, "n_layers": 2, "chunk_size": 32, "initializer_range": 0.3}
LOSSES = ["bce", "lambda", "ranknet", "listnet"]

MakeReranker = Callable[..., RerankerRecipe]


def mined_rows() -> list[dict[str, Any]]:
    others = [NAMES[number:] + NAMES[:number] for number in range(len(NAMES))]
    return [
        {"query": f"what is {name}", "pos": [f"{name} here"], "neg": [f"{a} there", f"{b} now"]}
        for name, a, b, *_ in others
    ]


@pytest.fixture
def make(tmp_path: Path) -> MakeReranker:
    """A recipe for a tiny fresh Avey-B and mined rows; keywords go to the train section."""
    mined = tmp_path / "mined.jsonl"
    mined.write_text("".join(json.dumps(row) + "\n" for row in mined_rows()), encoding="utf-8")

    def make(model: dict[str, Any] | None = None, pairs: Path = mined, negatives: int = 2, **train: Any) -> Any:
        model = model or {"fresh": FRESH, "train_tokenizer": {"vocab_size": 300}}
        train = {"output": str(tmp_path / "out"), "batch_size": 8, "device": "cpu", "learning_rate": 3e-3, **train}
        data = {"pairs": str(pairs), "negatives": negatives}
        return RerankerRecipe.model_validate({"model": model, "data": data, "train": train})

    return make


@pytest.fixture
def model(avey_dir: Path) -> CrossEncoder:
    torch.manual_seed(8)
    return _load(str(avey_dir), RerankerModel(start=str(avey_dir)), "cpu").double()


def written_out(name: str, scores: list[Tensor], labels: list[list[float]]) -> Tensor:
    """The loss of lists of scores, as its paper defines it."""
    if name == "bce":
        flat, truth = torch.cat(scores), torch.tensor([one for truth in labels for one in truth]).double()
        return -(truth * torch.sigmoid(flat).log() + (1 - truth) * (1 - torch.sigmoid(flat)).log()).mean()
    if name == "listnet":
        parts = [
            -(torch.softmax(torch.tensor(truth, dtype=torch.float64), 0) * torch.log_softmax(one, 0)).sum()
            for one, truth in zip(scores, labels, strict=True)
        ]
        return torch.stack(parts).mean()
    pairs = [
        torch.log2(torch.sigmoid(one[i] - one[j]))
        for one, truth in zip(scores, labels, strict=True)
        for i in range(len(truth))
        for j in range(len(truth))
        if truth[i] > truth[j]
    ]
    return -torch.stack(pairs).mean()


@pytest.mark.parametrize("name", ["bce", "ranknet", "listnet"])
def test_losses_are_their_written_out_formulas(model: CrossEncoder, name: str) -> None:
    section = RerankerTrainSection(loss=name, max_steps=1)
    queries, lists = ["a retriever", "penicillin"], [["it finds", "a cat", "the sun"], ["discovered in 1928", "snow"]]
    labels = [[1.0, 0.0, 0.0], [1.0, 0.0]]
    pairs = [(query, text) for query, texts in zip(queries, lists, strict=True) for text in texts]
    if name == "bce":
        columns: list[Any] = [[query for query, _ in pairs], [text for _, text in pairs]]
        loss = _loss(model, section)(columns, torch.tensor([one for truth in labels for one in truth]).double())
    else:
        loss = _loss(model, section)([queries, lists], [torch.tensor(one) for one in labels])
    loss.backward()
    found = {weight: parameter.grad.clone() for weight, parameter in model.named_parameters()}
    model.zero_grad()

    def expected(truth: list[list[float]]) -> Tensor:
        scores = model(dict(model.preprocess(pairs)))["scores"].view(-1)
        return written_out(name, list(scores.split([3, 2])), truth)

    exact = expected(labels)
    exact.backward()
    assert loss.item() == pytest.approx(exact.item(), rel=1e-4)
    for weight, parameter in model.named_parameters():
        assert torch.allclose(found[weight], parameter.grad, rtol=1e-3, atol=1e-5), weight
    model.zero_grad()
    expected([[0.0, 1.0, 0.0], [0.0, 1.0]]).backward()  # the check notices other labels
    assert not all(
        torch.allclose(found[weight], parameter.grad, rtol=1e-3, atol=1e-5)
        for weight, parameter in model.named_parameters()
    )


@pytest.mark.parametrize("name", LOSSES)
def test_mini_batches_do_not_change_the_loss(model: CrossEncoder, name: str) -> None:
    if name == "bce":
        return
    lists, labels = [["it finds", "a cat", "the sun"]], [torch.tensor([1.0, 0.0, 0.0])]
    losses = [
        _loss(model, RerankerTrainSection(loss=name, max_steps=1, mini_batch_size=size))(
            [["a retriever"], lists], labels
        )
        for size in (1, 32)
    ]
    assert losses[0].item() == pytest.approx(losses[1].item(), rel=1e-5)


@pytest.mark.parametrize("name", LOSSES)
def test_learns_to_put_positives_first(make: MakeReranker, name: str) -> None:
    size = 24 if name == "bce" else 8
    recipe = make(loss=name, max_steps=15, batch_size=size, learning_rate=1e-2)
    result = train_reranker(recipe)
    reranker = CrossEncoder(str(result.output), device="cpu")
    best = [reranker.rank(row["query"], row["pos"] + row["neg"])[0]["corpus_id"] for row in mined_rows()]
    assert best.count(0) >= 7
    assert result.tokens_per_second > 0
    log = [json.loads(line) for line in result.loss_log.read_text(encoding="utf-8").splitlines()]
    assert result.final_loss < log[0]["loss"]


def test_the_folder_is_a_cross_encoder_of_any_length(make: MakeReranker) -> None:
    result = train_reranker(make(max_steps=1))
    reranker = CrossEncoder(str(result.output), device="cpu")
    assert reranker.max_seq_length > 10**6
    long = "snow " * 700
    assert reranker.predict([("snow", long + "sun")]) != pytest.approx(
        reranker.predict([("snow", long + "rain")]), abs=0
    )
    assert (reranker.predict([("a", "b")]) >= 0).all()


def test_a_resumed_run_is_the_uninterrupted_one_bit_for_bit(make: MakeReranker) -> None:
    recipe = make(loss="bce", max_steps=4, save_steps=2)
    whole = train_reranker(recipe)
    weights = load_file(whole.output / "model.safetensors")
    shutil.rmtree(whole.output.with_name("out.checkpoints") / "checkpoint-4")
    resumed = train_reranker(recipe, overwrite=True, resume=True)
    again = load_file(resumed.output / "model.safetensors")
    assert all(torch.equal(again[name], weight) for name, weight in weights.items())
    assert not all(
        torch.equal(again[name], weight)
        for name, weight in load_file(
            train_reranker(make(loss="bce", max_steps=4, seed=9), overwrite=True).output / "model.safetensors"
        ).items()
    )


def test_starts_from_a_retriever_with_a_head_of_its_own(make: MakeReranker, avey_dir: Path) -> None:
    result = train_reranker(make(model={"start": str(avey_dir)}, max_steps=1, learning_rate=1e-9))
    start, trained = load_file(avey_dir / "model.safetensors"), load_file(result.output / "model.safetensors")
    assert torch.allclose(trained["embed.weight"], start["embed.weight"], atol=1e-6)
    assert "classifier.weight" in trained.keys() - start.keys()


def test_starts_from_the_model_that_comes_with_the_package(make: MakeReranker) -> None:
    result = train_reranker(make(model={"start": "aveyb-mini"}, max_steps=1))
    assert "classifier.weight" in load_file(result.output / "model.safetensors")


def test_starts_from_another_architecture(make: MakeReranker, bert_dir: Path) -> None:
    result = train_reranker(make(model={"start": str(bert_dir), "max_length": 40}, max_steps=1))
    assert CrossEncoder(str(result.output), device="cpu").max_seq_length == 40


def test_rows_need_negatives_and_the_start_weights(make: MakeReranker, tmp_path: Path) -> None:
    pairs = tmp_path / "rows.jsonl"
    pairs.write_text('{"query": "a", "pos": ["b"]}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"rows.jsonl: got no row with a negative, expected some; mine negatives first"):
        train_reranker(make(pairs=pairs, max_steps=1))
    with pytest.raises(ModelError, match=r"model.start: got '/nowhere', expected a model folder or Hub name"):
        train_reranker(make(model={"start": "/nowhere"}, max_steps=1))


def test_every_part_of_a_document_sees_the_query_where_the_recipe_says_so(make: MakeReranker, avey_dir: Path) -> None:
    for start in ({"start": str(avey_dir)}, {"fresh": FRESH, "train_tokenizer": {"vocab_size": 300}}):
        for pinned in (None, True):
            result = train_reranker(make(model={**start, "pin_first_chunk": pinned}, max_steps=1), overwrite=True)
            assert CrossEncoder(str(result.output), device="cpu").config.pin_first_chunk is bool(pinned)
    result = train_reranker(
        make(model={**start, "fresh": {**FRESH, "pin_first_chunk": True}}, max_steps=1), overwrite=True
    )
    assert CrossEncoder(str(result.output), device="cpu").config.pin_first_chunk


def test_only_an_avey_b_that_brings_chunks_can_pin_one(make: MakeReranker, bert_dir: Path) -> None:
    with pytest.raises(RecipeError, match=r"model.pin_first_chunk: got a bert without chunks that see others"):
        train_reranker(make(model={"start": str(bert_dir), "pin_first_chunk": True}, max_steps=1))
    with pytest.raises(ValidationError, match="`pin_first_chunk` with `k` 0"):
        make(model={"fresh": {**FRESH, "k": 0, "pin_first_chunk": True}, "train_tokenizer": {"vocab_size": 300}})


def test_the_folder_reranks_with_the_logits_of_sentence_transformers(make: MakeReranker) -> None:
    output = train_reranker(make(max_steps=2)).output
    pairs = [("snow", "snow here"), ("snow", "rain there " * 60)]
    logits = CrossEncoder(str(output), device="cpu").predict(pairs, activation_fn=torch.nn.Identity())
    (scores,) = load_reranker(output, device="cpu").scores(["snow"], [[text for _, text in pairs]])
    assert scores == pytest.approx(logits, abs=1e-5)

import copy
import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from torch import Tensor
from transformers import AutoModel, AutoModelForMaskedLM

from aveyb_ir.errors import DataError, ModelError, RecipeError
from aveyb_ir.models import AveyBConfig, AveyBForMaskedLM
from aveyb_ir.tasks import PretrainRecipe
from aveyb_ir.training import pretrain
from aveyb_ir.training.pretraining_batches import NOT_PREDICTED, MaskedBatches, Masker
from aveyb_ir.training.pretraining_pieces import Pieces, cut_into_pieces
from aveyb_ir.training.pretraining_texts import is_held_out, read_texts
from aveyb_ir.training.pretraining_trainer import masked_lm_loss

TINY = Path(__file__).parents[1] / "study" / "cases" / "tiny"
FRESH = {"d_embed": 32, "n_layers": 2, "chunk_size": 16, "initializer_range": 0.3}

MakePretrain = Callable[..., PretrainRecipe]


@pytest.fixture
def make(tmp_path: Path) -> MakePretrain:
    """A recipe for a tiny fresh Avey-B on the tiny collection; keywords go to the train section."""

    def make(
        *, data: dict[str, Any] | None = None, model: dict[str, Any] | None = None, **train: Any
    ) -> PretrainRecipe:
        model = model or {"fresh": FRESH, "train_tokenizer": {"vocab_size": 500}}
        data = {"texts": str(TINY), "piece_length": 64, **(data or {})}
        train = {"output": str(tmp_path / "out"), "batch_tokens": 1500, "device": "cpu", "learning_rate": 3e-3, **train}
        return PretrainRecipe.model_validate({"model": model, "data": data, "train": train})

    return make


@pytest.fixture
def pieces(tokenizer: Any, tmp_path: Path) -> Pieces:
    texts = [" ".join(["garden wall cat sun"] * (1 + number % 9)) + f" {number}" for number in range(120)]
    return cut_into_pieces(texts, tokenizer, 24, tmp_path / "tokens.bin")


@pytest.fixture
def model(tokenizer: Any) -> AveyBForMaskedLM:
    torch.manual_seed(3)
    return AveyBForMaskedLM(
        AveyBConfig(
            vocab_size=len(tokenizer), d_embed=24, n_layers=2, chunk_size=8, k=2, tail="mask", initializer_range=0.5
        )
    ).double()


def batch_of(rows: list[list[int]], labels: list[list[int]]) -> dict[str, Tensor]:
    width = max(map(len, rows))
    return {
        "input_ids": torch.tensor([row + [0] * (width - len(row)) for row in rows]),
        "attention_mask": torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows]),
        "labels": torch.tensor([row + [NOT_PREDICTED] * (width - len(row)) for row in labels]),
    }


def lines(path: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def without_speed(path: Path) -> list[dict[str, float]]:
    return [{name: value for name, value in line.items() if name != "tokens_per_second"} for line in lines(path)]


def test_loss_and_gradient_are_those_of_the_written_out_formula(model: AveyBForMaskedLM) -> None:
    rows = [list(range(10, 31)), list(range(40, 45))]
    labels = [[NOT_PREDICTED] * 21, [NOT_PREDICTED] * 5]
    labels[0][2], labels[0][20], labels[1][4] = 70, 71, 72
    loss, num_right, num_predicted = masked_lm_loss(model, batch_of(rows, labels))
    loss.backward()
    gradient = {name: weight.grad.clone() for name, weight in model.named_parameters()}
    model.zero_grad()

    states = [model._states(torch.tensor([row]), None)[0] for row in rows]
    shown = torch.stack([states[0][2], states[0][20], states[1][4]])
    probabilities = torch.softmax(shown @ model.embed.weight.T, dim=1)
    expected = -(probabilities[0, 70].log() + probabilities[1, 71].log() + probabilities[2, 72].log()) / 3
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)  # the loss itself is computed in float32
    assert num_predicted == 3
    assert int(num_right) == int((probabilities.argmax(1) == torch.tensor([70, 71, 72])).sum())
    for name, weight in model.named_parameters():
        assert torch.allclose(weight.grad, gradient[name], rtol=1e-4, atol=1e-6), name

    labels[0][2] = 73  # the check notices a single other label
    assert masked_lm_loss(model, batch_of(rows, labels))[0].item() != pytest.approx(expected.item(), rel=1e-3)


def test_logits_at_labels_only_are_those_of_all_positions(model: AveyBForMaskedLM) -> None:
    batch = batch_of([[5, 6, 7, 8], [9, 10]], [[NOT_PREDICTED, 6, NOT_PREDICTED, 8], [9, NOT_PREDICTED]])
    whole, few = model(**batch), model(**batch, labelled_only=True)
    assert few.logits.shape == (3, model.config.vocab_size)
    assert torch.allclose(few.logits, whole.logits[batch["labels"] != NOT_PREDICTED])
    assert few.loss.item() == pytest.approx(whole.loss.item(), rel=1e-6)


def test_packed_pieces_do_not_see_each_other(model: AveyBForMaskedLM) -> None:
    rows = [list(range(10, 30)), list(range(30, 37)), list(range(50, 61))]
    labels = [[NOT_PREDICTED] * (len(row) - 1) + [row[-1]] for row in rows]
    together = masked_lm_loss(model, batch_of(rows, labels))[0].item()
    alone = [masked_lm_loss(model, batch_of([row], [label]))[0].item() for row, label in zip(rows, labels, strict=True)]
    assert together == pytest.approx(np.mean(alone), rel=1e-6)
    # in one row the later text does see the earlier one
    joined = [NOT_PREDICTED] * 26 + [rows[1][-1]]
    assert masked_lm_loss(model, batch_of([rows[0] + rows[1]], [joined]))[0].item() != pytest.approx(alone[1], rel=1e-6)


def test_masks_a_share_of_the_tokens_but_no_symbols(tokenizer: Any) -> None:
    ids = torch.tensor([tokenizer.cls_token_id, *range(300, 350), tokenizer.sep_token_id] * 200)
    read, labels = Masker(tokenizer, 0.3)(ids, (1, 2))
    chosen = labels != NOT_PREDICTED
    assert torch.equal(labels[chosen], ids[chosen])
    assert torch.equal(read[~chosen], ids[~chosen])
    assert not chosen[(ids == tokenizer.cls_token_id) | (ids == tokenizer.sep_token_id)].any()
    assert chosen.float().mean().item() == pytest.approx(0.3 * 50 / 52, abs=0.02)
    hidden = (read == tokenizer.mask_token_id)[chosen].float().mean().item()
    kept = (read == ids)[chosen].float().mean().item()
    assert hidden == pytest.approx(0.8, abs=0.04)
    assert kept == pytest.approx(0.1, abs=0.03)


def test_a_mask_depends_on_its_seed_alone(tokenizer: Any) -> None:
    ids, masker = torch.arange(300, 400), Masker(tokenizer, 0.2)
    first = masker(ids, (1, 7))[1]
    masker(ids, (1, 8))
    torch.manual_seed(99)
    assert torch.equal(masker(ids, (1, 7))[1], first)
    assert not torch.equal(masker(ids, (1, 8))[1], first)
    assert not torch.equal(masker(ids, (2, 7))[1], first)


def test_every_batch_has_something_to_predict(tokenizer: Any) -> None:
    ids = torch.tensor([tokenizer.cls_token_id, 300, tokenizer.sep_token_id])
    for number in range(20):
        read, labels = Masker(tokenizer, 0.001)(ids, (number,))
        assert labels.tolist() == [NOT_PREDICTED, 300, NOT_PREDICTED]
        assert read[0] == ids[0]


def test_needs_a_mask_symbol(tokenizer: Any) -> None:
    bare = copy.deepcopy(tokenizer)
    bare.mask_token = None
    with pytest.raises(ModelError, match="no mask symbol"):
        Masker(bare, 0.2)


def test_long_texts_go_on_in_the_next_piece(tokenizer: Any, tmp_path: Path) -> None:
    text = "penicillin was discovered in 1928 by the Scottish scientist Alexander Fleming in London"
    whole = tokenizer(text)["input_ids"]
    pieces = cut_into_pieces([text, "", "hello world"], tokenizer, 10, tmp_path / "tokens.bin")
    first, last = tokenizer.cls_token_id, tokenizer.sep_token_id
    assert all(
        piece[0] == first and piece[-1] == last and len(piece) <= 10
        for piece in map(pieces.__getitem__, range(len(pieces)))
    )
    assert [id_ for number in range(len(pieces) - 1) for id_ in pieces[number][1:-1]] == whole[1:-1]
    assert pieces[len(pieces) - 1].tolist() == tokenizer("hello world")["input_ids"]


@pytest.mark.parametrize("batch_tokens", [1, 100, 700, 10**6])
def test_every_piece_comes_once_an_epoch(pieces: Pieces, tokenizer: Any, batch_tokens: int) -> None:
    batches = MaskedBatches(pieces, Masker(tokenizer, 0.2), batch_tokens, pad_id=0, seed=4, run_length=10**6)
    expected = sorted(tuple(pieces[number]) for number in range(len(pieces)))
    average, longest = pieces.lengths.sum() / batches.num_batches, pieces.lengths.max()
    for epoch in range(2):
        seen = []
        for number in range(batches.num_batches):
            batch = batches[epoch * batches.num_batches + number]
            original = torch.where(batch["labels"] == NOT_PREDICTED, batch["input_ids"], batch["labels"])
            rows = [tuple(ids[mask != 0].tolist()) for ids, mask in zip(original, batch["attention_mask"], strict=True)]
            assert 0 < batch["num_tokens"] == sum(map(len, rows)) <= average + longest
            seen += rows
        assert sorted(seen) == expected


def test_batches_are_decided_by_their_number_and_differ_from_epoch_to_epoch(pieces: Pieces, tokenizer: Any) -> None:
    def made(seed: int) -> MaskedBatches:
        return MaskedBatches(pieces, Masker(tokenizer, 0.2), 200, pad_id=0, seed=seed, run_length=100)

    inorder = [made(1)[number]["input_ids"] for number in range(30)]
    batches = made(1)
    assert all(torch.equal(batches[number]["input_ids"], inorder[number]) for number in (29, 3, 17, 0))
    assert batches.num_batches < 15
    assert not torch.equal(inorder[0], inorder[batches.num_batches])
    assert not torch.equal(made(2)[0]["input_ids"], inorder[0])


def test_pieces_of_like_length_meet(pieces: Pieces, tokenizer: Any) -> None:
    batches = MaskedBatches(pieces, Masker(tokenizer, 0.2), 200, pad_id=0, seed=4)
    padded = sum(batches[number]["input_ids"].numel() for number in range(len(batches)))
    assert padded < 1.25 * pieces.lengths.sum()
    drawn = np.random.default_rng(0).permutation(pieces.lengths)
    at_random = sum(len(part) * part.max() for part in np.array_split(drawn, len(batches)))
    assert at_random > 1.4 * pieces.lengths.sum()


def test_accumulated_batches_count_as_their_mean(make: MakePretrain, tmp_path: Path) -> None:
    common = {"max_grad_norm": 0.0, "learning_rate": 1e-12, "warmup_ratio": 0.0, "logging_steps": 1}
    one = lines(pretrain(make(max_steps=2, **common), output=tmp_path / "one").loss_log)
    both = lines(
        pretrain(make(max_steps=1, gradient_accumulation_steps=2, **common), output=tmp_path / "both").loss_log
    )
    assert both[0]["loss"] == pytest.approx((one[0]["loss"] + one[1]["loss"]) / 2, rel=1e-5)
    assert both[0]["grad_norm"] < max(one[0]["grad_norm"], one[1]["grad_norm"]) * 1.01


def test_a_resumed_run_is_the_uninterrupted_one_bit_for_bit(make: MakePretrain) -> None:
    recipe = make(max_steps=4, save_steps=2, logging_steps=2, eval_steps=2, data={"held_out": 0.1})
    whole = pretrain(recipe)
    weights, log = load_file(whole.output / "model.safetensors"), without_speed(whole.loss_log)
    shutil.rmtree(whole.output.with_name("out.checkpoints") / "checkpoint-4")
    resumed = pretrain(recipe, overwrite=True, resume=True)
    again = load_file(resumed.output / "model.safetensors")
    assert all(torch.equal(again[name], weight) for name, weight in weights.items())
    assert without_speed(resumed.loss_log) == log
    assert resumed.metrics == whole.metrics
    other = load_file(pretrain(make(max_steps=4, seed=1), overwrite=True).output / "model.safetensors")
    assert not all(torch.equal(other[name], weight) for name, weight in weights.items())


def test_learns_texts_by_heart_and_gives_a_model_to_start_from(make: MakePretrain, tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    words = ["sun moon star rain", "wind snow leaf rock", "fish bird horse bear", "red green blue grey"]
    texts.write_text("".join(f"{text}\n" for text in words * 25), encoding="utf-8")
    recipe = make(
        data={"texts": str(texts), "held_out": 0.0},
        model={"fresh": {**FRESH, "d_embed": 64}, "train_tokenizer": {"vocab_size": 400}},
        max_steps=40,
        batch_tokens=200,
        learning_rate=2e-2,
    )
    result = pretrain(recipe)
    log = lines(result.loss_log)
    assert log[0]["loss"] > 4
    assert result.final_loss < 1
    assert log[-1]["accuracy"] > 0.8
    assert result.metrics == {}

    head, bare = AutoModelForMaskedLM.from_pretrained(result.output), AutoModel.from_pretrained(result.output)
    retriever = SentenceTransformer(str(result.output), device="cpu")
    ids = retriever.tokenizer("sun moon [MASK] rain", return_tensors="pt")["input_ids"]
    guess = head(ids).logits[0].argmax(-1)
    assert "star" in retriever.tokenizer.decode(guess)
    assert torch.equal(bare(ids).last_hidden_state, retriever[0].auto_model(ids).last_hidden_state)
    onward = pretrain(
        make(model={"start": str(result.output)}, data={"texts": str(texts)}, max_steps=1), output=tmp_path / "on"
    )
    assert onward.final_loss < 1


def test_held_out_perplexity_is_measured_and_logged(make: MakePretrain, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="aveyb_ir.training"):
        result = pretrain(make(max_steps=4, eval_steps=2, data={"held_out": 0.2}))
    measured = [line for line in lines(result.loss_log) if "eval_perplexity" in line]
    assert [line["step"] for line in measured] == [2, 4]
    assert result.metrics["perplexity"] == measured[-1]["eval_perplexity"]
    assert result.metrics["perplexity"] == pytest.approx(np.exp(result.metrics["loss"]))
    record = json.loads((result.output / "training.json").read_text(encoding="utf-8"))
    assert record["metrics"] == result.metrics
    assert f"68 texts; {result.num_rows} pieces" in caplog.text
    assert not (result.output / "tokens.bin").exists()


def test_pretrains_other_architectures_too(make: MakePretrain, tmp_path: Path) -> None:
    bert = {
        "model_type": "bert",
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "max_position_embeddings": 64,
    }
    model = {"fresh_transformer": bert, "train_tokenizer": {"vocab_size": 400}}
    result = pretrain(make(model=model, max_steps=3, data={"held_out": 0.1}))
    assert result.metrics["loss"] < 7
    with pytest.raises(RecipeError, match="got 65, expected at most the 64 tokens"):
        pretrain(make(model=model, max_steps=1, data={"piece_length": 65}), output=tmp_path / "b")


def test_reads_texts_with_or_without_ids(tmp_path: Path) -> None:
    plain, records = tmp_path / "a.txt", tmp_path / "a.jsonl"
    plain.write_text("one\n\n two \n", encoding="utf-8")
    rows = [{"text": "one"}, {"title": "T", "text": "two", "url": "x"}, {"text": ""}, {"contents": "three"}]
    records.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert list(read_texts(plain)) == ["one", "two"]
    assert list(read_texts(records)) == ["one", "T two", "three"]
    assert len(list(read_texts(TINY))) == 68
    records.write_text('{"body": "x"}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"a.jsonl line 1: no text among fields body, expected one of text, "):
        list(read_texts(records))


def test_copies_of_a_text_are_held_out_together() -> None:
    texts = [f"text {number}" for number in range(2000)]
    chosen = [is_held_out(text, 0.25) for text in texts]
    assert np.mean(chosen) == pytest.approx(0.25, abs=0.03)
    assert chosen == [is_held_out(text, 0.25) for text in texts]
    assert not any(is_held_out(text, 0.0) for text in texts)


def test_nothing_to_train_on_is_an_error(make: MakePretrain, tmp_path: Path) -> None:
    texts = tmp_path / "one.txt"
    texts.write_text("a single text\n", encoding="utf-8")
    held_out = 0.999999 if is_held_out("a single text", 0.5) else 0.5
    model = {"fresh": FRESH, "train_tokenizer": {"vocab_size": 300}}
    with pytest.raises(DataError, match="expected some; give more texts or another share"):
        pretrain(make(model=model, data={"texts": str(texts), "held_out": held_out}, max_steps=1))

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from aveyb_ir.config import FreshModel, ModelSection, Prompts, TokenizerTraining
from aveyb_ir.data import TrainingRow
from aveyb_ir.errors import ModelError, RecipeError
from aveyb_ir.training import build_sentence_transformer, train_tokenizer
from aveyb_ir.training.collate import PairCollator
from aveyb_ir.training.pairs import TrainingSet

TEXTS = [f"The {word} of number {i} is on page {i * i}." for i, word in enumerate(["lemon", "Iron", "naïve tale"] * 20)]
FRESH = FreshModel(d_embed=16, n_layers=2, chunk_size=8)
SETTINGS = TokenizerTraining(vocab_size=400)


def build(**section: object) -> SentenceTransformer:
    values = {"fresh": FRESH, "train_tokenizer": SETTINGS, **section}
    return build_sentence_transformer(ModelSection(**values), TEXTS, device="cpu")


def test_tokenizer_is_the_same_for_the_same_texts() -> None:
    first, second = (train_tokenizer(iter(TEXTS), SETTINGS).backend_tokenizer.to_str() for _ in range(2))
    assert first == second
    assert train_tokenizer(TEXTS[:9], SETTINGS).backend_tokenizer.to_str() != first


def test_tokenizer_knows_every_text_frames_it_and_cuts_nothing() -> None:
    tokenizer = train_tokenizer(TEXTS, SETTINGS)
    ids = tokenizer("日本 🙂 lemon " * 5000)["input_ids"]
    assert tokenizer.unk_token_id not in ids
    assert len(ids) > 20_000
    assert tokenizer.convert_ids_to_tokens([ids[0], ids[-1]]) == ["[CLS]", "[SEP]"]
    assert len(tokenizer) <= SETTINGS.vocab_size


@pytest.mark.parametrize(("lowercase", "same"), [(True, True), (False, False)])
def test_lowercase_folds_case_and_accents(lowercase: bool, same: bool) -> None:
    tokenizer = train_tokenizer(TEXTS, TokenizerTraining(vocab_size=400, lowercase=lowercase))
    assert (tokenizer.tokenize("Naïve") == tokenizer.tokenize("naive")) == same


def test_folder_is_stock_modules_with_prompts_and_loads_to_equal_vectors(tmp_path: Path) -> None:
    model = build(prompts=Prompts(query="query: ", document="passage: "))
    assert [type(module).__name__ for module in model] == ["Transformer", "Pooling", "Normalize"]
    model.save_pretrained(str(tmp_path / "model"))
    loaded = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    assert loaded.prompts == {"query": "query: ", "document": "passage: "}
    for prompt in ("query", "document"):
        np.testing.assert_array_equal(
            loaded.encode(TEXTS[:3], prompt_name=prompt), model.encode(TEXTS[:3], prompt_name=prompt)
        )
    assert not np.array_equal(model.encode_query(TEXTS[:1]), model.encode_document(TEXTS[:1]))


def test_long_texts_are_read_to_their_end() -> None:
    model = build()
    long = "lemon " * 3000
    first, second = model.encode([long + "iron", long + "tale"])
    assert not np.array_equal(first, second)


def test_random_weights_depend_on_the_seed_and_leave_the_generator_alone() -> None:
    section = ModelSection(fresh=FRESH, train_tokenizer=SETTINGS)
    torch.manual_seed(3)
    state = torch.get_rng_state()
    weights = [
        build_sentence_transformer(section, TEXTS, seed=seed, device="cpu")[0].auto_model.embed.weight
        for seed in (1, 1, 2)
    ]
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_cls_pooling_warns() -> None:
    with pytest.warns(UserWarning, match="first chunk"):
        build(pooling="cls")


def test_start_keeps_weights_and_prompts_unless_told_otherwise(tmp_path: Path) -> None:
    model = build(prompts=Prompts(query="ask: "))
    model.save_pretrained(str(tmp_path))
    start = ModelSection(start=str(tmp_path))
    again = build_sentence_transformer(start, device="cpu")
    np.testing.assert_array_equal(again.encode_query(TEXTS[:2]), model.encode_query(TEXTS[:2]))
    other = build_sentence_transformer(start.model_copy(update={"prompts": Prompts()}), device="cpu")
    assert other.prompts == {"query": "", "document": ""}


@pytest.mark.parametrize("section", [{"start": "./missing"}, {"fresh": FRESH, "tokenizer": "./missing"}])
def test_what_cannot_be_loaded_is_named(section: dict[str, object]) -> None:
    with pytest.raises(ModelError, match=re.escape("'./missing'")) as error:
        build_sentence_transformer(ModelSection(**section), device="cpu")
    assert "\n" not in str(error.value)


def test_tokens_are_those_of_encode_and_cut_texts_are_counted() -> None:
    model = build(prompts=Prompts(query="ask: "), max_length=12)
    rows = [TrainingRow(text, (text[::-1],)) for text in TEXTS[:6]] + [TrainingRow("is", ("on",))]
    collator = PairCollator(model, TrainingSet.from_rows(rows))
    batch = collator([{"pair": i} for i in range(7)])
    expected = model.preprocess([row.anchor for row in rows], prompt="ask: ")
    assert torch.equal(batch["anchor_input_ids"], expected["input_ids"])
    assert torch.equal(batch["anchor_attention_mask"], expected["attention_mask"])
    assert collator.anchors.num_cut == 6
    assert collator.documents.num_cut == 6
    assert batch["num_tokens"] == batch["anchor_attention_mask"].sum() + batch["document_attention_mask"].sum()


def test_documents_of_a_batch_follow_their_labels() -> None:
    model = build()
    rows = [TrainingRow(f"q{i}", (text * (i + 1),), (TEXTS[0],)) for i, text in enumerate(TEXTS[1:5])]
    training_set = TrainingSet.from_rows(rows)
    batch = PairCollator(model, training_set)([{"pair": i} for i in (2, 0, 3)])
    assert batch["document_input_ids"].shape[0] == batch["label"].shape[1] == 4
    for pair, labels in zip((2, 0, 3), batch["label"], strict=True):
        column = labels.tolist().index(1)
        tokens = batch["document_input_ids"][column][batch["document_attention_mask"][column].bool()]
        assert tokens.tolist() == model.tokenizer(rows[pair].positives[0])["input_ids"]


OTHERS = {
    "modernbert": {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2},
    "neobert": {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2},
    "bert": {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2},
    "roberta": {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2},
}


@pytest.mark.parametrize("model_type", OTHERS)
def test_other_architectures_start_from_random_weights_too(model_type: str, tmp_path: Path) -> None:
    model = build(fresh=None, fresh_transformer={"model_type": model_type, **OTHERS[model_type]})
    model.save_pretrained(str(tmp_path))
    loaded = SentenceTransformer(str(tmp_path), device="cpu")
    assert loaded[0].auto_model.config.model_type == model_type
    vectors = loaded.encode(TEXTS[:4], batch_size=4)
    np.testing.assert_allclose(np.concatenate([loaded.encode([text]) for text in TEXTS[:4]]), vectors, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"model_type": "modernburt"}, "model_type: got 'modernburt', expected an architecture"),
        ({"model_type": "bert", "hiden_size": 8}, "hiden_size: unknown key.*did you mean hidden_size"),
    ],
)
def test_unknown_architectures_and_fields_are_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        build(fresh=None, fresh_transformer=fields)

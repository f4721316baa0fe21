"""NeoBERT's released names and fields load, whole or not at all."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification

from aveyb_ir.models import NeoBERTConfig, NeoBERTForMaskedLM, NeoBERTForSequenceClassification, NeoBERTModel


@pytest.fixture
def folder(tmp_path, reference_dir):
    shutil.copytree(reference_dir / "neobert", tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def cases(reference_dir):
    return load_file(reference_dir / "neobert" / "cases.safetensors")


def rewrite(folder, change):
    weights = change(load_file(folder / "model.safetensors"))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def without(name):
    return lambda weights: {key: weight for key, weight in weights.items() if key != name}


def with_ones(name, *shape):
    return lambda weights: weights | {name: torch.ones(shape)}


def nest_as_released(weights):
    decoder = {"decoder.weight": torch.randn(211, 48), "decoder.bias": torch.randn(211)}
    return {f"model.{name}": weight for name, weight in weights.items()} | decoder


def rewrite_config(folder, **fields):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | fields), encoding="utf-8")


def assert_published(model, cases):
    with torch.no_grad():
        states = model(cases["input_ids"], cases["attention_mask"]).last_hidden_state
    torch.testing.assert_close(states, cases["hidden"], atol=2e-5, rtol=0)


def test_released_names_load_into_the_encoder_without_the_head(folder, cases):
    rewrite(folder, nest_as_released)
    rewrite_config(folder, auto_map={"AutoConfig": "model.NeoBERTConfig", "AutoModel": "model.NeoBERT"})
    for trust in (None, True):  # this package's code is used, never the folder's
        model = AutoModel.from_pretrained(folder, trust_remote_code=trust).eval()
        assert type(model) is NeoBERTModel
        assert_published(model, cases)


def test_released_head_predicts_from_the_published_states(folder, cases):
    rewrite(folder, nest_as_released)
    head = load_file(folder / "model.safetensors")
    model = AutoModelForMaskedLM.from_pretrained(folder).eval()
    with torch.no_grad():
        logits = model(cases["input_ids"], cases["attention_mask"]).logits
    expected = cases["hidden"] @ head["decoder.weight"].T + head["decoder.bias"]
    torch.testing.assert_close(logits, expected, atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("layer_norm.weight"), r"missing: layer_norm\.weight\. Expected .* neobert"),
        (with_ones("encoder.bias", 48), r"unexpected: (model\.)?encoder\.bias"),
        (with_ones("layer_norm.weight", 9), r"another shape: layer_norm\.weight \(9,\) for \(48,\)"),
    ],
)
def test_weights_that_do_not_fit_are_named(folder, nested, change, message):
    rewrite(folder, change)
    if nested:
        rewrite(folder, nest_as_released)
    with pytest.raises(OSError, match=message):
        AutoModel.from_pretrained(folder)


def test_a_half_head_is_refused(folder):
    rewrite(folder, nest_as_released)
    rewrite(folder, without("decoder.bias"))
    with pytest.raises(OSError, match=r"missing: decoder\.bias\."):
        AutoModelForMaskedLM.from_pretrained(folder)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    ("auto", "cls"),
    [
        (AutoModel, NeoBERTModel),
        (AutoModelForMaskedLM, NeoBERTForMaskedLM),
        (AutoModelForSequenceClassification, NeoBERTForSequenceClassification),
    ],
)
@torch.no_grad()
def test_every_head_loads_the_encoder_and_saves_and_reloads(folder, tmp_path, cases, nested, auto, cls):
    if nested:
        rewrite(folder, nest_as_released)
    model = auto.from_pretrained(folder).eval()
    assert type(model) is cls
    assert_published(model.base_model, cases)
    model.save_pretrained(tmp_path / "saved")
    again = auto.from_pretrained(tmp_path / "saved").eval()
    assert torch.equal(model(cases["input_ids"])[0], again(cases["input_ids"])[0])
    assert_published(AutoModel.from_pretrained(tmp_path / "saved").eval(), cases)


def test_config_keeps_the_released_fields(folder, tmp_path):
    AutoConfig.from_pretrained(folder).save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    released = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    released.pop("architectures")
    assert {key: saved[key] for key in released} == released


def test_the_base_model_has_the_released_sizes():
    config = NeoBERTConfig()
    assert config.feed_forward_size == 2048
    assert config.max_position_embeddings == 4096
    with torch.device("meta"):
        model = NeoBERTForMaskedLM(config)
    assert sum(parameter.numel() for parameter in model.parameters()) == 245_136_954
    assert model.model.transformer_encoder[0].ffn.w12.weight.shape == (4096, 768)


@pytest.mark.parametrize(
    "fields", [{"num_hidden_layers": 0}, {"hidden_size": 100}, {"dim_head": 32}, {"max_length": "4096"}]
)
def test_impossible_configs_are_refused(fields):
    with pytest.raises(ValueError, match=next(iter(fields))):
        NeoBERTConfig(**fields)

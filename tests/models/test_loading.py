"""Weights are loaded whole or not at all."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification

from aveyb_ir.models import AveyBConfig, AveyBForMaskedLM, AveyBForSequenceClassification, AveyBModel


@pytest.fixture
def folder(tmp_path, reference_dir):
    shutil.copytree(reference_dir / "aveyb", tmp_path / "model")
    return tmp_path / "model"


def rewrite(folder, change):
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def test_a_missing_weight_is_named(folder):
    rewrite(folder, lambda weights: weights.pop("layers.2.fuser.bias"))
    with pytest.raises(OSError, match=r"missing: layers\.2\.fuser\.bias\. Expected"):
        AutoModel.from_pretrained(folder)


def test_an_unexpected_weight_is_named(folder):
    rewrite(folder, lambda weights: weights.update({"layers.9.alpha": torch.ones(())}))
    with pytest.raises(OSError, match=r"unexpected: layers\.9\.alpha"):
        AutoModel.from_pretrained(folder)


def test_weights_of_another_family_are_refused(folder, reference_dir):
    rewrite(folder, lambda weights: [weights.__setitem__(f"x.{name}", weights.pop(name)) for name in list(weights)])
    with pytest.raises(OSError, match="and 20 more"):
        AutoModel.from_pretrained(folder)


def test_a_weight_of_another_shape_is_refused(folder):
    rewrite(folder, lambda weights: weights.update({"ranker.down_proj": torch.zeros(16, 48)}))
    with pytest.raises(OSError, match=r"another shape: ranker\.down_proj \(16, 48\) for \(16, 64\)"):
        AutoModel.from_pretrained(folder)


def test_a_cut_file_is_refused(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(Exception, match=r"(?i)incomplete|invalid|header|buffer"):
        AutoModel.from_pretrained(folder)


def test_loading_info_is_given_on_request(folder):
    model, info = AveyBModel.from_pretrained(folder, output_loading_info=True)
    assert isinstance(model, AveyBModel)
    assert not info["missing_keys"]


@pytest.mark.parametrize(
    ("auto", "cls"),
    [
        (AutoModel, AveyBModel),
        (AutoModelForMaskedLM, AveyBForMaskedLM),
        (AutoModelForSequenceClassification, AveyBForSequenceClassification),
    ],
)
def test_every_head_loads_the_encoder_and_saves_and_reloads(folder, tmp_path, auto, cls):
    ids = torch.randint(0, 257, (2, 40))
    model = auto.from_pretrained(folder).eval()
    assert type(model) is cls
    model.save_pretrained(tmp_path / "saved")
    again = auto.from_pretrained(tmp_path / "saved").eval()
    with torch.no_grad():
        assert torch.equal(model(ids)[0], again(ids)[0])


def test_a_half_loaded_head_is_refused(folder, tmp_path):
    AutoModelForSequenceClassification.from_pretrained(folder).save_pretrained(tmp_path / "classifier")
    rewrite(tmp_path / "classifier", lambda weights: weights.pop("dense.2.weight"))
    with pytest.raises(OSError, match=r"missing: dense\.2\.weight\."):
        AutoModelForSequenceClassification.from_pretrained(tmp_path / "classifier")


def test_a_head_for_other_labels_is_refused_unless_asked_for(folder, tmp_path):
    AutoModelForSequenceClassification.from_pretrained(folder).save_pretrained(tmp_path / "classifier")
    with pytest.raises(OSError, match=r"classifier\.weight \(2, 48\) for \(5, 48\)"):
        AutoModelForSequenceClassification.from_pretrained(tmp_path / "classifier", num_labels=5)
    AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "classifier", num_labels=5, ignore_mismatched_sizes=True
    )


def test_the_encoder_of_a_classifier_loads_alone(folder, tmp_path):
    AutoModelForSequenceClassification.from_pretrained(folder).save_pretrained(tmp_path / "classifier")
    encoder = AutoModel.from_pretrained(tmp_path / "classifier")
    assert torch.equal(encoder.embed.weight, AutoModel.from_pretrained(folder).embed.weight)


def test_config_keeps_the_released_fields(folder, tmp_path):
    config = AutoConfig.from_pretrained(folder)
    assert config.tail == "zero"
    assert config.num_hidden_layers == 4
    config.tail = "mask"
    config.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text())
    released = json.loads((folder / "config.json").read_text())
    released.pop("architectures")
    assert {key: saved[key] for key in released} == released
    assert AutoConfig.from_pretrained(tmp_path).tail == "mask"


@pytest.mark.parametrize(
    "fields", [{"chunk_size": 0}, {"k": -1}, {"n_layers": "4"}, {"tail": "drop"}, {"hidden_size": 5}]
)
def test_impossible_configs_are_refused(fields):
    with pytest.raises(ValueError, match=next(iter(fields))):
        AveyBConfig(**fields)


def test_no_chunks_retrieved_at_all(make_model):
    from aveyb_ir.models.reference_aveyb import reference_states

    model = make_model(k=0)
    ids = torch.randint(0, 97, (50,))
    torch.testing.assert_close(model(ids[None])[0][0], reference_states(model, ids), atol=2e-5, rtol=0)


def test_heads_give_losses(make_model):
    ids, mask = torch.randint(0, 97, (3, 20)), torch.ones(3, 20, dtype=torch.long)
    masked = make_model(AveyBForMaskedLM)
    output = masked(ids, mask, labels=ids)
    assert output.logits.shape == (3, 20, 97)
    assert output.loss.isfinite()
    for labels, count in ((torch.tensor([0, 2, 1]), 3), (torch.rand(3), 1), (torch.rand(3, 4), 4)):
        classifier = AveyBForSequenceClassification(AveyBConfig(**{**masked.config.to_dict(), "num_labels": count}))
        output = classifier(ids, mask, labels=labels)
        assert output.logits.shape == (3, count)
        output.loss.backward()

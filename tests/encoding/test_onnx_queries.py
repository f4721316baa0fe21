"""A query's vector by ONNX Runtime is the model's, whatever the query, and what is not the model is refused."""

import builtins
import json
import logging
import shutil

import numpy as np
import pytest
import torch

from aveyb_ir import Encoder
from aveyb_ir.encoding import OnnxQueryEncoder, export_onnx
from aveyb_ir.errors import MissingExtraError, ModelError
from aveyb_ir.models.modeling_aveyb import AveyBModel

SHORT = ["who discovered penicillin", "the cat", "", "🙂", "naïve", "漢字", "a\ud83dc", "\t\n"]
LONG = "the small garden has a wooden table " * 4
VERY_LONG = LONG * 360  # 10,000 words


@pytest.fixture(scope="module")
def encoder(avey_dir):
    return Encoder(avey_dir)


@pytest.fixture
def copy(onnx_dir, tmp_path):
    return shutil.copytree(onnx_dir, tmp_path / "copy")


@pytest.fixture
def no_model(monkeypatch):
    """Computing with the model fails."""

    def refuse(*arguments):
        raise AssertionError("the model was asked")

    monkeypatch.setattr(AveyBModel, "encode_chunks", refuse)


@pytest.fixture
def untraced(onnx_dir, monkeypatch):
    """An export takes the graph that is there, since tracing takes seconds."""
    monkeypatch.setattr(
        "aveyb_ir.encoding.onnx_export._write_graph", lambda graph, path: shutil.copy(onnx_dir / "model.onnx", path)
    )


def test_vectors_are_the_models(onnx_dir, encoder):
    words = LONG.split()
    texts = [*SHORT, *(" ".join(words[:n]) for n in range(1, 8)), LONG, VERY_LONG]
    exported = OnnxQueryEncoder(onnx_dir)
    vectors = exported.encode_queries(texts)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, encoder.encode_queries(texts), atol=1e-5)
    assert np.abs(vectors - encoder.encode_documents(texts)).max(axis=1).min() > 1e-3  # prompts are told apart
    assert (exported.fingerprint, exported.dimension) == (encoder.fingerprint, encoder.dimension)
    assert exported.max_length is None


def test_another_weight_gives_other_vectors(onnx_dir, avey_dir):
    changed = Encoder(avey_dir)
    with torch.no_grad():
        changed.model.transformers_model.layers[1].fuser.weight[0, 0] += 1.0
    difference = np.abs(OnnxQueryEncoder(onnx_dir).encode_queries(SHORT) - changed.encode_queries(SHORT))
    assert difference.max(axis=1).min() > 1e-4


def test_company_changes_no_bit(onnx_dir):
    exported = OnnxQueryEncoder(onnx_dir)
    texts = [*SHORT, LONG]
    alone = np.stack([exported.encode_queries(text) for text in texts])
    np.testing.assert_array_equal(exported.encode_queries(texts[::-1])[::-1], alone)
    np.testing.assert_array_equal(OnnxQueryEncoder(onnx_dir, num_threads=3).encode_queries(texts), alone)
    assert exported.encode_queries([]).shape == (0, exported.dimension)


@pytest.mark.usefixtures("no_model")
def test_short_queries_leave_the_model_alone(onnx_dir, encoder):
    OnnxQueryEncoder(onnx_dir).encode_queries(SHORT)
    with pytest.raises(AssertionError, match="the model was asked"):
        OnnxQueryEncoder(onnx_dir, encoder=encoder).encode_queries(LONG)


def test_long_queries_go_to_the_whole_model_with_one_warning(onnx_dir, avey_dir, encoder, caplog):
    exported = OnnxQueryEncoder(onnx_dir)
    with caplog.at_level(logging.WARNING):
        vectors = exported.encode_queries(["the cat", LONG, LONG[5:]])
        exported.encode_queries(LONG)
    (record,) = caplog.records
    assert f"encodes up to 16: this and other longer ones are encoded by {avey_dir}" in record.getMessage()
    np.testing.assert_array_equal(vectors[2], encoder.encode_queries(LONG[5:]))
    assert exported.counts.texts == 4
    assert exported.counts.texts_cut == 0


def test_limits_and_published_tails_are_those_of_the_model(avey_dir, tmp_path, caplog):
    limited = Encoder(avey_dir, max_length=12, truncate_dim=32)
    masked = limited.encode_queries(SHORT)
    limited.model.config.tail = "zero"
    export_onnx(limited, tmp_path / "limited")
    exported = OnnxQueryEncoder(tmp_path / "limited")
    assert (exported.fingerprint, exported.max_length, exported.dimension) == (limited.fingerprint, 12, 32)
    with caplog.at_level(logging.WARNING):
        vectors = exported.encode_queries([*SHORT, LONG])
    np.testing.assert_allclose(vectors, limited.encode_queries([*SHORT, LONG]), atol=1e-5)
    assert np.abs(vectors[:-1] - masked).max() > 1e-3
    assert exported.counts.texts_cut == 1
    assert "cut at 12 tokens" in caplog.text


@pytest.mark.usefixtures("untraced")
def test_int8_is_near_and_another_encoder(avey_dir, encoder, tmp_path):
    report = export_onnx(avey_dir, tmp_path / "int8", int8=True)
    assert 0.9 < report.min_cosine < 1 - 1e-6
    exported = OnnxQueryEncoder(tmp_path / "int8")
    assert exported.int8
    assert exported.exported_fingerprint == encoder.fingerprint != exported.fingerprint
    alone = np.stack([exported.encode_queries(text) for text in SHORT])
    np.testing.assert_array_equal(exported.encode_queries(SHORT[::-1])[::-1], alone)


def test_only_the_encoder_that_was_exported_may_stand_behind(onnx_dir, avey_dir):
    other = Encoder(avey_dir)
    other.model.prompts["query"] = "ask: "
    with pytest.raises(ModelError, match=r"expected .*, that of the encoder which .* was exported from"):
        OnnxQueryEncoder(onnx_dir, encoder=other)


def test_a_model_that_changed_since_is_refused(onnx_dir, avey_dir, tmp_path):
    moved = shutil.copytree(avey_dir, tmp_path / "model")
    exported = OnnxQueryEncoder(onnx_dir, encoder=moved)
    settings = moved / "config_sentence_transformers.json"
    settings.write_text(settings.read_text(encoding="utf-8").replace("query: ", "ask: "), encoding="utf-8")
    exported.encode_queries("the cat")
    with pytest.raises(ModelError, match="was exported from: give that one, or export this one"):
        exported.encode_queries(LONG)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "tokenizer_config.json"])
def test_a_changed_or_missing_file_is_refused(copy, name):
    file = copy / name
    content = file.read_bytes()
    file.write_bytes(content[:-1] + b"\0")
    with pytest.raises(ModelError, match=f"{name}: its content has BLAKE2b .* export the model again"):
        OnnxQueryEncoder(copy)
    file.unlink()
    with pytest.raises(ModelError, match=f"{name}: .*No such file"):
        OnnxQueryEncoder(copy)


@pytest.mark.parametrize(
    "change",
    [
        lambda said: said["details"]["prompts"].update(query="ask: "),
        lambda said: said.update(fingerprint="0" * 32),
        lambda said: said.update(format=2),
        lambda said: said.update(more=1),
        lambda said: said["checksums"].update({"../model.onnx": "0"}),
        lambda said: said["checksums"].pop("model.onnx"),
        lambda said: said.clear(),
    ],
)
def test_a_manifest_that_is_not_what_was_written_is_refused(copy, change):
    manifest = copy / "query_encoder.json"
    said = json.loads(manifest.read_text(encoding="utf-8"))
    change(said)
    manifest.write_text(json.dumps(said), encoding="utf-8")
    with pytest.raises(ModelError, match=r"query_encoder\.json: .{1,300}; expected what was exported"):
        OnnxQueryEncoder(copy)


def test_folders_of_other_kinds_are_refused(avey_dir, tmp_path):
    for folder in (avey_dir, tmp_path, tmp_path / "none"):
        with pytest.raises(ModelError, match=r"has no query_encoder\.json; expected a folder that"):
            OnnxQueryEncoder(folder)


def test_only_what_the_graph_can_do_is_exported(bert_dir, avey_dir, onnx_dir, tmp_path):
    with pytest.raises(ModelError, match=r"is BertModel with .*; expected an Avey-B with mean pooling"):
        export_onnx(bert_dir, tmp_path / "new")
    first = Encoder(avey_dir)
    first.model[1].pooling_mode = "cls"
    with pytest.raises(ModelError, match="expected an Avey-B with mean pooling"):
        export_onnx(first, tmp_path / "new")
    wordy = Encoder(avey_dir)
    wordy.model.prompts["query"] = LONG
    with pytest.raises(ModelError, match="fills a chunk of 16 tokens"):
        export_onnx(wordy, tmp_path / "new")
    with pytest.raises(ValueError, match="exists; expected a new folder"):
        export_onnx(avey_dir, onnx_dir)
    with pytest.raises(ValueError, match="expected None for both"):
        export_onnx(wordy, tmp_path / "new", max_length=8)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("untraced")
def test_a_graph_that_gives_other_vectors_is_not_published(avey_dir, tmp_path):
    changed = Encoder(avey_dir)
    with torch.no_grad():
        changed.model.transformers_model.layers[1].fuser.weight[0, 0] += 0.01
    with pytest.raises(ModelError, match=r"differ by up to .* nothing was written"):
        export_onnx(changed, tmp_path / "new")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("package", ["onnxruntime", "onnxscript"])
def test_without_the_extra_its_name_is_said(avey_dir, onnx_dir, tmp_path, monkeypatch, package):
    plain = builtins.__import__

    def absent(name, *arguments, **options):
        if name.split(".")[0] == package:
            raise ImportError(f"No module named {name!r}")
        return plain(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(MissingExtraError, match=r"pip install 'aveyb-ir\[onnx\]'"):
        export_onnx(avey_dir, tmp_path / "new")
    if package == "onnxruntime":
        with pytest.raises(MissingExtraError, match=r"pip install 'aveyb-ir\[onnx\]'"):
            OnnxQueryEncoder(onnx_dir)


def test_threads_are_counted_from_one(onnx_dir):
    with pytest.raises(ValueError, match="num_threads is 0; expected at least 1"):
        OnnxQueryEncoder(onnx_dir, num_threads=0)

"""A search whose queries are encoded by ONNX Runtime finds the same, in an index of the same encoder only."""

import json

import pytest

from aveyb_ir import Encoder, Index, Retriever
from aveyb_ir.bench import bench_search
from aveyb_ir.data import Document
from aveyb_ir.encoding import OnnxQueryEncoder
from aveyb_ir.errors import IndexMismatchError

QUERIES = ["who discovered penicillin", "the cat sleeps in the sun", "ships return at night"]
LONG = "the small garden has a wooden table " * 4


@pytest.fixture(scope="module")
def index_dir(avey_dir, tmp_path_factory):
    path = tmp_path_factory.mktemp("index") / "index"
    texts = ["a cat sleeps in the sun", "ships return with fish and salt", "penicillin was discovered in 1928", LONG]
    Index.build(path, [Document(f"d{i}", text) for i, text in enumerate(texts)], encoder=str(avey_dir))
    return path


@pytest.fixture(scope="module")
def int8_dir(onnx_dir, tmp_path_factory):
    """What says of itself that it computes in int8; that its graph does not makes no difference here."""
    folder = tmp_path_factory.mktemp("int8") / "queries"
    folder.mkdir()
    for file in onnx_dir.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    manifest = folder / "query_encoder.json"
    said = json.loads(manifest.read_text(encoding="utf-8"))
    manifest.write_text(json.dumps(said | {"precision": "int8"}), encoding="utf-8")
    return folder


@pytest.fixture
def loads(monkeypatch):
    """What encoders are loaded from."""
    loaded = []
    plain = Encoder.__init__

    def watched(self, model, **options):
        loaded.append(str(model))
        plain(self, model, **options)

    monkeypatch.setattr(Encoder, "__init__", watched)
    return loaded


@pytest.mark.parametrize("mode", ["dense", "hybrid"])
def test_hits_are_those_of_the_encoder_which_stays_unloaded(index_dir, onnx_dir, loads, mode):
    retriever = Retriever(index_dir, query_encoder=onnx_dir, mode=mode)
    found = retriever.search(QUERIES)
    assert loads == []
    expected = Retriever(index_dir, mode=mode).search(QUERIES)
    assert [[hit.id for hit in hits] for hits in found] == [[hit.id for hit in hits] for hits in expected]
    for hits, others in zip(found, expected, strict=True):
        assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in others], abs=1e-5)
    assert retriever.settings["query_encoder"] == str(onnx_dir)


def test_what_is_left_to_the_encoder_loads_it_once(index_dir, onnx_dir, avey_dir, loads):
    retriever = Retriever(index_dir, query_encoder=onnx_dir)
    assert retriever.search(LONG, top_k=1)[0].id == "d3"
    assert retriever.search(QUERIES[1], top_k=1)[0].explain().best_part is not None
    assert retriever.index.encoder.fingerprint == retriever.directory.encoder.fingerprint
    assert loads == [str(avey_dir)]


def test_an_open_index_lends_its_encoder(index_dir, onnx_dir, loads):
    index = Index.open(index_dir)
    loads.clear()
    assert Retriever(index, query_encoder=onnx_dir).search(LONG, top_k=1)[0].id == "d3"
    assert loads == []


def test_an_index_of_another_encoder_refuses(onnx_dir, bert_dir, avey_dir, tmp_path):
    index = Index.build(tmp_path / "bert", [Document("d", "the cat")], encoder=str(bert_dir))
    with pytest.raises(IndexMismatchError, match=r"which is not what .* was exported from: .* dimension 32 against 48"):
        Retriever(tmp_path / "bert", query_encoder=onnx_dir)
    prompted = Encoder(avey_dir)
    prompted.model.prompts["query"] = "ask: "
    index = Index.build(tmp_path / "prompted", [Document("d", "the cat")], encoder=prompted)
    with pytest.raises(IndexMismatchError, match="prompts"):
        Retriever(index, query_encoder=OnnxQueryEncoder(onnx_dir))


def test_int8_takes_an_explicit_word(index_dir, int8_dir):
    with pytest.raises(IndexMismatchError, match=r"computes in int8, .* say allow_int8=True"):
        Retriever(index_dir, query_encoder=int8_dir)
    assert Retriever(index_dir, query_encoder=int8_dir, allow_int8=True).search(QUERIES[0])


def test_the_word_does_not_open_an_index_of_another_encoder(int8_dir, bert_dir, tmp_path):
    Index.build(tmp_path / "bert", [Document("d", "the cat")], encoder=str(bert_dir))
    with pytest.raises(IndexMismatchError, match="is not what"):
        Retriever(tmp_path / "bert", query_encoder=int8_dir, allow_int8=True)


def test_arguments_without_a_use_are_refused(index_dir, onnx_dir, avey_dir):
    with pytest.raises(ValueError, match="mode 'bm25', which encodes no queries"):
        Retriever(index_dir, query_encoder=onnx_dir, mode="bm25")
    with pytest.raises(ValueError, match="allow_int8 is True without a query_encoder"):
        Retriever(index_dir, allow_int8=True)
    with pytest.raises(ValueError, match="beside an OnnxQueryEncoder"):
        Retriever(index_dir, query_encoder=OnnxQueryEncoder(onnx_dir), encoder=str(avey_dir))


def test_bench_times_both_ways(index_dir, onnx_dir):
    index = Index.open(index_dir)
    report = bench_search(index, QUERIES, query_encoder=OnnxQueryEncoder(onnx_dir), repeats=1, max_seconds=0.1)
    assert {"dense", "dense, ONNX queries"} <= {timing.system for timing in report.timings}
    assert report.setting["query_encoder"] == "queries"

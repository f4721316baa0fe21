"""`aveyb-ir export onnx`, and a search with what it wrote."""

import json
import shutil

from aveyb_ir import Index
from aveyb_ir.data import Document


def test_export_and_search(run, avey_dir, onnx_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(  # tracing takes seconds
        "aveyb_ir.encoding.onnx_export._write_graph", lambda graph, path: shutil.copy(onnx_dir / "model.onnx", path)
    )
    Index.build(tmp_path / "index", [Document("d1", "the cat"), Document("d2", "a ship")], encoder=str(avey_dir))
    exit, out, err = run("export", "onnx", avey_dir, tmp_path / "queries", "--int8", "--json")
    assert (exit, err) == (0, "")
    report = json.loads(out)
    assert (report["path"], report["precision"]) == (str(tmp_path / "queries"), "int8")
    assert 0.9 < report["min_cosine"] < 1
    search = ("search", tmp_path / "index", "the cat", "--query-encoder", tmp_path / "queries", "--json")
    exit, _, err = run(*search)
    assert exit == 1
    assert "--allow-int8" in err
    exit, out, _ = run(*search, "--allow-int8")
    assert exit == 0
    assert json.loads(out)["hits"][0]["id"] == "d1"
    exit, _, err = run("export", "onnx", avey_dir, tmp_path / "queries")
    assert exit == 1
    assert "exists; expected a new folder" in err


def test_wrong_usage(run, tmp_path):
    for options in (["--allow-int8"], ["--mode", "bm25", "--query-encoder", tmp_path]):
        assert run("search", tmp_path, "the cat", *options)[0] == 2
    assert run("bench", "--query-encoder", tmp_path)[0] == 2

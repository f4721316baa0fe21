"""The examples of the adapters' README run as they stand."""

import re
from pathlib import Path

import mteb
import pytest

import aveyb_ir.adapters
from aveyb_ir import Index
from aveyb_ir.data import Document

README = (Path(aveyb_ir.adapters.__file__).parent / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^## (\w+)\n+```python\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)
PENICILLIN = "Penicillin was discovered in London in 1928"


@pytest.fixture
def folder(tmp_path, monkeypatch, encoder, avey_dir):
    """Where the examples find their model and index."""
    documents = [Document(f"p{i}", PENICILLIN, title="Penicillin", metadata={"year": 2018 + i}) for i in range(4)]
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "my-retriever").symlink_to(avey_dir)
    monkeypatch.chdir(tmp_path)
    Index.build("indexes/wiki", documents, encoder="models/my-retriever")


def test_there_is_one_for_each_library():
    assert [name for name, _ in EXAMPLES] == ["LangChain", "LlamaIndex", "Haystack", "mteb"]


@pytest.mark.parametrize(("name", "code"), EXAMPLES)
def test_examples_run(folder, monkeypatch, capsys, name, code):
    evaluated = []
    monkeypatch.setattr(mteb, "get_tasks", lambda tasks: tasks)
    monkeypatch.setattr(mteb, "evaluate", lambda model, tasks: evaluated.append((model.mteb_model_meta.name, tasks)))
    exec(compile(code, name, "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    if name == "mteb":
        assert evaluated == [("models/my-retriever", ["SciFact"])]
    else:
        found = {"LangChain": 2, "LlamaIndex": 4, "Haystack": 2}
        assert len(lines) == found[name]
        assert all(PENICILLIN in line for line in lines)

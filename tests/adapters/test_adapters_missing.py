"""Without its library an adapter says which extra brings it."""

import importlib
import sys

import pytest

from aveyb_ir.errors import MissingExtraError


@pytest.mark.parametrize(
    ("adapter", "library"),
    [("langchain", "langchain_core"), ("llama_index", "llama_index"), ("haystack", "haystack"), ("mteb", "mteb")],
)
def test_a_missing_library_is_named_with_its_extra(monkeypatch, adapter, library):
    for name in [name for name in sys.modules if name.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"aveyb_ir.adapters.{adapter}", raising=False)
    with pytest.raises(MissingExtraError, match=rf"{library}.*pip install 'aveyb-ir\[{adapter.replace('_', '-')}\]'"):
        importlib.import_module(f"aveyb_ir.adapters.{adapter}")

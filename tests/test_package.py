"""The public surface, and what importing it costs."""

import os
import subprocess
import sys

import numpy as np
from sentence_transformers import SentenceTransformer

import aveyb_ir


def python(code, *options):
    return subprocess.run([sys.executable, *options, "-c", code], capture_output=True, text=True, check=True).stdout


def test_public_names():
    assert {name: getattr(aveyb_ir, name).__module__.split(".")[1] for name in aveyb_ir.__all__ if name[0] != "_"} == {
        "Encoder": "encoding",
        "Hit": "retrieval",
        "Index": "retrieval",
        "Reranker": "retrieval",
        "Retriever": "retrieval",
        "evaluate": "evaluation",
        "evaluate_run": "evaluation",
        "load_reranker": "retrieval",
        "train": "training",
    }


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(aveyb_ir, "nothing")


def test_importing_is_light():
    code = "import aveyb_ir, sys; print([m for m in ('torch', 'transformers', 'numpy', 'faiss') if m in sys.modules])"
    assert python(code).strip() == "[]"


def test_importing_registers_the_models_before_or_after_transformers(avey_dir):
    load = f"from transformers import AutoModel; print(type(AutoModel.from_pretrained({str(avey_dir)!r})).__module__)"
    for code in (f"import aveyb_ir; {load}", f"import transformers, aveyb_ir; {load}"):
        assert python(code).strip() == "aveyb_ir.models.modeling_aveyb"


def test_a_saved_model_carries_its_code(avey_dir, tmp_path):
    """Where the package cannot be imported, trust_remote_code is enough, and gives the same vectors."""
    code = f"""
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "aveyb_ir":
            raise ImportError(name)
sys.meta_path.insert(0, Blocked())
import numpy
from sentence_transformers import SentenceTransformer
model = SentenceTransformer({str(avey_dir)!r}, trust_remote_code=True, device="cpu")
assert type(model[0].model).__module__.startswith("transformers_modules")
numpy.save({str(tmp_path / "vectors.npy")!r}, model.encode_document(["a small garden " * 30, ""]))
"""
    environment = {**os.environ, "HF_MODULES_CACHE": str(tmp_path / "modules")}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, capture_output=True)
    here = SentenceTransformer(str(avey_dir), device="cpu").encode_document(["a small garden " * 30, ""])
    np.testing.assert_allclose(np.load(tmp_path / "vectors.npy"), here, atol=1e-6)

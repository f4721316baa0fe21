"""A saved model carries its code, and is a stock Sentence Transformer."""

import json
import os
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from aveyb_ir.models import AveyBConfig, AveyBModel, NeoBERTConfig, NeoBERTModel

FAMILIES = ("aveyb", "neobert")
TEXTS = ["a b c", "d", "b a c d e f g h"]


def tiny_model(family):
    if family == "aveyb":
        return AveyBModel(AveyBConfig(vocab_size=12, d_embed=16, n_layers=2, chunk_size=4))
    fields = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    return NeoBERTModel(NeoBERTConfig(vocab_size=12, max_length=6, **fields))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    words = ["[PAD]", "[UNK]", *"abcdefgh"]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]")
    torch.manual_seed(0)
    folders = {}
    for family in FAMILIES:
        backbone, folders[family] = tmp_path_factory.mktemp("backbone"), tmp_path_factory.mktemp(family)
        tiny_model(family).save_pretrained(backbone)
        tokenizer.save_pretrained(backbone)
        transformer = Transformer(str(backbone))
        modules = [transformer, Pooling(transformer.get_embedding_dimension(), pooling_mode="mean"), Normalize()]
        SentenceTransformer(modules=modules, device="cpu").save(str(folders[family]), create_model_card=False)
    return folders


LOAD_WITHOUT_THE_PACKAGE = """
import json, sys
sys.modules["aveyb_ir"] = None  # importing it fails
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
folders, texts, out = json.loads(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
vectors = {}
for family, folder in folders.items():
    model = SentenceTransformer(folder, device="cpu", trust_remote_code=True)
    assert type(model[0].model).__module__.startswith("transformers_modules."), type(model[0].model)
    vectors[family] = model.encode(texts, convert_to_tensor=True)
save_file(vectors, out)
"""


def test_saved_models_load_in_a_process_without_this_package(folders, tmp_path):
    out = tmp_path / "vectors.safetensors"
    arguments = [json.dumps({family: str(folder) for family, folder in folders.items()}), json.dumps(TEXTS), str(out)]
    subprocess.run(
        [sys.executable, "-c", LOAD_WITHOUT_THE_PACKAGE, *arguments],
        env={**os.environ, "HF_MODULES_CACHE": str(tmp_path / "modules")},
        cwd=tmp_path,
        check=True,
        timeout=120,
    )
    there = load_file(out)
    for family, folder in folders.items():
        here = SentenceTransformer(str(folder), device="cpu").encode(TEXTS, convert_to_tensor=True)
        torch.testing.assert_close(there[family], here)


@pytest.mark.parametrize("family", FAMILIES)
def test_sentence_transformers_pool_and_cut(folders, family):
    model = SentenceTransformer(str(folders[family]), device="cpu")
    together = model.encode(TEXTS, convert_to_tensor=True)
    torch.testing.assert_close(together.norm(dim=-1), torch.ones(3))
    for text, vector in zip(TEXTS, together, strict=True):
        torch.testing.assert_close(model.encode(text, convert_to_tensor=True), vector, atol=1e-5, rtol=0)
    assert not torch.allclose(together[0], together[1], atol=1e-3)
    limit = model.max_seq_length
    assert limit == model[0].config.max_position_embeddings
    cut, whole = model.encode(["b a c d e f", "b a c d e f g h"], convert_to_tensor=True)
    assert torch.allclose(cut, whole, atol=1e-6) == (limit == 6)

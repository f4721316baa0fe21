import logging
import os
import signal
import sys
import warnings

# Before any import of the libraries that read it: tests never reach for the network.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

from pathlib import Path

import pytest
import torch

from aveyb_ir.cli import main

CORPUS = [
    "the small garden has a wooden table and two green chairs near the old wall where a cat sleeps in the sun",
    "a lighthouse keeper paints the stairs blue before the ships return at night with fish and salt",
    "penicillin was discovered in 1928 by the Scottish scientist Alexander Fleming in London",
    "the river carries snow water from the mountains to the sea; children swim there in summer",
    "hello world, what is a retriever? it finds documents for queries",
]


torch.set_num_threads(1)  # tiny tensors: more threads only wait for each other


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _process_as_before():
    """The command sets up its process; tests that follow in this one get theirs back."""
    logger = logging.getLogger("aveyb_ir")
    before = (logger.handlers, logger.level, logger.propagate, warnings.showwarning, signal.getsignal(signal.SIGINT))
    yield
    logger.handlers, logger.level, logger.propagate, warnings.showwarning, interrupt = before
    signal.signal(signal.SIGINT, interrupt)


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a command in this process: exit code, stdout, stderr."""

    def command(*arguments):
        monkeypatch.setattr(sys, "argv", ["aveyb-ir", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit:
            main()
        out, err = capsys.readouterr()
        return exit.value.code or 0, out, err

    return command


@pytest.fixture(scope="session")
def tokenizer():
    from aveyb_ir.config import TokenizerTraining
    from aveyb_ir.training import train_tokenizer

    return train_tokenizer(CORPUS * 3, TokenizerTraining(vocab_size=600))


@pytest.fixture(scope="session")
def avey_dir(tmp_path_factory, tokenizer) -> Path:
    """A small Avey-B retriever with prompts; weights far from their start."""
    from aveyb_ir.models import AveyBConfig, AveyBModel

    config = AveyBConfig(vocab_size=len(tokenizer), d_embed=48, n_layers=3, chunk_size=16, k=2, tail="mask")
    torch.manual_seed(1)  # the model is the same whichever test asks for it first
    return _save(tmp_path_factory.mktemp("avey"), AveyBModel(config), tokenizer)


@pytest.fixture(scope="session")
def bert_dir(tmp_path_factory, tokenizer) -> Path:
    """A small BERT retriever of the same vocabulary that reads at most 64 tokens."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    torch.manual_seed(1)
    return _save(tmp_path_factory.mktemp("bert"), BertModel(config), tokenizer)


def _save(folder: Path, backbone, tokenizer) -> Path:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in backbone.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    backbone.save_pretrained(folder / "backbone")
    tokenizer.save_pretrained(folder / "backbone")
    transformer = Transformer(str(folder / "backbone"))
    model = SentenceTransformer(
        modules=[transformer, Pooling(transformer.get_embedding_dimension()), Normalize()],
        prompts={"query": "query: ", "document": "document: "},
        device="cpu",
    )
    model.save(str(folder / "model"), create_model_card=False)
    return folder / "model"


@pytest.fixture(scope="session")
def onnx_dir(avey_dir, tmp_path_factory) -> Path:
    """The query encoder of `avey_dir` for ONNX Runtime; read only."""
    from aveyb_ir.encoding import export_onnx

    folder = tmp_path_factory.mktemp("onnx") / "queries"
    export_onnx(avey_dir, folder)
    return folder

from pathlib import Path

import pytest
import torch

from aveyb_ir.models import AveyBConfig, AveyBModel

REFERENCE = Path(__file__).parent / "reference"


@pytest.fixture
def reference_dir() -> Path:
    return REFERENCE


@pytest.fixture
def make_model():
    """A small model whose weights are far from their start, so that every part of the arithmetic shows."""

    def make(cls=AveyBModel, **fields):
        config = {"vocab_size": 97, "d_embed": 32, "n_layers": 4, "chunk_size": 16, "k": 3, **fields}
        model = cls(AveyBConfig(**config)).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.1)
        return model

    return make

"""Compiled layers give the same vectors, and what cannot be compiled says so."""

import numpy as np
import pytest
import torch
from torch import nn

from aveyb_ir import Encoder
from aveyb_ir.errors import ModelError

TEXTS = ["the river", "a lighthouse keeper paints the stairs blue before the ships return", "", "snow " * 30]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the compiler's own
def test_compiled_layers_give_the_same_vectors(bert_dir):
    encoder = Encoder(bert_dir, compile=True)
    torch._dynamo.utils.counters.clear()
    np.testing.assert_allclose(encoder.encode_documents(TEXTS), Encoder(bert_dir).encode_documents(TEXTS), atol=1e-6)
    encoder.encode_documents(TEXTS[1:])  # other shapes
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    assert encoder.fingerprint == Encoder(bert_dir).fingerprint


def test_what_cannot_be_compiled_says_so(avey_dir, bert_dir):
    with pytest.raises(ModelError, match="computes packed texts"):
        Encoder(avey_dir, compile=True)
    model = Encoder(bert_dir).model
    model[0].model.encoder.layer = nn.Identity()
    with pytest.raises(ModelError, match="no list of layers"):
        Encoder(model, compile=True)

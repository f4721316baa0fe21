from pathlib import Path

import pytest
import torch
from sentence_transformers import CrossEncoder


@pytest.fixture(scope="session")
def avey_reranker_dir(tmp_path_factory, tokenizer) -> Path:
    """A small Avey-B cross-encoder whose first chunk is pinned; weights far from their start."""
    from aveyb_ir.models import AveyBConfig, AveyBForSequenceClassification

    config = AveyBConfig(
        vocab_size=len(tokenizer),
        d_embed=48,
        n_layers=3,
        chunk_size=16,
        k=2,
        tail="mask",
        num_labels=1,
        pin_first_chunk=True,
        pad_token_id=tokenizer.pad_token_id,
    )
    return _save(tmp_path_factory.mktemp("avey-reranker"), AveyBForSequenceClassification(config), tokenizer)


@pytest.fixture(scope="session")
def bert_reranker_dir(tmp_path_factory, tokenizer) -> Path:
    """A small BERT cross-encoder that reads at most 64 tokens."""
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        num_labels=1,
    )
    return _save(tmp_path_factory.mktemp("bert-reranker"), BertForSequenceClassification(config), tokenizer)


def _save(folder: Path, model, tokenizer) -> Path:
    torch.manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder / "backbone")
    tokenizer.save_pretrained(folder / "backbone")
    CrossEncoder(str(folder / "backbone"), device="cpu").save_pretrained(str(folder / "model"), create_model_card=False)
    return folder / "model"

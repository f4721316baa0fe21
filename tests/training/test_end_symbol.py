from pathlib import Path
from typing import Any

import pytest
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from aveyb_ir.config import ModelSection
from aveyb_ir.encoding import Encoder
from aveyb_ir.errors import ModelError
from aveyb_ir.training import build_sentence_transformer
from aveyb_ir.training.tokenizer import append_end_symbol

BEFORE = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B:1", special_tokens=[("<s>", 5)])
BETWEEN = processors.TemplateProcessing(single="$A", pair="$A <s> $B:1", special_tokens=[("<s>", 5)])
BYTES = processors.ByteLevel(trim_offsets=False)


def tokenizer_with(own: Any, **symbols: str) -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.WordLevel({"<pad>": 0, "</s>": 1, "<unk>": 2, "a": 3, "b": 4, "<s>": 5}, "<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    if own is not None:
        backend.post_processor = own
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", unk_token="<unk>", **symbols)


@pytest.mark.parametrize(
    ("own", "one", "two"),
    [
        (None, [3, 4, 1], [3, 4, 1]),
        (BYTES, [3, 4, 1], [3, 4, 1]),
        (BEFORE, [5, 3, 4, 1], [5, 3, 4, 1]),
        (BETWEEN, [3, 4, 1], [3, 5, 4, 1]),
    ],
    ids=["nothing", "bytes", "before", "between"],
)
def test_the_end_symbol_joins_the_symbols_that_are_there(own: Any, one: Any, two: Any, tmp_path: Path) -> None:
    tokenizer = tokenizer_with(own, eos_token="</s>")
    assert tokenizer("a b")["input_ids"][-1] != 1
    append_end_symbol(tokenizer)
    append_end_symbol(tokenizer)  # once is enough
    tokenizer.save_pretrained(tmp_path)
    for checked in (tokenizer, AutoTokenizer.from_pretrained(tmp_path)):
        assert checked("a b")["input_ids"] == one
        assert checked("a", "b")["input_ids"] == two
        assert checked("a b a b a", truncation=True, max_length=3)["input_ids"][-1] == 1
        assert checked("")["input_ids"][-1] == 1


def test_a_separator_serves_where_there_is_no_end_symbol() -> None:
    tokenizer = tokenizer_with(None, sep_token="</s>")
    append_end_symbol(tokenizer)
    assert tokenizer("a")["input_ids"] == [3, 1]
    with pytest.raises(ModelError, match="without an end symbol, expected an eos_token or a sep_token"):
        append_end_symbol(tokenizer_with(None))


def test_a_model_keeps_it_and_encodes_with_it(tmp_path: Path) -> None:
    tokenizer_with(None, eos_token="</s>").save_pretrained(tmp_path / "tokenizer")
    values = {"fresh": {"d_embed": 8, "n_layers": 2, "chunk_size": 8}, "tokenizer": str(tmp_path / "tokenizer")}
    plain = build_sentence_transformer(ModelSection.model_validate(values), device="cpu")
    ended = build_sentence_transformer(ModelSection.model_validate({**values, "append_eos": True}), device="cpu")
    ended.save(str(tmp_path / "model"), create_model_card=False)
    loaded = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    assert loaded.preprocess(["a b"])["input_ids"].tolist() == [[3, 4, 1]]
    vectors = [Encoder(model, device="cpu").encode_documents("a b") for model in (plain, ended, loaded)]
    assert abs(vectors[1] - vectors[2]).max() < 1e-6
    assert abs(vectors[0] - vectors[1]).max() > 1e-4

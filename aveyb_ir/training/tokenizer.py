"""Learn a tokenizer from texts, for a model that starts from nothing."""

from collections.abc import Iterable
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from aveyb_ir.config import TokenizerTraining
from aveyb_ir.errors import ModelError

_SPECIAL_TOKENS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
_NO_LIMIT = 2**32


def train_tokenizer(texts: Iterable[str], settings: TokenizerTraining) -> PreTrainedTokenizerFast:
    """A tokenizer that frames a text as `[CLS] text [SEP]` and cuts nothing; the same for the same texts.

    Text is split into words and signs as BERT does, then words into byte pairs (Sennrich et al. 2016, arXiv
    1508.07909) over bytes, so every text has tokens and none is unknown. Few texts may give a vocabulary smaller than
    `settings.vocab_size`.
    """
    # WordPiece of the same library numbers its symbols in the order of a hash map: other merges on every run.
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=settings.lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.BertPreTokenizer(), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=settings.vocab_size,
        special_tokens=list(_SPECIAL_TOKENS.values()),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    cls, sep = _SPECIAL_TOKENS["cls_token"], _SPECIAL_TOKENS["sep_token"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=f"{cls} $A {sep} $B:1 {sep}:1",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in (cls, sep)],
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=_NO_LIMIT, **_SPECIAL_TOKENS)


def append_end_symbol(tokenizer: Any) -> None:
    """Have a fast tokenizer put its end symbol after every text, unless it does so already; saved with it.

    Raises:
        ModelError: it has neither an end symbol nor a separator.
    """
    symbol = tokenizer.eos_token or tokenizer.sep_token
    if symbol is None:
        raise ModelError(
            f"model.append_eos: got the tokenizer {tokenizer.name_or_path!r} without an end symbol, expected an "
            "eos_token or a sep_token; remove model.append_eos, or add one to the tokenizer's configuration"
        )
    number = tokenizer.convert_tokens_to_ids(symbol)
    if tokenizer("a")["input_ids"][-1:] == [number]:
        return
    backend = tokenizer.backend_tokenizer
    own = backend.post_processor
    end = _framing(tokenizer, symbol, number)
    # The library cannot run one template after another on pairs, so the new one takes the old one's place.
    backend.post_processor = processors.Sequence([own, end]) if isinstance(own, processors.ByteLevel) else end


def _framing(tokenizer: Any, end: str, end_id: int) -> processors.TemplateProcessing:
    """The symbols that the tokenizer puts around one text or two, and `end` after them."""
    bare = tokenizer("a", add_special_tokens=False)["input_ids"]
    before, after = _around(tokenizer("a")["input_ids"], bare)
    before_pair, rest = _around(tokenizer("a", "a")["input_ids"], bare)
    between, after_pair = _around(rest, bare)
    named = tokenizer.convert_ids_to_tokens
    return processors.TemplateProcessing(
        single=[*named(before), "$A", *named(after), end],
        pair=[*named(before_pair), "$A", *named(between), "$B:1", *named(after_pair), f"{end}:1"],
        special_tokens=[(end, end_id), *((named(one), one) for one in {*before, *after, *between, *after_pair})],
    )


def _around(ids: list[int], part: list[int]) -> tuple[list[int], list[int]]:
    """What is before and after the first occurrence of `part`."""
    start = next(i for i in range(len(ids)) if ids[i : i + len(part)] == part)
    return ids[:start], ids[start + len(part) :]

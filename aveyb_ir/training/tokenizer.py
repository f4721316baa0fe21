"""Learn a tokenizer from texts, for a model that starts from nothing."""

from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from aveyb_ir.config import TokenizerTraining

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

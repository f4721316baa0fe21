"""Cross-encoders: a query and a document are read together, as one text."""

import logging
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import CrossEncoder

from aveyb_ir.data.lines import replace_lone_surrogates
from aveyb_ir.encoding import EncodingCounts
from aveyb_ir.encoding.cross_encoders import check_one_score
from aveyb_ir.encoding.memory import default_token_budget, free_bytes, run_in_batches
from aveyb_ir.encoding.tokenization import checked_max_length

_log = logging.getLogger(__name__)

_TOKENIZE_AT_ONCE = 1024
_UNBOUNDED_LENGTH = 2**31


class CrossEncoderReranker:
    """Reranks with a cross-encoder of Sentence Transformers.

    Scores are what the model's head gives, before any activation; `predict(pairs, activation_fn=Identity())` gives the
    same. An activation such as the sigmoid keeps their order but makes high scores equal.

    A model with a length limit cuts the longer of query and document. Avey-B has none, and reads documents whole, the
    query first. With `pin_first_chunk` in its configuration every part of the document sees the first chunk, and so the
    query; of a query longer than a chunk only that much.

    Args:
        model: Gives one score for a pair.
        name: What it was loaded from.
        max_length: Tokens of query and document together that are read; by default the model's own limit.

    Raises:
        ModelError: The model gives several scores for a pair.
        ValueError: `max_length` is below 1 or above the model's limit.
    """

    def __init__(self, model: CrossEncoder, *, name: str | None = None, max_length: int | None = None) -> None:
        check_one_score(model, "reranker")
        self.model = model.eval()
        self.name = name or model.config._name_or_path or "in-memory cross-encoder"
        self.counts = EncodingCounts()
        if max_length is not None:
            self.model.max_seq_length = checked_max_length(max_length, self.max_length, self.name)
        width = getattr(model.config, "hidden_size", None) or 1024
        free = free_bytes(model.device)
        self._token_budget = default_token_budget(free, width, model.dtype.itemsize, model.device.type)

    @property
    def max_length(self) -> int | None:
        """Tokens of query and document together that it reads; None for all."""
        limit = self.model.max_seq_length
        return None if limit is None or limit >= _UNBOUNDED_LENGTH else int(limit)

    def scores(
        self,
        queries: Sequence[str],
        documents: Sequence[Sequence[str]],
        *,
        progress: Callable[[int], None] | None = None,
        log_cuts: bool = True,
    ) -> list[NDArray[np.float32]]:
        """Score each query's candidates as `Reranker.scores` says; pairs of similar length are computed together."""
        queries = [replace_lone_surrogates(query) for query in queries]  # no tokenizer takes them
        pairs = [
            (query, replace_lone_surrogates(text))
            for query, texts in zip(queries, documents, strict=True)
            for text in texts
        ]
        lengths = self._lengths(pairs, log_cuts)
        if log_cuts:
            self._tell_long_queries(queries)
        scores = np.zeros(len(pairs), dtype=np.float32)
        new = np.ones(len(pairs), dtype=bool)

        def compute(batch: NDArray[np.int64]) -> None:
            scores[batch] = self._logits([pairs[i] for i in batch])
            if progress is not None:
                progress(int(new[batch].sum()))
            new[batch] = False

        padded = not getattr(self.model.transformers_model, "packs_texts", False)
        self._token_budget = run_in_batches(
            lengths, self._token_budget, compute, padded=padded, device=self.model.device
        )
        ends = np.cumsum([len(texts) for texts in documents], dtype=np.int64)
        return [scores[end - len(texts) : end] for texts, end in zip(documents, ends, strict=True)]

    @torch.inference_mode()
    def _logits(self, pairs: list[tuple[str, str]]) -> NDArray[np.float32]:
        prompts: Mapping[str, str] = self.model.prompts
        features = self.model.preprocess(pairs, prompt=prompts.get(self.model.default_prompt_name or ""))
        device = self.model.device
        here = {name: part.to(device) if torch.is_tensor(part) else part for name, part in features.items()}
        logits: torch.Tensor = self.model(here)["scores"]
        found: NDArray[np.float32] = logits.float().reshape(len(pairs)).cpu().numpy()
        return found

    def _lengths(self, pairs: Sequence[tuple[str, str]], log_cuts: bool) -> NDArray[np.int64]:
        """Count the tokens that are read of each pair; log how many pairs were cut."""
        full = np.zeros(len(pairs), dtype=np.int64)
        for first in range(0, len(pairs), _TOKENIZE_AT_ONCE):
            block = pairs[first : first + _TOKENIZE_AT_ONCE]
            encoded = self._tokenized([query for query, _ in block], [text for _, text in block])
            full[first : first + len(block)] = [len(ids) for ids in encoded]
        used = full if self.max_length is None else np.minimum(full, self.max_length)
        seen = EncodingCounts(len(pairs), int(full.sum()), int(used.sum()), int((used < full).sum()))
        self.counts.add(seen)
        if seen.texts_cut and log_cuts:
            _log.warning(seen.cuts(self.max_length, "pairs of query and document"))
        return np.maximum(used, 1)

    def _tell_long_queries(self, queries: Sequence[str]) -> None:
        """Say where part of a query does not reach all of a document."""
        if not getattr(self.model.config, "pin_first_chunk", False):
            return
        size, distinct = self.model.config.chunk_size, list(dict.fromkeys(queries))
        if long := sum(len(ids) > size for ids in self._tokenized(distinct)):
            _log.warning(
                f"{long} of {len(distinct)} queries are longer than a chunk of {size} tokens: what is beyond reaches "
                "only the parts of a document that the ranker brings it to."
            )

    def _tokenized(self, *texts: Sequence[str]) -> list[list[int]]:
        options = {"padding": False, "truncation": False, "return_attention_mask": False, "verbose": False}
        return self.model.tokenizer(*texts, **options)["input_ids"] if texts[0] else []

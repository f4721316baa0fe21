"""Texts to vectors with any Sentence Transformers model, whole and independent of their batch."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from aveyb_ir.encoding.compilation import compile_layers
from aveyb_ir.encoding.devices import choose_device, choose_dtype
from aveyb_ir.encoding.fingerprint import describe, fingerprint_of, hash_weights
from aveyb_ir.encoding.forward import WholeForward, choose_forward, takes_token_ids
from aveyb_ir.encoding.loading import load_sentence_transformer
from aveyb_ir.encoding.memory import default_token_budget, free_bytes, run_in_batches
from aveyb_ir.encoding.tokenization import TokenizedTexts, checked_max_length, chunk_spans, tokenize

_log = logging.getLogger(__name__)

Kind = Literal["query", "document"]
_PROMPT_NAMES: dict[Kind, tuple[str, ...]] = {"query": ("query",), "document": ("document", "passage", "corpus")}

OnBatch = Callable[[NDArray[np.int64], NDArray[np.int64]], None]
"""Told after each batch the positions of its texts and how many tokens each had."""


@dataclass
class EncodingCounts:
    """What an encoder has been given so far, special tokens included."""

    texts: int = 0
    tokens: int = 0
    tokens_used: int = 0
    texts_cut: int = 0

    @classmethod
    def of(cls, tokenized: TokenizedTexts) -> "EncodingCounts":
        """Count texts that are about to be encoded."""
        full_lengths, lengths = tokenized.full_lengths, tokenized.lengths
        return cls(len(lengths), int(full_lengths.sum()), int(lengths.sum()), tokenized.num_cut)

    def add(self, other: "EncodingCounts") -> None:
        """Add what was counted elsewhere."""
        self.texts += other.texts
        self.tokens += other.tokens
        self.tokens_used += other.tokens_used
        self.texts_cut += other.texts_cut

    def since(self, before: "EncodingCounts") -> "EncodingCounts":
        """What has come since these were the counts."""
        return EncodingCounts(*(now - then for now, then in zip(astuple(self), astuple(before), strict=True)))

    def cuts(self, max_length: int | None, what: str = "texts") -> str:
        """Say how many texts were cut at a limit, and how much of all was read."""
        return (
            f"{self.texts_cut} of {self.texts} {what} cut at {max_length} tokens "
            f"({self.tokens_used} of {self.tokens} tokens used)."
        )


@dataclass(frozen=True)
class ChunkedText:
    """A text's vector, and those of its chunks with the characters they stand for.

    Attributes:
        vector: (d,) float32, unit.
        chunk_vectors: (chunks, d) float32, unit.
        spans: For each chunk its (start, end) in characters of the text.
    """

    vector: NDArray[np.float32]
    chunk_vectors: NDArray[np.float32]
    spans: list[tuple[int, int]]


class Encoder:
    """Encodes queries and documents to unit vectors.

    Args:
        model: A model folder, a Hub name, or a loaded SentenceTransformer (used as it is).
        device: "cpu", "cuda", "cuda:1", …; by default a GPU where there is one.
        dtype: "float32", "bfloat16" or "float16"; by default bfloat16 on GPUs that have it, else float32.
        max_length: Tokens kept of each text. By default the model's own limit, which for Avey-B is none.
        truncate_dim: Numbers kept of each vector, the first, made unit length again: for models that were trained for
            it (Matryoshka). By default the model's own setting, mostly all.
        token_budget: Tokens computed in one batch; a longer text runs alone. By default what fits into a part of the
            memory that is free now. Where a batch does not fit, a warning says so and the budget is halved.
        compile: Compile the model's layers with PyTorch's compiler at the first batch, for any batch shape. It takes a
            while, needs a C++ compiler on CPU, and changes the last bits of vectors.

    Raises:
        ModelError: The model cannot be loaded, or not be compiled.
        ValueError: An impossible device, dtype, budget, a `max_length` above the model's limit, or a `truncate_dim`
            above its width.
    """

    def __init__(
        self,
        model: str | Path | SentenceTransformer,
        *,
        device: str | None = None,
        dtype: str | None = None,
        max_length: int | None = None,
        truncate_dim: int | None = None,
        token_budget: int | None = None,
        compile: bool = False,
    ) -> None:
        self._weights_hash: str | None = None
        self.source: str | None  # what the model can be loaded from again; None for one that was given loaded
        if isinstance(model, SentenceTransformer):
            self.model = model
            self.source = None
            self.name = str(model.model_card_data.base_model or "in-memory model")
        else:
            place = choose_device(device)
            precision = choose_dtype(dtype, place)
            self.model = load_sentence_transformer(model, device=place)
            self.name = self.source = str(model)
            if self.model.dtype != precision:
                self._weights_hash = hash_weights(self.model)  # of the weights as stored, whatever computes with them
                self.model.to(precision)
        self.model.eval()
        if max_length is not None:
            self.model.max_seq_length = checked_max_length(max_length, self.max_length, self.name)
        if truncate_dim is not None:
            self._limit_dimension(truncate_dim)
        if token_budget is not None and token_budget < 1:
            raise ValueError(f"token_budget is {token_budget}; expected at least 1, or None to choose by free memory.")
        self.compiled = compile
        if compile:
            compile_layers(self.model)
        self.requested_token_budget = token_budget
        self.token_budget = self._default_token_budget() if token_budget is None else token_budget
        self.counts = EncodingCounts()

    @property
    def dimension(self) -> int:
        """Numbers per vector."""
        dimension = self.model.get_embedding_dimension()
        assert dimension is not None
        return int(dimension)

    @property
    def max_length(self) -> int | None:
        """Tokens kept of each text; None where there is no limit that a text could reach."""
        limit = self.model.max_seq_length
        return None if limit is None or limit >= 2**31 else int(limit)

    @property
    def details(self) -> dict[str, Any]:
        """What decides the vectors of this encoder: weights hash, pooling, prompts, length limit, …

        Only the weights are hashed once; a prompt or limit that is changed later shows.
        """
        if self._weights_hash is None:
            self._weights_hash = hash_weights(self.model)
        return {"weights": self._weights_hash, **describe(self.model)}

    @property
    def fingerprint(self) -> str:
        """Hash of `details`; vectors of encoders with equal fingerprints may be compared."""
        return fingerprint_of(self.details)

    def encode_queries(self, texts: str | Sequence[str], *, log_cuts: bool = True) -> NDArray[np.float32]:
        """Encode queries with the query prompt: (n, d) float32, or (d,) for a single string."""
        return self.encode(texts, "query", log_cuts=log_cuts)

    def encode_documents(self, texts: str | Sequence[str]) -> NDArray[np.float32]:
        """Encode documents with the document prompt: (n, d) float32, or (d,) for a single string."""
        return self.encode(texts, "document")

    def encode(
        self,
        texts: str | Sequence[str],
        kind: Kind,
        *,
        on_batch: OnBatch | None = None,
        log_cuts: bool = True,
    ) -> NDArray[np.float32]:
        """Encode texts whole, each independent of the others.

        Args:
            texts: Strings; one string gives one vector.
            kind: "query" or "document": which prompt goes before each text.
            on_batch: Called after each batch with the positions of its texts and the tokens used of each. When memory
                runs out, all is computed anew and texts are told again.
            log_cuts: Log how many texts were cut; else they are only counted.

        Returns:
            Unit vectors in the order of the texts, (n, d) float32. A text without any token (possible only with a
            tokenizer that adds none) gives zeros.

        Raises:
            AveybError: A text does not fit into memory even alone.
        """
        if isinstance(texts, str):
            vector: NDArray[np.float32] = self.encode([texts], kind, on_batch=on_batch, log_cuts=log_cuts)[0]
            return vector
        prompt = self.prompt(kind)
        if not takes_token_ids(self.model):
            vectors = self.model.encode(list(texts), prompt=prompt, convert_to_numpy=True, show_progress_bar=False)
            self.counts.texts += len(texts)
            if on_batch is not None:
                on_batch(np.arange(len(texts)), np.zeros(len(texts), dtype=np.int64))
            return _unit(np.asarray(vectors, dtype=np.float32).reshape(len(texts), self.dimension))
        tokenized = tokenize(self.model.tokenizer, [prompt + text for text in texts], self.max_length)
        self._count(tokenized, log_cuts)
        forward = choose_forward(self.model)
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)

        def compute(batch: NDArray[np.int64]) -> None:
            vectors[batch] = forward([tokenized.token_ids[i] for i in batch])[:, : self.dimension]

        self._run(tokenized, compute, on_batch, padded=forward.padded)
        return _unit(vectors)

    def encode_chunks(
        self,
        texts: Sequence[str],
        kind: Kind = "document",
        *,
        on_batch: OnBatch | None = None,
        log_cuts: bool = True,
    ) -> list[ChunkedText]:
        """Encode texts whole and keep a vector of each chunk, aware of the chunks before it, from the same pass.

        Only for Avey-B with mean or cls pooling, whose forward pass has these vectors. `on_batch` and `log_cuts` are as
        in `encode`.

        Raises:
            AveybError: A text does not fit into memory even alone.
            ValueError: The model has no chunks.
        """
        forward = choose_forward(self.model)
        if not isinstance(forward, WholeForward):
            raise ValueError(f"{self.name} has no chunks to encode; expected an Avey-B with mean or cls pooling.")
        prompt = self.prompt(kind)
        tokenized = tokenize(
            self.model.tokenizer, [prompt + text for text in texts], self.max_length, with_offsets=True
        )
        self._count(tokenized, log_cuts)
        size = self.model.config.chunk_size
        found = [
            ChunkedText(np.zeros(self.dimension, np.float32), np.zeros((0, self.dimension), np.float32), [])
        ] * len(texts)

        def compute(batch: NDArray[np.int64]) -> None:
            vectors, chunks = forward.chunks([tokenized.token_ids[i] for i in batch])
            for i, vector, of_chunks in zip(batch.tolist(), self._cut(vectors), chunks, strict=True):
                spans = chunk_spans(tokenized.offsets[i], size, len(prompt), len(texts[i]))
                found[i] = ChunkedText(vector, self._cut(of_chunks), spans)

        self._run(tokenized, compute, on_batch, padded=False)
        return found

    def _run(
        self,
        tokenized: TokenizedTexts,
        compute: Callable[[NDArray[np.int64]], None],
        on_batch: OnBatch | None,
        *,
        padded: bool,
    ) -> None:
        """Compute all texts in batches and keep the token budget that fitted."""
        lengths = tokenized.lengths

        def compute_and_tell(batch: NDArray[np.int64]) -> None:
            compute(batch)
            if on_batch is not None:
                on_batch(batch, lengths[batch])

        self.token_budget = run_in_batches(
            lengths, self.token_budget, compute_and_tell, padded=padded, device=self.model.device
        )

    def _default_token_budget(self) -> int:
        device = self.model.device
        return default_token_budget(free_bytes(device), self.dimension, self.model.dtype.itemsize, device.type)

    def prompt(self, kind: Kind) -> str:
        """What is put before each text of that kind; "" for nothing."""
        if kind not in _PROMPT_NAMES:
            raise ValueError(f"kind is {kind!r}; expected 'query' or 'document'.")
        return next((self.model.prompts[name] for name in _PROMPT_NAMES[kind] if name in self.model.prompts), "") or ""

    def _limit_dimension(self, truncate_dim: int) -> None:
        self.model.truncate_dim = None
        if not 1 <= truncate_dim <= self.dimension:
            raise ValueError(
                f"truncate_dim is {truncate_dim}; {self.name} has vectors of {self.dimension} numbers. "
                "Leave it out for whole vectors."
            )
        self.model.truncate_dim = truncate_dim

    def _cut(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        return _unit(vectors[:, : self.dimension])

    def _count(self, tokenized: TokenizedTexts, log_cuts: bool) -> None:
        seen = EncodingCounts.of(tokenized)
        self.counts.add(seen)
        if seen.texts_cut and log_cuts:
            _log.warning(seen.cuts(self.max_length))


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: NDArray[np.float32] = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
    return unit

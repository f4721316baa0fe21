"""Late interaction: a query and a document are compared token by token, with the states of any bi-encoder."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from aveyb_ir.encoding import Encoder, EncodingCounts
from aveyb_ir.encoding.encoder import Kind
from aveyb_ir.encoding.forward import takes_token_ids
from aveyb_ir.encoding.memory import run_in_batches
from aveyb_ir.encoding.token_states import token_states
from aveyb_ir.encoding.tokenization import tokenize
from aveyb_ir.errors import ModelError

_log = logging.getLogger(__name__)

_TOKENIZE_AT_ONCE = 1024
# Similarities of tokens held at a time, in elements.
_BLOCK_SIMILARITIES = 1 << 24


@dataclass(frozen=True, slots=True)
class TokenMatch:
    """What one token of a query found in a document, and how much that is worth.

    Attributes:
        query_span: The (start, end) characters of the token in the query.
        document_span: The characters of the most similar token in the document; None where the document has no token.
        similarity: Their cosine; the document's score is the sum of these.
    """

    query_span: tuple[int, int]
    document_span: tuple[int, int] | None
    similarity: float


@dataclass(frozen=True)
class _Tokens:
    """Token ids of texts, per text which of them are compared, with their characters where asked for, and the cuts."""

    token_ids: list[NDArray[np.int32]] = field(default_factory=list)
    counted: list[NDArray[np.bool_]] = field(default_factory=list)
    spans: list[NDArray[np.int32]] = field(default_factory=list)
    counts: EncodingCounts = field(default_factory=EncodingCounts)

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.array([len(ids) for ids in self.token_ids], dtype=np.int64)


class LateInteraction:
    """Reranks by MaxSim over token states: score = sum over query tokens of the best cosine among document tokens.

    The formula is ColBERT's (Khattab & Zaharia 2020, arXiv 2004.12832), the states those that any bi-encoder has before
    pooling, so it needs no training of its own. Documents are read whole up to the encoder's limit, which Avey-B does
    not have. The encoder's prompts go before the texts and shape the states; their tokens, and special ones, are not
    compared. A document without a token scores -1 for each token of the query, the least a cosine can be.

    Args:
        encoder: Gives the states, with its length limit, precision and token budget.

    Raises:
        ModelError: The encoder's model takes something else than token ids, or cannot tell which characters a token is.
    """

    def __init__(self, encoder: Encoder) -> None:
        if not takes_token_ids(encoder.model) or not encoder.model.tokenizer.is_fast:
            raise ModelError(
                f"{encoder.name} has no token states to compare; expected a bi-encoder that reads text with a fast "
                "tokenizer; choose another, or a cross-encoder"
            )
        self.encoder = encoder
        self.name = encoder.name
        self.counts = EncodingCounts()

    @property
    def max_length(self) -> int | None:
        """Tokens it reads of each text; None for all."""
        return self.encoder.max_length

    def scores(
        self,
        queries: Sequence[str],
        documents: Sequence[Sequence[str]],
        *,
        progress: Callable[[int], None] | None = None,
        log_cuts: bool = True,
    ) -> list[NDArray[np.float32]]:
        """Score each query's candidates as `Reranker.scores` says; a text that comes several times is encoded once."""
        asked: dict[str, list[tuple[int, int]]] = {}
        for number, texts in enumerate(documents):
            for place, text in enumerate(texts):
                asked.setdefault(text, []).append((number, place))
        distinct = {text: row for row, text in enumerate(dict.fromkeys(queries))}
        read_queries, read = self._read(list(distinct), "query"), self._read(list(asked), "document")
        self._note(read_queries, read, log_cuts=log_cuts)
        found = self._vectors(read_queries)
        vectors = [found[distinct[text]] for text in queries]
        askers = list(asked.values())
        # For documents without a token at all, which are never computed.
        scores = [np.full(len(texts), -len(own), np.float32) for own, texts in zip(vectors, documents, strict=True)]
        new = np.ones(len(askers), dtype=bool)

        def compute(batch: NDArray[np.int64]) -> None:
            wanted = [torch.cat([vectors[number] for number, _ in askers[i]]) for i in batch]
            for i, (best, _) in zip(batch.tolist(), self._search(read, batch, wanted), strict=True):
                parts = best.split([len(vectors[number]) for number, _ in askers[i]])
                for (number, place), part in zip(askers[i], parts, strict=True):
                    scores[number][place] = part.sum().item()
            if progress is not None:
                progress(sum(len(askers[i]) for i in batch[new[batch]]))
            new[batch] = False

        self._run(read, compute)
        return scores

    def matches(self, query: str, text: str) -> list[TokenMatch]:
        """Say for each token of a query which token of a document it is most similar to: why the score is what it is.

        Returns:
            One match for each token of the query, in its order; of equally similar tokens of the document one.
        """
        asked, read = self._read([query], "query", with_spans=True), self._read([text], "document", with_spans=True)
        self._note(asked, read)
        (vectors,) = self._vectors(asked)
        found = [(torch.full((len(vectors),), -1.0, dtype=torch.float32), torch.full((len(vectors),), -1))]
        self._run(read, lambda batch: found.extend(self._search(read, batch, [vectors])))
        best, position = (part.tolist() for part in found[-1])
        spans = asked.spans[0][asked.counted[0]].tolist()
        return [
            TokenMatch((start, end), None if at < 0 else tuple(read.spans[0][at].tolist()), similarity)
            for (start, end), at, similarity in zip(spans, position, best, strict=True)
        ]

    def _read(self, texts: Sequence[str], kind: Kind, *, with_spans: bool = False) -> _Tokens:
        """Tokenize texts, and mark the tokens that stand for characters of theirs."""
        prompt, tokenizer = self.encoder.prompt(kind), self.encoder.model.tokenizer
        found = _Tokens()
        for first in range(0, len(texts), _TOKENIZE_AT_ONCE):
            block = [prompt + text for text in texts[first : first + _TOKENIZE_AT_ONCE]]
            tokens = tokenize(tokenizer, block, self.max_length, with_offsets=True)
            full, used = int(tokens.full_lengths.sum()), int(tokens.lengths.sum())
            found.counts.add(EncodingCounts(len(block), full, used, tokens.num_cut))
            found.token_ids.extend(tokens.token_ids)
            found.counted.extend(offsets[:, 1] > len(prompt) for offsets in tokens.offsets)
            if with_spans:
                found.spans.extend(np.maximum(offsets - len(prompt), 0) for offsets in tokens.offsets)
        return found

    def _note(self, *read: _Tokens, log_cuts: bool = True) -> None:
        """Count what was read, and log what a limit cut of it."""
        seen = EncodingCounts()
        for one in read:
            seen.add(one.counts)
        self.counts.add(seen)
        if seen.texts_cut and log_cuts:
            _log.warning(seen.cuts(self.max_length))

    def _vectors(self, read: _Tokens) -> list[Tensor]:
        """The unit vectors (tokens, d) of the tokens of each text that are compared."""
        device, width = self.encoder.model.device, self.encoder.model[0].get_embedding_dimension()
        vectors = [
            torch.zeros(int(counted.sum()), width, dtype=torch.float32, device=device) for counted in read.counted
        ]

        def compute(batch: NDArray[np.int64]) -> None:
            flat = torch.zeros(int(read.lengths[batch].sum()), width, dtype=torch.float32, device=device)
            for position, states in token_states(self.encoder.model, [read.token_ids[i] for i in batch]):
                flat[position] = F.normalize(states.float(), dim=-1)
            for i, own in zip(batch.tolist(), flat.split(read.lengths[batch].tolist()), strict=True):
                vectors[i] = own[torch.from_numpy(read.counted[i]).to(device)]

        self._run(read, compute)
        return vectors

    def _search(self, read: _Tokens, batch: NDArray[np.int64], wanted: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
        """Find in each document of a batch the best cosine for each wanted vector, and the number of its token."""
        device = self.encoder.model.device
        lengths = torch.from_numpy(read.lengths[batch])
        text_of = torch.repeat_interleave(torch.arange(len(batch)), lengths).to(device)
        begin = (lengths.cumsum(0) - lengths).to(device)
        counted = torch.from_numpy(np.concatenate([read.counted[i] for i in batch])).to(device)
        best = [torch.full((len(vectors),), -1.0, dtype=torch.float32, device=device) for vectors in wanted]
        token = [torch.full((len(vectors),), -1, device=device) for vectors in wanted]
        for position, states in token_states(self.encoder.model, [read.token_ids[i] for i in batch]):
            kept = counted[position]
            position, unit = position[kept], F.normalize(states[kept].float(), dim=-1)
            texts, counts = torch.unique_consecutive(text_of[position], return_counts=True)
            sizes = counts.tolist()
            for i, own, at in zip(texts.tolist(), unit.split(sizes), position.split(sizes), strict=True):
                step = max(1, _BLOCK_SIMILARITIES // max(1, len(wanted[i])))
                for rows, numbers in zip(own.split(step), (at - begin[i]).split(step), strict=True):
                    highest, row = (rows @ wanted[i].T).max(dim=0)
                    token[i] = torch.where(highest > best[i], numbers[row], token[i])
                    best[i] = torch.maximum(best[i], highest)
        return list(zip([values.cpu() for values in best], [numbers.cpu() for numbers in token], strict=True))

    def _run(self, read: _Tokens, compute: Callable[[NDArray[np.int64]], None]) -> None:
        encoder = self.encoder
        encoder.token_budget = run_in_batches(
            read.lengths, encoder.token_budget, compute, padded=True, device=encoder.model.device
        )

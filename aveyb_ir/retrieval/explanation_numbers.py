"""The numbers of an explanation, computed by the models that made the score."""

import numpy as np
import torch
from numpy.typing import NDArray

from aveyb_ir.data import Document
from aveyb_ir.encoding import Encoder
from aveyb_ir.encoding.forward import WholeForward, choose_forward, takes_token_ids
from aveyb_ir.encoding.tokenization import TokenizedTexts, chunk_spans, tokenize
from aveyb_ir.errors import ModelError
from aveyb_ir.models.packing_aveyb import Chunks
from aveyb_ir.retrieval.explanation import Explanation, Part, RetrievedChunk
from aveyb_ir.retrieval.hits import Hit
from aveyb_ir.retrieval.late_interaction import LateInteraction

PASSAGE_TOKENS = 64
"""Tokens of a passage, the part that is explained where a model has no chunks."""


def explain(
    encoder: Encoder,
    query: str,
    found: Hit | Document,
    *,
    tokens: bool = False,
    late_interaction: LateInteraction | None = None,
) -> Explanation:
    """Say which parts of a document answer a query, which chunks were brought to them, and which tokens met.

    The document is encoded again: as it is read in one piece, and each of its parts alone. With an Avey-B whose pooling
    is mean or cls the parts are its chunks. Of any other model they are passages of `PASSAGE_TOKENS` tokens, whose
    vectors come from reading each alone: a sign of what matched, not a piece of the score.

    Args:
        encoder: That of the index.
        query: What was searched for.
        found: A hit, whose scores are taken over, or any document.
        tokens: Compare token by token too.
        late_interaction: Does that; by default with the encoder's own token states.

    Raises:
        AveybError: The document does not fit into memory.
        ModelError: The encoder takes something else than token ids, or cannot tell which characters a token is.
    """
    if not takes_token_ids(encoder.model) or not encoder.model.tokenizer.is_fast:
        raise ModelError(
            f"{encoder.name} cannot tell which characters of a text a token is; expected a bi-encoder that reads text "
            "with a fast tokenizer; build the index with another to explain its hits"
        )
    document = found.document if isinstance(found, Hit) else found
    text = document.full_text
    asked = encoder.encode_queries(query)
    tokenized = tokenize(
        encoder.model.tokenizer, [encoder.prompt("document") + text], encoder.max_length, with_offsets=True
    )
    has_chunks = isinstance(choose_forward(encoder.model), WholeForward)
    parts_of = _chunks if has_chunks else _passages
    cosine, parts = parts_of(encoder, asked, text, tokenized)
    late = (late_interaction or LateInteraction(encoder)) if tokens else None
    return Explanation(
        query=query,
        document=document,
        encoder=encoder.name,
        cosine=cosine,
        parts=tuple(parts),
        unit="chunk" if has_chunks else "passage",
        num_read=max((part.span[1] for part in parts), default=0) if tokenized.num_cut else len(text),
        token_matches=None if late is None else tuple(late.matches(query, text)),
        token_model=None if late is None else late.name,
        score=found.score if isinstance(found, Hit) else None,
        scores=found.scores if isinstance(found, Hit) else {},
        ranks=found.ranks if isinstance(found, Hit) else {},
    )


def _chunks(
    encoder: Encoder, asked: NDArray[np.float32], text: str, tokenized: TokenizedTexts
) -> tuple[float, list[Part]]:
    """Cosine of the whole text, and its chunks."""
    (encoded,) = encoder.encode_chunks([text])
    ids = tokenized.token_ids[0]
    if not len(ids):
        return 0.0, []
    parts = zip(
        encoded.spans,
        (encoded.chunk_vectors @ asked).tolist(),
        _alone(encoder, asked, ids),
        _retrieved(encoder, ids),
        strict=True,
    )
    return float(encoded.vector @ asked), [Part(number, *part) for number, part in enumerate(parts, start=1)]


def _alone(encoder: Encoder, asked: NDArray[np.float32], ids: NDArray[np.int32]) -> list[float]:
    """Cosine of each chunk as a text of its own, to which nothing is brought."""
    forward = choose_forward(encoder.model)
    assert isinstance(forward, WholeForward)
    size = encoder.model.config.chunk_size
    _, chunks = forward.chunks([ids[start : start + size] for start in range(0, len(ids), size)])
    vectors = np.concatenate(chunks)[:, : encoder.dimension]
    norms = np.linalg.norm(vectors, axis=1)
    cosines: list[float] = ((vectors @ asked) / np.where(norms > 0, norms, 1)).tolist()
    return cosines


@torch.inference_mode()
def _retrieved(encoder: Encoder, ids: NDArray[np.int32]) -> list[tuple[RetrievedChunk, ...]]:
    """For each chunk of a text what the ranker brings to it, as in the forward pass."""
    backbone = encoder.model.transformers_model
    flat = torch.from_numpy(ids.astype(np.int64)).to(encoder.model.device)
    chunks = Chunks.of([len(ids)], backbone.config.chunk_size)
    numbers, weights = backbone.ranker.retrieve(backbone.embed, flat, chunks)
    return [
        tuple(RetrievedChunk(number + 1, weight) for number, weight in zip(own, of_own, strict=True) if number >= 0)
        for own, of_own in zip(numbers.tolist(), weights.tolist(), strict=True)
    ]


def _passages(
    encoder: Encoder, asked: NDArray[np.float32], text: str, tokenized: TokenizedTexts
) -> tuple[float, list[Part]]:
    """Cosine of the whole text, and its passages."""
    cosine = float(encoder.encode_documents(text) @ asked)
    spans = chunk_spans(tokenized.offsets[0], PASSAGE_TOKENS, len(encoder.prompt("document")), len(text))
    spans = [(start, end) for start, end in spans if start < end]
    cosines = (encoder.encode_documents([text[start:end] for start, end in spans]) @ asked).tolist()
    parts = enumerate(zip(spans, cosines, strict=True), start=1)
    return cosine, [Part(number, span, of_part, of_part) for number, (span, of_part) in parts]

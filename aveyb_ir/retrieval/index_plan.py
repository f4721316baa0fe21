"""What building an index of a corpus will take, before it is begun: tokens, time, memory and disk."""

import os
import resource
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from aveyb_ir.data import Document, read_documents
from aveyb_ir.encoding import Encoder, Granularity
from aveyb_ir.encoding.granularity import check_granularity
from aveyb_ir.encoding.rates import EncodingRates, measure_rates
from aveyb_ir.encoding.survey import CorpusSurvey, Estimate, survey_corpus
from aveyb_ir.errors import DataError
from aveyb_ir.index import AutoSpec, IndexSpec, load_spec
from aveyb_ir.index.footprint import faiss_bytes

_PART_BYTES = 24
_ID_BYTES = 16  # beside the id
# SQLite's own bytes for a row and for its entry in the table of ids, measured on the sample collections.
_ROW_BYTES = 40
_SQLITE_SHARE = 1.04


@dataclass(frozen=True)
class Plan:
    """What an index would take. Estimates carry the range they lie in; a counted number is its own range.

    Attributes:
        documents: In the corpus, counted.
        sampled_documents: Tokenized; all of them in a small corpus.
        tokens: Of all documents, special tokens and prompts included, before any cut.
        tokens_used: That the encoder will compute.
        max_length: Tokens kept of a document; None without a limit.
        documents_cut: That lose their end to the limit.
        longest_tokens: Of the longest document, before any cut.
        vectors: In the index.
        dimension: Numbers per vector.
        seconds: To encode. Reading, storing and FAISS's training are not in it.
        tokens_per_second: By length range, its upper end and the median rate measured in it.
        longest_timed: Tokens up to which speed was measured; longer documents are taken to be as fast a token.
        peak_memory_bytes: Of this process while it encoded the sample, or of the GPU, and FAISS's index beside it.
        disk_bytes: Of the finished index, by file.
        disk_peak_bytes: While it is built, when vectors lie there twice.
    """

    documents: int
    sampled_documents: int
    tokens: Estimate
    tokens_used: Estimate
    max_length: int | None
    documents_cut: Estimate
    longest_tokens: int
    vectors: Estimate
    dimension: int
    seconds: Estimate
    tokens_per_second: dict[int, float]
    longest_timed: int
    peak_memory_bytes: int
    disk_bytes: dict[str, int]
    disk_peak_bytes: int

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries and numbers."""
        return asdict(self)


def plan(
    model: Encoder | str | os.PathLike[str],
    corpus: Iterable[Document] | str | os.PathLike[str],
    *,
    spec: str | os.PathLike[str] | IndexSpec | AutoSpec = "flat",
    granularity: Granularity = "document",
    sample: int = 5000,
    max_seconds: float = 60.0,
    seed: int = 0,
) -> Plan:
    """Survey a corpus and time the encoder on some of it, without making anything.

    Args:
        model: An Encoder, with its length limit, or a model folder or Hub name.
        corpus: Any iterable of documents, or the path of a BEIR folder or a corpus file; read once.
        spec: As in `Index.build`.
        granularity: As in `Index.build`.
        sample: Documents that are tokenized at the most; a corpus of no more is counted, a larger one estimated.
        max_seconds: Time for measuring speed, roughly.
        seed: Fixes the sample.

    Raises:
        DataError: A broken corpus, or one without documents.
        ModelError: The model cannot be loaded.
        ValueError: An impossible spec, granularity or sample.
    """
    check_granularity(granularity)
    checked = load_spec(spec)
    encoder = model if isinstance(model, Encoder) else Encoder(os.fspath(model))
    documents = read_documents(Path(corpus)) if isinstance(corpus, (str, os.PathLike)) else corpus
    survey = survey_corpus(encoder, documents, sample=sample, seed=seed)
    if not survey.num_documents:
        raise DataError("the corpus has no documents; expected at least one to plan for; check the path")
    vectors = survey.total(_vectors_of(encoder, survey.lengths, granularity))
    faiss = faiss_bytes(checked, round(vectors.value), encoder.dimension)
    rates = _rates(encoder, survey, granularity, max_seconds, seed)
    disk = _disk(survey, round(vectors.value), encoder.dimension, faiss)
    return Plan(
        documents=survey.num_documents,
        sampled_documents=len(survey.texts),
        tokens=survey.total(survey.full_lengths),
        tokens_used=survey.total(survey.lengths),
        max_length=encoder.max_length,
        documents_cut=survey.total(survey.lengths < survey.full_lengths),
        longest_tokens=survey.longest_tokens,
        vectors=vectors,
        dimension=encoder.dimension,
        seconds=rates.seconds(survey.lengths, survey.weight),
        tokens_per_second={rate.up_to: float(np.median(rate.tokens_per_second)) for rate in rates.rates},
        longest_timed=rates.longest_timed,
        peak_memory_bytes=_peak_bytes(encoder) + faiss + _PART_BYTES * round(vectors.value),
        disk_bytes=disk,
        disk_peak_bytes=sum(disk.values()) + disk["embeddings"],
    )


def _vectors_of(encoder: Encoder, lengths: NDArray[np.int64], granularity: Granularity) -> NDArray[np.int64]:
    """How many vectors each text gets."""
    whole = np.ones(len(lengths), dtype=np.int64)
    if granularity == "document":
        return whole
    size = getattr(encoder.model.config, "chunk_size", None)
    if size is None:
        raise ValueError(f"granularity is {granularity!r}, but {encoder.name} has no chunks; use document.")
    chunks: NDArray[np.int64] = -(-lengths // size)
    if granularity == "both":
        return chunks + whole
    found: NDArray[np.int64] = np.maximum(chunks, whole)
    return found


def _rates(
    encoder: Encoder, survey: CorpusSurvey, granularity: Granularity, max_seconds: float, seed: int
) -> EncodingRates:
    """Time the sample, and the longest text beside it: it decides the memory."""
    longest = survey.longest_tokens if encoder.max_length is None else min(survey.longest_tokens, encoder.max_length)
    texts, lengths = [*survey.texts, survey.longest], np.append(survey.lengths, longest)
    return measure_rates(encoder, texts, lengths, granularity=granularity, max_seconds=max_seconds, seed=seed)


def _disk(survey: CorpusSurvey, num_vectors: int, dimension: int, faiss: int) -> dict[str, int]:
    documents = _SQLITE_SHARE * survey.stored_bytes + _ROW_BYTES * survey.num_documents
    return {
        "documents": round(documents),
        "ids": _ID_BYTES * survey.num_documents + survey.id_bytes,
        "embeddings": 4 * dimension * num_vectors,
        "parts": _PART_BYTES * num_vectors,
        "faiss": faiss,
    }


def _peak_bytes(encoder: Encoder) -> int:
    if encoder.model.device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(encoder.model.device))
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

"""Rerankers by folder or Hub name."""

import json
import os
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from sentence_transformers.util import load_file_path

from aveyb_ir.encoding import Encoder, choose_dtype
from aveyb_ir.encoding.cross_encoders import load_cross_encoder
from aveyb_ir.encoding.devices import choose_device
from aveyb_ir.encoding.loading import locate
from aveyb_ir.errors import ModelError
from aveyb_ir.retrieval.cross_encoder_reranker import CrossEncoderReranker
from aveyb_ir.retrieval.late_interaction import LateInteraction
from aveyb_ir.retrieval.reranking import Reranker

RerankerKind: TypeAlias = Literal["auto", "cross_encoder", "late_interaction"]

_KINDS = get_args(RerankerKind)
_KIND_OF_TYPE = {"CrossEncoder": "cross_encoder", "SentenceTransformer": "late_interaction"}


def load_reranker(
    model: str | os.PathLike[str],
    *,
    kind: RerankerKind = "auto",
    device: str | None = None,
    dtype: str | None = None,
    max_length: int | None = None,
) -> Reranker:
    """Load what puts candidates into a better order.

    Args:
        model: A folder or Hub name: of a cross-encoder (trained here or anywhere for Sentence Transformers), or of any
            bi-encoder, whose token states are then compared by late interaction.
        kind: Which of the two it is; "auto" reads it from the model's files.
        device: As for `Encoder`.
        dtype: As for `Encoder`.
        max_length: Tokens read of query and document together by a cross-encoder, of each text by late interaction; by
            default the model's own limit.

    Raises:
        ModelError: The model cannot be loaded, is of another kind than asked for, or gives several scores for a pair.
        ValueError: No such kind, or an impossible device, dtype or length.
    """
    if kind not in _KINDS:
        raise ValueError(f"kind is {kind!r}; expected one of {', '.join(_KINDS)}; choose one")
    name = os.fspath(model)
    found = _kind_of(name)
    if kind not in ("auto", found):
        raise ModelError(
            f"{name} is a model for {found}; expected one for {kind}, which it was asked for as; choose another model, "
            "or leave the kind out"
        )
    if found == "late_interaction":
        return LateInteraction(Encoder(name, device=device, dtype=dtype, max_length=max_length))
    place = choose_device(device)
    options = {"device": str(place), "model_kwargs": {"dtype": choose_dtype(dtype, place)}}
    return CrossEncoderReranker(load_cross_encoder(name, "reranker", **options), name=name, max_length=max_length)


def _kind_of(name: str) -> str:
    """Say what a model is by its files; one that none of them tells of is taken for a bi-encoder."""
    name = locate(name)
    says = _settings(name, "config_sentence_transformers.json").get("model_type")
    if says is None and load_file_path(name, "modules.json") is None:
        architectures = _settings(name, "config.json").get("architectures") or [""]
        says = "CrossEncoder" if architectures[0].endswith("ForSequenceClassification") else None
    kind = _KIND_OF_TYPE.get(says or "SentenceTransformer")
    if kind is None:
        raise ModelError(
            f"{name} is a {says} of Sentence Transformers; expected one of {', '.join(_KIND_OF_TYPE)} to rerank with; "
            "choose another model"
        )
    return kind


def _settings(name: str, file: str) -> dict[str, Any]:
    """Read one of a model's JSON files, from its folder or the Hub; {} where it has none."""
    try:
        path = load_file_path(name, file)
        values = {} if path is None else json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ModelError(
            f"{name}: {file} cannot be read ({type(error).__name__}: {reason}); expected a model folder or a Hub name; "
            "check the path or the network"
        ) from error
    return values if isinstance(values, dict) else {}

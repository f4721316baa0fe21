"""What says how well a document answers a query: the model that found it, a cross encoder, or nothing but its rank."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import torch
from sentence_transformers import CrossEncoder

from aveyb_ir.encoding.cross_encoders import check_one_score, load_cross_encoder
from aveyb_ir.encoding.fingerprint import hash_weights
from aveyb_ir.errors import ModelError
from aveyb_ir.training.mining_choice import Judge, MiningRules, Pair
from aveyb_ir.training.mining_questions import MiningData
from aveyb_ir.training.mining_search import Candidates
from aveyb_ir.training.mining_texts import texts_of

_BLOCK_PAIRS = 4096
_BATCH_PAIRS = 32

ScoredBy: TypeAlias = Literal["model", "cross_encoder"]


@dataclass(frozen=True)
class Scoring:
    """Scores of positives, and what gives those of other documents.

    Attributes:
        by: Whose scores they are; None for ranks alone, which have none.
        judge: Scores pairs.
        positives: Of the positives of each question in their order; without `by` nothing.
    """

    by: ScoredBy | None
    judge: Judge
    positives: Mapping[str, Sequence[float]]

    def highest(self, rules: MiningRules, query_id: str) -> float:
        """The most that a negative of a query may score."""
        return math.inf if self.by is None else rules.highest(self.positives[query_id])


def scoring_by_search(found: Candidates) -> Scoring:
    """Score as the search did."""
    if found.scores is None:
        return Scoring(None, lambda pairs: [0.0] * len(pairs), {})
    scores = found.scores
    return Scoring("model", lambda pairs: [scores[id][document_id] for id, document_id in pairs], found.positive_scores)


def scoring_by_cross_encoder(
    model: CrossEncoder, data: MiningData, possible: Mapping[str, Sequence[str]], count: Callable[[int], None]
) -> Scoring:
    """Let a cross encoder read query and document together; the texts of all `possible` negatives are in memory.

    Raises:
        ModelError: a score is not finite.
    """
    texts = texts_of(data.documents(), {document_id for found in possible.values() for document_id in found})

    def judge(pairs: Sequence[Pair]) -> list[float]:
        return _scores(model, [(data.questions[id].text, texts[document_id]) for id, document_id in pairs], count)

    pairs = [(question.text, one.text) for question in data.questions.values() for one in question.positives]
    scores = iter(_scores(model, pairs, count))
    positives = {id: [next(scores) for _ in question.positives] for id, question in data.questions.items()}
    return Scoring("cross_encoder", judge, positives)


def judging(model: CrossEncoder | str | os.PathLike[str], device: torch.device | None) -> CrossEncoder:
    """Give a cross encoder that scores pairs, loaded if it is a folder or Hub name.

    Raises:
        ModelError: it cannot be loaded, or gives several numbers.
    """
    if not isinstance(model, CrossEncoder):
        model = load_cross_encoder(os.fspath(model), "cross_encoder", device=None if device is None else str(device))
    check_one_score(model, "cross_encoder")
    return model


def cross_encoder_details(model: CrossEncoder) -> dict[str, str]:
    """What identifies a cross encoder in the record."""
    return {"name": _name_of(model), "weights": hash_weights(model)}


def _name_of(model: CrossEncoder) -> str:
    return str(model.config._name_or_path or "in-memory cross encoder")


def _scores(model: CrossEncoder, pairs: Sequence[tuple[str, str]], count: Callable[[int], None]) -> list[float]:
    """What the model's head gives, before any activation.

    An activation would press the scores of good answers together, whose differences are what a student learns from.
    """
    options = {"batch_size": _BATCH_PAIRS, "show_progress_bar": False, "activation_fn": torch.nn.Identity()}
    scores: list[float] = []
    for start in range(0, len(pairs), _BLOCK_PAIRS):
        block = pairs[start : start + _BLOCK_PAIRS]
        found = np.asarray(model.predict(block, **options), dtype=np.float32)
        if not np.isfinite(found).all():
            query, document = block[int(np.argmin(np.isfinite(found)))]
            raise ModelError(
                f"cross encoder {_name_of(model)!r} scored {query[:40]!r} with {document[:40]!r} NaN or infinity; "
                "expected a finite number; look at its weights and precision"
            )
        scores += found.tolist()
        count(len(block))
    return scores

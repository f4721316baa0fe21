"""Needle in a haystack for retrieval: does a question still find the document that answers it when that grows long?"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.data import Collection, read_documents
from aveyb_ir.encoding import Encoder, Granularity
from aveyb_ir.encoding.granularity import check_granularity
from aveyb_ir.encoding.rates import measure_rates
from aveyb_ir.evaluation.haystack import Haystack, HaystackMaker, split_sentences
from aveyb_ir.evaluation.long_views import Views, encode_views, views_of
from aveyb_ir.evaluation.needle_facts import Needle, fact_needles, passage_needles

LENGTHS = (1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 96_000)
DEPTHS = (0.0, 25.0, 50.0, 75.0, 100.0)
_SAMPLE = Path(__file__).parents[1] / "assets" / "nq"
_TIMING_SECONDS = 10.0


@dataclass(frozen=True)
class NeedleCell:
    """One length and depth, as one model sees it through one kind of vector.

    Attributes:
        model: As it was given.
        view: "document", or "chunk" for the best chunk of a document.
        length: Tokens of a document at the most.
        depth: Per cent of the filler that comes before the needle.
        ranks: Of the right document, for each question; a document of equal score goes before it.
        found_in_place: Share of questions whose best chunk of the right document holds a part of the needle; None for
            whole documents.
    """

    model: str
    view: str
    length: int
    depth: float
    ranks: tuple[int, ...]
    found_in_place: float | None

    @property
    def success_at_1(self) -> float:
        """Share of questions that find their document first; what LongEmbed calls accuracy."""
        return fmean(rank == 1 for rank in self.ranks)

    @property
    def mrr(self) -> float:
        """Mean reciprocal rank."""
        return fmean(1 / rank for rank in self.ranks)

    def to_json(self) -> dict[str, Any]:
        """Its numbers by name."""
        return {**asdict(self), "success_at_1": self.success_at_1, "mrr": self.mrr}


@dataclass(frozen=True)
class NeedleCost:
    """What one model took: documents and their tokens before and after its limit, and seconds."""

    model: str
    documents: int
    tokens: int
    tokens_used: int
    seconds: float


@dataclass(frozen=True)
class NeedleReport:
    """All cells, how they came about, and what they cost. A right answer by chance has the odds 1 in `candidates`."""

    setting: dict[str, Any]
    candidates: int
    cells: tuple[NeedleCell, ...]
    costs: tuple[NeedleCost, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries, lists and numbers."""
        return {
            "setting": self.setting,
            "candidates": self.candidates,
            "cells": [cell.to_json() for cell in self.cells],
            "costs": [asdict(cost) for cost in self.costs],
        }


def needle(
    models: Sequence[Encoder | str | os.PathLike[str]],
    *,
    lengths: Sequence[int] = LENGTHS,
    depths: Sequence[float] = DEPTHS,
    needles: int = 4,
    distractors: int = 6,
    granularity: Granularity = "both",
    corpus: str | os.PathLike[str] | None = None,
    data: Collection | str | os.PathLike[str] | None = None,
    split: str = "test",
    seed: int = 0,
    device: str | None = None,
    dtype: str | None = None,
    say: Callable[[str], object] = lambda line: None,
) -> NeedleReport:
    """Rank documents of one length that differ in what is hidden in them, by questions for what is hidden.

    For each length and depth, every needle lies at that depth in a document of its own, and its question has to find
    that document among all of them and the distractors: documents of the same length and kind whose needles lie at
    random depths. Filler is real text, another stretch of it in each document. Across depths, only the place of the
    needle changes, and across models only the tokenizer that lengths are counted by; the distractors of a length are
    encoded once. The order of ideas is that of LongEmbed's needle and passkey tasks (Zhu et al. 2024), with depth as a
    second axis.

    Args:
        models: Encoders, model folders or Hub names.
        lengths: Tokens of a document, by each model's own tokenizer.
        depths: Per cent.
        needles: Questions of a cell.
        distractors: Further documents that each question has to beat.
        granularity: "document" ranks by a document's one vector, "chunk" by its best chunk's (Avey-B only), "both" by
            either; a model without chunks is then measured by documents alone, and the log says so.
        corpus: Filler: a BEIR folder or a corpus file; by default the sample that comes with the package.
        data: A folder whose passages and questions are the needles, instead of generated facts.
        split: Which judgements of `data`.
        seed: Fixes needles, filler and depths of distractors.
        device: Where models given by name compute.
        dtype: In which precision they do.
        say: Called with a line for a person before and after each model.

    Raises:
        DataError: A broken corpus or folder.
        ModelError: A model cannot be loaded.
        ValueError: Impossible arguments, or chunks of a model that has none.
    """
    _check(models, lengths, depths, needles, distractors)
    check_granularity(granularity)
    if data is None:
        hidden = fact_needles(needles + distractors, seed=seed)
    else:
        hidden = passage_needles(data, needles + distractors, split=split, seed=seed)
    filler = split_sentences(read_documents(Path(corpus or _SAMPLE)), without=[item.text for item in hidden])
    cells: list[NeedleCell] = []
    costs: list[NeedleCost] = []
    for given in models:
        encoder = given if isinstance(given, Encoder) else Encoder(os.fspath(given), device=device, dtype=dtype)
        views = views_of(encoder, granularity)
        trial = _Trial(encoder, HaystackMaker(encoder, filler), hidden, needles, depths, seed, views)
        say(trial.announcement(lengths))
        start = time.perf_counter()
        for length in lengths:
            cells += trial.cells(length)
        costs.append(trial.cost(time.perf_counter() - start))
        say(f"{encoder.name}: {costs[-1].tokens_used:,} tokens in {costs[-1].seconds:.0f} s")
    setting = {
        "lengths": list(lengths),
        "depths": list(depths),
        "needles": needles,
        "distractors": distractors,
        "kind": "facts" if data is None else "passages",
        "data": None if data is None else str(data if isinstance(data, (str, os.PathLike)) else data.name),
        "corpus": "sample" if corpus is None else str(corpus),
        "seed": seed,
    }
    return NeedleReport(setting, needles + distractors, tuple(cells), tuple(costs))


class _Trial:
    """One model before one set of needles; the first `num_needles` have questions, the rest distract."""

    def __init__(
        self,
        encoder: Encoder,
        maker: HaystackMaker,
        hidden: list[Needle],
        num_needles: int,
        depths: Sequence[float],
        seed: int,
        granularity: Granularity,
    ) -> None:
        self._encoder, self._maker, self._depths = encoder, maker, depths
        self._asked, self._distracting = hidden[:num_needles], hidden[num_needles:]
        random = np.random.default_rng(seed)
        self._starts = random.integers(1 << 31, size=len(hidden)).tolist()
        self._distractor_depths = random.random(len(self._distracting)).tolist()
        self._granularity = granularity
        self._questions = encoder.encode_queries([item.question for item in self._asked])
        self._cost = NeedleCost(encoder.name, 0, 0, 0, 0.0)

    def announcement(self, lengths: Sequence[int]) -> str:
        """Say what will be computed and, by documents timed now, how long it will take."""
        copies = len(self._asked) * len(self._depths) + len(self._distracting)
        samples = [self._maker.make(self._asked[0].text, length, 0.5, start=self._starts[0]) for length in lengths]
        limit = self._encoder.max_length or max(lengths)
        used = np.array([min(sample.num_tokens, limit) for sample in samples], dtype=np.int64)
        texts = [sample.text for sample in samples]
        rates = measure_rates(self._encoder, texts, used, granularity=self._granularity, max_seconds=_TIMING_SECONDS)
        seconds = rates.seconds(used, copies)
        timed = "" if max(used) <= rates.longest_timed else f", timed up to {rates.longest_timed:,} tokens"
        return (
            f"{self._encoder.name}: {copies * len(lengths):,} documents, {copies * int(used.sum()):,} tokens, about "
            f"{seconds.value:.0f} s ({seconds.low:.0f} to {seconds.high:.0f}){timed}"
        )

    def cells(self, length: int) -> list[NeedleCell]:
        """Measure all depths at one length."""
        first = len(self._asked)
        distractors = [
            self._maker.make(item.text, length, depth, start=start)
            for item, depth, start in zip(self._distracting, self._distractor_depths, self._starts[first:], strict=True)
        ]
        others = self._scores(distractors)
        found = []
        for depth in self._depths:
            documents = [
                self._maker.make(item.text, length, depth / 100, start=start)
                for item, start in zip(self._asked, self._starts, strict=False)
            ]
            own = self._scores(documents)
            for view, scores in own.scores.items():
                ranks = _ranks(np.concatenate([scores, others.scores[view]], axis=1))
                place = own.found_in_place([document.span for document in documents]) if view == "chunk" else None
                found.append(NeedleCell(self._encoder.name, view, length, depth, ranks, place))
        return found

    def cost(self, seconds: float) -> NeedleCost:
        """What was read since the beginning."""
        return NeedleCost(self._cost.model, self._cost.documents, self._cost.tokens, self._cost.tokens_used, seconds)

    def _scores(self, documents: list[Haystack]) -> Views:
        views = encode_views(
            self._encoder, self._questions, [document.text for document in documents], self._granularity
        )
        self._cost = NeedleCost(
            self._cost.model,
            self._cost.documents + len(documents),
            self._cost.tokens + views.seen.tokens,
            self._cost.tokens_used + views.seen.tokens_used,
            0.0,
        )
        return views


def _ranks(scores: NDArray[np.float32]) -> tuple[int, ...]:
    """Rank of each question's own document, which stands in the column of its row."""
    own = np.diagonal(scores)[:, None]
    return tuple((scores >= own).sum(axis=1).tolist())


def _check(
    models: Sequence[object], lengths: Sequence[int], depths: Sequence[float], needles: int, distractors: int
) -> None:
    if not models or not lengths or not depths:
        raise ValueError("models, lengths or depths are empty; expected at least one of each")
    if wrong := [length for length in lengths if length < 1]:
        raise ValueError(f"length is {wrong[0]}; expected at least 1 token")
    if wrong_depths := [depth for depth in depths if not 0 <= depth <= 100]:
        raise ValueError(f"depth is {wrong_depths[0]}; expected per cent, 0 to 100")
    if needles < 1 or distractors < 0 or needles + distractors < 2:
        raise ValueError(
            f"{needles} needles and {distractors} distractors; expected at least 1 needle and 2 documents to rank"
        )

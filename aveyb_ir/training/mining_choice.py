"""Which of the documents found are negatives: never a known answer, and not one that is scored like one."""

import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, TypeAlias, get_args

from aveyb_ir.training.mining_questions import Question
from aveyb_ir.training.mining_texts import text_key

_GROUP_QUERIES = 8192

Strategy: TypeAlias = Literal["top", "sample"]
Pair: TypeAlias = tuple[str, str]
"""Ids of a query and a document."""

Judge: TypeAlias = Callable[[Sequence[Pair]], Sequence[float]]
"""Gives a score for each pair, higher for a better answer."""


@dataclass(frozen=True)
class MiningRules:
    """What may be a negative, and how many are chosen. The parameters of `mine` explain them.

    Raises:
        ValueError: they contradict each other or cannot be met.
    """

    num_negatives: int = 7
    depth: int = 100
    skip_top: int = 0
    absolute_margin: float | None = None
    relative_margin: float | None = None
    min_score: float | None = None
    max_score: float | None = None
    strategy: Strategy = "top"
    seed: int = 42

    def __post_init__(self) -> None:
        if self.num_negatives < 1 or self.skip_top < 0:
            raise ValueError(
                f"num_negatives {self.num_negatives} and skip_top {self.skip_top}; expected at least 1 and 0; "
                "raise them"
            )
        if self.depth < self.skip_top + self.num_negatives:
            raise ValueError(
                f"depth {self.depth}; expected at least skip_top and num_negatives together, "
                f"{self.skip_top + self.num_negatives}; raise it"
            )
        for name in ("absolute_margin", "relative_margin"):
            margin = getattr(self, name)
            if margin is not None and not 0 <= margin < math.inf:
                raise ValueError(f"{name} {margin}; expected a number from 0; choose another")
        lowest, most = (-math.inf if self.min_score is None else self.min_score), self.max_score
        if not lowest <= (math.inf if most is None else most):
            raise ValueError(
                f"min_score {self.min_score} and max_score {most}; expected the first below; choose others"
            )
        if self.strategy not in get_args(Strategy):
            raise ValueError(f"strategy {self.strategy!r}; expected one of {', '.join(get_args(Strategy))}; choose one")

    @property
    def has_margin(self) -> bool:
        """Whether negatives must stay below the positives."""
        return self.absolute_margin is not None or self.relative_margin is not None

    @property
    def need_scores(self) -> bool:
        """Whether a document's score decides anything beside its rank."""
        return self.has_margin or self.min_score is not None or self.max_score is not None

    def highest(self, positive_scores: Sequence[float]) -> float:
        """Give the most that a negative may score by the margins, measured from the worst positive.

        These are NV-Retriever's (arXiv 2407.15831): TopK-MarginPos is the absolute margin, TopK-PercPos the relative
        one, 0.05 for its 95 %. A share is taken of the score's size, so that it lowers the score of a positive that is
        below 0 too.
        """
        worst = min(positive_scores)
        limits = [worst - self.absolute_margin] if self.absolute_margin is not None else []
        limits += [worst - self.relative_margin * abs(worst)] if self.relative_margin is not None else []
        return min(limits, default=math.inf)

    def objection(self, score: float, highest: float) -> str | None:
        """Say why a document with this score is no negative; None if it may be one."""
        if score > highest:
            return "margin"
        if self.max_score is not None and score > self.max_score:
            return "max_score"
        if self.min_score is not None and score < self.min_score:
            return "min_score"
        return None


class KnownAnswers:
    """All that is known to answer a query, also under another id of the same query, by id and by text.

    Texts are compared without regard to case and white space.
    """

    def __init__(self, questions: Mapping[str, Question]) -> None:
        self._query_keys = {id: text_key(question.text) for id, question in questions.items()}
        self._ids: defaultdict[int, set[str]] = defaultdict(set)
        self._texts: defaultdict[int, set[int]] = defaultdict(set)
        for id, question in questions.items():
            key = self._query_keys[id]
            self._ids[key].update(positive.id for positive in question.positives if positive.id is not None)
            self._texts[key].update(text_key(positive.text) for positive in question.positives)

    def objection(self, query_id: str, document_id: str, keys: Sequence[int]) -> str | None:
        """Say why a document is no negative of a query, whatever its score; None if it may be one.

        `keys` are those of its full text and of its text without title.
        """
        query = self._query_keys[query_id]
        if document_id in self._ids[query]:
            return "positive"
        if keys[0] in self._texts[query]:
            return "copy of a positive"
        return "the query itself" if query in keys else None


@dataclass
class Choice:
    """Negatives by query id, best first, each with its score, and how many documents were not taken, by reason."""

    negatives: dict[str, list[tuple[str, float]]]
    dropped: Counter[str] = field(default_factory=Counter)


def possible_negatives(
    questions: Mapping[str, Question],
    ranked: Mapping[str, Sequence[str]],
    keys: Mapping[str, tuple[int, int]],
    skip_top: int,
    dropped: Counter[str],
) -> dict[str, list[str]]:
    """Take out what cannot be a negative by its text or id, all copies of a text but the best, and the first few left.

    Args:
        questions: By id.
        ranked: Ids of documents by query id, best first.
        keys: Of each document's full text and of its text without title; those without text are absent.
        skip_top: How many are left out of what remains.
        dropped: Counts reasons.
    """
    known = KnownAnswers(questions)
    kept: dict[str, list[str]] = {}
    for id in questions:
        distinct: dict[int, str] = {}
        for document_id in ranked.get(id, ()):
            of_document = keys.get(document_id)
            reason = "empty" if of_document is None else known.objection(id, document_id, of_document)
            if of_document is None or reason is not None:
                dropped[str(reason)] += 1
            elif of_document[0] in distinct:
                dropped["copy of another negative"] += 1
            else:
                distinct[of_document[0]] = document_id
        left = list(distinct.values())
        dropped["skip_top"] += len(left[:skip_top])
        kept[id] = left[skip_top:]
    return kept


def choose(
    possible: Mapping[str, Sequence[str]], highest: Mapping[str, float], judge: Judge, rules: MiningRules
) -> Choice:
    """Choose negatives by rank or at random among those whose scores fit.

    A judge may be slow, so by rank it is asked about a few documents of all queries at a time, until there are enough.

    Args:
        possible: Ids of documents by query id, best first.
        highest: The most that a negative of each query may score.
        judge: Scores pairs.
        rules: The rest.
    """
    choice = Choice({id: [] for id in possible})
    ids = iter(possible)
    while group := list(islice(ids, _GROUP_QUERIES)):
        _fill(choice, {id: possible[id] for id in group}, highest, judge, rules)
    for id, found in choice.negatives.items():
        choice.negatives[id] = _some(found, rules, id)
    return choice


def _fill(
    choice: Choice,
    waiting: dict[str, Sequence[str]],
    highest: Mapping[str, float],
    judge: Judge,
    rules: MiningRules,
) -> None:
    """Ask about the next few documents of each query that waits, until none does or none has more."""
    step = rules.num_negatives if rules.strategy == "top" else max(map(len, waiting.values()))
    start = 0
    while pairs := [(id, document_id) for id, found in waiting.items() for document_id in found[start : start + step]]:
        for (id, document_id), score in zip(pairs, judge(pairs), strict=True):
            reason = rules.objection(score, highest[id])
            if reason is not None:
                choice.dropped[reason] += 1
            else:
                choice.negatives[id].append((document_id, score))
        start += step
        waiting = {id: found for id, found in waiting.items() if len(choice.negatives[id]) < rules.num_negatives}


def _some(found: list[Any], rules: MiningRules, query_id: str) -> list[Any]:
    """Take as many as wanted, in their order; which ones at random depends on the seed and the query alone."""
    if rules.strategy == "top" or len(found) <= rules.num_negatives:
        return found[: rules.num_negatives]
    places = random.Random(f"{rules.seed} {query_id}").sample(range(len(found)), rules.num_negatives)
    return [found[place] for place in sorted(places)]

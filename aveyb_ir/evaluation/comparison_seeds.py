"""Which evaluations of one name are seeds of one system, and which only happen to be called alike."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from aveyb_ir.evaluation.result import Evaluation

_OF_ONE_SEED = ("encoder", "fingerprint", "index")
_MEND = "name systems LABEL=PATH, and leave out what is there twice"


@dataclass(frozen=True, slots=True)
class Given:
    """A system as a user gave it, on one set; a model's evaluation is yet to be made.

    Attributes:
        name: What the comparison calls it.
        place: The file or model.
        labelled: Whether the user chose the name.
        evaluation: What was read; None for a model.
        described: Whether the evaluation says what gave the answers, as far as it knows: a run does not.
    """

    name: str
    place: str
    labelled: bool
    evaluation: Evaluation | None = None
    described: bool = True

    def measured(self) -> Evaluation:
        """The evaluation under the name."""
        assert self.evaluation is not None
        return replace(self.evaluation, name=self.name)


def without_repeated_bm25(given: Sequence[Given]) -> list[Given]:
    """Leave out BM25's evaluation where an equal one is there: reports of several models bring it along with each."""
    kept: list[Given] = []
    for one in given:
        bm25 = one.evaluation is not None and "bm25" in one.evaluation.system
        if not (bm25 and any((other.name, other.evaluation) == (one.name, one.evaluation) for other in kept)):
            kept.append(one)
    return kept


def check_seeds(given: Sequence[Given]) -> None:
    """Refuse two evaluations of one name that are no two seeds of one system.

    Raises:
        ValueError: The same file or model is there twice, or the name is not one that the user chose for both and what
            they are differs or is not known.
    """
    for one, other in combinations(given, 2):
        if one.name != other.name:
            continue
        if _share_a_set(one, other) and (_are_one_file(one.place, other.place) or _is_same(one, other)):
            raise ValueError(
                f"{one.name!r}: {one.place} and {other.place} are one and the same model; expected a different seed of "
                f"it; {_MEND}"
            )
        if not (one.labelled and other.labelled) and (difference := _difference(one, other)):
            raise ValueError(
                f"{one.name!r} is the name of {one.place} and of {other.place}, {difference}; expected seeds of one "
                f"system; {_MEND}"
            )


def _share_a_set(one: Given, other: Given) -> bool:
    """A model is measured on every set."""
    return one.evaluation is None or other.evaluation is None or one.evaluation.data == other.evaluation.data


def _are_one_file(place: str, other: str) -> bool:
    return os.path.realpath(place) == os.path.realpath(other)


def _is_same(one: Given, other: Given) -> bool:
    found = _identity(one.evaluation)
    return found is not None and found == _identity(other.evaluation)


def _identity(evaluation: Evaluation | None) -> str | None:
    """What tells a seed: an encoder's fingerprint; BM25 has none but its parameters. None where nothing is known."""
    system: Mapping[str, Any] = evaluation.system if evaluation is not None else {}
    if "bm25" in system:
        return json.dumps(system, sort_keys=True)
    return str(system["fingerprint"]) if "fingerprint" in system else None


def _difference(one: Given, other: Given) -> str | None:
    if one.evaluation is None or other.evaluation is None or not (one.described and other.described):
        return "of which too little is known" if _share_a_set(one, other) else None
    ours, theirs = _settings(one.evaluation.system), _settings(other.evaluation.system)
    names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    return f"which differ in {', '.join(names)}" if names else None


def _settings(system: Mapping[str, Any]) -> dict[str, Any]:
    """What seeds have in common."""
    settings = {name: value for name, value in system.items() if name not in _OF_ONE_SEED}
    details = settings.pop("details", {})
    return settings | {name: value for name, value in details.items() if name != "weights"}

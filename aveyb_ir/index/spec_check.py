"""Refuses a specification that FAISS cannot build or search, before anything is encoded."""

import re

from aveyb_ir.index.faiss_trial import trial_failure
from aveyb_ir.index.spec import BUILT_IN, LIST_VECTORS, IndexSpec

_UNUSABLE = {
    "IDMap": "ids are kept beside the vectors anyway",
    "RFlat": "hits are scored again exactly anyway",
    "Refine": "hits are scored again exactly anyway",
    "LSH": "FAISS knows it for Euclidean distance only; BFlat compares signs",
    "ITQ": "FAISS knows it for Euclidean distance only; BFlat compares signs",
}
_MAX_CHARACTERS = 200
# What FAISS does not check itself: beyond these it crashes or takes hours.
_LIMITS = (
    ("lists", re.compile(r"IVF(\d+)"), 1, 1 << 20),
    ("links of each vector", re.compile(r"HNSW(\d+)"), 2, 512),
    ("links of each vector", re.compile(r"NSG(\d+)"), 16, 128),
    ("bits of a code", re.compile(r"x(\d+)(?!\d|x)"), 1, 16),
    ("as a number", re.compile(r"(\d+)"), 1, 1 << 20),
)
_EXPECTED = f"expected auto, {', '.join(BUILT_IN)}, a .yaml file or a FAISS factory string"


def check_spec(spec: IndexSpec, dimension: int) -> None:
    """Raise ValueError unless FAISS can build and search `spec` over vectors of `dimension`.

    FAISS checks little of a factory string, and dies of some or never ends. So one that is not built in is tried:
    another process builds a small index of it and searches that.
    """
    factory = spec.factory
    if spec.is_flat:
        return
    _check_letters(factory)
    resolved = spec.resolved(LIST_VECTORS * 16, dimension)
    _check_parts(factory, resolved)
    if spec.is_binary and dimension % 8:
        raise ValueError(
            f"spec {factory!r} with {dimension} dimensions; expected a multiple of 8, since the signs of 8 "
            f"numbers make a byte: choose another spec"
        )
    if spec in BUILT_IN.values():
        return
    if reason := trial_failure(spec.model_dump_json(), resolved, dimension):
        raise ValueError(
            f"spec {factory!r} with {dimension} dimensions is none that FAISS can build and search ({reason}); "
            f"{_EXPECTED}"
        )


def _check_letters(factory: str) -> None:
    odd = [character for character in factory if not "!" <= character <= "~"]
    if odd or not 0 < len(factory) <= _MAX_CHARACTERS:
        got = f"with {odd[0]!r}" if odd else f"of {len(factory)} characters"
        raise ValueError(f"spec {factory[:_MAX_CHARACTERS]!r} {got} is no FAISS factory string; {_EXPECTED}")


def _check_parts(factory: str, resolved: str) -> None:
    for unusable, why in _UNUSABLE.items():
        if unusable in factory:
            raise ValueError(f"spec {factory!r}: {unusable} cannot be used ({why}); leave it out")
    for what, pattern, least, most in _LIMITS:
        for number in pattern.findall(resolved):
            if not least <= int(number) <= most:
                raise ValueError(f"spec {factory!r}: {number} {what}, expected {least} to {most}; correct the number")

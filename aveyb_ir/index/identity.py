"""Which encoder made the embeddings of an index."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class EncoderIdentity:
    """What an index remembers of its encoder, so that another one cannot be used on it by accident.

    `fingerprint` is a hash of everything that changes an embedding (weights, pooling, prompts, length limit,
    normalization); `details` spells those settings out, so that a mismatch can say which of them differs.
    Raises ValueError for an empty fingerprint, a dimension below 1 and details that JSON cannot hold.
    """

    name: str
    fingerprint: str
    dimension: int
    details: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.fingerprint or self.dimension < 1:
            raise ValueError(
                f"encoder {self.name!r} has fingerprint {self.fingerprint!r} and dimension {self.dimension}; "
                f"expected a non-empty fingerprint and at least 1 dimension"
            )
        try:
            plain = json.loads(json.dumps(dict(self.details)))
        except TypeError as error:
            raise ValueError(f"encoder {self.name!r}: details {self.details!r} are not JSON ({error})") from error
        # Tuples become lists here, so that an identity equals itself after a trip to disk.
        object.__setattr__(self, "details", plain)

    def matches(self, other: "EncoderIdentity") -> bool:
        """Whether embeddings of both live in the same space: same fingerprint, same dimension."""
        return (self.fingerprint, self.dimension) == (other.fingerprint, other.dimension)

    def differences(self, other: "EncoderIdentity") -> str:
        """One line on what differs, this encoder's values first."""
        pairs = [
            ("name", self.name, other.name),
            ("dimension", self.dimension, other.dimension),
            *((key, self.details.get(key), other.details.get(key)) for key in {**self.details, **other.details}),
            ("fingerprint", self.fingerprint, other.fingerprint),
        ]
        return ", ".join(f"{key} {mine!r} against {theirs!r}" for key, mine, theirs in pairs if mine != theirs)

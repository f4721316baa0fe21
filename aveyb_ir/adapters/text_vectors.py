"""Vectors as lists of numbers, which is how other libraries want them."""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from aveyb_ir.encoding import Encoder

EncoderSource: TypeAlias = Encoder | str | Path


def open_encoder(model: EncoderSource, options: Mapping[str, Any]) -> Encoder:
    """Give the encoder itself, or load that of a model folder or Hub name.

    Raises:
        ModelError: The model cannot be loaded.
        ValueError: Impossible options, or any beside an Encoder, which is loaded.
    """
    if not isinstance(model, Encoder):
        return Encoder(model, **options)
    if options:
        raise ValueError(
            f"got {', '.join(options)} beside an Encoder; expected such only with a model's folder or name; give them "
            "to the Encoder"
        )
    return model


class TextVectors:
    """Encodes for any number of threads, one at a time: neither tokenizers nor models are made for several."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self._turn = threading.Lock()

    def of_queries(self, texts: Sequence[str]) -> list[list[float]]:
        """Encode queries: for each one vector."""
        with self._turn:
            return self.encoder.encode_queries(list(texts)).tolist()

    def of_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """Encode documents: for each one vector."""
        with self._turn:
            return self.encoder.encode_documents(list(texts)).tolist()

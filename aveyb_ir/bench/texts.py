"""Token ids distributed as in real text, at any length: a ranker's work depends on how many are distinct."""

import re
from collections import Counter
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aveyb_ir.data import read_documents

_SAMPLE = Path(str(files("aveyb_ir"))) / "assets" / "nq"


@cache
def _stream() -> NDArray[np.int64]:
    """Words of the sample collection as ranks by frequency."""
    words = [word for document in read_documents(_SAMPLE) for word in re.findall(r"\w+|[^\w\s]", document.full_text)]
    rank = {word: number for number, (word, _) in enumerate(Counter(words).most_common())}
    return np.array([rank[word] for word in words], dtype=np.int64)


def sample_text(num_tokens: int, vocab_size: int, *, start: int = 0) -> Tensor:
    """Take a stretch of the sample's words as token ids, (num_tokens,) int64; it begins again where the sample ends."""
    stream = _stream()
    return torch.from_numpy(stream[np.arange(start, start + num_tokens) % len(stream)] % vocab_size)


def mixed_lengths(num_texts: int = 256, longest: int = 8192) -> list[int]:
    """Lengths as a real corpus has them: log-normal around 150 tokens, with a long tail."""
    lengths = np.random.default_rng(0).lognormal(mean=5.0, sigma=1.0, size=num_texts)
    return [int(length) for length in lengths.clip(8, longest)]

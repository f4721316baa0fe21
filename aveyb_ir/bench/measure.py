"""Times encoders side by side in one run: rounds go through all of them, and medians are taken per encoder."""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from aveyb_ir.bench.subjects import Subject


@dataclass(frozen=True)
class Cell:
    """One encoder on one kind of batch.

    Attributes:
        model: Name of the encoder.
        tokens: Tokens of the batch's longest text, or of all texts for a mixed corpus.
        batch_size: Texts per batch.
        seconds: Median time of a batch.
        p95_seconds: 95th percentile of the rounds.
        tokens_per_second: Real tokens, padding not counted, by the median.
        share_of_rate: Floating-point operations of the batch's matrix products per second, as a share of the rate that
            the machine's own matrix product reached between the same rounds.
    """

    model: str
    tokens: int
    batch_size: int
    seconds: float
    p95_seconds: float
    tokens_per_second: float
    share_of_rate: float


def measure(
    subjects: Sequence[Subject], texts_of: Callable[[Subject], list[Tensor]], *, repeats: int, rate: "Rate"
) -> list[Cell]:
    """Time each encoder on its texts, interleaved over the rounds."""
    batches = [texts_of(subject) for subject in subjects]
    operations = [
        _operations(subject, texts) for subject, texts in zip(subjects, batches, strict=True)
    ]  # also warms up
    times: list[list[float]] = [[] for _ in subjects]
    for _ in range(repeats):
        for subject, texts, taken in zip(subjects, batches, times, strict=True):
            taken.append(_seconds(lambda subject=subject, texts=texts: subject.encode(texts)))  # type: ignore[misc]
        rate.measure()
    return [
        _cell(subject, texts, taken, work, rate)
        for subject, texts, taken, work in zip(subjects, batches, times, operations, strict=True)
    ]


class Rate:
    """The machine's own rate of matrix products, measured between the rounds of what is compared with it.

    The product is as wide as the encoders' (768 to 3,072) and as tall as a micro-batch.
    """

    def __init__(self, device: str, dtype: torch.dtype) -> None:
        rows = 2048 if device == "cpu" else 32768
        self._left = torch.randn(rows, 768, device=device, dtype=dtype)
        self._right = torch.randn(768, 3072, device=device, dtype=dtype)
        self._work = 2 * rows * 768 * 3072
        self.seconds: list[float] = []
        _seconds(lambda: self._left @ self._right)

    def measure(self) -> None:
        """Time the product a few times more."""
        self.seconds += [_seconds(lambda: self._left @ self._right) for _ in range(3)]

    def reset(self) -> None:
        """Forget what was measured for an earlier comparison."""
        self.seconds = []

    @property
    def operations_per_second(self) -> float:
        """Median rate."""
        return self._work / float(np.median(self.seconds))


def decay_exponent(tokens: Iterable[int], tokens_per_second: Iterable[float]) -> float:
    """Fit throughput T(N) ∝ N^-α by least squares on logarithms and give α; 0 is perfectly linear cost."""
    slope, _ = np.polyfit([math.log(n) for n in tokens], [math.log(rate) for rate in tokens_per_second], 1)
    return float(-slope)


def _operations(subject: Subject, texts: list[Tensor]) -> int:
    with FlopCounterMode(display=False) as counter:
        subject.encode(texts)
    return int(counter.get_total_flops())


def _seconds(run: Callable[[], object]) -> float:
    _wait()
    start = time.perf_counter()
    run()
    _wait()
    return time.perf_counter() - start


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _cell(subject: Subject, texts: list[Tensor], taken: list[float], work: int, rate: Rate) -> Cell:
    median = float(np.median(taken))
    lengths = [len(text) for text in texts]
    return Cell(
        model=subject.name,
        tokens=lengths[0] if len(set(lengths)) == 1 else sum(lengths),
        batch_size=len(texts),
        seconds=median,
        p95_seconds=float(np.percentile(taken, 95)),
        tokens_per_second=sum(lengths) / median,
        share_of_rate=work / median / rate.operations_per_second,
    )

"""How long texts will take to encode here, from encoding some of each length, on which the cost depends."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.encoding.encoder import Encoder
from aveyb_ir.encoding.granularity import Granularity, encode_texts
from aveyb_ir.encoding.survey import Estimate

_ROUNDS = 3


@dataclass(frozen=True)
class LengthRate:
    """The speed at one range of lengths.

    Attributes:
        up_to: Most tokens of a text in this range, a power of two; the range begins above the half of it.
        tokens_per_second: Of each round that reached it.
        tokens: Encoded while it was timed.
    """

    up_to: int
    tokens_per_second: tuple[float, ...]
    tokens: int


@dataclass(frozen=True)
class EncodingRates:
    """The speed at every range of lengths that was timed, shortest first."""

    rates: tuple[LengthRate, ...]

    @property
    def longest_timed(self) -> int:
        """Longer texts are taken to cost as much a token as the longest that were timed."""
        return self.rates[-1].up_to

    def seconds(self, lengths: NDArray[np.int64], weight: float = 1.0) -> Estimate:
        """Time to encode texts of these lengths, (n,) tokens used of each, `weight` times.

        The value is that of the median round, the range that of the fastest and the slowest.
        """
        lengths = lengths[lengths > 0]
        places = np.searchsorted([rate.up_to for rate in self.rates], lengths).clip(max=len(self.rates) - 1)
        tokens = np.bincount(places, weights=lengths, minlength=len(self.rates))
        rounds = min(len(rate.tokens_per_second) for rate in self.rates)
        totals = [
            weight
            * sum(n / rate.tokens_per_second[number] for n, rate in zip(tokens.tolist(), self.rates, strict=True))
            for number in range(rounds)
        ]
        return Estimate(float(np.median(totals)), min(totals), max(totals))


def measure_rates(
    encoder: Encoder,
    texts: Sequence[str],
    lengths: NDArray[np.int64],
    *,
    granularity: Granularity = "document",
    max_seconds: float = 60.0,
    seed: int = 0,
) -> EncodingRates:
    """Encode some of these texts, each round other ones where there are enough, and time every range of lengths.

    Ranges are timed from the shortest on, with up to the encoder's token budget of texts; the last begins with the
    longest text, so that the memory it takes is taken. A range whose first text would go beyond `max_seconds`, by the
    speed so far, is not timed, nor are those after it.

    Args:
        encoder: As it will be used.
        texts: The texts, or a sample of them.
        lengths: (n,) tokens used of each.
        granularity: What vectors will be made.
        max_seconds: Most time to take, roughly.
        seed: Fixes which texts are encoded.

    Raises:
        ValueError: No text has a token.
    """
    ranges = _ranges(lengths, seed)
    if not ranges:
        raise ValueError("no text has a token; expected at least one to encode: check that the corpus has texts.")
    shortest = ranges[min(ranges)]
    _timed(encoder, texts, shortest[:1], granularity)  # what only the first call costs
    start = time.perf_counter()
    speeds: dict[int, list[float]] = {up_to: [] for up_to in ranges}
    tokens = dict.fromkeys(ranges, 0)
    for number in range(_ROUNDS):
        speed = 0.0
        for up_to, members in ranges.items():
            left = max_seconds * (number + 1) / _ROUNDS - (time.perf_counter() - start)
            share = left / sum(other >= up_to for other in ranges)
            batch = _batch(members, lengths, number, int(min(encoder.token_budget, share * (speed or 1e9))))
            if speed and lengths[batch[0]] > left * speed:
                break
            seconds = _timed(encoder, texts, batch, granularity)
            speed = int(lengths[batch].sum()) / seconds
            speeds[up_to].append(speed)
            tokens[up_to] += int(lengths[batch].sum())
        ranges = {up_to: members for up_to, members in ranges.items() if speeds[up_to]}
    return EncodingRates(tuple(LengthRate(up_to, _filled(speeds[up_to]), tokens[up_to]) for up_to in ranges))


def _filled(speeds: list[float]) -> tuple[float, ...]:
    """A later round may have no time left for the longest texts; it takes the median of those before."""
    return (*speeds, *[float(np.median(speeds))] * (_ROUNDS - len(speeds)))


def _ranges(lengths: NDArray[np.int64], seed: int) -> dict[int, NDArray[np.int64]]:
    """Positions of the texts of each range, shuffled, the longest text first in the last; shortest range first."""
    order = np.random.default_rng(seed).permutation(np.flatnonzero(lengths))
    if not len(order):
        return {}
    order = np.concatenate([[longest := int(lengths.argmax())], order[order != longest]])
    ups = 2 ** np.ceil(np.log2(lengths[order])).astype(np.int64)
    return {int(up_to): order[ups == up_to] for up_to in np.unique(ups)}


def _batch(members: NDArray[np.int64], lengths: NDArray[np.int64], number: int, most_tokens: int) -> NDArray[np.int64]:
    """The texts of one round: at least one, others than in the rounds before as far as they go."""
    cumulated = np.cumsum(lengths[members])
    size = max(1, int(np.searchsorted(cumulated, most_tokens, side="right")))
    return np.roll(members, -number * size)[:size]


def _timed(encoder: Encoder, texts: Sequence[str], batch: NDArray[np.int64], granularity: Granularity) -> float:
    start = time.perf_counter()
    encode_texts(encoder, [texts[i] for i in batch], granularity)
    return time.perf_counter() - start

"""The pictures of a comparison as SVG, coloured by the page's own style so that they suit light and dark."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from aveyb_ir.evaluation.comparison_differences import Difference
from aveyb_ir.evaluation.comparison_wording import mark, set_name, signed

_WIDTH = 860
_LABELS = 250
_NUMBERS = 90
_ROW = 24
_CURVE_WIDTH, _CURVE_HEIGHT, _CURVE_POINTS = 260, 120, 260


@dataclass(frozen=True, slots=True)
class _Axis:
    """Puts values between two ends onto pixels between two others."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return round(self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start), 1)

    def ticks(self) -> list[float]:
        """Round values, about five of them."""
        raw = (self.high - self.low) / 5
        size = 10.0 ** math.floor(math.log10(raw))
        step = next(size * times for times in (1, 2, 5, 10) if size * times >= raw)
        return [step * count for count in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]


def intervals_svg(differences: Sequence[Difference]) -> str:
    """Draw each mean difference with its 95 % interval, grouped by set, all on one scale with 0 in sight."""
    low, high = min(0.0, *(one.low for one in differences)), max(0.0, *(one.high for one in differences))
    margin = 0.04 * (high - low) or 0.01
    axis = _Axis(low - margin, high + margin, _LABELS, _WIDTH - _NUMBERS)
    groups = list(dict.fromkeys(one.data for one in differences))
    height = _ROW * (len(differences) + len(groups)) + 2 * _ROW
    return "".join(
        [
            _open(_WIDTH, height, "Mean differences with 95 % intervals"),
            *_scale(axis, height),
            *_interval_rows(differences, groups, axis),
            "</svg>",
        ]
    )


def curve_svg(differences: NDArray[np.float64], title: str) -> str:
    """Draw the differences of all queries, sorted: what is won to the left above the line, what is lost below."""
    ordered = np.sort(differences)[::-1]
    places = np.linspace(0, len(ordered) - 1, min(len(ordered), _CURVE_POINTS)).round().astype(int)
    heights = ordered[places]
    x = _Axis(0, len(heights), 0, _CURVE_WIDTH)
    y = _Axis(-1, 1, _CURVE_HEIGHT - 4, 4)
    parts = [_open(_CURVE_WIDTH, _CURVE_HEIGHT, title)]
    for name, values in (("gain", np.maximum(heights, 0)), ("loss", np.minimum(heights, 0))):
        steps = "".join(f"V{y(float(value))}H{x(place + 1)}" for place, value in enumerate(values))
        parts.append(f'<path class="{name}" d="M0 {y(0)}{steps}V{y(0)}Z"/>')
    parts.append(f'<line class="zero" x1="0" x2="{_CURVE_WIDTH}" y1="{y(0)}" y2="{y(0)}"/></svg>')
    return "".join(parts)


def _open(width: float, height: float, title: str) -> str:
    return f'<svg viewBox="0 0 {width} {height}" role="img"><title>{escape(title)}</title>'


def _scale(axis: _Axis, height: float) -> Iterator[str]:
    bottom = height - _ROW
    for tick in axis.ticks():
        x = axis(tick)
        kind = "zero" if abs(tick) < 1e-12 else "grid"
        yield f'<line class="{kind}" x1="{x}" x2="{x}" y1="4" y2="{bottom}"/>'
        text = f"{tick:+.3f}".rstrip("0").rstrip(".").replace("-", "\N{MINUS SIGN}") if kind == "grid" else "0"
        yield f'<text class="tick" x="{x}" y="{bottom + 16}" text-anchor="middle">{text}</text>'


def _interval_rows(differences: Sequence[Difference], groups: Sequence[str | None], axis: _Axis) -> Iterator[str]:
    y = _ROW / 2 + 4
    for data in groups:
        yield f'<text class="group" x="0" y="{y + 4}">{escape(set_name(data))}</text>'
        for one in differences:
            if one.data == data:
                y += _ROW
                yield from _interval(one, axis, y)
        y += _ROW


def _interval(one: Difference, axis: _Axis, y: float) -> Iterator[str]:
    kind = {"▲": "gain", "▼": "loss", "": "even"}[mark(one)]
    name = f"{one.system} − {one.against}"
    shown = name if len(name) <= 36 else name[:35] + "…"
    yield f'<g class="{kind}"><title>{escape(f"{name}: {signed(one.low)} to {signed(one.high)}")}</title>'
    yield f'<text class="label" x="12" y="{y + 4}">{escape(shown)}</text>'
    yield f'<line class="interval" x1="{axis(one.low)}" x2="{axis(one.high)}" y1="{y}" y2="{y}"/>'
    yield f'<circle cx="{axis(one.mean)}" cy="{y}" r="4.5"/>'
    yield f'<text class="label" x="{_WIDTH - 18}" y="{y + 4}" text-anchor="end">{signed(one.mean)}</text>'
    yield f'<text class="mark" x="{_WIDTH}" y="{y + 4}" text-anchor="end">{mark(one)}</text>'
    yield "</g>"

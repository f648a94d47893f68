"""Curves for a page: a small writer of SVG, readable on a light and on a dark page."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import floor, isfinite, log10

__all__ = ["Curve", "CurveChart", "draw_curves", "format_tick", "place_ticks"]

_WIDTH, _HEIGHT = 640, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 34, 36
_TICKS = 4
_KINDS = 5
"""Colours and dashes that a curve may have; the names stand at the side too."""
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #333 }
.title { font-weight: 600 }
.grid { stroke: #8888; stroke-width: 0.5 }
.half { fill: #8882 }
.curve { fill: none; stroke-width: 1.8 }
.k0 { stroke: #0b62c4 } .k1 { stroke: #b3400a; stroke-dasharray: 7 3 }
.k2 { stroke: #1a7f37; stroke-dasharray: 2 3 } .k3 { stroke: #8430b8; stroke-dasharray: 9 3 2 3 }
.k4 { stroke: #9a6700; stroke-dasharray: 1 4 }
@media (prefers-color-scheme: dark) {
text { fill: #ddd }
.k0 { stroke: #6cb0ff } .k1 { stroke: #ff9e6b } .k2 { stroke: #5ad07a }
.k3 { stroke: #d7a4ff } .k4 { stroke: #e3b341 }
}
"""


@dataclass(frozen=True, slots=True)
class Curve:
    """One line: its name and its points, ``(x, y)``, from left to right."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class CurveChart:
    """Curves with common axes."""

    name: str
    """What its file is called, without ``.svg``: letters, digits, dashes."""
    title: str
    x: str
    """What the horizontal axis counts."""
    unit: str
    """Of the vertical axis."""
    curves: tuple[Curve, ...]


def draw_curves(chart: CurveChart) -> str:
    """Draw a chart as a whole SVG file; the second half, which is judged, is shaded.

    Raises:
        ValueError: there is no point, too many curves, or a value that is no number.
    """
    points = [point for curve in chart.curves for point in curve.points]
    if not points or not all(isfinite(value) for point in points for value in point):
        raise ValueError(f"chart {chart.name!r} needs points, and each of them finite")
    if len(chart.curves) > _KINDS:
        raise ValueError(f"chart {chart.name!r} has more than {_KINDS} curves; make two of it")
    across = place_ticks(min(x for x, _ in points), max(x for x, _ in points))
    up = place_ticks(0.0, max(0.0, *(y for _, y in points)))
    area = _Area(min(x for x, _ in points), max(x for x, _ in points), up[0], up[-1])
    body = [
        f'<text class="title" x="{_LEFT}" y="16">{escape(chart.title)}</text>',
        *area.draw_half(),
        *area.draw_rows(up, chart.unit),
        *area.draw_columns(across, chart.x),
    ]
    for number, curve in enumerate(chart.curves):
        body += area.draw_curve(number, curve)
    named = escape(f"{chart.title}: {', '.join(curve.name for curve in chart.curves)}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{named}">\n'
        f"<style>{_STYLE}</style>\n" + "\n".join(body) + "\n</svg>\n"
    )


def place_ticks(low: float, high: float) -> list[float]:
    """Round values at equal distances that span ``low`` to ``high``."""
    span = high - low or 1.0
    rough = span / _TICKS
    power = 10.0 ** floor(log10(rough))
    step = next(power * times for times in (1, 2, 5, 10) if power * times >= rough)
    first = floor(low / step)
    ticks = [first * step]
    while ticks[-1] < high or len(ticks) < 2:
        ticks.append((first + len(ticks)) * step)
    return ticks


def format_tick(value: float) -> str:
    """A value of an axis, without zeros that say nothing."""
    return f"{value:,.6f}".rstrip("0").rstrip(".")


class _Area:
    """Where the curves are, and how values become places."""

    def __init__(self, left: float, right: float, bottom: float, top: float) -> None:
        self._left, self._right = left, right
        self._bottom, self._top = bottom, top

    def draw_half(self) -> list[str]:
        middle = self._x((self._left + self._right) / 2)
        width, height = _WIDTH - _RIGHT - middle, _HEIGHT - _TOP - _BOTTOM
        corner = f'x="{middle:.1f}" y="{_TOP}"'
        return [f'<rect class="half" {corner} width="{width:.1f}" height="{height}"/>']

    def draw_rows(self, ticks: Sequence[float], unit: str) -> list[str]:
        lines = [f'<text x="{_WIDTH - _RIGHT}" y="16" text-anchor="end">{escape(unit)}</text>']
        for tick in ticks:
            y = self._y(tick)
            lines.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>')
            text = format_tick(tick)
            lines.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
        return lines

    def draw_columns(self, ticks: Sequence[float], what: str) -> list[str]:
        lines = [
            f'<text x="{self._x(tick):.1f}" y="{_HEIGHT - _BOTTOM + 16}" '
            f'text-anchor="middle">{format_tick(tick)}</text>'
            for tick in ticks
            if self._left <= tick <= self._right
        ]
        y = _HEIGHT - 4
        return [*lines, f'<text x="{_LEFT}" y="{y}">{escape(what)}</text>']

    def draw_curve(self, number: int, curve: Curve) -> list[str]:
        if not curve.points:
            return []
        places = " ".join(f"{self._x(x):.1f},{self._y(y):.1f}" for x, y in curve.points)
        # Names stand in one line below, each beside a piece of its line.
        x, y = _LEFT + 130 + number * 100, _HEIGHT - 8
        return [
            f'<polyline class="curve k{number}" points="{places}"/>',
            f'<path class="curve k{number}" d="M{x} {y}h22"/>',
            f'<text x="{x + 27}" y="{y + 4}">{escape(curve.name)}</text>',
        ]

    def _x(self, value: float) -> float:
        share = (value - self._left) / ((self._right - self._left) or 1.0)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def _y(self, value: float) -> float:
        share = (value - self._bottom) / ((self._top - self._bottom) or 1.0)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

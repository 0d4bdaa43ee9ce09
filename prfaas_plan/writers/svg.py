"""Plots as SVG, written by hand: lines, bars and spans, readable without colour and by screen readers."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from prfaas_plan.units import show
from prfaas_plan.writers.cells import printable

__all__ = [
    "BOTTOM", "HEIGHT", "LEFT", "RIGHT", "TOP", "WIDTH", "Axis", "Line", "bar_chart", "escaped", "line_chart",
    "span_chart", "x_of", "y_of",
]  # fmt: skip

WIDTH, HEIGHT = 640.0, 340.0
LEFT, RIGHT, TOP, BOTTOM = 62.0, 16.0, 14.0, 48.0

Points = Sequence[tuple[float, float]]


def escaped(text: str) -> str:
    """Make a text harmless in a page: no markup, no control or direction-changing characters.

    >>> escaped('<b>"x"')
    '&lt;b&gt;&quot;x&quot;'
    """
    return html.escape(printable(text))


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: its title, its ends, and whether it is logarithmic."""

    title: str
    low: float
    high: float
    log: bool = False

    def share(self, value: float) -> float:
        """Give the place of a value between the ends, from 0 to 1."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Choose four to eight round values."""
        if self.log:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            decades = [10.0**d for d in range(first, last + 1)]
            found = [d for d in decades if self.low * 0.999 <= d <= self.high * 1.001]
            if len(found) > 3:
                return found
            finer = [m * d for d in decades for m in ((0.1, 0.2, 0.5) if self.high < 300 * self.low else (0.1, 0.3))]
            return [v for v in finer if self.low * 0.999 <= v <= self.high * 1.001]
        span = self.high - self.low
        step = 10.0 ** math.floor(math.log10(span / 4.0))
        step *= next(m for m in (1.0, 2.0, 2.5, 5.0, 10.0) if span / (step * m) <= 6.0)
        first = math.ceil(self.low / step - 1e-9)
        return [i * step for i in range(first, int(self.high / step + 1e-9) + 1)]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a chart, or a marker where it has one point."""

    name: str
    points: Points
    style: str
    """Class of the line: ``a``, ``b``, ``c`` or ``main``; each has a colour and a dash of its own."""
    label_at: float = field(default=0.9)
    """Where along the line its name stands."""
    side: str = "above"
    """On which side of the line: ``above``, ``below``, ``left`` or ``right``."""
    place: tuple[float, float] | None = None
    """Where the middle of the name's foot stands in the drawing, instead of `label_at` and `side`."""


def x_of(axis: Axis, value: float) -> float:
    """Place a value between the left and right ends of the frame."""
    return LEFT + (WIDTH - LEFT - RIGHT) * min(1.0, max(0.0, axis.share(value)))


def y_of(axis: Axis, value: float) -> float:
    """Place a value between the lower and upper ends of the frame."""
    return TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - min(1.0, max(0.0, axis.share(value))))


def _open(name: str, title: str, description: str, height: float = HEIGHT) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH:g} {height:g}" role="img" aria-labelledby="{name}-t {name}-d">'
        f'<title id="{name}-t">{escaped(title)}</title><desc id="{name}-d">{escaped(description)}</desc>'
    )


def _tick(value: float) -> str:
    if value >= 10_000 and value % 1000 == 0:
        return f"{value / 1000:,.0f}k"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.3g}"


def _frame(x: Axis, y: Axis, *, x_ticks: bool = True) -> list[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = []
    for value in y.ticks():
        at = y_of(y, value)
        parts.append(f'<line class="grid" x1="{LEFT:g}" x2="{right:g}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6:g}" y="{at + 4:.1f}" text-anchor="end">{_tick(value)}</text>')
    for value in x.ticks() if x_ticks else ():
        at = x_of(x, value)
        parts.append(f'<line class="axis" x1="{at:.1f}" x2="{at:.1f}" y1="{bottom:g}" y2="{bottom + 5:g}"/>')
        parts.append(f'<text x="{at:.1f}" y="{bottom + 19:g}" text-anchor="middle">{_tick(value)}</text>')
    parts.append(f'<line class="axis" x1="{LEFT:g}" x2="{right:g}" y1="{bottom:g}" y2="{bottom:g}"/>')
    middle = (LEFT + right) / 2
    parts.append(f'<text x="{middle:g}" y="{HEIGHT - 8:g}" text-anchor="middle">{escaped(x.title)}</text>')
    up = (TOP + bottom) / 2
    parts.append(
        f'<text x="14" y="{up:g}" text-anchor="middle" transform="rotate(-90 14 {up:g})">{escaped(y.title)}</text>'
    )
    return parts


def line_chart(name: str, title: str, description: str, axes: tuple[Axis, Axis], lines: Sequence[Line]) -> str:
    """Draw lines over two axes; what lies above the upper end of an axis is cut off."""
    x, y = axes
    parts = [_open(name, title, description), *_frame(x, y)]
    for line in lines:
        kept = _clipped(line.points, x, y)
        if not kept:
            continue
        if len(line.points) == 1:
            parts.append(_marker(line, x_of(x, kept[0][0]), y_of(y, kept[0][1])))
            continue
        path = " ".join(f"{x_of(x, a):.1f},{y_of(y, b):.1f}" for a, b in kept)
        parts.append(f'<polyline class="line {line.style}" points="{path}"/>')
        a, b = kept[min(len(kept) - 1, int(line.label_at * len(kept)))]
        parts.append(_label(line, x_of(x, a), y_of(y, b)))
    return "".join([*parts, "</svg>"])


def _clipped(points: Points, x: Axis, y: Axis) -> list[tuple[float, float]]:
    """Cut a line at the upper end of the y axis, and at both ends of the x axis."""
    inside = [(a, b) for a, b in points if x.low <= a <= x.high]
    kept: list[tuple[float, float]] = []
    for i, (a, b) in enumerate(inside):
        if b <= y.high:
            kept.append((a, b))
        elif (i > 0 and inside[i - 1][1] <= y.high) or (i + 1 < len(inside) and inside[i + 1][1] <= y.high):
            other = inside[i - 1] if i > 0 and inside[i - 1][1] <= y.high else inside[i + 1]
            share = (y.high - other[1]) / (b - other[1])
            kept.append((other[0] + share * (a - other[0]), y.high))
    return kept


def _marker(line: Line, at_x: float, at_y: float) -> str:
    dot = f'<circle class="dot {line.style}" cx="{at_x:.1f}" cy="{at_y:.1f}" r="6"/>'
    if line.place is not None:
        return dot + _named(line, *line.place, "middle")
    side = "end" if at_x > 0.6 * WIDTH else "start"
    shift = -10 if side == "end" else 10
    words = (
        f'<text class="name" x="{at_x + shift:.1f}" y="{at_y - 9:.1f}" text-anchor="{side}">{escaped(line.name)}</text>'
    )
    return dot + words


def _label(line: Line, at_x: float, at_y: float) -> str:
    if line.place is not None:
        return _named(line, *line.place, "middle")
    anchor = {"left": "end", "right": "start"}.get(line.side, "middle")
    at_x += {"left": -9.0, "right": 9.0}.get(line.side, 0.0)
    at_y += {"above": -9.0, "below": 19.0}.get(line.side, 4.0)
    at_x = min(max(at_x, LEFT + 4), WIDTH - RIGHT - 4)
    anchor = "end" if at_x > 0.85 * WIDTH else anchor
    at_y = max(TOP + 16, at_y)
    return _named(line, at_x, at_y, anchor)


def _named(line: Line, at_x: float, at_y: float, anchor: str) -> str:
    name = escaped(line.name)
    if not name:
        return ""
    return f'<text class="name {line.style}" x="{at_x:.1f}" y="{at_y:.1f}" text-anchor="{anchor}">{name}</text>'


def bar_chart(
    name: str, title: str, description: str, axes: tuple[str, Axis], bars: Sequence[tuple[str, float, bool]]
) -> str:
    """Draw upright bars: a label, a value and whether the bar is the chosen one."""
    x_title, y = axes
    x = Axis(x_title, 0.0, max(1.0, float(len(bars))))
    parts = [_open(name, title, description), *_frame(x, y, x_ticks=False)]
    width = (WIDTH - LEFT - RIGHT) / max(1, len(bars))
    for i, (label, value, chosen) in enumerate(bars):
        left, top = x_of(x, float(i)), y_of(y, value)
        kind = "bar chosen" if chosen else "bar"
        parts.append(
            f'<rect class="{kind}" x="{left + 0.15 * width:.1f}" y="{top:.1f}" width="{0.7 * width:.1f}" '
            f'height="{HEIGHT - BOTTOM - top:.1f}"/>'
        )
        middle = left + width / 2
        parts.append(f'<text class="name" x="{middle:.1f}" y="{top - 5:.1f}" text-anchor="middle">{show(value)}</text>')
        parts.append(
            f'<text x="{middle:.1f}" y="{HEIGHT - BOTTOM + 19:g}" text-anchor="middle">{escaped(label)}</text>'
        )
    return "".join([*parts, "</svg>"])


def span_chart(
    name: str, title: str, description: str, base: tuple[float, str], spans: Sequence[tuple[str, float, float]]
) -> str:
    """Draw lying bars from a low to a high value around a base value (a tornado), with labels above each bar."""
    value, unit = base
    height = 40.0 + 44.0 * max(1, len(spans)) + 24.0
    low = min([value, *(s[1] for s in spans)])
    high = max([value, *(s[2] for s in spans)])
    pad = 0.12 * (high - low) or 1.0
    axis = Axis(unit, low - pad, high + pad)

    def at(v: float) -> float:
        return 20.0 + (WIDTH - 40.0) * axis.share(v)

    foot = height - 22.0
    parts = [
        _open(name, title, description, height),
        f'<line class="line main" x1="{at(value):.1f}" x2="{at(value):.1f}" y1="14" y2="{foot:.1f}"/>',
    ]
    for i, (label, start, end) in enumerate(spans):
        top = 20.0 + 44.0 * i
        width = max(1.0, at(end) - at(start))
        parts.append(f'<text class="name" x="20" y="{top + 10:.1f}">{escaped(label)}</text>')
        parts.append(f'<rect class="bar" x="{at(start):.1f}" y="{top + 16:.1f}" width="{width:.1f}" height="14"/>')
        parts.append(f'<text x="{at(start) - 4:.1f}" y="{top + 27:.1f}" text-anchor="end">{show(start)}</text>')
        parts.append(f'<text x="{at(end) + 4:.1f}" y="{top + 27:.1f}">{show(end)}</text>')
    words = f"{show(value, unit)} as planned"
    parts.append(
        f'<text class="name" x="{at(value):.1f}" y="{foot + 15:.1f}" text-anchor="middle">{escaped(words)}</text>'
    )
    return "".join([*parts, "</svg>"])

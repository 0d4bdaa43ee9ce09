"""Finds free places for the names of lines and markers in a chart, so that they cover as little as possible."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from prfaas_plan.writers.svg import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Axis, Line, x_of, y_of

__all__ = ["arranged"]

_CHARACTER, _LINE = 11.2, 21.0
"""Size of a character at the larger letters of a narrow screen."""
_STEP = 10.0
_DOT = 40
"""A name over a marker is as bad as one over so many steps of a line."""
_LONGEST = 38

Place = tuple[float, float]


def arranged(axes: tuple[Axis, Axis], lines: Sequence[Line]) -> list[Line]:
    """Give each line and marker a place for its name: near it, inside the frame, over no other name if possible."""
    traces = {id(line): tuple(_trace(line, axes)) for line in lines}
    drawn = [p for line in lines for p in traces[id(line)] for _ in range(_DOT if len(line.points) == 1 else 1)]
    taken: list[tuple[Place, float]] = []
    found = {}
    for line in sorted(
        (each for each in lines if each.name), key=lambda each: len(each.points) > 1
    ):  # markers first: they have fewer places
        short = line.name if len(line.name) <= _LONGEST else line.name[: _LONGEST - 1] + "…"
        half = _CHARACTER * len(short) / 2.0
        places = list(_places(traces[id(line)], half, len(line.points) == 1))
        others = [p for each in lines if each is not line for p in traces[id(each)]]
        costs = [_cost(p, half, drawn, taken) + _doubt(p, half, traces[id(line)], others) for p in places]
        best = places[costs.index(min(costs))] if places else (WIDTH / 2.0, TOP + _LINE)
        taken.append((best, half))
        found[id(line)] = replace(line, name=short, place=best)
    return [found.get(id(line), line) for line in lines]


def _trace(line: Line, axes: tuple[Axis, Axis]) -> Iterator[Place]:
    """Walk along a line in small steps."""
    ends = [(x_of(axes[0], a), y_of(axes[1], b)) for a, b in line.points]
    for (a, b), (c, d) in itertools.pairwise(ends):
        steps = max(1, round(math.hypot(c - a, d - b) / _STEP))
        yield from ((a + (c - a) * i / steps, b + (d - b) * i / steps) for i in range(steps))
    yield from ends[-1:]


def _places(trace: Sequence[Place], half: float, marker: bool) -> Iterator[Place]:
    """List the middles of a name's foot around a marker, or above and below a line."""
    for a, b in trace if marker else trace[::2]:
        around = [(a + half + 12, b + 5), (a - half - 12, b + 5), (a, b - 13), (a, b + 27)]
        around += [(a + dx, b + dy) for dx in (half, -half) for dy in (-32, 46)]
        aside = [(a, b - 9), (a, b + 21), (a + half + 9, b + 16), (a - half - 9, b - 6)]
        for x, y in around if marker else aside:
            if LEFT + half <= x <= WIDTH - RIGHT - half and TOP + 14 <= y <= HEIGHT - BOTTOM - 4:
                yield x, y


def _cost(place: Place, half: float, drawn: Sequence[Place], taken: Sequence[tuple[Place, float]]) -> float:
    x, y = place
    covered = sum(abs(a - x) <= half + 4 and y - _LINE + 2 <= b <= y + 6 for a, b in drawn)
    over = sum(abs(a - x) < half + other and abs(b - y) < _LINE for (a, b), other in taken)
    return covered + 1000.0 * over


def _doubt(place: Place, half: float, own: Sequence[Place], others: Sequence[Place]) -> float:
    """Weigh how far a name is from what it names, and whether something else is nearer."""
    x, y = place
    spots = [(x - half, y - 6), (x, y - 6), (x + half, y - 6)]
    gaps = [min(math.dist(spot, p) for p in own) for spot in spots]
    strange = [min((math.dist(spot, p) for p in others), default=math.inf) for spot in spots]
    return sum(gaps) / 20.0 + 4.0 * sum(a >= b for a, b in zip(gaps, strange, strict=True))

"""Percentiles of the time to first token in formulas, by bisection in cells."""

from __future__ import annotations

from dataclasses import dataclass

from prfaas_plan.numerics import Curve
from prfaas_plan.writers.book import Sheet
from prfaas_plan.writers.formula import Cell, Range, choose, largest, number, smallest
from prfaas_plan.writers.live_lengths import TableLaw, inverse
from prfaas_plan.writers.live_search import Live, Rates

__all__ = ["first_token_quantiles"]

_STEPS = 44
_LEVELS = (0.5, 0.9, 0.99)


@dataclass(frozen=True, slots=True)
class _Route:
    """The time to first token of one route by length: starts, coefficients, ends and values of its pieces."""

    starts: Range
    pieces: tuple[Range, Range, Range]
    ends: Range
    values: Range

    def inverse(self, y: Cell) -> Cell:
        """Give the largest length served within a time."""
        return inverse((self.starts, self.pieces, self.ends, self.values), y)


def first_token_quantiles(live: Live, sheet: Sheet, chosen: Rates, all_remote: Cell) -> list[Cell | None]:
    """Give the median, the 90th and the 99th percentile; ``None`` each where the length law is not log-normal."""
    if isinstance(live.law, TableLaw):
        return [None for _ in _LEVELS]
    row = sheet.next_free
    remote, row = _route(live, sheet, row, remote=True)
    local, row = _route(live, sheet, row, remote=False)
    sheet.headings(row, ["level", "low [s]", "high [s]", "middle [s]", "P(TTFT ≤ middle)"])
    cut = choose(all_remote, live.law.first, choose(live.inputs.remote > 0.0, chosen.threshold, live.law.last))
    cut = sheet.formula(row, 6, live.law.clipped(cut))
    below = sheet.formula(row, 7, live.law.below(cut))
    found: list[Cell | None] = []
    row += 1
    for level in _LEVELS:
        low = number(0.0)
        slow = _value(live, remote=True, x=live.law.last)
        high = choose(all_remote, slow, largest(slow, _value(live, remote=False, x=live.law.last)))
        for _ in range(_STEPS):
            sheet.number(row, 0, level)
            low, high = sheet.formula(row, 1, low), sheet.formula(row, 2, high)
            middle = sheet.formula(row, 3, (low + high) / 2)
            offloaded = largest(live.law.below(largest(remote.inverse(middle), cut)) - below, 0.0)
            short = live.law.below(smallest(local.inverse(middle), cut))
            short = choose(cut <= live.law.first, 0.0, short)
            served = sheet.formula(row, 4, offloaded + short)
            low, high = choose(served < level, middle, low), choose(served < level, high, middle)
            row += 1
        found.append((low + high) / 2)
        row += 1
    return found


def _value(live: Live, *, remote: bool, x: Cell) -> Cell:
    if not remote:
        return live.local.value(x)
    return live.remote.value(x) + choose(live.link > 0.0, live.kv.value(x) / live.link, 0.0) + live.delay


def _route(live: Live, sheet: Sheet, row: int, *, remote: bool) -> tuple[_Route, int]:
    """Write the pieces of a route's time, transfer included, from the pieces of its curves."""
    own, kv = live.curves[0 if remote else 2], live.curves[1]
    whole = own + kv.scaled(0.0) if remote else own
    name = "remote prefill and transfer" if remote else "local prefill"
    sheet.headings(row, ["from [tokens]", "c0 [s]", "c1", "c2", "to [tokens]", f"{name}, time at “from” [s]"])
    lines: list[list[Cell]] = []
    begins, ends = [0.0, *whole.breaks], [*whole.breaks, 1e12]
    for i, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        line = row + 1 + i
        start = sheet.number(line, 0, begin)
        coefficients = _coefficients(live, (own, kv) if remote else (own, None), end)
        written = [sheet.formula(line, 1 + n, c) for n, c in enumerate(coefficients)]
        stop = sheet.number(line, 4, end)
        value = written[0] + start * (written[1] + start * written[2])
        lines.append([start, *written, stop, sheet.formula(line, 5, value)])

    def column(which: int) -> Range:
        return sheet.range(row + 1, which, [line[which].value for line in lines])

    route = _Route(column(0), (column(1), column(2), column(3)), column(4), column(5))
    return route, row + 2 + len(lines)


def _coefficients(live: Live, curves: tuple[Curve, Curve | None], end: float) -> list[Cell]:
    own, kv = curves
    mine = _piece(own, end)
    if kv is None:
        return [number(c) + 0.0 for c in mine]
    carried = _piece(kv, end)
    delays = (live.delay, 0.0, 0.0)
    return [
        number(a) + choose(live.link > 0.0, number(b) / live.link, 0.0) + delay
        for a, b, delay in zip(mine, carried, delays, strict=True)
    ]


def _piece(curve: Curve, end: float) -> tuple[float, float, float]:
    return next((p for b, p in zip(curve.breaks, curve.pieces, strict=False) if end <= b), curve.pieces[-1])

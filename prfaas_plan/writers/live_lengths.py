"""Lengths and service times in formulas: cumulative moments of the length law, and curves integrated over it.

``H_n(x) = E[L**n; L <= x]`` is exact for a truncated log-normal law (with the normal distribution function), and
interpolated between exact values at many lengths for any other law. The mean need of a class is the difference of
``W(x) = E[curve(L); L <= x]`` at its ends, which follows from H_0, H_1 and H_2 piece by piece.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from prfaas_plan.laws import LengthLaw
from prfaas_plan.numerics import Curve
from prfaas_plan.writers.book import Sheet
from prfaas_plan.writers.formula import (
    Cell,
    Range,
    choose,
    exp,
    index,
    largest,
    ln,
    normal,
    number,
    place,
    root,
    smallest,
)

__all__ = [
    "LiveCurve",
    "LiveLaw",
    "LogNormalLaw",
    "TableLaw",
    "inverse",
    "write_curve",
    "write_lognormal",
    "write_table_law",
]

Moments = tuple[Cell, Cell, Cell]

_LEAST = 1e-9
"""Lengths are kept above this, so that their logarithm exists."""


class LiveLaw:
    """A length law in formulas."""

    first: Cell
    last: Cell
    total: Moments
    width: int
    """Columns that `moments` fills."""

    def clipped(self, x: Cell) -> Cell:
        """Keep a length within the law's."""
        return smallest(largest(x, self.first), self.last)

    def moments(self, sheet: Sheet, row: int, column: int, x: Cell) -> Moments:
        """Write H_0, H_1 and H_2 at a length within the law's, using `width` columns."""
        raise NotImplementedError

    def below(self, x: Cell) -> Cell:
        """Give H_0 at any length in one expression."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class LogNormalLaw(LiveLaw):
    """The truncated log-normal law, exact."""

    mu: Cell
    sigma: Cell
    first: Cell
    last: Cell
    mass: Cell
    scales: Moments
    starts: Moments
    total: Moments
    width: int = 4

    def score(self, x: Cell) -> Cell:
        """Give the normal score of a length."""
        return (ln(largest(x, _LEAST)) - self.mu) / self.sigma

    def moments(self, sheet: Sheet, row: int, column: int, x: Cell) -> Moments:
        """Write the score and H_0, H_1, H_2."""
        z = sheet.formula(row, column, self.score(x))
        found = []
        for n, (scale, start) in enumerate(zip(self.scales, self.starts, strict=True)):
            h = scale * (normal(z - number(n) * self.sigma) - start) / self.mass
            found.append(sheet.formula(row, column + 1 + n, h))
        return found[0], found[1], found[2]

    def below(self, x: Cell) -> Cell:
        """Give H_0 at any length in one expression."""
        return (normal(self.score(self.clipped(x))) - self.starts[0]) / self.mass


def write_lognormal(sheet: Sheet, row: int, cells: Sequence[Cell]) -> LogNormalLaw:
    """Write the constants of the law from its parameters, three lines from `row` on."""
    mu, sigma, first, last = cells
    sheet.headings(row, ["order n", "scale exp(nμ + n²σ²/2)", "Φ at the shortest", "Φ at the longest", "E[L^n]"])
    scales, starts, ends = list[Cell](), list[Cell](), list[Cell]()
    for n in range(3):
        line = row + 1 + n
        sheet.number(line, 0, n)
        scales.append(sheet.formula(line, 1, exp(number(n) * mu + number(0.5 * n * n) * sigma * sigma)))
        for column, (edge, kept) in enumerate(((first, starts), (last, ends)), start=2):
            score = (ln(largest(edge, _LEAST)) - mu) / sigma - number(n) * sigma
            kept.append(sheet.formula(line, column, normal(score)))
    mass = ends[0] - starts[0]
    mass = sheet.formula(row + 1, 5, mass)
    total = [sheet.formula(row + 1 + n, 4, scales[n] * (ends[n] - starts[n]) / mass) for n in range(3)]
    return LogNormalLaw(mu, sigma, first, last, mass, (scales[0], scales[1], scales[2]),
                        (starts[0], starts[1], starts[2]), (total[0], total[1], total[2]))  # fmt: skip


@dataclass(frozen=True, slots=True)
class TableLaw(LiveLaw):
    """Any other law: exact at the lengths of a table, and linear between them."""

    edges: Range
    columns: tuple[Range, Range, Range]
    first: Cell
    last: Cell
    total: Moments
    width: int = 5

    def moments(self, sheet: Sheet, row: int, column: int, x: Cell) -> Moments:
        """Write the place in the table, the share of its step, and H_0, H_1, H_2."""
        last = number(len(self.edges.values) - 1)
        i = sheet.formula(row, column, smallest(place(x, self.edges), last))
        here, after = index(self.edges, i), index(self.edges, i + 1)
        share = sheet.formula(row, column + 1, (x - here) / (after - here))
        found = []
        for n, values in enumerate(self.columns):
            h = index(values, i) + share * (index(values, i + 1) - index(values, i))
            found.append(sheet.formula(row, column + 2 + n, h))
        return found[0], found[1], found[2]

    def below(self, x: Cell) -> Cell:
        """Give H_0 at the step below a length."""
        return index(self.columns[0], place(self.clipped(x), self.edges))


def write_table_law(sheet: Sheet, row: int, law: LengthLaw, lengths: Sequence[float]) -> TableLaw:
    """Write the exact cumulative moments of a law at some lengths, below one another from `row` on."""
    first, last = law.finite_support
    edges = sorted({first - 1.0, last, *(x for x in lengths if first - 1.0 < x < last)})
    sheet.headings(row, ["length [tokens]", "P(L ≤ length)", "E[L; L ≤ length]", "E[L²; L ≤ length]"])
    columns: list[list[float]] = [[], [], []]
    for i, edge in enumerate(edges):
        sheet.number(row + 1 + i, 0, edge)
        for n, value in enumerate(law.moments(-math.inf, edge)):
            columns[n].append(value)
            sheet.number(row + 1 + i, n + 1, value)
    ranges = [sheet.range(row + 1, n + 1, values) for n, values in enumerate(columns)]
    bottom = row + len(edges)
    return TableLaw(
        edges=sheet.range(row + 1, 0, edges),
        columns=(ranges[0], ranges[1], ranges[2]),
        first=sheet.at(row + 1, 0, edges[0]),
        last=sheet.at(bottom, 0, edges[-1]),
        total=(sheet.at(bottom, 1, columns[0][-1]), sheet.at(bottom, 2, columns[1][-1]),
               sheet.at(bottom, 3, columns[2][-1])),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class LiveCurve:
    """A piecewise quadratic curve of the length in formulas, with its integral up to each piece."""

    starts: Range
    pieces: tuple[Range, Range, Range]
    reached: tuple[Range, Range, Range]
    integral: Range
    total: Cell

    @property
    def single(self) -> bool:
        """Whether the curve has one piece."""
        return len(self.starts.values) == 1

    def _at(self, values: Range, i: Cell | None) -> Cell:
        if i is None:
            return values.first
        return index(values, i)

    def value(self, x: Cell) -> Cell:
        """Evaluate the curve at a length."""
        i = None if self.single else place(x, self.starts)
        c0, c1, c2 = (self._at(column, i) for column in self.pieces)
        return c0 + x * (c1 + x * c2)

    def up_to(self, x: Cell, h: Moments) -> Cell:
        """Give W(x) from the moments at x."""
        i = None if self.single else place(x, self.starts)
        terms = [self._at(c, i) * (m - self._at(r, i)) for c, m, r in zip(self.pieces, h, self.reached, strict=True)]
        return self._at(self.integral, i) + terms[0] + terms[1] + terms[2]


def write_curve(sheet: Sheet, row: int, title: str, curve: Curve, law: LiveLaw) -> tuple[LiveCurve, int]:
    """Write a curve, one line a piece, with the moments and the integral at the start of each; give the row below."""
    heads = ["from [tokens]", "c0", "c1", "c2", "from, within the law"]
    sheet.text(row, 0, title, "part")
    sheet.headings(row + 1, [*heads, *[""] * (law.width - 3), "H0", "H1", "H2", "integral"])
    begins = [0.0, *curve.breaks]
    lines: list[tuple[Cell, ...]] = []
    integral: Cell = number(0.0)
    for i, (begin, pieces) in enumerate(zip(begins, curve.pieces, strict=True)):
        line = row + 2 + i
        start = sheet.number(line, 0, begin)
        coefficients = [sheet.number(line, 1 + n, c) for n, c in enumerate(pieces)]
        clipped = sheet.formula(line, 4, law.clipped(start))
        h = law.moments(sheet, line, 5, clipped)
        if lines:
            before = lines[-1]
            grown = [c * (now - then) for c, now, then in zip(before[1:4], h, before[5:8], strict=True)]
            integral = before[8] + grown[0] + grown[1] + grown[2]
        reached = sheet.formula(line, 5 + law.width, integral)
        lines.append((start, *coefficients, clipped, *h, reached))
    first, columns = row + 2, 5 + law.width

    def column(place_: int, which: int) -> Range:
        return sheet.range(first, place_, [line[which].value for line in lines])

    h_columns = [5 + law.width - 3 + n for n in range(3)]
    last = lines[-1]
    ends = [c * (t - r) for c, t, r in zip(last[1:4], law.total, last[5:8], strict=True)]
    bottom = first + len(lines)
    sheet.text(bottom, 0, "over all lengths")
    total = sheet.formula(bottom, columns, last[8] + ends[0] + ends[1] + ends[2])
    live = LiveCurve(
        starts=column(4, 4),
        pieces=(column(1, 1), column(2, 2), column(3, 3)),
        reached=(column(h_columns[0], 5), column(h_columns[1], 6), column(h_columns[2], 7)),
        integral=column(columns, 8),
        total=total,
    )
    return live, bottom + 2


def inverse(curve: tuple[Range, tuple[Range, Range, Range], Range, Range], y: Cell) -> Cell:
    """Give the largest length at which a rising curve is at most y; 0 where it is above y everywhere.

    The curve comes as starts, coefficients, ends and values at the starts of its pieces.
    """
    starts, pieces, ends, values = curve
    i = place(y, values)
    c0, c1, c2 = (index(column, i) for column in pieces)
    left = y - c0
    bent = number(2.0) * left / (c1 + root(c1 * c1 + number(4.0) * c2 * left))
    solved = choose((c1 + c2) > 0.0, smallest(bent, index(ends, i)), index(ends, i))
    return choose(y < values.first, number(0.0), largest(solved, index(starts, i)))

"""Spreadsheet formulas that know their value: each expression is written once and evaluated as it is built.

A workbook that is opened by a viewer which does not calculate then shows the same numbers as one that does.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = [
    "NOTHING_LIMITS",
    "Cell",
    "Range",
    "all_of",
    "any_of",
    "choose",
    "exp",
    "index",
    "largest",
    "ln",
    "normal",
    "number",
    "place",
    "root",
    "smallest",
    "text",
    "whole",
    "whole_up",
]

Value = float | str | bool

NOTHING_LIMITS = 1e99
"""Stands for an infinite rate, which a spreadsheet does not have."""


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """An expression: its text in a formula, and its value."""

    text: str
    value: Value

    def __add__(self, other: Cell | float) -> Cell:
        return _binary(self, other, "+", lambda a, b: a + b)

    def __radd__(self, other: float) -> Cell:
        return _of(other) + self

    def __sub__(self, other: Cell | float) -> Cell:
        return _binary(self, other, "-", lambda a, b: a - b)

    def __rsub__(self, other: float) -> Cell:
        return _of(other) - self

    def __mul__(self, other: Cell | float) -> Cell:
        return _binary(self, other, "*", lambda a, b: a * b)

    def __rmul__(self, other: float) -> Cell:
        return _of(other) * self

    def __truediv__(self, other: Cell | float) -> Cell:
        return _binary(self, other, "/", lambda a, b: a / b if b else math.nan)

    def __rtruediv__(self, other: float) -> Cell:
        return _of(other) / self

    def __lt__(self, other: Cell | float) -> Cell:
        return _binary(self, other, "<", lambda a, b: a < b)

    def __le__(self, other: Cell | float) -> Cell:
        return _binary(self, other, "<=", lambda a, b: a <= b)

    def __gt__(self, other: Cell | float) -> Cell:
        return _binary(self, other, ">", lambda a, b: a > b)

    def __ge__(self, other: Cell | float) -> Cell:
        return _binary(self, other, ">=", lambda a, b: a >= b)

    def equals(self, other: Cell | Value) -> Cell:
        """Compare for equality."""
        there = _of(other)
        return Cell(f"({self.text}={there.text})", self.value == there.value)

    def joined(self, other: Cell | str) -> Cell:
        """Put two texts together."""
        there = _of(other)
        return Cell(f"({self.text}&{there.text})", f"{self.value}{there.value}")

    def after(self, count: int) -> Cell:
        """Give the text from a place on, counted from 0."""
        return Cell(f"MID({self.text},{count + 1},999)", str(self.value)[count:])

    @property
    def float(self) -> float:
        """The value as a number; NaN for a text."""
        return float(self.value) if isinstance(self.value, (int, float)) else math.nan


@dataclass(frozen=True, slots=True)
class Range:
    """Cells below one another."""

    text: str
    values: tuple[Value, ...]

    @property
    def first(self) -> Cell:
        """The cell at the top."""
        return Cell(self.text.split(":", maxsplit=1)[0], self.values[0])

    def numbers(self) -> list[float]:
        """Give the values as numbers."""
        return [v for v in self.values if isinstance(v, (int, float))]


def _of(value: Cell | Value) -> Cell:
    if isinstance(value, Cell):
        return value
    return text(value) if isinstance(value, str) else number(value)


def number(value: float) -> Cell:
    """Make a literal number.

    >>> (number(2) * number(3) + 1).text, (number(2) * number(3) + 1).value
    ('((2*3)+1)', 7.0)
    """
    return Cell(repr(float(value)).upper().removesuffix(".0"), float(value))


def text(value: str) -> Cell:
    """Make a literal text.

    >>> text('a"b').text
    '"a""b"'
    """
    return Cell('"' + value.replace('"', '""') + '"', value)


def _binary(a: Cell, b: Cell | float, sign: str, operation: Callable[[float, float], float]) -> Cell:
    there = _of(b)
    return Cell(f"({a.text}{sign}{there.text})", operation(a.float, there.float))


def _call(name: str, *arguments: Cell | Value) -> str:
    return f"{name}({','.join(_of(a).text for a in arguments)})"


def choose(condition: Cell, yes: Cell | Value, no: Cell | Value) -> Cell:
    """Choose between two expressions.

    >>> choose(number(1) > 2, 5.0, "none").value
    'none'
    """
    return Cell(_call("IF", condition, yes, no), _of(yes).value if condition.value else _of(no).value)


def all_of(*conditions: Cell) -> Cell:
    """Say whether every condition holds."""
    return Cell(_call("AND", *conditions), all(c.value for c in conditions))


def any_of(*conditions: Cell) -> Cell:
    """Say whether any condition holds."""
    return Cell(_call("OR", *conditions), any(c.value for c in conditions))


def smallest(*cells: Cell | float | Range) -> Cell:
    """Give the smallest of some numbers or ranges."""
    return Cell(f"MIN({','.join(_text(c) for c in cells)})", min(_flat(cells)))


def largest(*cells: Cell | float | Range) -> Cell:
    """Give the largest of some numbers or ranges."""
    return Cell(f"MAX({','.join(_text(c) for c in cells)})", max(_flat(cells)))


def _text(cell: Cell | float | Range) -> str:
    return cell.text if isinstance(cell, Range) else _of(cell).text


def _flat(cells: Sequence[Cell | float | Range]) -> list[float]:
    found: list[float] = []
    for cell in cells:
        found += cell.numbers() if isinstance(cell, Range) else [_of(cell).float]
    return found


def ln(x: Cell) -> Cell:
    """Give the natural logarithm."""
    return Cell(_call("LN", x), math.log(x.float) if x.float > 0.0 else math.nan)


def exp(x: Cell) -> Cell:
    """Give the exponential."""
    return Cell(_call("EXP", x), math.exp(x.float))


def root(x: Cell) -> Cell:
    """Give the square root; that of a negative number is 0."""
    return Cell(f"SQRT(MAX(0,{x.text}))", math.sqrt(max(0.0, x.float)))


def normal(z: Cell) -> Cell:
    """Give the standard normal distribution function."""
    return Cell(f"_xlfn.NORM.S.DIST({z.text},TRUE)", 0.5 * math.erfc(-z.float / math.sqrt(2.0)))


def whole(x: Cell) -> Cell:
    """Give the whole number below."""
    return Cell(_call("INT", x), float(math.floor(x.float)) if math.isfinite(x.float) else math.nan)


def whole_up(x: Cell) -> Cell:
    """Give the whole number above."""
    return Cell(f"ROUNDUP({x.text},0)", float(math.ceil(x.float)) if math.isfinite(x.float) else math.nan)


def place(x: Cell, rising: Range, *, exact: bool = False) -> Cell:
    """Give the place (from 1) of the last value of a rising range that is not above x, or of x itself.

    >>> place(number(5), Range("A1:A3", (1.0, 4.0, 9.0))).value
    2.0
    """
    values = rising.numbers()
    found = values.index(x.float) + 1 if exact and x.float in values else bisect_right(values, x.float)
    return Cell(f"MATCH({x.text},{rising.text},{0 if exact else 1})", float(found) if found else math.nan)


def index(values: Range, which: Cell) -> Cell:
    """Give the value at a place of a range."""
    found = values.values[int(which.float) - 1] if which.float >= 1.0 else math.nan
    return Cell(f"INDEX({values.text},{which.text})", found)

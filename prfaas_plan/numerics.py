"""Small numerical tools: piecewise quadratics, least squares, bisection, the normal distribution.

Everything here works on plain floats with the standard library, so that a plan needs no NumPy.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

__all__ = [
    "Curve",
    "bisect_root",
    "finite_or_none",
    "first_integer",
    "fit_polynomial",
    "normal_cdf",
    "quadratic_roots",
    "solve_linear",
]

Coefficients = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Curve:
    """A piecewise quadratic function of a length: ``c0 + c1·x + c2·x²`` on each piece.

    `breaks` are the right ends of all pieces but the last, which has none; piece i holds
    ``breaks[i-1] < x <= breaks[i]``. Prefill seconds and KV bytes are curves, so that their means over a
    law of lengths have a closed form.

    >>> window = Curve(breaks=(128.0,), pieces=((0.0, 2.0, 0.0), (256.0, 0.0, 0.0)))
    >>> window(100.0), window(1000.0)
    (200.0, 256.0)
    """

    pieces: tuple[Coefficients, ...]
    breaks: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if len(self.pieces) != len(self.breaks) + 1:
            raise ValueError(f"{len(self.pieces)} pieces need {len(self.pieces) - 1} breaks, got {len(self.breaks)}")

    @classmethod
    def polynomial(cls, c0: float, c1: float = 0.0, c2: float = 0.0) -> Curve:
        """Make a curve of one piece.

        >>> Curve.polynomial(1.0, 2.0)(3.0)
        7.0
        """
        return cls(((c0, c1, c2),))

    def __call__(self, x: float) -> float:
        """Evaluate the curve at a length."""
        c0, c1, c2 = self.pieces[bisect_left(self.breaks, x)]
        return c0 + x * (c1 + x * c2)

    def __add__(self, other: Curve) -> Curve:
        breaks = tuple(sorted({*self.breaks, *other.breaks}))
        pieces = []
        for end in (*breaks, math.inf):
            a = self.pieces[bisect_left(self.breaks, end)]
            b = other.pieces[bisect_left(other.breaks, end)]
            pieces.append((a[0] + b[0], a[1] + b[1], a[2] + b[2]))
        return Curve(tuple(pieces), breaks)

    def scaled(self, factor: float) -> Curve:
        """Multiply the whole curve by a factor.

        >>> Curve.polynomial(1.0, 2.0).scaled(2.0)(3.0)
        14.0
        """
        return Curve(tuple((a * factor, b * factor, c * factor) for a, b, c in self.pieces), self.breaks)

    def spans(self, low: float, high: float) -> list[tuple[float, float, Coefficients]]:
        """Cut ``(low, high]`` at the breaks: start, end and coefficients of every piece inside it."""
        cuts = [low, *(b for b in self.breaks if low < b < high), high]
        return [
            (start, end, self.pieces[bisect_left(self.breaks, end)]) for start, end in pairwise(cuts) if end > start
        ]

    def inverse(self, y: float, low: float, high: float) -> float:
        """Return the largest x in ``[low, high]`` with ``self(x) <= y``, for a rising curve; `low` if there is none.

        >>> Curve.polynomial(1.0, 2.0).inverse(7.0, 0.0, 10.0)
        3.0
        """
        if self(low) > y:
            return low
        if self(high) <= y:
            return high
        for start, end, (c0, c1, c2) in reversed(self.spans(low, high)):
            if c0 + start * (c1 + start * c2) <= y:
                return min(end, max(start, _rising_root(c0 - y, c1, c2, end)))
        return low


def _rising_root(c0: float, c1: float, c2: float, end: float) -> float:
    if c2 == 0.0:
        return -c0 / c1 if c1 else end
    root = math.sqrt(max(0.0, c1 * c1 - 4.0 * c2 * c0))
    return -2.0 * c0 / (c1 + root) if c1 + root else end


def normal_cdf(z: float) -> float:
    """Give the standard normal distribution function, accurate in both tails.

    >>> round(normal_cdf(1.959963985), 6)
    0.975
    """
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


def quadratic_roots(c0: float, c1: float, c2: float) -> list[float]:
    """Give the real roots of ``c0 + c1 x + c2 x²`` in rising order, without cancellation.

    >>> quadratic_roots(-6.0, 1.0, 1.0), quadratic_roots(1.0, 0.0, 1.0), quadratic_roots(-3.0, 1.0, 0.0)
    ([-3.0, 2.0], [], [3.0])
    """
    if c2 == 0.0:
        return [-c0 / c1] if c1 else []
    square = c1 * c1 - 4.0 * c2 * c0
    if square < 0.0:
        return []
    q = -0.5 * (c1 + math.copysign(math.sqrt(square), c1))
    return sorted({q / c2, c0 / q} if q else {0.0})


def finite_or_none(value: float | None) -> float | None:
    """Give a number, or ``None`` for one that does not exist.

    >>> finite_or_none(1.5), finite_or_none(math.inf), finite_or_none(math.nan), finite_or_none(None)
    (1.5, None, None, None)
    """
    return value if value is not None and math.isfinite(value) else None


def bisect_root(f: Callable[[float], float], low: float, high: float, relative: float = 1e-14) -> float:
    """Find where a rising function crosses zero in ``[low, high]``; an end of it if it does not cross.

    >>> round(bisect_root(lambda x: x * x - 2.0, 0.0, 2.0), 9)
    1.414213562
    """
    for _ in range(200):
        middle = 0.5 * (low + high)
        if high - low <= relative * max(abs(low), abs(high)) or middle in (low, high):
            break
        low, high = (middle, high) if f(middle) < 0.0 else (low, middle)
    return 0.5 * (low + high)


def first_integer(predicate: Callable[[int], bool], low: int, high: int) -> int:
    """Return the first integer in ``[low, high]`` from which a predicate holds; `high` if it holds nowhere below.

    >>> first_integer(lambda n: n * n >= 50, 0, 100)
    8
    """
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if predicate(middle) else (middle + 1, high)
    return low


def solve_linear(matrix: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    """Solve a small linear system by elimination with pivoting.

    Raises `ValueError` if the matrix is singular.

    >>> solve_linear([[2.0, 0.0], [0.0, 4.0]], [2.0, 2.0])
    [1.0, 0.5]
    """
    n = len(right)
    rows = [[*map(float, matrix[i]), float(right[i])] for i in range(n)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda r: abs(rows[r][i]))
        if abs(rows[pivot][i]) < 1e-300:
            raise ValueError("the system of equations is singular")
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for r in range(i + 1, n):
            factor = rows[r][i] / rows[i][i]
            rows[r] = [a - factor * b for a, b in zip(rows[r], rows[i], strict=True)]
    solution = [0.0] * n
    for i in reversed(range(n)):
        known = sum(rows[i][j] * solution[j] for j in range(i + 1, n))
        solution[i] = (rows[i][n] - known) / rows[i][i]
    return solution


def fit_polynomial(
    xs: Sequence[float], ys: Sequence[float], degree: int, weights: Sequence[float] | None = None
) -> list[float]:
    """Fit a polynomial by (weighted) least squares with coefficients kept non-negative, lowest power first.

    Service times and sizes do not fall with length, so a coefficient that would turn negative is dropped and
    the rest is fitted again. A degree the points cannot determine is lowered to their number less one.
    Raises `ValueError` without points.

    >>> [round(c, 9) for c in fit_polynomial([1.0, 2.0, 3.0], [3.0, 5.0, 7.0], 2)]
    [1.0, 2.0, 0.0]
    """
    if not xs:
        raise ValueError("a fit needs at least one point")
    weight = list(weights) if weights is not None else [1.0] * len(xs)
    powers = list(range(min(degree, len(set(xs)) - 1) + 1))
    scale = max(abs(x) for x in xs) or 1.0
    while powers:
        found = _weighted_fit([x / scale for x in xs], ys, powers, weight)
        negative = [p for p, c in zip(powers, found, strict=True) if c < 0.0]
        if not negative:
            result = [0.0] * (degree + 1)
            for power, c in zip(powers, found, strict=True):
                result[power] = c / scale**power
            return result
        powers.remove(max(negative, key=lambda p: -found[powers.index(p)]))
    raise ValueError("every coefficient of the fit is negative: the values fall below zero")


def _weighted_fit(
    xs: Sequence[float], ys: Sequence[float], powers: Sequence[int], weight: Sequence[float]
) -> list[float]:
    normal = [[sum(w * x ** (p + q) for x, w in zip(xs, weight, strict=True)) for q in powers] for p in powers]
    right = [sum(w * y * x**p for x, y, w in zip(xs, ys, weight, strict=True)) for p in powers]
    return solve_linear(normal, right)

"""Laws of request length that were counted: a histogram, and the lengths of a trace."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import ClassVar

from prfaas_plan.length_law import NO_MOMENTS, ROUNDING, LengthLaw, Moments, check_level
from prfaas_plan.records import quantity

__all__ = ["Empirical", "Histogram"]


@dataclass(frozen=True)
class Histogram(LengthLaw):
    """Lengths counted by bin, spread evenly within each bin.

    Raises `ValueError` unless edges rise and there is one non-negative weight a bin, some above 0.

    >>> Histogram(edges=(0, 100, 300), weights=(1, 1)).mean
    125.0
    """

    law: ClassVar[str] = "histogram"
    edges: tuple[float, ...] = quantity("token", "rising edges of the bins, one more than weights", at_least=0)
    weights: tuple[float, ...] = quantity("1", "requests, or their share, in each bin", at_least=0)

    def __post_init__(self) -> None:
        if len(self.edges) != len(self.weights) + 1 or len(self.weights) < 1:
            counts = f"{len(self.edges)} edges and {len(self.weights)} weights"
            raise ValueError(f"a histogram needs one edge more than weights, and at least one bin; got {counts}")
        if any(not a < b for a, b in zip(self.edges, self.edges[1:], strict=False)) or not self.edges[-1] < math.inf:
            raise ValueError("the edges of a histogram must rise strictly and be finite")
        if min(self.weights) < 0.0 or not 0.0 < math.fsum(self.weights) < math.inf:
            raise ValueError("the weights of a histogram must not be negative, and some must be above 0")

    @cached_property
    def _bins(self) -> list[tuple[float, float, float]]:
        total = math.fsum(self.weights)
        bins = zip(self.edges, self.edges[1:], self.weights, strict=False)
        return [(a, b, w / total) for a, b, w in bins if w > 0.0]

    @property
    def support(self) -> tuple[float, float]:
        """Shortest and longest length that occurs."""
        return self._bins[0][0], self._bins[-1][1]

    def describe(self) -> str:
        """Name the law and its parameters."""
        return f"histogram of {len(self.weights)} bins"

    def moments(self, low: float = -math.inf, high: float = math.inf) -> Moments:
        """Give ``E[L**n; low < L <= high]`` for n = 0, 1, 2, exactly."""
        m0 = m1 = m2 = 0.0
        for start, end, weight in self._bins:
            a, b = max(start, low), min(end, high)
            if a < b:
                part = weight * ((b - a) / (end - start))
                m0 += part
                m1 += part * 0.5 * (a + b)
                m2 += part * (a * a + a * b + b * b) / 3.0
        return m0, m1, m2

    def quantile(self, q: float) -> float:
        """Give the smallest length x with ``P(L <= x) >= q``."""
        check_level(q)
        below = 0.0
        for start, end, weight in self._bins:
            if q <= below + weight:
                return min(start + (end - start) * ((q - below) / weight), end)
            below += weight
        return self.support[1]


@dataclass(frozen=True)
class Empirical(LengthLaw):
    """The lengths that were observed, each distinct one with its count; sums are exact integers.

    Build it with `Empirical.of`. Raises `ValueError` unless lengths are positive and rise, with one count above 0 each.

    >>> Empirical.of([7, 3, 3]).moments(low=3)
    (0.3333333333333333, 2.3333333333333335, 16.333333333333332)
    """

    lengths: tuple[int, ...]
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.lengths or len(self.lengths) != len(self.counts):
            raise ValueError("an empirical law needs at least one length, and one count for each")
        if self.lengths[0] < 1 or any(a >= b for a, b in zip(self.lengths, self.lengths[1:], strict=False)):
            raise ValueError("the lengths of an empirical law must be positive and rise strictly")
        if min(self.counts) < 1:
            raise ValueError("every length of an empirical law must have been seen at least once")

    @classmethod
    def of(cls, lengths: Iterable[int]) -> Empirical:
        """Count lengths [token] in any order; `ValueError` if there are none, or one is below 1."""
        tally = sorted(Counter(lengths).items())
        return cls(tuple(length for length, _ in tally), tuple(count for _, count in tally))

    @cached_property
    def _sums(self) -> tuple[list[int], list[int], list[int]]:
        pairs = list(zip(self.lengths, self.counts, strict=True))
        first = list(accumulate((c for _, c in pairs), initial=0))
        second = list(accumulate((c * x for x, c in pairs), initial=0))
        return first, second, list(accumulate((c * x * x for x, c in pairs), initial=0))

    @property
    def support(self) -> tuple[float, float]:
        """Shortest and longest length that occurs."""
        return float(self.lengths[0]), float(self.lengths[-1])

    def describe(self) -> str:
        """Name the law and its parameters."""
        return f"the lengths of {sum(self.counts):,} requests"

    def moments(self, low: float = -math.inf, high: float = math.inf) -> Moments:
        """Give ``E[L**n; low < L <= high]`` for n = 0, 1, 2, exactly."""
        i, j = bisect_right(self.lengths, low), bisect_right(self.lengths, high)
        if i >= j:
            return NO_MOMENTS
        total = self._sums[0][-1]
        m0, m1, m2 = ((sums[j] - sums[i]) / total for sums in self._sums)
        return m0, m1, m2

    def quantile(self, q: float) -> float:
        """Give the smallest length x with ``P(L <= x) >= q``."""
        check_level(q)
        cumulated = self._sums[0]
        place = bisect_left(cumulated, q * cumulated[-1] * (1.0 - ROUNDING), lo=1)
        return float(self.lengths[min(place, len(self.lengths)) - 1])

"""Estimates with confidence intervals from independent replications."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from prfaas_plan.numerics import bisect_root, finite_or_none

__all__ = ["Estimate", "estimate", "student_cdf", "student_quantile"]

_MOST_FREEDOM: Final = 10_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over replications, with the ends of its confidence interval; these are ``None`` for one replication."""

    value: float
    low: float | None = None
    high: float | None = None

    def covers(self, value: float, slack: float = 0.0) -> bool:
        """Say whether a value lies in the interval, widened by a share of the value."""
        low, high = (self.value if end is None else end for end in (self.low, self.high))
        return low - slack * abs(value) <= value <= high + slack * abs(value)

    def number(self) -> float | None:
        """Give the value, ``None`` where it is not finite."""
        return finite_or_none(self.value)

    def interval(self) -> list[float] | None:
        """Give both ends, ``None`` where there is no interval."""
        if self.low is None or self.high is None or not math.isfinite(self.high - self.low):
            return None
        return [self.low, self.high]


def estimate(values: Sequence[float], confidence: float = 0.95) -> Estimate:
    """Give the mean of independent values and its interval ``mean ± t·s/√n`` (Student's t, n - 1 degrees of freedom).

    >>> found = estimate([1.0, 2.0, 3.0])
    >>> found.value, round(found.high, 3)
    (2.0, 4.484)
    """
    count = len(values)
    if not all(math.isfinite(v) for v in values):
        return Estimate(math.nan if any(math.isnan(v) for v in values) else math.inf)
    mean = math.fsum(values) / count
    if count == 1:
        return Estimate(mean)
    variance = math.fsum((v - mean) ** 2 for v in values) / (count - 1)
    half = student_quantile(0.5 * (1.0 + confidence), count - 1) * math.sqrt(variance / count)
    return Estimate(mean, mean - half, mean + half)


def student_cdf(t: float, freedom: int) -> float:
    """Give Student's distribution function for whole degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4).

    >>> round(student_cdf(2.776445, 4), 6)
    0.975
    """
    angle = math.atan2(t, math.sqrt(freedom))
    square = math.cos(angle) ** 2
    term = math.sin(angle) * (1.0 if freedom % 2 == 0 else math.cos(angle))
    total = 0.0
    for k in range(2 if freedom % 2 == 0 else 3, freedom + 1, 2):
        total += term
        term *= square * (k - 1) / k
    inside = total if freedom % 2 == 0 else (angle + total) * 2.0 / math.pi
    return 0.5 * (1.0 + inside)


def student_quantile(q: float, freedom: int) -> float:
    """Give the q-quantile of Student's distribution for whole degrees of freedom, at most 10,000.

    >>> round(student_quantile(0.975, 1), 3), round(student_quantile(0.975, 4), 3)
    (12.706, 2.776)
    """
    freedom = min(freedom, _MOST_FREEDOM)
    if q < 0.5:
        return -student_quantile(1.0 - q, freedom)
    angle = bisect_root(lambda a: student_cdf(math.tan(a), freedom) - q, 0.0, 0.5 * math.pi - 1e-9)
    return math.tan(angle)

"""Laws of request length: constant, log-normal, mixture, histogram, and the lengths of a trace.

A law answers with exact sums or closed forms, never by sampling. Lengths are uncached input tokens;
`share`, `moments` and `expect` speak of the half-open interval ``low < L <= high``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

from prfaas_plan.numerics import Curve

__all__ = ["LengthLaw"]

Moments = tuple[float, float, float]


class LengthLaw(ABC):
    """The distribution of request lengths L [token]."""

    @property
    @abstractmethod
    def support(self) -> tuple[float, float]:
        """Shortest and longest length that occurs."""

    @abstractmethod
    def moments(self, low: float = -math.inf, high: float = math.inf) -> Moments:
        """Give ``E[L**n; low < L <= high]`` for n = 0, 1, 2: the share, and the partial first two moments."""

    @abstractmethod
    def quantile(self, q: float) -> float:
        """Give the smallest length x with ``P(L <= x) >= q``."""

    def share(self, low: float = -math.inf, high: float = math.inf) -> float:
        """Give ``P(low < L <= high)``."""
        return self.moments(low, high)[0]

    def expect(self, curve: Curve, low: float = -math.inf, high: float = math.inf) -> float:
        """Give ``E[curve(L); low < L <= high]``, exact for a piecewise quadratic curve."""
        total = 0.0
        first, last = self.support
        for start, end, (c0, c1, c2) in curve.spans(max(low, first - 1.0), min(high, last)):
            m0, m1, m2 = self.moments(start, end)
            total += c0 * m0 + c1 * m1 + c2 * m2
        return total

    @property
    def mean(self) -> float:
        """Mean length."""
        return self.moments()[1]

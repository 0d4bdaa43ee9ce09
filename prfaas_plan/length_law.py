"""What every law of request length answers, with exact sums or closed forms, never by sampling.

Lengths are uncached input tokens; `share`, `moments` and `expect` speak of the half-open interval ``low < L <= high``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

from prfaas_plan.numerics import Curve

__all__ = ["NO_MOMENTS", "ROUNDING", "LengthLaw", "Moments", "check_level"]

Moments = tuple[float, float, float]
NO_MOMENTS: Moments = (0.0, 0.0, 0.0)
ROUNDING = 1e-12
"""A share this close to a level counts as having reached it."""


class LengthLaw(ABC):
    """The distribution of request lengths L [token]."""

    @abstractmethod
    def describe(self) -> str:
        """Name the law and its parameters in a few words."""

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

    @property
    def finite_support(self) -> tuple[float, float]:
        """Shortest and longest length, the longest cut where all but 1e-12 of the requests are shorter."""
        first, last = self.support
        return first, last if math.isfinite(last) else self.quantile(1.0 - 1e-12)

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


def check_level(q: float) -> None:
    """Raise `ValueError` unless q lies between 0 and 1."""
    if not 0.0 <= q <= 1.0:
        raise ValueError(f"a quantile level lies between 0 and 1, not {q!r}")

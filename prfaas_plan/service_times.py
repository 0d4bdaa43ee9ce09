"""Service times of a pool as points with weights: from a law of lengths and a curve of seconds."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final

from prfaas_plan.checks import Checks
from prfaas_plan.laws import LengthLaw, LogNormal
from prfaas_plan.numerics import Curve, normal_cdf

__all__ = ["ServiceTimes"]

_POINTS: Final = 64
_REACH: Final = 4.0
_NEARLY_CONSTANT: Final = 1e-6


@dataclass(frozen=True)
class ServiceTimes:
    """The distribution of a service time [s] as points.

    >>> times = ServiceTimes((1.0, 3.0), (0.5, 0.5))
    >>> times.mean, times.cv
    (2.0, 0.5)
    """

    seconds: tuple[float, ...]
    """Times that occur, rising [s]."""
    weights: tuple[float, ...]
    """Their probabilities, which add up to 1."""
    edges: tuple[float, ...] = ()
    """Ends of the bins of which the points are the means, one more than points; empty where the points are all."""

    @classmethod
    def constant(cls, seconds: float) -> ServiceTimes:
        """Make a service time that is always the same [s].

        >>> ServiceTimes.constant(2.0).cv
        0.0
        """
        return cls((seconds,), (1.0,))

    @classmethod
    def of(
        cls, law: LengthLaw, seconds: Curve, low: float = -math.inf, high: float = math.inf, points: int = _POINTS
    ) -> ServiceTimes:
        """Give the times [s] of requests with ``low < L <= high`` [token], for a rising curve of seconds over length.

        The lengths are cut into bins, finer in the tails (levels of a normal law at equal steps); each point is the
        exact mean of its bin, so the mean is exact and the variation is low by the little that varies inside a bin.
        Raises `InputError` if no request is in the interval.

        >>> times = ServiceTimes.of(LogNormal(mu=9.9, sigma=1.0, min=128, max=131072), Curve.polynomial(0.0, 1.0))
        >>> round(times.mean), round(times.cv, 3)
        (27486, 0.903)
        """
        first, last = law.support
        low, high = max(low, first - 1.0), min(high, last)
        share = law.share(low, high)
        checks = Checks("service times")
        if not share > 0.0:
            checks.fault("low", "no request has a length in the interval", (low, high))
        checks.finish()
        before = law.share(-math.inf, low)
        steps = (-_REACH + 2.0 * _REACH * i / points for i in range(1, points))
        inner = {min(high, max(low, law.quantile(min(1.0, before + share * normal_cdf(z))))) for z in steps}
        cuts = sorted({low, high} | inner)
        kept: list[tuple[float, float, float]] = []
        for a, b in pairwise(cuts):
            weight = law.share(a, b)
            if weight > 0.0:
                kept.append((law.expect(seconds, a, b) / weight, weight / share, seconds(min(b, 1e18))))
        edges = (min(seconds(max(low, first)), kept[0][0]), *(edge for _, _, edge in kept))
        return cls(tuple(k[0] for k in kept), tuple(k[1] for k in kept), edges if len(kept) > 2 else ())

    @classmethod
    def lognormal(cls, mean: float, cv: float) -> ServiceTimes:
        """Make log-normal service times of a mean [s] and a coefficient of variation [1].

        >>> times = ServiceTimes.lognormal(2.0, 1.0)
        >>> round(times.mean, 6), round(times.cv, 2)
        (2.0, 1.0)
        """
        checks = Checks("service times")
        checks.above("mean", mean)
        checks.at_least("cv", cv)
        checks.finish()
        if cv < _NEARLY_CONSTANT:
            return cls.constant(mean)
        square = math.log1p(cv * cv)
        return cls.of(LogNormal(math.log(mean) - 0.5 * square, math.sqrt(square)), Curve.polynomial(0.0, 1.0))

    def check(self, checks: Checks) -> None:
        """Note what is wrong with the points."""
        if not self.seconds or len(self.seconds) != len(self.weights):
            checks.fault("service", "expected as many weights as times, at least one", len(self.weights))
        elif any(not 0.0 <= s < math.inf for s in self.seconds) or list(self.seconds) != sorted(self.seconds):
            checks.fault("service", "expected finite times of at least 0, rising")
        elif self.seconds[-1] <= 0.0 or any(w < 0.0 for w in self.weights) or abs(sum(self.weights) - 1.0) > 1e-6:
            checks.fault("service", "expected a time above 0 and weights that add up to 1", sum(self.weights))

    @cached_property
    def moments(self) -> tuple[float, float, float]:
        """First three moments [s, s², s³]."""
        pairs = list(zip(self.seconds, self.weights, strict=True))
        return sum(w * s for s, w in pairs), sum(w * s * s for s, w in pairs), sum(w * s**3 for s, w in pairs)

    @property
    def mean(self) -> float:
        """Mean time [s]."""
        return self.moments[0]

    @property
    def cv(self) -> float:
        """Coefficient of variation [1]."""
        return math.sqrt(max(0.0, self.moments[1] / self.mean**2 - 1.0))

    def transform(self, s: float) -> float:
        """Give ``E[exp(-s·time)]``."""
        exp = math.exp
        return sum(w * exp(-s * x) for x, w in zip(self.seconds, self.weights, strict=True))

    def survival(self, x: float) -> float:
        """Give P(time > x), straight inside a bin."""
        if not self.edges:
            return sum(w for s, w in zip(self.seconds, self.weights, strict=True) if s > x)
        if x < self.edges[0]:
            return 1.0
        i = bisect_right(self.edges, x) - 1
        if i >= len(self.weights):
            return 0.0
        start, end = self.edges[i], self.edges[i + 1]
        inside = (end - x) / (end - start) if math.isfinite(end) else 1.0
        return self.weights[i] * inside + sum(self.weights[i + 1 :])

    def first_residual(self, servers: int) -> tuple[float, float]:
        """Give the first two moments of the time until the first of c busy servers is free.

        The residual service of each is ``R(t) = E[(S - t)+] / E[S]``, so ``∫ R(t)**c dt`` and ``2 ∫ t·R(t)**c dt``;
        R is straight between the points, which makes both exact.

        >>> ServiceTimes.constant(3.0).first_residual(2)
        (1.0, 1.5)
        """
        first = second = start = 0.0
        height, tail = 1.0, 1.0
        for end, weight in zip(self.seconds, self.weights, strict=True):
            slope = tail / self.mean
            below = max(0.0, height - slope * (end - start))
            if slope > 0.0 and end > start:
                power, lower = height ** (servers + 1), below ** (servers + 1)
                scale = (servers + 1) * slope
                first += (power - lower) / scale
                second += (start * power - end * lower) / scale
                second += (power * height - lower * below) / (scale * (servers + 2) * slope)
            start, height, tail = end, below, max(0.0, tail - weight)
        return first, 2.0 * second

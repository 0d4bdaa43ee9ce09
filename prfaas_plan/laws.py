"""Laws of request length: constant, log-normal, mixture, histogram, and the lengths of a trace.

A law answers with exact sums or closed forms, never by sampling. Lengths are uncached input tokens;
`share`, `moments` and `expect` speak of the half-open interval ``low < L <= high``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import ClassVar

from prfaas_plan.lognormal import partial_moment
from prfaas_plan.numerics import Curve, bisect_root
from prfaas_plan.schema import quantity

__all__ = ["Constant", "Empirical", "Histogram", "LengthLaw", "LogNormal", "Mixture", "Moments"]

Moments = tuple[float, float, float]
_NO_MOMENTS: Moments = (0.0, 0.0, 0.0)
_LEAST_MASS = 1e-290
_ROUNDING = 1e-12


class LengthLaw(ABC):
    """The distribution of request lengths L [token]."""

    @property
    @abstractmethod
    def describe(self) -> str:
        """Name the law and its parameters in a few words."""

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


def _check_level(q: float) -> None:
    if not 0.0 <= q <= 1.0:
        raise ValueError(f"a quantile level lies between 0 and 1, not {q!r}")


@dataclass(frozen=True, slots=True)
class Constant(LengthLaw):
    """Every request has the same length.

    >>> Constant(8000.0).share(0, 8000)
    1.0
    """

    law: ClassVar[str] = "constant"
    tokens: float = quantity("token", "length of every request", symbol="L", above=0)

    @property
    def support(self) -> tuple[float, float]:
        """Shortest and longest length that occurs."""
        return self.tokens, self.tokens

    def describe(self) -> str:
        """Name the law and its parameters."""
        return f"every request {self.tokens:,.0f} tokens"

    def moments(self, low: float = -math.inf, high: float = math.inf) -> Moments:
        """Give ``E[L**n; low < L <= high]`` for n = 0, 1, 2."""
        return (1.0, self.tokens, self.tokens * self.tokens) if low < self.tokens <= high else _NO_MOMENTS

    def quantile(self, q: float) -> float:
        """Give the smallest length x with ``P(L <= x) >= q``."""
        _check_level(q)
        return self.tokens


@dataclass(frozen=True)
class LogNormal(LengthLaw):
    """The logarithm of the length is normal, truncated to ``[min, max]``.

    Moments have a closed form. Raises `ValueError` if a bound is out of order, or if the interval lies so far
    in a tail that its probability is below 1e-290.

    >>> paper = LogNormal(mu=9.90, sigma=1.00, min=128, max=131072)  # arXiv 2604.15039, section 4
    >>> round(paper.mean), round(paper.share(19400), 4)
    (27486, 0.4957)
    """

    law: ClassVar[str] = "lognormal"
    mu: float = quantity("1", "mean of ln(length / token) before truncation", symbol="μ")
    sigma: float = quantity("1", "standard deviation of ln(length / token) before truncation", symbol="σ", above=0)
    min: float = quantity("token", "shortest length", at_least=0, default=0.0)
    max: float = quantity("token", "longest length", above=0, default=math.inf, may_be_infinite=True)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mu) and 0.0 < self.sigma < math.inf):
            raise ValueError(f"mu must be finite and sigma above 0, not mu = {self.mu}, sigma = {self.sigma}")
        if not 0.0 <= self.min < self.max:
            raise ValueError(f"min must be below max and neither negative, not min = {self.min}, max = {self.max}")
        mass = self._mass
        if not mass > _LEAST_MASS:
            raise ValueError(
                f"a log-normal law with mu = {self.mu} and sigma = {self.sigma} has practically no length between "
                f"{self.min} and {self.max} tokens (probability {mass:.3g}); its median is exp(mu)"
            )

    @cached_property
    def _mass(self) -> float:
        return partial_moment(0, self.mu, self.sigma, self.min, self.max)

    @property
    def support(self) -> tuple[float, float]:
        """Shortest and longest length that occurs."""
        return self.min, self.max

    def describe(self) -> str:
        """Name the law and its parameters."""
        return f"log-normal law, μ {self.mu:g}, σ {self.sigma:g}, on {self.min:,.0f} to {self.max:,.0f} tokens"

    def moments(self, low: float = -math.inf, high: float = math.inf) -> Moments:
        """Give ``E[L**n; low < L <= high]`` for n = 0, 1, 2, in closed form."""
        low = low if low > self.min else self.min
        high = high if high < self.max else self.max
        mass = self._mass
        m0, m1, m2 = (partial_moment(n, self.mu, self.sigma, low, high) / mass for n in range(3))
        return m0, m1, m2

    def quantile(self, q: float) -> float:
        """Give the length x with ``P(L <= x) = q``, by bisection of ln x to 1e-14."""
        _check_level(q)
        if q in (0.0, 1.0):
            return self.support[int(q)]
        mass = self._mass
        reach = 40.0 * self.sigma
        low = max(math.log(self.min), self.mu - reach) if self.min else self.mu - reach
        high = min(math.log(self.max), self.mu + reach) if self.max < math.inf else self.mu + reach

        def excess(log_length: float) -> float:
            x = math.exp(log_length)
            if q <= 0.5:
                return partial_moment(0, self.mu, self.sigma, self.min, x) - q * mass
            return (1.0 - q) * mass - partial_moment(0, self.mu, self.sigma, x, self.max)

        found = math.exp(bisect_root(excess, low, high, 1e-15))
        return min(max(found, self.min), self.max)


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
        _check_level(q)
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
            return _NO_MOMENTS
        total = self._sums[0][-1]
        m0, m1, m2 = ((sums[j] - sums[i]) / total for sums in self._sums)
        return m0, m1, m2

    def quantile(self, q: float) -> float:
        """Give the smallest length x with ``P(L <= x) >= q``."""
        _check_level(q)
        cumulated = self._sums[0]
        place = bisect_left(cumulated, q * cumulated[-1] * (1.0 - _ROUNDING), lo=1)
        return float(self.lengths[min(place, len(self.lengths)) - 1])


@dataclass(frozen=True)
class Mixture(LengthLaw):
    """Several laws, each for a share of the requests; weights need not add up to 1.

    Raises `ValueError` unless there is one finite weight above 0 for each law.

    >>> Mixture(weights=(3, 1), laws=(Constant(100.0), Constant(500.0))).mean
    200.0
    """

    law: ClassVar[str] = "mixture"
    weights: tuple[float, ...]
    laws: tuple[LengthLaw, ...]

    def __post_init__(self) -> None:
        if not self.laws or len(self.laws) != len(self.weights):
            raise ValueError("a mixture needs at least one law, and one weight for each")
        if any(not 0.0 < w < math.inf for w in self.weights) or not math.fsum(self.weights) < math.inf:
            raise ValueError("the weights of a mixture must be finite and above 0")

    @cached_property
    def _parts(self) -> list[tuple[float, LengthLaw]]:
        total = math.fsum(self.weights)
        return [(w / total, law) for w, law in zip(self.weights, self.laws, strict=True)]

    @property
    def support(self) -> tuple[float, float]:
        """Shortest and longest length that occurs."""
        supports = [law.support for law in self.laws]
        return min(low for low, _ in supports), max(high for _, high in supports)

    def describe(self) -> str:
        """Name the law and its parameters."""
        return "mixture of " + " and ".join(law.describe() for law in self.laws)

    def moments(self, low: float = -math.inf, high: float = math.inf) -> Moments:
        """Give ``E[L**n; low < L <= high]`` for n = 0, 1, 2."""
        m0 = m1 = m2 = 0.0
        for weight, law in self._parts:
            a0, a1, a2 = law.moments(low, high)
            m0, m1, m2 = m0 + weight * a0, m1 + weight * a1, m2 + weight * a2
        return m0, m1, m2

    def quantile(self, q: float) -> float:
        """Give the smallest length x with ``P(L <= x) >= q``, by bisection; a length with a share is met exactly."""
        _check_level(q)
        if q in (0.0, 1.0):
            return self.support[int(q)]
        ends = [law.quantile(q) for law in self.laws]
        low, high = min(ends), max(ends)
        needed = q * (1.0 - _ROUNDING)
        if self.share(high=low) >= needed:
            return low
        for _ in range(200):
            middle = 0.5 * (low + high)
            if high - low <= 1e-13 * high or middle in (low, high):
                break
            low, high = (low, middle) if self.share(high=middle) >= needed else (middle, high)
        atoms = [law.quantile(min(1.0, law.share(high=high))) for law in self.laws]
        return min([a for a in atoms if low < a <= high and self.share(high=a) >= needed], default=high)

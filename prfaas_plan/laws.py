"""Laws of request length: constant, log-normal, mixture, histogram, and the lengths of a trace."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from prfaas_plan.length_law import NO_MOMENTS, ROUNDING, LengthLaw, Moments, check_level
from prfaas_plan.lognormal import partial_moment
from prfaas_plan.numerics import bisect_root
from prfaas_plan.observed_laws import Empirical, Histogram
from prfaas_plan.records import quantity

__all__ = ["Constant", "Empirical", "Histogram", "LengthLaw", "LogNormal", "Mixture", "Moments"]

_LEAST_MASS = 1e-290


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
        return (1.0, self.tokens, self.tokens * self.tokens) if low < self.tokens <= high else NO_MOMENTS

    def quantile(self, q: float) -> float:
        """Give the smallest length x with ``P(L <= x) >= q``."""
        check_level(q)
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
        check_level(q)
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
        check_level(q)
        if q in (0.0, 1.0):
            return self.support[int(q)]
        ends = [law.quantile(q) for law in self.laws]
        low, high = min(ends), max(ends)
        needed = q * (1.0 - ROUNDING)
        if self.share(high=low) >= needed:
            return low
        for _ in range(200):
            middle = 0.5 * (low + high)
            if high - low <= 1e-13 * high or middle in (low, high):
                break
            low, high = (low, middle) if self.share(high=middle) >= needed else (middle, high)
        atoms = [law.quantile(min(1.0, law.share(high=high))) for law in self.laws]
        return min([a for a in atoms if low < a <= high and self.share(high=a) >= needed], default=high)

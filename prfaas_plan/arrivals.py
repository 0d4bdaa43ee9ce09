"""How irregularly requests come: gaps of given mean and variation as a few exponential phases.

Phases make a queue solvable: the probability that an arrival finds all c servers of GI/M/c busy is one recursion over
the servers, and the idle time of a single server is known up to one root. Measured client streams have gamma gaps in
2,589 of 3,111 windows of ten minutes and Weibull gaps in the others (alibaba/ServeGen), so gamma is the default.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from prfaas_plan.checks import Checks
from prfaas_plan.numerics import bisect_root

__all__ = ["GAP_LAWS", "Arrivals", "Parallel", "Series", "delay_probability", "gap_phases"]

GAP_LAWS: Final = ("gamma", "weibull", "lognormal", "hyperexponential")
"""Laws of the gap between requests."""
_MOST_PHASES: Final = 10
_GAP_POINTS: Final = 300
_NEARLY_ONE: Final = 1e-6
_Vector = tuple[float, ...]
_Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Arrivals:
    """A renewal stream of requests.

    >>> bursty = Arrivals(10.0, cv=3.0)
    >>> bursty.thinned(0.25).rate_per_s, bursty.thinned(0.25).square
    (2.5, 3.0)
    """

    rate_per_s: float
    """Requests per second."""
    cv: float = 1.0
    """Coefficient of variation of the gaps [1]; 1 is Poisson."""
    law: str = "gamma"
    """One of `GAP_LAWS`; they only matter above a CV of 1 (hyperexponential: two phases of balanced means)."""
    picked: float = 1.0
    """Share of a larger stream that these requests are, picked at random; ``cv`` and ``law`` describe the larger."""

    def check(self, checks: Checks) -> None:
        """Note what is wrong with the stream."""
        checks.above("rate_per_s", self.rate_per_s)
        checks.at_least("arrival_cv", self.cv)
        checks.choice("arrival_law", self.law, GAP_LAWS)
        checks.above("picked", self.picked)
        checks.fraction("picked", self.picked)

    def thinned(self, share: float) -> Arrivals:
        """Give the stream of a share of these requests, picked independently of when they come, as by their length."""
        return replace(self, rate_per_s=self.rate_per_s * share, picked=self.picked * share)

    @property
    def square(self) -> float:
        """Squared coefficient of variation of the gaps between the picked requests [1]."""
        return self.picked * self.cv**2 + 1.0 - self.picked

    def transform(self, s: float) -> float:
        """Give ``E[exp(-s·gap)]``: ``pA / (1 - (1-p)A)`` for a share p of a stream with the transform A."""
        whole = _whole_transform(self.law, self.cv, s * self.picked / self.rate_per_s)
        return self.picked * whole / (1.0 - (1.0 - self.picked) * whole)


def _whole_transform(law: str, cv: float, s: float) -> float:
    """Give ``E[exp(-s·gap)]`` of gaps of mean 1."""
    if cv == 0.0:
        return math.exp(-s)
    if law == "hyperexponential" and cv > 1.0:
        return _balanced(cv * cv, 1.0).transform(s)
    if law in ("weibull", "lognormal"):
        gaps = _weibull_gaps(cv) if law == "weibull" else _lognormal_gaps(cv)
        return sum(weight * math.exp(-s * gap) for gap, weight in gaps)
    return math.exp(-math.log1p(cv * cv * s) / (cv * cv))


def _even_grid(low: float, high: float) -> list[float]:
    return [low + (high - low) * i / _GAP_POINTS for i in range(_GAP_POINTS + 1)]


@lru_cache(maxsize=16)
def _weibull_gaps(cv: float) -> _Points:
    """Give points of a Weibull law of mean 1; its shape k has Γ(1+2/k) / Γ(1+1/k)² = 1 + CV².

    With gap^k = exp(y) exponential, the sum over an even grid of y is as good as exact.
    """

    def excess(inverse: float) -> float:
        return math.lgamma(1.0 + 2.0 * inverse) - 2.0 * math.lgamma(1.0 + inverse) - math.log1p(cv * cv)

    inverse = bisect_root(excess, 1e-3, 50.0)
    grid = _even_grid(-20.0, 6.0)
    return _of_mean_one([(math.exp(inverse * y), math.exp(y - math.exp(y))) for y in grid])


@lru_cache(maxsize=16)
def _lognormal_gaps(cv: float) -> _Points:
    """Give points of a log-normal law of mean 1 on an even grid of the logarithm."""
    sigma = math.sqrt(math.log1p(cv * cv))
    grid = _even_grid(-6.0, 6.0 + 2.0 * sigma)
    return _of_mean_one([(math.exp(sigma * z), math.exp(-0.5 * z * z)) for z in grid])


def _of_mean_one(pairs: list[tuple[float, float]]) -> _Points:
    total = sum(weight for _, weight in pairs)
    mean = sum(gap * weight for gap, weight in pairs) / total
    return tuple((gap / mean, weight / total) for gap, weight in pairs)


@dataclass(frozen=True, slots=True)
class Parallel:
    """A gap is exponential with one of several rates."""

    weights: _Vector
    rates: _Vector

    def transform(self, s: float) -> float:
        """Give ``E[exp(-s·gap)]``."""
        return sum(w * r / (r + s) for w, r in zip(self.weights, self.rates, strict=True))

    def moments(self, weights: _Vector | None = None) -> tuple[float, float, float]:
        """Give the first three moments of the gap, or of one with other weights."""
        pairs = [(w, 1.0 / r) for w, r in zip(weights or self.weights, self.rates, strict=True)]
        return sum(w * m for w, m in pairs), 2 * sum(w * m**2 for w, m in pairs), 6 * sum(w * m**3 for w, m in pairs)

    @property
    def start(self) -> _Vector:
        """Probabilities of the first phase."""
        return self.weights

    def ended(self, row: _Vector) -> float:
        """Give the rate at which gaps end in a state of phases."""
        return sum(x * r for x, r in zip(row, self.rates, strict=True))

    def resolve(self, row: _Vector, s: float) -> _Vector:
        """Give the time spent in each phase, discounted at rate s."""
        return tuple(x / (r + s) for x, r in zip(row, self.rates, strict=True))


@dataclass(frozen=True, slots=True)
class Series:
    """A gap is `phases` exponential stages in a row; the first is skipped with a probability."""

    phases: int
    skip: float
    rate: float

    def transform(self, s: float) -> float:
        """Give ``E[exp(-s·gap)]``."""
        stage = self.rate / (self.rate + s)
        return stage ** (self.phases - 1) * (self.skip + (1.0 - self.skip) * stage)

    @property
    def start(self) -> _Vector:
        """Probabilities of the first phase."""
        return (1.0 - self.skip, self.skip, *(0.0,) * (self.phases - 2))

    def ended(self, row: _Vector) -> float:
        """Give the rate at which gaps end in a state of phases."""
        return row[-1] * self.rate

    def resolve(self, row: _Vector, s: float) -> _Vector:
        """Give the time spent in each phase, discounted at rate s."""
        times, before = [], 0.0
        for x in row:
            before = (x + self.rate * before) / (self.rate + s)
            times.append(before)
        return tuple(times)


def busy_root(transform_at: Arrivals | Parallel | Series, service_rate: float) -> float:
    """Solve ``σ = A*(ν(1 - σ))`` for σ < 1: the share of GI/M/1 arrivals that wait, ν the service rate [1/s].

    >>> round(busy_root(Parallel((1.0,), (0.8,)), 1.0), 9)
    0.8
    """
    return bisect_root(lambda x: x - transform_at.transform(service_rate * (1.0 - x)), 0.0, 1.0 - 1e-12)


def gap_phases(arrivals: Arrivals, service_rate: float) -> Parallel | Series:
    """Give phases with the mean and variation of the gaps, to be served at a total rate [1/s].

    Above a CV of 1 two parallel phases: those that also give GI/M/1 at that service rate the probability of waiting it
    has with these gaps; for hyperexponential gaps balanced means. Below 1 a mixture of two Erlang laws of 10 phases at
    most (Tijms, A First Course in Stochastic Models, 2003, appendix B), whatever the law.

    >>> phases = gap_phases(Arrivals(0.8, cv=2.0), 1.0)
    >>> [round(m, 6) for m in phases.moments()[:2]]
    [1.25, 7.8125]
    """
    square, mean = arrivals.square, 1.0 / arrivals.rate_per_s
    if abs(square - 1.0) < _NEARLY_ONE:
        return Parallel((1.0,), (arrivals.rate_per_s,))
    if square < 1.0:
        return _series(square, mean)
    if arrivals.law == "hyperexponential" and arrivals.picked == 1.0:
        return _balanced(square, mean)
    s = service_rate * (1.0 - busy_root(arrivals, service_rate))
    wanted = arrivals.transform(s)
    short = bisect_root(lambda x: wanted - _parallel(x, square, mean).transform(s), 0.0, 1.0 - 1e-9)
    return _parallel(short, square, mean)


def _balanced(square: float, mean: float) -> Parallel:
    """Give two phases of which each makes up half of the mean."""
    more = 0.5 * (1.0 + math.sqrt((square - 1.0) / (square + 1.0)))
    return Parallel((more, 1.0 - more), (2.0 * more / mean, 2.0 * (1.0 - more) / mean))


def _parallel(short: float, square: float, mean: float) -> Parallel:
    """Give the two phases of which the shorter has `short` times the mean gap."""
    short = max(short, 1e-9)
    long = (0.5 * (1.0 + square) - short) / (1.0 - short)
    share = (1.0 - short) / (long - short)
    return Parallel((1.0 - share, share), (1.0 / (short * mean), 1.0 / (long * mean)))


def _series(square: float, mean: float) -> Series:
    phases = _MOST_PHASES if square * _MOST_PHASES <= 1.0 else max(2, math.ceil(1.0 / square - 1e-9))
    square = max(square, 1.0 / phases)
    root = math.sqrt(max(0.0, phases * (1.0 + square) - phases * phases * square))
    skip = (phases * square - root) / (1.0 + square)
    return Series(phases, skip, (phases - skip) / mean)


def delay_probability(phases: Parallel | Series, service_s: float, servers: int) -> tuple[float, float]:
    """Give the probability that an arrival of GI/M/c waits, and σ, for a mean service time [s].

    With the service rate n/S of n busy servers, the flow of arrivals that find n busy is s(n) times that which find
    n - 1: ``r(n) = [α + (n+1)/S·s(n)·r(n+1)]·(n/S - D)⁻¹``, ``s(n)`` the rate at which gaps end in r(n). From c on it
    is σ, the root of ``σ = A*(c/S·(1-σ))``. All terms are positive, so any number of servers is fine.

    >>> round(delay_probability(Parallel((1.0,), (8.0,)), 1.0, 10)[0], 4)
    0.4092
    """
    rate = 1.0 / service_s
    sigma = busy_root(phases, servers * rate)
    row = phases.resolve(phases.start, servers * rate * (1.0 - sigma))
    ratios = []
    for n in range(servers - 1, 0, -1):
        fresh, again = phases.resolve(phases.start, n * rate), phases.resolve(row, n * rate)
        ratio = phases.ended(fresh) / (1.0 - (n + 1) * rate * phases.ended(again))
        row = tuple(a + (n + 1) * rate * ratio * b for a, b in zip(fresh, again, strict=True))
        ratios.append(ratio)
    below = flow = 1.0
    for ratio in ratios:
        flow /= ratio
        below += flow
        if flow > 1e300:
            return 0.0, sigma
    waiting = sigma / (1.0 - sigma)
    return waiting / (waiting + below), sigma

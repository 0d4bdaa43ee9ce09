"""Waiting in a pool of equal servers with general arrivals and service times, and the time to first token under load.

The approximation for G/G/c takes three exact answers and puts them together:

- the probability of waiting of GI/M/c with the same gaps (`prfaas_plan.arrivals.delay_probability`), times what general
  service changes in it on one server;
- the wait of those who wait, on one server c times as fast: exact for gaps of phases, from one root
  (Marshall 1968: the moments of the wait follow from those of the idle time);
- for c servers, the residual service of the fast server in it replaced by the time until the first of c servers is free
  (the light-traffic term of Tijms, A First Course in Stochastic Models, 2003, section 9.6; Burman and Smith 1983).

For bursty gaps two services have a better answer, whose ratio to the above is applied as far as a service is like them:
constant service (CV below 1, in proportion 1 - CV²), and service of no time for some and an exponential time for the
others (CV above 1, by its third moment). Below an arrival CV of 1 mean and probability follow Kraemer and
Langenbach-Belz (1976). The wait of those who wait is given two exponentials with its first two moments. The whole is
exact for M/M/c, GI/M/c with phases, M/G/1 (mean), and in heavy traffic.
docs/latency.md has the accuracy against simulation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from prfaas_plan.arrivals import Arrivals, Parallel, delay_probability, gap_phases
from prfaas_plan.checks import Checks
from prfaas_plan.erlang import mean_wait_mmc, require_stable
from prfaas_plan.numerics import bisect_root
from prfaas_plan.service_times import ServiceTimes

__all__ = [
    "Wait",
    "allen_cunneen",
    "pool_checks",
    "range_limits",
    "reach_quantile",
    "wait_in_pool",
]

LARGEST_LOAD: Final = 0.9
LARGEST_SERVERS: Final = 64
LARGEST_ARRIVAL_CV: Final = 3.0
LARGEST_SERVICE_CV: Final = 2.0
"""Ends of the range in which the approximation was checked against simulation."""
_NEARLY_ONE: Final = 1e-6
_LEAST_SQUARE: Final = 0.5001
_LEAST_SHARE: Final = 0.2


def reach_quantile(falls_short: Callable[[float], float], scale: float) -> float:
    """Find where a rising function from a negative value crosses zero, starting from a guess of the scale."""
    high = scale
    while falls_short(high) < 0.0:
        high *= 2.0
    return bisect_root(falls_short, 0.0, high, relative=1e-9)


@dataclass(frozen=True, slots=True)
class Wait:
    """The time a request waits for a server: nothing, or a mixture of two exponentials."""

    probability: float
    """P(wait > 0)."""
    mean_s: float
    """Mean over all requests."""
    load_fraction: float
    long_share: float
    """Weight of the longer exponential (it may exceed 1; the other is then negative)."""
    long_s: float
    short_s: float
    limits: tuple[str, ...] = ()
    """Where the approximation is outside the range it was checked in."""

    def survival(self, x: float) -> float:
        """Give P(wait > x) for a time [s]."""
        if x < 0.0:
            return 1.0
        if self.probability == 0.0:
            return 0.0
        short = (1.0 - self.long_share) * math.exp(-x / self.short_s) if self.short_s > 0.0 else 0.0
        return self.probability * (self.long_share * math.exp(-x / self.long_s) + short)

    def quantile(self, q: float) -> float:
        """Give the time [s] that a share q of requests do not wait longer than."""
        return 0.0 if self.probability <= 1.0 - q else reach_quantile(lambda x: 1.0 - q - self.survival(x), self.long_s)

    def to_dict(self) -> dict[str, object]:
        """Give the wait under the names of the JSON output."""
        return {
            "load_fraction": self.load_fraction,
            "probability": self.probability,
            "mean_s": self.mean_s,
            **{f"p{round(100 * q)}_s": self.quantile(q) for q in (0.5, 0.9, 0.99)},
            "limits": list(self.limits),
        }


def allen_cunneen(arrivals: Arrivals, service: ServiceTimes, servers: int) -> float:
    """Give the mean wait [s] of G/G/c after Allen and Cunneen, ``(ca² + cs²)/2`` times that of M/M/c.

    The textbook formula, here for comparison: for bursty gamma gaps it is far too low at low load (docs/latency.md).
    Raises as `wait_in_pool`.

    >>> round(allen_cunneen(Arrivals(0.9, cv=3.0), ServiceTimes.constant(1.0), 1), 2)
    40.5
    """
    pool_checks(arrivals, service, servers, "allen_cunneen").finish()
    return 0.5 * (arrivals.square + service.cv**2) * mean_wait_mmc(arrivals.rate_per_s, service.mean, servers)


def pool_checks(arrivals: Arrivals, service: ServiceTimes, servers: int, where: str) -> Checks:
    """Collect what is wrong with the description of a pool."""
    checks = Checks(where)
    arrivals.check(checks)
    service.check(checks)
    checks.at_least("servers", servers, 1)
    return checks


def wait_in_pool(arrivals: Arrivals, service: ServiceTimes, servers: int) -> Wait:
    """Give the wait in a first-come-first-served pool of c servers (the approximation of this module for G/G/c).

    ``wait.limits`` says where load, CVs or servers leave the range in which mean and p90 of wait plus service were
    within 10 % and 15 % of simulation: load up to 0.9, 64 servers, arrival CV 3, service CV 2.
    Raises `InputError`, and `InfeasibleError` where the pool does not keep up.

    >>> wait = wait_in_pool(Arrivals(0.9), ServiceTimes.constant(1.0), 1)
    >>> round(wait.probability, 6), round(wait.mean_s, 6)
    (0.9, 4.5)
    """
    pool_checks(arrivals, service, servers, "wait_in_pool").finish()
    load = require_stable(arrivals.rate_per_s, service.mean, servers)
    probability, mean, square = _wait_moments(arrivals, service, servers, load)
    if servers > 1 and arrivals.square > 1.0:
        p, m, v = _bursty_corrections(arrivals, service, servers, load)
        probability, mean, square = min(1.0, probability * p), mean * m, square * v
    share, long, short = _two_exponentials(mean, square / mean**2 - 1.0)
    limits = range_limits(arrivals, service, servers, load)
    return Wait(probability, probability * mean, load, share, long, short, limits)


def _bursty_corrections(
    arrivals: Arrivals, service: ServiceTimes, servers: int, load: float
) -> tuple[float, float, float]:
    """Give factors for P(wait), mean and mean square from two services with a better answer, where gaps are bursty.

    Constant service: every c-th request to one server. Service that takes no time for some and is exponential for the
    others: GI/M/c of the others, with the same probability of waiting for all.
    """
    cv2 = service.cv**2
    if cv2 < 1.0 and arrivals.square >= 0.5 * servers:
        constant = ServiceTimes.constant(service.mean)
        split = Arrivals(arrivals.rate_per_s / servers, math.sqrt(arrivals.square / servers), arrivals.law)
        exact, rough = _wait_moments(split, constant, 1, load), _wait_moments(arrivals, constant, servers, load)
        p, m, v = ((e / r if r > 0.0 else 1.0) ** (1.0 - cv2) for e, r in zip(exact, rough, strict=True))
        return p, m, v
    if cv2 <= 1.0:
        return 1.0, 1.0, 1.0
    busy = 2.0 / (1.0 + cv2)
    some = gap_phases(arrivals.thinned(busy), busy * servers / service.mean)
    exact_all, exact_one = delay_probability(some, service.mean / busy, servers)
    rough_all, rough_one = delay_probability(gap_phases(arrivals, servers / service.mean), service.mean, servers)
    likeness = min(1.0, 1.5 * (1.0 + cv2) ** 2 * service.mean**3 / service.moments[2])
    if min(exact_all, rough_all) <= 0.0:
        return 1.0, 1.0, 1.0
    return (exact_all / rough_all * rough_one / exact_one) ** likeness, 1.0, 1.0


def _wait_moments(arrivals: Arrivals, service: ServiceTimes, servers: int, load: float) -> tuple[float, float, float]:
    """Give P(wait > 0), and mean and mean square of the wait of those who wait."""
    phases = gap_phases(arrivals, servers / service.mean)
    probability, sigma = delay_probability(phases, service.mean, servers)
    if isinstance(phases, Parallel):
        idle, mean, variance = _fast_server(phases, service, servers)
        factor = (1.0 - idle) / sigma
    else:
        factor, mean, variance = _regular_arrivals(arrivals.square, service, servers, load, sigma)
    probability = min(1.0, factor * probability)
    mean, variance = _first_free(service, servers, mean, variance)
    return probability, mean, mean**2 + max(0.0, variance)


def range_limits(arrivals: Arrivals, service: ServiceTimes, servers: int, load: float) -> tuple[str, ...]:
    """Say where a queue is outside the range in which the approximation was checked."""
    found = (
        ("load", load, LARGEST_LOAD),
        ("number of servers", servers, LARGEST_SERVERS),
        ("arrival CV", math.sqrt(arrivals.square), LARGEST_ARRIVAL_CV),
        ("service CV", service.cv, LARGEST_SERVICE_CV),
    )
    return tuple(
        f"{name} {value:.3g} is above {most:g}: the wait was not checked against simulation there"
        for name, value, most in found
        if value > most * (1.0 + 1e-9)
    )


def _fast_server(phases: Parallel, service: ServiceTimes, servers: int) -> tuple[float, float, float]:
    """Solve one server c times as fast: P(no wait), and mean and variance of the wait of those who wait.

    With X = S/c - A, idle time I and P0 = -E[X]/E[I] (Marshall 1968): ``E[W] = (E[X²] - P0·E[I²]) / (-2E[X])``,
    ``E[W²] = (3E[W]E[X²] + E[X³] + P0·E[I³]) / (-3E[X])``.
    """
    s1, s2, s3 = (m / servers ** (n + 1) for n, m in enumerate(service.moments))
    a1, a2, a3 = phases.moments()
    i1, i2, i3 = phases.moments(_idle_weights(phases, service, servers))
    x1, x2 = s1 - a1, s2 - 2.0 * s1 * a1 + a2
    x3 = s3 - 3.0 * s2 * a1 + 3.0 * s1 * a2 - a3
    idle = -x1 / i1
    mean = (x2 - idle * i2) / (-2.0 * x1)
    square = (3.0 * mean * x2 + x3 + idle * i3) / (-3.0 * x1)
    busy = 1.0 - idle
    return idle, mean / busy, square / busy - (mean / busy) ** 2


def _idle_weights(phases: Parallel, service: ServiceTimes, servers: int) -> tuple[float, ...]:
    """Give the phase in which an idle period finds the gap, from the root z of ``A*(-z)·S*(z) = 1``, z > 0."""
    if len(phases.rates) == 1:
        return (1.0,)
    fast, slow = phases.rates
    z = bisect_root(lambda x: phases.transform(-x) * service.transform(x / servers) - 1.0, slow, fast)
    one, two = fast / (fast - z), slow / (slow - z)
    weight = (1.0 - two) / (one - two)
    return weight, 1.0 - weight


def _regular_arrivals(
    square: float, service: ServiceTimes, servers: int, load: float, sigma: float
) -> tuple[float, float, float]:
    """Treat an arrival CV below 1 on one fast server: what service changes in P(wait), and mean and variance as above.

    Mean and P(wait) relative to exponential service after Kraemer and Langenbach-Belz; the CV is that of M/G/1.
    """
    s1, s2, s3 = service.moments
    cv2 = service.cv**2
    factor = _regular_waiting(square, cv2, load) / _regular_waiting(square, 1.0, load)
    mean = s1 / (servers * (1.0 - sigma)) / factor
    mean *= _regular_factor(square, cv2, load) / _regular_factor(square, 1.0, load)
    first, second = 0.5 * s2 / s1, s3 / (3.0 * s1)
    waits = load / (1.0 - load)
    variance = second - first**2 + waits * second + (waits * first) ** 2
    return factor, mean, variance * (mean * (1.0 - load) / first) ** 2


def _regular_waiting(square: float, cv2: float, load: float) -> float:
    shape = (1.0 + square + load * cv2) / (1.0 + load * (cv2 - 1.0) + load * load * (4.0 * square + cv2))
    return max(1e-6, load + (square - 1.0) * load * (1.0 - load) * shape)


def _regular_factor(square: float, cv2: float, load: float) -> float:
    both = max(square + cv2, 1e-12)
    return both * math.exp(-2.0 * (1.0 - load) * (1.0 - square) ** 2 / (3.0 * load * both))


def _first_free(service: ServiceTimes, servers: int, mean: float, variance: float) -> tuple[float, float]:
    """Replace the residual service of the fast server by the time until the first of c servers is free."""
    if servers == 1:
        return max(mean, 1e-12 * service.mean), variance
    s1, s2, s3 = service.moments
    fast, fast2 = 0.5 * s2 / s1 / servers, s3 / (3.0 * s1) / servers**2
    first, first2 = service.first_residual(servers)
    shifted = max(mean + first - fast, _LEAST_SHARE * mean, 1e-12 * s1)
    return shifted, variance + (first2 - first**2) - (fast2 - fast**2)


def _two_exponentials(mean: float, square: float) -> tuple[float, float, float]:
    """Fit two exponentials to a mean and a squared CV: the third moment of a gamma law above 1, in a row below."""
    if square <= 1.0 - _NEARLY_ONE:
        root = math.sqrt(2.0 * max(square, _LEAST_SQUARE) - 1.0)
        return 0.5 * (1.0 + root) / root, 0.5 * (1.0 + root) * mean, 0.5 * (1.0 - root) * mean
    if square < 1.0 + _NEARLY_ONE:
        return 1.0, mean, mean
    second, third = 1.0 + square, (1.0 + square) * (1.0 + 2.0 * square)
    x, y = third - 1.5 * second**2, second - 2.0
    root = math.sqrt((x + 1.5 * y * y - 3.0 * y) ** 2 + 18.0 * y**3)
    long, short = ((x + 1.5 * y * y + 3.0 * y + sign * root) / (6.0 * y) for sign in (1.0, -1.0))
    return (1.0 - short) / (long - short), long * mean, short * mean

"""Time to first token under load: wait plus service in one pool or several, and the largest rate that meets a target.

The wait is that of `prfaas_plan.pool_wait`; every result carries in ``limits`` where the approximation is outside the
range it was checked in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from prfaas_plan.arrivals import Arrivals
from prfaas_plan.checks import Checks
from prfaas_plan.errors import InfeasibleError
from prfaas_plan.numerics import bisect_root
from prfaas_plan.pool_wait import Wait, pool_checks, range_limits, reach_quantile, wait_in_pool
from prfaas_plan.service_times import ServiceTimes

__all__ = [
    "Arrivals",
    "LargestRate",
    "Response",
    "ServiceTimes",
    "Wait",
    "largest_rate",
    "mixed_response",
    "response",
    "wait_in_pool",
]


@dataclass(frozen=True, slots=True)
class Response:
    """Wait plus service: mean and percentiles [s]."""

    mean: float
    p50: float
    p90: float
    p99: float
    limits: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Give the values by name."""
        return {"mean": self.mean, "p50": self.p50, "p90": self.p90, "p99": self.p99, "limits": list(self.limits)}


@dataclass(frozen=True, slots=True)
class LargestRate:
    """The most requests a pool takes within a target."""

    rate_rps: float
    load_fraction: float
    value_s: float
    """What the targeted quantity is at that rate."""
    limits: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Give the values by name."""
        return {
            "rate_rps": self.rate_rps,
            "load_fraction": self.load_fraction,
            "value_s": self.value_s,
            "limits": list(self.limits),
        }


def response(wait: Wait, service: ServiceTimes) -> Response:
    """Give wait plus service [s]; for the time to first token, service runs to the first token, transfer included.

    Raises `InputError`.

    >>> times = ServiceTimes.constant(1.0)
    >>> round(response(wait_in_pool(Arrivals(0.9), times, 1), times).mean, 6)
    5.5
    """
    return mixed_response([(1.0, wait, service)])


def mixed_response(parts: Sequence[tuple[float, Wait, ServiceTimes]]) -> Response:
    """Give wait plus service [s] over several pools, each with its share of the requests.

    Raises `InputError`.

    >>> fast, slow = ServiceTimes.constant(1.0), ServiceTimes.constant(3.0)
    >>> calm = wait_in_pool(Arrivals(0.001), fast, 8)
    >>> round(mixed_response([(0.6, calm, fast), (0.4, calm, slow)]).mean, 6)
    1.8
    """
    checks = Checks("mixed_response")
    if not parts or any(share < 0.0 for share, _, _ in parts) or abs(sum(p[0] for p in parts) - 1.0) > 1e-6:
        checks.fault("parts", "expected shares that add up to 1", [p[0] for p in parts])
    for _, _, service in parts:
        service.check(checks)
    checks.finish()
    mean = sum(share * (wait.mean_s + service.mean) for share, wait, service in parts)
    limits = tuple(dict.fromkeys(note for _, wait, _ in parts for note in wait.limits))
    p50, p90, p99 = (_mixed_quantile(parts, q) for q in (0.5, 0.9, 0.99))
    return Response(mean, p50, p90, p99, limits)


def _mixed_quantile(parts: Sequence[tuple[float, Wait, ServiceTimes]], q: float) -> float:
    def falls_short(x: float) -> float:
        return 1.0 - q - sum(share * _later(x, wait, service) for share, wait, service in parts)

    return reach_quantile(falls_short, max(service.seconds[-1] for _, _, service in parts))


def _later(x: float, wait: Wait, service: ServiceTimes) -> float:
    """Give P(wait + service > x): those who do not wait, those whose service alone is longer, the others."""
    exp, long, short, share = math.exp, wait.long_s, max(wait.short_s, 1e-300), wait.long_share
    waiting = 0.0
    for s, w in zip(service.seconds, service.weights, strict=True):
        if s > x:
            waiting += w
        else:
            waiting += w * (share * exp((s - x) / long) + (1.0 - share) * exp((s - x) / short))
    return (1.0 - wait.probability) * service.survival(x) + wait.probability * waiting


def largest_rate(
    arrivals: Arrivals,
    service: ServiceTimes,
    servers: int,
    target_s: float,
    quantile: float | None = 0.9,
    first_token: ServiceTimes | None = None,
) -> LargestRate:
    """Give the largest request rate [1/s] at which a quantile of wait plus service meets a target [s].

    A quantile of ``None`` stands for the mean. `arrivals` gives the variation of the gaps (its rate is ignored),
    `first_token` the time from the start of service to the first token where it is not the service time. By bisection
    of the load, below 0.9999.
    Raises `InputError`, and `InfeasibleError` if the target is missed without any waiting: no fleet size helps then.

    >>> found = largest_rate(Arrivals(1.0), ServiceTimes.constant(1.0), 1, target_s=5.5, quantile=None)
    >>> round(found.load_fraction, 6)
    0.9
    """
    checks = pool_checks(arrivals, service, servers, "largest_rate")
    checks.above("target_s", target_s)
    if quantile is not None:
        checks.inside("quantile", quantile)
    checks.finish()
    times = first_token or service

    def value(load: float) -> float:
        wait = wait_in_pool(replace(arrivals, rate_per_s=load * servers / service.mean), service, servers)
        return wait.mean_s + times.mean if quantile is None else _mixed_quantile([(1.0, wait, times)], quantile)

    alone = times.mean if quantile is None else reach_quantile(lambda x: 1.0 - quantile - times.survival(x), times.mean)
    if alone > target_s:
        what = "mean" if quantile is None else f"p{100 * quantile:g}"
        raise InfeasibleError(
            f"the target of {target_s:.4g} s is below the {what} time of a request that does not wait, "
            f"{alone:.4g} s: no number of servers meets it",
            "faster servers (more tensor parallelism), shorter prompts or a target of at least "
            f"{alone:.4g} s would help",
        )
    load = bisect_root(lambda x: value(x) - target_s, 1e-6, 0.9999, relative=1e-7)
    rate = load * servers / service.mean
    return LargestRate(rate, load, value(load), range_limits(arrivals, service, servers, load))

"""Time to first token when requests queue: what a plan's users see at a load, and the largest rate that meets a target.

Each prefill pool is a queue of its own fed by its class of requests (`queueing`). Transfers are taken as alone on the
link, and a first token as given by the prefill, so decode adds no wait to it. Queues know only the mean service time:
a plan at the service time of the mean length is taken at the mean service time here, which serves a little less.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from prfaas_plan.errors import InfeasibleError
from prfaas_plan.latency import first_token_quantile, transfer_seconds
from prfaas_plan.numerics import bisect_root
from prfaas_plan.queueing import Arrivals, Response, ServiceTimes, mixed_response, wait_in_pool
from prfaas_plan.throughput import OperatingPoint, operate

__all__ = ["Loaded", "Target", "best_for_target", "largest_rate_within", "loaded_ttft", "steady"]

_HIGHEST_LOAD = 0.999
_THRESHOLDS = 12
_BUSY_LINK = 0.5


@dataclass(frozen=True, slots=True)
class Target:
    """A promise on the time to first token: a quantile of it [s]."""

    seconds: float
    quantile: float = 0.9


@dataclass(frozen=True, slots=True)
class Loaded:
    """Time to first token [s] of a plan at a request rate."""

    rate_rps: float
    load_fraction: float
    arrival_cv: float
    ttft_s: Response
    limits: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Give the values by name."""
        times = {key: getattr(self.ttft_s, key) for key in ("mean", "p50", "p90", "p99")}
        return {
            "rate_rps": self.rate_rps,
            "load_fraction": self.load_fraction,
            "arrival_cv": self.arrival_cv,
            "ttft_s": times,
            "limits": list(self.limits),
        }


@dataclass(frozen=True, slots=True)
class _Pool:
    """One prefill pool as a queue: its share of the requests, its servers, service and first-token times."""

    share: float
    servers: int
    service: ServiceTimes
    first_token: ServiceTimes


def steady(point: OperatingPoint) -> OperatingPoint:
    """Give the same split and threshold at the mean service time, whose largest rate queues really sustain."""
    if not point.system.at_mean_length:
        return point
    return operate(replace(point.system, at_mean_length=False), point.threshold)


def loaded_ttft(point: OperatingPoint, rate_rps: float, arrival_cv: float = 1.0) -> Loaded:
    """Give the time to first token [s] at a rate [req/s] of all requests, below the largest one of the point.

    Arrivals are a renewal stream with the given variation of the gaps (1 is Poisson); the approximation and the range
    it was checked in are those of `pool_wait`, and ``limits`` says where it is outside.
    Raises `InfeasibleError` at or above the largest rate, where the queue grows without end.
    """
    point = steady(point)
    if rate_rps >= point.max_rate:
        raise InfeasibleError(
            f"{rate_rps:.4g} req/s is not below the {point.max_rate:.4g} req/s that can be served: no steady state",
            f"at most {point.max_rate:.4g} req/s",
        )
    return _loaded(point, list(_pools(point)), rate_rps, arrival_cv)


def _loaded(point: OperatingPoint, pools: Sequence[_Pool], rate: float, cv: float) -> Loaded:
    arrivals = Arrivals(rate, cv)
    parts = [(p.share, wait_in_pool(arrivals.thinned(p.share), p.service, p.servers), p.first_token) for p in pools]
    found = mixed_response(parts)
    limits = [*found.limits]
    link_load = rate / point.max_rate * point.link_used_bytes_per_s / point.system.link_bytes_per_s
    if link_load > _BUSY_LINK:
        limits.append(f"the link is {link_load:.0%} busy, and waiting for it is not counted")
    return Loaded(rate, rate / point.max_rate, cv, found, tuple(limits))


def _pools(point: OperatingPoint) -> Iterator[_Pool]:
    system, law = point.system, point.system.law
    cut = system.cut(point.threshold)
    if system.remote is not None and point.long_share > 0.0:
        service = ServiceTimes.of(law, system.remote.seconds, cut, math.inf)
        first = ServiceTimes.of(law, system.remote.seconds + transfer_seconds(system), cut, math.inf)
        yield _Pool(point.long_share, system.remote.instances, service, first)
    if system.local is not None and point.long_share < 1.0:
        service = ServiceTimes.of(law, system.local.seconds, -math.inf, cut)
        yield _Pool(1.0 - point.long_share, system.local.instances, service, service)


def largest_rate_within(point: OperatingPoint, target: Target, arrival_cv: float = 1.0) -> float:
    """Give the largest rate [req/s] at which a point meets a target, 0 where it misses it without any queue."""
    point = steady(point)
    if first_token_quantile(point, target.quantile) > target.seconds:
        return 0.0
    pools = list(_pools(point))

    def excess(load: float) -> float:
        found = _loaded(point, pools, load * point.max_rate, arrival_cv)
        return _quantile(found.ttft_s, target.quantile) - target.seconds

    if excess(_HIGHEST_LOAD) <= 0.0:
        return _HIGHEST_LOAD * point.max_rate
    return bisect_root(excess, 1e-3, _HIGHEST_LOAD, relative=1e-5) * point.max_rate


def _quantile(found: Response, quantile: float) -> float:
    return {0.5: found.p50, 0.9: found.p90, 0.99: found.p99}[quantile]


def best_for_target(
    points: Sequence[OperatingPoint], target: Target, arrival_cv: float = 1.0
) -> tuple[OperatingPoint, float]:
    """Find the split and threshold that serve the largest rate within a target, and that rate [req/s].

    Every split is tried at its best threshold and at 13 others over the lengths; a point that could not beat the best
    one even without a queue is skipped. Raises `InfeasibleError`, with the best that is reachable, where every point
    misses the target on idle machines.
    """
    tried = sorted((p for best in points for p in _variants(best)), key=lambda p: -p.max_rate)
    winner: tuple[OperatingPoint, float] | None = None
    for point in tried:
        if winner is not None and point.max_rate * _HIGHEST_LOAD <= winner[1]:
            break
        rate = largest_rate_within(point, target, arrival_cv)
        if rate > 0.0 and (winner is None or rate > winner[1]):
            winner = (point, rate)
    if winner is None:
        raise _out_of_reach(tried, target)
    return winner


def _variants(best: OperatingPoint) -> Iterator[OperatingPoint]:
    yield best
    if best.threshold is None:
        return
    first, last = best.system.law.finite_support
    ratio = (last / max(1.0, first)) ** (1.0 / _THRESHOLDS)
    for step in range(_THRESHOLDS + 1):
        yield operate(best.system, max(math.ceil(first) - 1, round(max(1.0, first) * ratio**step)))


def _out_of_reach(tried: Sequence[OperatingPoint], target: Target) -> InfeasibleError:
    least = min(first_token_quantile(point, target.quantile) for point in tried)
    return InfeasibleError(
        f"a p{100 * target.quantile:g} time to first token of {target.seconds:.4g} s is below the {least:.4g} s "
        "of idle machines: no number of instances meets it",
        f"faster instances (more tensor parallelism), shorter prompts, or a target of at least {least:.4g} s",
    )

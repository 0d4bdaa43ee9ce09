"""Time to first token on idle machines: prefill time, plus the transfer of the KV cache where it crosses a link.

This is what arXiv 2604.15039 prints in its Table 6: service time without queueing, the transfer after the
prefill and alone on the link.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from prfaas_plan.numerics import Curve, bisect_root
from prfaas_plan.throughput import OperatingPoint, System

__all__ = ["FirstToken", "mean_ttft", "unloaded_ttft"]


@dataclass(frozen=True, slots=True)
class FirstToken:
    """Mean and percentiles of the time to first token [s]."""

    mean: float
    p50: float
    p90: float
    p99: float

    def to_dict(self) -> dict[str, float]:
        """Give the values by name."""
        return {"mean": self.mean, "p50": self.p50, "p90": self.p90, "p99": self.p99}


@dataclass(frozen=True, slots=True)
class _Route:
    """One class of requests and the time its first token takes by length."""

    seconds: Curve
    low: float
    high: float


def unloaded_ttft(point: OperatingPoint) -> FirstToken:
    """Give the time to first token [s] of all requests of an operating point when nothing queues.

    A request above the threshold takes ``T_prefill(l) + S_kv(l)/B_out``, one below it ``T_prefill(l)`` of the
    local pool; the network inside a cluster is taken as never binding. Percentiles are of the mixture of both.
    """
    routes = _routes(point)
    return FirstToken(mean_ttft(point), *(_quantile(point, routes, q) for q in (0.5, 0.9, 0.99)))


def mean_ttft(point: OperatingPoint) -> float:
    """Give the mean time to first token [s] of `unloaded_ttft` alone."""
    law = point.system.law
    return sum(law.expect(r.seconds, r.low, r.high) for r in _routes(point))


def transfer_seconds(system: System) -> Curve:
    """Give the time to send the KV cache of a request [s] by its length [token], alone on the link."""
    return system.kv_bytes.scaled(1.0 / system.link_bytes_per_s) + Curve.polynomial(system.link_delay_s)


def first_token_quantile(point: OperatingPoint, q: float) -> float:
    """Give one quantile of the time to first token [s] of `unloaded_ttft`."""
    return _quantile(point, _routes(point), q)


def _routes(point: OperatingPoint) -> list[_Route]:
    system = point.system
    cut = system.cut(point.threshold)
    routes = []
    if system.remote is not None and point.long_share > 0.0:
        transfer = transfer_seconds(system)
        routes.append(_Route(system.remote.seconds + transfer, cut, math.inf))
    if system.local is not None and point.long_share < 1.0:
        routes.append(_Route(system.local.seconds, -math.inf, cut))
    return routes


def _quantile(point: OperatingPoint, routes: list[_Route], q: float) -> float:
    law = point.system.law
    first, last = law.finite_support

    def missing(seconds: float) -> float:
        served = 0.0
        for route in routes:
            low, high = max(route.low, first - 1.0), min(route.high, last)
            if route.seconds(max(low, first)) <= seconds:
                served += law.share(low, max(low, route.seconds.inverse(seconds, max(low, first), high)))
        return served - q

    longest = max(r.seconds(min(r.high, last)) for r in routes)
    shortest = min(r.seconds(max(r.low, first)) for r in routes)
    if missing(shortest) >= 0.0:
        return shortest
    return bisect_root(missing, shortest, longest, relative=1e-12)

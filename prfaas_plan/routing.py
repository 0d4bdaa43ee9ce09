"""The best length threshold and the best split of instances: exact, by one crossing and one enumeration.

For fixed integers Λ(t) is the smallest of a rising function of t (remote), a falling one (local) and a
constant (decode), so the best threshold is where the first two cross. A threshold is a whole token count.
"""

from __future__ import annotations

import math
from itertools import pairwise

from prfaas_plan.laws import LengthLaw
from prfaas_plan.numerics import first_integer
from prfaas_plan.throughput import OperatingPoint, System, decode_limit, local_limit, operate, remote_limit

__all__ = ["best_point", "best_split", "best_threshold", "prefill_rate", "remote_has_room", "threshold_grid"]

_GRID = 16
_ALL_SPLITS = 32
_AROUND = 6


def best_threshold(system: System) -> int:
    """Find the threshold [token] with the largest Λ_max by bisection on the crossing of equation 7.

    With the mean service time both sides are monotone in t, so the crossing is the optimum. With the service
    time at the mean length a heavy tail can bend them, so every stretch of a geometric grid is searched.

    >>> from prfaas_plan.numerics import Curve
    >>> from prfaas_plan.throughput import DecodePool, PrefillPool
    >>> from prfaas_plan.laws import LogNormal
    >>> law = LogNormal(mu=9.9, sigma=1.0, min=128, max=131072)
    >>> far = PrefillPool("far", "a", 8, 4, Curve.polynomial(0.4, 4e-5))
    >>> near = PrefillPool("near", "b", 8, 3, Curve.polynomial(0.5, 13e-5))
    >>> decode = DecodePool("near", "b", 8, 5, 20, 0.025)
    >>> system = System(law, 1024, Curve.polynomial(0, 2e4), 1.25e10, far, near, decode)
    >>> t = best_threshold(system)
    >>> all(operate(system, t).max_rate >= operate(system, t + step).max_rate for step in (-500, -1, 1, 500))
    True
    """
    grid = threshold_grid(system.law, system.at_mean_length)
    candidates = set(grid)
    for low, high in pairwise(grid):
        if remote_has_room(system, low) != remote_has_room(system, high):
            crossing = _crossing(system, low, high)
            candidates |= {max(grid[0], crossing - 1), crossing}
    return max(candidates, key=lambda t: (*_rates(system, t), -t))


def threshold_grid(law: LengthLaw, at_mean_length: bool) -> list[int]:
    """List the thresholds [token] between which a crossing is looked for."""
    first, last = law.finite_support
    ends = (math.ceil(first) - 1, math.ceil(last))
    return _stretches(*ends) if at_mean_length else list(ends)


def _stretches(low: int, high: int) -> list[int]:
    ratio = (high / max(1, low)) ** (1.0 / _GRID)
    return sorted({low, high, *(min(high, max(low, round(max(1, low) * ratio**k))) for k in range(1, _GRID))})


def remote_has_room(system: System, threshold: int) -> bool:
    """Say whether the remote pool and the link allow at least the rate that the local prefill pool allows."""
    return remote_limit(system, threshold) >= local_limit(system, threshold)


def _crossing(system: System, low: int, high: int) -> int:
    wanted = remote_has_room(system, high)
    return first_integer(lambda t: remote_has_room(system, t) == wanted, low, high)


def prefill_rate(system: System, threshold: int) -> float:
    """Give the rate of all requests [req/s] that both prefill pools and the link allow."""
    return min(remote_limit(system, threshold), local_limit(system, threshold))


def _rates(system: System, threshold: int) -> tuple[float, float]:
    prefill = prefill_rate(system, threshold)
    return min(prefill, decode_limit(system)), prefill


def best_point(system: System) -> OperatingPoint:
    """Evaluate a system at its best threshold, or without one where only one pool prefills."""
    if system.has_remote and system.has_local:
        return operate(system, best_threshold(system))
    return operate(system, None)


def best_split(system: System, instances: int) -> list[OperatingPoint]:
    """Try the splits of `instances` between local prefill and decode, best first.

    Up to 32 instances every split is tried. Beyond that the prefill side can only gain and decode only lose from
    one more prefill instance, so the optimum is where they cross; the splits around the crossing are tried.
    Ties go to the split whose prefill side has more room, then to the one with fewer prefill instances.
    """
    fewest = 0 if system.has_remote else 1
    tried = range(fewest, instances)
    if instances > _ALL_SPLITS:
        crossing = first_integer(lambda n: _prefill_has_room(system, n, instances), fewest, instances - 1)
        tried = range(max(fewest, crossing - _AROUND), min(instances, crossing + _AROUND))
    points = [best_point(system.split(n, instances - n)) for n in tried]
    return sorted(
        points, key=lambda p: (-p.max_rate, -_prefill_limit(p), p.system.local.instances if p.system.local else 0)
    )


def _prefill_has_room(system: System, prefill: int, instances: int) -> bool:
    point = best_point(system.split(prefill, instances - prefill))
    return _prefill_limit(point) >= point.decode_rate


def _prefill_limit(point: OperatingPoint) -> float:
    """Rate of all requests [req/s] that prefill and link allow."""
    own = point.system
    cut = own.cut(point.threshold)
    return min(remote_limit(own, cut), local_limit(own, cut))

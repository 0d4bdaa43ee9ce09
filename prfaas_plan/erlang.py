"""Queues with an exact answer: Erlang B and C, M/M/c, M/D/1, M/G/1, the closed loop of N users.

``load`` is the offered load per server ρ = λ·S/c, ``offered`` the traffic a = λ·S in erlang.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from prfaas_plan.checks import Checks
from prfaas_plan.errors import InfeasibleError

__all__ = [
    "ClosedLoop",
    "closed_loop",
    "erlang_b",
    "erlang_c",
    "mean_wait_md1",
    "mean_wait_mg1",
    "mean_wait_mmc",
    "require_stable",
]


def require_stable(rate_per_s: float, service_s: float, servers: int, noun: str = "servers") -> float:
    """Give the load λ·S/c [1] of servers that take `service_s` [s] a request, if they keep up.

    Raises `InfeasibleError` at a load of 1 or more.

    >>> require_stable(4.0, 0.5, 4)
    0.5
    """
    load = rate_per_s * service_s / servers
    if load >= 1.0:
        raise InfeasibleError(
            f"the queue grows without end: {rate_per_s:.4g} req/s of {service_s:.4g} s each load {servers} "
            f"{noun} to {load:.1%}",
            f"at least {math.floor(rate_per_s * service_s) + 1} {noun}, or less than {servers / service_s:.4g} req/s",
        )
    return load


def _checked(servers: int, where: str, **positive: float) -> None:
    checks = Checks(where)
    checks.at_least("servers", servers, 1)
    for key, value in positive.items():
        checks.at_least(key, value)
    checks.finish()


def erlang_b(servers: int, offered: float) -> float:
    """Give the probability [1] that all servers of a system without a queue are busy (Erlang's loss formula).

    ``B(0) = 1, B(n) = a·B(n-1) / (n + a·B(n-1))``, stable for any number of servers. Insensitive to the law of the
    service times; arrivals are Poisson. Raises `InputError`.

    >>> round(erlang_b(10, 7.0), 5)
    0.07874
    """
    _checked(servers, "erlang_b", offered=offered)
    blocked = 1.0
    for n in range(1, servers + 1):
        blocked = offered * blocked / (n + offered * blocked)
    return blocked


def erlang_c(servers: int, offered: float) -> float:
    """Give the probability [1] of waiting in M/M/c, ``C = B / (1 - ρ(1 - B))``; 1 at a load of 1 or more.

    Raises `InputError`.

    >>> round(erlang_c(10, 8.0), 4)
    0.4092
    """
    if offered >= servers:
        _checked(servers, "erlang_c", offered=offered)
        return 1.0
    blocked = erlang_b(servers, offered)
    return blocked / (1.0 - offered / servers * (1.0 - blocked))


def mean_wait_mmc(rate_per_s: float, service_s: float, servers: int) -> float:
    """Give the mean wait [s] in M/M/c, ``C·S / (c(1 - ρ))``, for a rate [1/s] and a mean service time [s].

    Raises `InputError`, and `InfeasibleError` at a load of 1 or more.

    >>> round(mean_wait_mmc(0.9, 1.0, 1), 6)
    9.0
    """
    _checked(servers, "mean_wait_mmc", rate_per_s=rate_per_s, service_s=service_s)
    load = require_stable(rate_per_s, service_s, servers)
    return erlang_c(servers, rate_per_s * service_s) * service_s / (servers * (1.0 - load))


def mean_wait_mg1(rate_per_s: float, service_s: float, service_cv: float) -> float:
    """Give the mean wait [s] in M/G/1, ``ρ·S·(1 + c²) / (2(1 - ρ))`` (Pollaczek-Khinchine), c the service CV [1].

    Raises `InputError`, and `InfeasibleError` at a load of 1 or more.

    >>> round(mean_wait_mg1(0.9, 1.0, 2.0), 6)
    22.5
    """
    _checked(1, "mean_wait_mg1", rate_per_s=rate_per_s, service_s=service_s, service_cv=service_cv)
    load = require_stable(rate_per_s, service_s, 1)
    return load * service_s * (1.0 + service_cv**2) / (2.0 * (1.0 - load))


def mean_wait_md1(rate_per_s: float, service_s: float) -> float:
    """Give the mean wait [s] in M/D/1: half of M/M/1's.

    Raises `InputError`, and `InfeasibleError` at a load of 1 or more.

    >>> round(mean_wait_md1(0.9, 1.0), 6)
    4.5
    """
    return mean_wait_mg1(rate_per_s, service_s, 0.0)


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """What N users see who each think, ask, and wait for the answer before they think again."""

    users: int
    throughput_rps: float
    """Requests per second of all users."""
    response_s: float
    """Mean time from asking to the answer."""
    wait_s: float
    """Mean wait before service."""
    waiting_fraction: float
    """Share of requests that wait."""
    load_fraction: float
    """Mean share of servers that are busy."""

    def to_dict(self) -> dict[str, float]:
        """Give the results under their names."""
        return asdict(self)


def _population(users: int, think_s: float, service_s: float, servers: int) -> Iterator[float]:
    """Yield the logarithm of the weight of each number of requests in the system."""
    log_weight = 0.0
    step = math.log(service_s) - math.log(think_s)
    yield log_weight
    for n in range(1, users + 1):
        log_weight += step + math.log((users - n + 1) / min(n, servers))
        yield log_weight


def closed_loop(users: int, think_s: float, service_s: float, servers: int) -> ClosedLoop:
    """Answer the machine-repair model M/M/c//N: N users with a think time [s] share servers of a mean service time [s].

    Birth and death: ``p(n) ∝ N!/(N-n)! · (S/Z)^n / Π min(i, c)``; throughput ``Σ min(n, c)·p(n) / S``; response
    ``N/X - Z`` by Little's law; an arriving user sees the system with N - 1 (Gross and Harris,
    Queueing Theory, section 2.7).
    Exponential service times; the think time may have any law. Without think time all users are always in the system.
    Raises `InputError`.

    >>> result = closed_loop(users=20, think_s=10.0, service_s=1.0, servers=2)
    >>> round(result.throughput_rps, 4), round(result.response_s, 4)
    (1.6548, 2.0861)
    """
    checks = Checks("closed_loop")
    checks.at_least("users", users, 1)
    checks.at_least("think_s", think_s)
    checks.above("service_s", service_s)
    checks.at_least("servers", servers, 1)
    checks.finish()
    if think_s == 0.0:
        rate = min(users, servers) / service_s
        waiting = float(users > servers)
        return ClosedLoop(users, rate, users / rate, users / rate - service_s, waiting, min(users, servers) / servers)
    share = _shares(users, think_s, service_s, servers)
    busy = sum(min(n, servers) * p for n, p in enumerate(share))
    rate = busy / service_s
    response = sum(n * p for n, p in enumerate(share)) / rate
    seen = _shares(users - 1, think_s, service_s, servers)
    return ClosedLoop(users, rate, response, max(0.0, response - service_s), sum(seen[servers:]), busy / servers)


def _shares(users: int, think_s: float, service_s: float, servers: int) -> list[float]:
    logs = list(_population(users, think_s, service_s, servers))
    top = max(logs)
    weights = [math.exp(x - top) for x in logs]
    total = math.fsum(weights)
    return [w / total for w in weights]

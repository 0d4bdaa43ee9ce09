"""What a deployment can serve: the converging pipeline of arXiv 2604.15039, equations 3 to 6.

A `System` is a prefill pool at a remote site, a prefill pool beside the decode pool, the link between them
and the decode pool; either prefill pool may be missing. Requests longer than a threshold prefill remotely.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from prfaas_plan.laws import LengthLaw
from prfaas_plan.numerics import Curve

__all__ = ["DecodePool", "OperatingPoint", "PrefillPool", "System", "decode_rate", "operate", "rate_over_share"]

_TIE = 1e-9


@dataclass(frozen=True, slots=True)
class PrefillPool:
    """Instances that prefill, and how long one of them takes for a prompt of a length."""

    cluster: str
    accelerator: str
    gpus_per_instance: int
    instances: int
    seconds: Curve


@dataclass(frozen=True, slots=True)
class DecodePool:
    """Instances that decode, each with a batch that takes a step in a given time."""

    cluster: str
    accelerator: str
    gpus_per_instance: int
    instances: int
    batch: int
    step_seconds: float


@dataclass(frozen=True, slots=True)
class System:
    """A deployment whose integers are fixed: two prefill pools, a link, a decode pool, and the traffic."""

    law: LengthLaw
    output_tokens: float
    kv_bytes: Curve
    link_bytes_per_s: float
    remote: PrefillPool | None
    local: PrefillPool | None
    decode: DecodePool
    at_mean_length: bool = False
    link_delay_s: float = 0.0
    """Time a byte takes to cross the link [s], half its round trip."""

    def cut(self, threshold: int | None) -> float:
        """Length above which requests prefill remotely; without a threshold, all or none of them do."""
        if threshold is not None:
            return float(threshold)
        return -math.inf if self.has_remote else math.inf

    def split(self, prefill_instances: int, decode_instances: int) -> System:
        """Give the same system with other numbers of local prefill and decode instances."""
        local = self.local and replace(self.local, instances=prefill_instances)
        return replace(self, local=local, decode=replace(self.decode, instances=decode_instances))

    @property
    def has_remote(self) -> bool:
        """Whether any instance prefills remotely."""
        return self.remote is not None and self.remote.instances > 0

    @property
    def has_local(self) -> bool:
        """Whether any instance prefills beside the decode pool."""
        return self.local is not None and self.local.instances > 0


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """A system at one threshold: who serves what, at which rates [req/s], and what binds.

    The stage rates are those of each stage's own class of requests; `max_rate` is of all requests.
    A stage that does not exist, or a class without requests, is ``None``.
    """

    system: System
    threshold: int | None
    long_share: float
    mean_long: float | None
    mean_short: float | None
    prfaas_compute_rate: float | None
    prfaas_link_rate: float | None
    local_prefill_rate: float | None
    decode_rate: float
    max_rate: float
    bottlenecks: tuple[str, ...]

    @property
    def prfaas_rate(self) -> float | None:
        """Θ_prfaas [req/s], the smaller of the compute and the link rate (equation 3)."""
        rates = [r for r in (self.prfaas_compute_rate, self.prfaas_link_rate) if r is not None]
        return min(rates, default=None)

    @property
    def link_used_bytes_per_s(self) -> float:
        """KV bytes that cross the link each second [B/s] at the largest rate."""
        if not self.long_share:
            return 0.0
        return self.max_rate * self.system.law.expect(self.system.kv_bytes, self.system.cut(self.threshold))


def rate_over_share(resource: float, need: Curve, law: LengthLaw, low: float, high: float, at_mean: bool) -> float:
    """Give the rate of *all* requests [req/s] at which a resource is used up by those with ``low < L <= high``.

    This is Θ/p: `resource` (instances, or bytes per second) over the mean need of a request that belongs to
    the class, times the share of the class. With `at_mean` the need is taken at the mean length of the class
    (equations 3 and 4 of the paper); otherwise it is the mean need, which is what a station really serves.
    Infinite where the class is empty.
    """
    share, first, _ = law.moments(low, high)
    if share <= 0.0:
        return math.inf
    needed = share * need(first / share) if at_mean else law.expect(need, low, high)
    return resource / needed if needed > 0.0 else math.inf


def decode_rate(instances: int, batch: int, step_seconds: float, output_tokens: float) -> float:
    """Give Θ_pd-d [req/s]: ``N_d · BS_max / (T_decode · L_out)`` (equation 5).

    >>> decode_rate(5, 20, 0.025, 1024)
    3.90625
    """
    return instances * batch / (step_seconds * output_tokens) if output_tokens > 0.0 else math.inf


def remote_limit(system: System, threshold: float) -> float:
    """Give the rate of all requests [req/s] that the remote pool and the link allow, Θ_prfaas/p."""
    if system.remote is None:
        return math.inf if system.law.share(threshold) <= 0.0 else 0.0
    return min(_remote_compute(system, threshold), _remote_link(system, threshold))


def _remote_compute(system: System, threshold: float) -> float:
    if system.remote is None:
        return math.inf
    need, law = system.remote.seconds, system.law
    return rate_over_share(system.remote.instances, need, law, threshold, math.inf, system.at_mean_length)


def _remote_link(system: System, threshold: float) -> float:
    if math.isinf(system.link_bytes_per_s):
        return math.inf
    rate, need = system.link_bytes_per_s, system.kv_bytes
    return rate_over_share(rate, need, system.law, threshold, math.inf, system.at_mean_length)


def local_limit(system: System, threshold: float) -> float:
    """Give the rate of all requests [req/s] that the local prefill pool allows, Θ_pd-p/(1 − p)."""
    if system.local is None:
        return math.inf if system.law.share(-math.inf, threshold) <= 0.0 else 0.0
    need, law = system.local.seconds, system.law
    return rate_over_share(system.local.instances, need, law, -math.inf, threshold, system.at_mean_length)


def decode_limit(system: System) -> float:
    """Give the rate of all requests [req/s] that the decode pool allows, Θ_pd-d."""
    pool = system.decode
    return decode_rate(pool.instances, pool.batch, pool.step_seconds, system.output_tokens)


def operate(system: System, threshold: int | None) -> OperatingPoint:
    """Evaluate a system at a threshold [token]; ``None`` where one prefill pool takes every request.

    Λ_max = min(Θ_prfaas/p, Θ_pd-p/(1 − p), Θ_pd-d) (equation 6).
    """
    cut = system.cut(threshold)
    share, first, _ = system.law.moments(cut, math.inf)
    compute, link, local = _remote_compute(system, cut), _remote_link(system, cut), local_limit(system, cut)
    limits = {
        "prefill at " + (system.remote.cluster if system.remote else ""): compute if share > 0.0 else math.inf,
        "link": link,
        "prefill at " + (system.local.cluster if system.local else ""): local,
        "decode at " + system.decode.cluster: decode_limit(system),
    }
    best = min(limits.values())
    short = 1.0 - share
    return OperatingPoint(
        system=system,
        threshold=threshold,
        long_share=share,
        mean_long=first / share if share > 0.0 else None,
        mean_short=(system.law.mean - first) / short if short > _TIE else None,
        prfaas_compute_rate=_own(compute, share),
        prfaas_link_rate=_own(link, share),
        local_prefill_rate=_own(local, short),
        decode_rate=limits["decode at " + system.decode.cluster],
        max_rate=best,
        bottlenecks=tuple(name for name, rate in limits.items() if rate <= best * (1.0 + 1e-3)),
    )


def _own(limit: float, share: float) -> float | None:
    return None if math.isinf(limit) or share <= 0.0 else limit * share

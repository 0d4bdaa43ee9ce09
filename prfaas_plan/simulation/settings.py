"""What a simulation is asked to do: traffic, policy, what goes wrong and when, how long and how often."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from prfaas_plan.checks import Checks
from prfaas_plan.errors import Fault, InputError, nearest
from prfaas_plan.link import Path, Transport, usable_rate
from prfaas_plan.trace.records import Trace
from prfaas_plan.units import GBPS

__all__ = [
    "ARRIVALS",
    "POLICIES",
    "Failure",
    "LinkEpisode",
    "LoadStep",
    "PrefixHits",
    "RoleChange",
    "Settings",
    "loss_episode",
    "settings_from",
]

POLICIES: Final = ("static", "bandwidth-aware", "all-remote", "all-local", "least-loaded", "earliest-finish")
"""Names of the routing policies."""
ARRIVALS: Final = ("poisson", "gamma", "hyperexponential", "trace", "closed")
"""Kinds of arrivals; ``gamma`` and ``hyperexponential`` have the coefficient of variation `arrival_cv`."""
MOST_REQUESTS: Final = 50_000_000
"""Requests of one replication that fit the memory of a usual machine."""
TRANSFERS: Final = ("serial", "overlapped")
SHARING: Final = ("fifo", "fair")
OUTPUTS: Final = ("constant", "geometric", "trace")
_LISTS: Final = ("episodes", "failures", "role_changes", "load_steps")


@dataclass(frozen=True, slots=True)
class LinkEpisode:
    """A time in which the link carries less; of episodes that overlap the lowest rate holds."""

    start_s: float
    end_s: float
    usable_gbps: float
    """Rate that transfers reach in this time [Gbit/s]; 0 is an outage."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A time in which instances of a pool are gone, and with them the requests they were working on.

    A prefill starts again at the head of the queue. A sequence that was decoding has lost its KV cache: it prefills its
    prompt again and then generates the rest.
    """

    cluster: str
    role: str
    """``prefill`` or ``decode``."""
    instances: int
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class RoleChange:
    """Instances of the local cluster that finish their work at a time and then serve in the other role."""

    at_s: float
    to_role: str
    """``prefill`` or ``decode``."""
    instances: int
    switch_s: float = 0.0
    """Time from the last request in the old role to the first in the new one."""


@dataclass(frozen=True, slots=True)
class LoadStep:
    """From a time on, requests come at a multiple of the asked rate."""

    start_s: float
    factor: float


@dataclass(frozen=True, slots=True)
class PrefixHits:
    """What prefix caches spare: the law of lengths then gives whole prompts, of which a part is cached.

    Without block ids a request hits with a probability and then finds a fraction of its prompt in each cluster. With a
    trace that has block ids each cluster keeps the blocks it has computed, up to `pool_blocks`, least recently used
    first out; fractions and probability are not used then.
    """

    local_fraction: float = 0.0
    remote_fraction: float = 0.0
    probability: float = 1.0
    from_blocks: bool = False
    pool_blocks: int | None = None
    """Blocks that each cluster keeps; ``None`` without limit."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a simulation is asked to do beside the deployment and the request rate."""

    requests: int = 100_000
    """Requests of one replication."""
    seed: int = 1
    replications: int = 5
    policy: str = "static"
    arrivals: str = "poisson"
    arrival_cv: float = 1.0
    trace: Trace | None = None
    """Requests to replay, with ``arrivals = "trace"``; its times are stretched to the asked rate."""
    users: int = 0
    """Users of a closed loop, who each think, ask, and wait for the whole answer."""
    think_s: float = 0.0
    """Mean think time, exponential [s]."""
    output: str = "constant"
    """Law of the output length about its mean: ``constant``, ``geometric``, or that of the ``trace``."""
    transfer: str = "serial"
    """``serial``: the KV cache leaves after prefill. ``overlapped``: each layer as soon as it is computed."""
    layers: int | None = None
    """Layers that are sent one by one when overlapped; ``None`` for those of the model."""
    sharing: str = "fifo"
    """``fifo``: one transfer after the other at the full rate. ``fair``: all at once, at equal rates."""
    episodes: tuple[LinkEpisode, ...] = ()
    failures: tuple[Failure, ...] = ()
    role_changes: tuple[RoleChange, ...] = ()
    load_steps: tuple[LoadStep, ...] = ()
    """How the request rate changes over the run, where requests come by themselves; times rise."""
    prefix: PrefixHits | None = None
    threshold_tokens: float | None = None
    """Threshold of the static policy; ``None`` for the plan's."""
    control_s: float = 5.0
    """How often the bandwidth-aware router searches its threshold again [s]."""
    horizon_s: float = 60.0
    """How far ahead it looks: time in which present queues and coming requests should be served [s]."""
    local_limit: float = 0.95
    """Most of the local pool's time in the horizon that it may fill; infinite to balance both pools whatever waits."""
    scarce_fraction: float = 0.8
    """Link load from which bandwidth counts as scarce and cached prefixes are not moved."""
    warmup_fraction: float = 0.1
    """Share of the requests at the start that are left out of every result."""
    confidence: float = 0.95
    interval_s: float | None = None
    """Width of a row of the time line [s]; ``None`` for a round one that gives no more than a hundred rows."""
    keep_times: bool = False
    """Whether the result keeps the arrival and first-token time of every request."""

    def check(self) -> None:
        """Raise `InputError` with everything that is wrong."""
        checks = Checks("simulate")
        self._check_run(checks)
        self._check_traffic(checks)
        self._check_events(checks)
        checks.finish()

    def _check_run(self, checks: Checks) -> None:
        checks.whole("requests", self.requests, 1, MOST_REQUESTS)
        checks.whole("replications", self.replications, 1, 10_000)
        checks.whole("seed", self.seed, 0)
        if self.layers is not None:
            checks.whole("layers", self.layers, 1, 10_000)
        if self.threshold_tokens is not None:
            checks.at_least("threshold_tokens", self.threshold_tokens)
        checks.inside("confidence", self.confidence)
        checks.choice("policy", self.policy, POLICIES)
        checks.choice("transfer", self.transfer, TRANSFERS)
        checks.choice("sharing", self.sharing, SHARING)
        if not 0.0 <= self.warmup_fraction < 1.0:
            checks.fault("warmup_fraction", "expected a number from 0, below 1", self.warmup_fraction)
        for key in ("control_s", "horizon_s", "scarce_fraction"):
            checks.above(key, getattr(self, key))
        checks.above("local_limit", self.local_limit, infinite=True)
        if self.interval_s is not None:
            checks.above("interval_s", self.interval_s)

    def _check_traffic(self, checks: Checks) -> None:
        checks.choice("arrivals", self.arrivals, ARRIVALS)
        checks.choice("output", self.output, OUTPUTS)
        checks.at_least("arrival_cv", self.arrival_cv)
        if self.arrivals == "poisson" and self.arrival_cv != 1.0:
            checks.fault("arrival_cv", "Poisson arrivals have 1; choose gamma or hyperexponential", self.arrival_cv)
        if self.arrivals == "hyperexponential" and self.arrival_cv < 1.0:
            checks.fault("arrival_cv", "hyperexponential gaps have at least 1", self.arrival_cv)
        if self.arrivals == "closed":
            checks.at_least("users", self.users, 1)
            checks.at_least("think_s", self.think_s)
        needs_trace = "trace" in (self.arrivals, self.output) or (self.prefix is not None and self.prefix.from_blocks)
        if needs_trace and (self.trace is None or self.arrivals != "trace"):
            checks.fault("trace", "output, blocks or arrivals of a trace need a trace, and arrivals = 'trace'")
        elif needs_trace and self.trace is not None:
            self._check_trace(self.trace, checks)

    def _check_trace(self, trace: Trace, checks: Checks) -> None:
        if not trace.times_s:
            checks.fault("trace", "has no arrival times", trace.path)
        if self.output == "trace" and not trace.output_tokens:
            checks.fault("trace", "has no output lengths", trace.path)
        if self.prefix is not None and self.prefix.from_blocks and not trace.block_tokens:
            checks.fault("trace", "has no block ids of known size", trace.path)

    def _check_events(self, checks: Checks) -> None:
        for i, episode in enumerate(self.episodes):
            _check_span(f"episodes.{i}", episode.start_s, episode.end_s, checks)
            checks.at_least(f"episodes.{i}.usable_gbps", episode.usable_gbps)
        for i, failure in enumerate(self.failures):
            _check_span(f"failures.{i}", failure.start_s, failure.end_s, checks)
            checks.choice(f"failures.{i}.role", failure.role, ("prefill", "decode"))
            checks.whole(f"failures.{i}.instances", failure.instances, 1)
        for i, change in enumerate(self.role_changes):
            checks.at_least(f"role_changes.{i}.at_s", change.at_s)
            checks.choice(f"role_changes.{i}.to_role", change.to_role, ("prefill", "decode"))
            checks.whole(f"role_changes.{i}.instances", change.instances, 1)
            checks.at_least(f"role_changes.{i}.switch_s", change.switch_s)
        for i, step in enumerate(self.load_steps):
            checks.above(f"load_steps.{i}.start_s", step.start_s, self.load_steps[i - 1].start_s if i else -1e-9)
            checks.above(f"load_steps.{i}.factor", step.factor)
        if self.load_steps and self.arrivals in ("trace", "closed"):
            checks.fault("load_steps", "a trace and a closed loop have their own rate")
        if self.prefix is not None:
            for key in ("local_fraction", "remote_fraction", "probability"):
                checks.fraction(f"prefix.{key}", getattr(self.prefix, key))
            if self.prefix.pool_blocks is not None:
                checks.at_least("prefix.pool_blocks", self.prefix.pool_blocks)


def _check_span(key: str, start: float, end: float, checks: Checks) -> None:
    checks.at_least(f"{key}.start_s", start)
    if not end > start or math.isnan(end):
        checks.fault(f"{key}.end_s", "expected a time after start_s", end)


def settings_from(settings: Settings | None, changes: dict[str, Any]) -> Settings:
    """Give settings with some fields changed, checked.

    Raises `InputError` with every wrong name or value.

    >>> settings_from(None, {"requests": 10}).requests
    10
    """
    known = [f.name for f in fields(Settings)]
    unknown = [name for name in changes if name not in known]
    if unknown:
        raise InputError([Fault("simulate", n, "unknown setting", changes[n], nearest(n, known)) for n in unknown])
    lists = {k: tuple(v) for k, v in changes.items() if k in _LISTS}
    result = replace(settings or Settings(), **{**changes, **lists})
    result.check()
    return result


def loss_episode(start_s: float, end_s: float, path: Path, transport: Transport) -> LinkEpisode:
    """Give the episode in which a path has the loss and the round trip it is given with.

    The rate is that of `prfaas_plan.link.usable_rate`, with its sources and limits. Raises `InputError`.

    >>> bad = Path(100 * GBPS, rtt_s=0.03, loss_fraction=1e-3)
    >>> round(loss_episode(600, 1200, bad, Transport("cubic", connections=256)).usable_gbps, 2)
    3.77
    """
    return LinkEpisode(start_s, end_s, usable_rate(path, transport).usable_bytes_per_s / GBPS)


def lowest_rates(nominal: float, episodes: Sequence[LinkEpisode]) -> list[tuple[float, float]]:
    """Give the times at which the link's rate changes and the rate from then on [s, B/s], of a nominal rate [B/s].

    >>> [(t, r / GBPS) for t, r in lowest_rates(100 * GBPS, [LinkEpisode(10, 20, 5), LinkEpisode(15, 30, 50)])]
    [(10, 5.0), (20, 50.0), (30, 100.0)]
    """
    times = sorted({t for e in episodes for t in (e.start_s, e.end_s) if math.isfinite(t)})
    rates = [min([nominal, *(e.usable_gbps * GBPS for e in episodes if e.start_s <= t < e.end_s)]) for t in times]
    steps = zip(times, rates, [nominal, *rates], strict=False)
    return [(time, rate) for time, rate, before in steps if rate != before]

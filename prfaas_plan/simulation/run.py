"""One replication of a simulated operating point: its requests, its deployment, and everything scheduled in it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from prfaas_plan.errors import Fault, ScenarioError, nearest
from prfaas_plan.simulation.engine import Deployment, Engine
from prfaas_plan.simulation.policies import router_of
from prfaas_plan.simulation.requests import Draw
from prfaas_plan.simulation.settings import Settings, lowest_rates
from prfaas_plan.simulation.stations import Station
from prfaas_plan.throughput import OperatingPoint, System

__all__ = ["Run", "check_pools"]

Progress = Callable[[int, int], Any]


def check_pools(system: System, settings: Settings) -> None:
    """Raise `ScenarioError` where settings speak of pools that a system does not have."""
    faults = _failures_of_no_pool(system, settings)
    for policy, has, what in (("all-remote", system.has_remote, "remote"), ("all-local", system.has_local, "local")):
        if settings.policy == policy and not has:
            faults.append(Fault("simulate", "policy", f"the plan has no {what} prefill pool", policy))
    local = system.decode.instances + (system.local.instances if system.local else 0)
    for i, change in enumerate(settings.role_changes):
        if change.instances > local:
            problem = f"the local cluster has {local} instances"
            faults.append(Fault("simulate", f"role_changes.{i}.instances", problem, change.instances))
    if settings.role_changes and system.local is None:
        faults.append(Fault("simulate", "role_changes", "the local cluster only decodes"))
    if faults:
        raise ScenarioError(faults)


def _failures_of_no_pool(system: System, settings: Settings) -> list[Fault]:
    faults = []
    pools = {(p.cluster, "prefill"): p.instances for p in (system.remote, system.local) if p and p.instances}
    pools[(system.decode.cluster, "decode")] = system.decode.instances
    for i, failure in enumerate(settings.failures):
        there = pools.get((failure.cluster, failure.role), 0)
        if not there:
            known = ", ".join(sorted(f"{role} at {cluster}" for cluster, role in pools))
            hint = nearest(failure.cluster, sorted({c for c, _ in pools}))
            problem = f"no instances {failure.role} there; the plan has {known}"
            faults.append(Fault("simulate", f"failures.{i}.cluster", problem, failure.cluster, hint))
        elif failure.instances > there and not settings.role_changes:
            problem = f"the plan has {there} instances there"
            faults.append(Fault("simulate", f"failures.{i}.instances", problem, failure.instances))
    return faults


@dataclass(slots=True)
class Run:
    """An operating point at a request rate [1/s] under settings; `once` runs one replication."""

    point: OperatingPoint
    rate: float
    settings: Settings

    @property
    def threshold(self) -> float:
        """Threshold of the static policy; infinite where one pool takes all."""
        own = self.settings.threshold_tokens
        if own is not None:
            return own
        if self.point.threshold is not None:
            return float(self.point.threshold)
        return -math.inf if self.point.system.has_remote else math.inf

    def once(self, replication: int, progress: Progress | None = None) -> Engine:
        """Run a replication, and give the engine with all its times."""
        system, settings = self.point.system, self.settings
        draw = Draw(system, settings, self.rate)
        requests, caches = draw.requests(replication)
        engine = Engine(self._deployment(), requests, caches)
        draw.connect(engine, caches)
        for time, rate in lowest_rates(system.link_bytes_per_s, settings.episodes):
            engine.set_rate_at(time, rate)
        for failure in settings.failures:
            engine.fail_at(self._station(engine, failure.cluster, failure.role), failure)
        for change in settings.role_changes:
            engine.change_role_at(change)
        router = router_of(
            engine.places, lambda: draw.needs(requests, caches), self.rate, self.threshold, self.settings
        )
        engine.run(router, progress)
        return engine

    def _deployment(self) -> Deployment:
        system, settings = self.point.system, self.settings
        return Deployment(
            local=system.local.instances if system.local else 0,
            decode=system.decode.instances,
            remote=system.remote.instances if system.remote else 0,
            decode_width=system.decode.batch,
            link_bytes_per_s=system.link_bytes_per_s,
            fair=settings.sharing == "fair",
            layers=int(settings.layers or 0) if settings.transfer == "overlapped" else 0,
        )

    def _station(self, engine: Engine, cluster: str, role: str) -> Station:
        if role == "decode":
            return engine.decode
        remote = self.point.system.remote
        return engine.remote if remote is not None and remote.cluster == cluster else engine.local

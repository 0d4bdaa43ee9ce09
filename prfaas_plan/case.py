"""A scenario with everything looked up: model, service times, KV law, traffic, and the systems it can form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from prfaas_plan.catalog import load_model
from prfaas_plan.errors import Fault, InfeasibleError, InputError, ProfileNotFoundError, ScenarioError
from prfaas_plan.kv_cache import KvOptions, wire_curve
from prfaas_plan.link_use import usable_bytes_per_s
from prfaas_plan.model import ModelProfile
from prfaas_plan.numerics import Curve
from prfaas_plan.profiles import is_file
from prfaas_plan.routing import best_point, best_split
from prfaas_plan.scenario import AT_MEAN_LENGTH, Cluster, Link, Scenario
from prfaas_plan.service_records import DecodeService, PrefillService
from prfaas_plan.services import Services
from prfaas_plan.throughput import DecodePool, OperatingPoint, PrefillPool, System
from prfaas_plan.workload import Workload

__all__ = [
    "Case",
    "homogeneous_system",
    "kv_options",
    "look_up",
    "naive_system",
    "operating_points",
    "planned_system",
    "prfaas_system",
    "refuse_nothing",
    "scenario_model",
]

Folders = Sequence[str | Path]
_FLEETS_ONLY = "only fleets follow it: use plan, size, routing, sweep or report (in Python fleet_plan or size)"


@dataclass(frozen=True, slots=True)
class Case:
    """A scenario with everything looked up: its clusters by role, service times, KV law and traffic."""

    scenario: Scenario
    model: ModelProfile
    kv_bytes: Curve
    workload: Workload
    remote: Cluster | None
    local: Cluster
    link: Link | None
    remote_prefill: PrefillService | None
    local_prefill: PrefillService | None
    decode: DecodeService

    @property
    def can_prefill_locally(self) -> bool:
        """Whether the local cluster may prefill as well as decode."""
        return self.local.role in ("pd", "free")


def look_up(scenario: Scenario, profiles: Folders = (), *, need_local_prefill: bool = False) -> Case:
    """Find the profiles a scenario names and give each cluster its service times.

    Raises `ScenarioError` where the clusters do not form a deployment this planner knows, or a name is unknown.
    """
    _refuse_fleet(scenario)
    remote, local = _roles(scenario)
    if scenario.workload is None:
        raise ScenarioError(scenario.fault("workload", "missing"))
    link = _link(scenario, remote, local)
    services = _services(scenario, profiles)
    local_prefills = local.role != "decode" or need_local_prefill
    return Case(
        scenario=scenario,
        model=services.model,
        kv_bytes=_kv_bytes(scenario, services.model),
        workload=scenario.workload,
        remote=remote,
        local=local,
        link=link,
        remote_prefill=services.prefill(remote) if remote else None,
        local_prefill=services.prefill(local) if local_prefills else None,
        decode=services.decode(local),
    )


def _kv_bytes(scenario: Scenario, model: ModelProfile) -> Curve:
    try:
        return wire_curve(model, options=kv_options(scenario))
    except InputError as error:
        keys = {"kv_dtype": "kv.dtype", "state_dtype": "kv.state_dtype"}
        faults = [replace(f, where=scenario.place(k), key=k) for f in error.faults for k in [keys.get(f.key, f.key)]]
        raise ScenarioError(faults) from None


def kv_options(scenario: Scenario) -> KvOptions:
    """Give the data types of the KV cache a scenario asks for."""
    return KvOptions(scenario.kv.dtype, scenario.kv.engine, scenario.kv.state_dtype)


def scenario_model(scenario: Scenario, profiles: Folders = ()) -> ModelProfile:
    """Load the model of a scenario; a path is relative to its folder, or else to the current one.

    Raises `ProfileNotFoundError` or `ProfileError`.
    """
    beside = scenario.folder / scenario.model
    name = str(beside) if scenario.model.endswith((".toml", ".json")) and is_file(beside) else scenario.model
    return load_model(name, profiles, where=scenario.place("model"), key="model")


def _services(scenario: Scenario, profiles: Folders) -> Services:
    """Look up model and accelerators, and report every unknown name at once."""
    faults: list[Fault] = []
    kind: type[InputError] = ProfileNotFoundError
    model = None
    try:
        model = scenario_model(scenario, profiles)
    except InputError as error:
        kind = type(error)
        faults += error.faults
    services = Services(scenario, model or ModelProfile("", "measured"), profiles)
    for cluster in scenario.cluster:
        try:
            services.accelerator_id(cluster)
        except InputError as error:
            faults += error.faults
    if faults:
        raise kind(faults)
    mistaken = services.faulty_measurements()
    if mistaken:
        raise ScenarioError(mistaken)
    return services


def _refuse_fleet(scenario: Scenario) -> None:
    keys = scenario.fleet_keys
    if keys:
        others = f"; likewise {', '.join(keys[1:])}" if keys[1:] else ""
        problem = f"{_FLEETS_ONLY}{others}"
        raise ScenarioError(scenario.fault(keys[0], problem))


def _roles(scenario: Scenario) -> tuple[Cluster | None, Cluster]:
    prefill = [c for c in scenario.cluster if c.role == "prefill"]
    decoding = [c for c in scenario.cluster if c.role != "prefill"]
    if len(decoding) != 1 or len(prefill) > 1:
        problem = (
            "expected one cluster of role 'pd' or 'decode' and at most one of role 'prefill'; "
            f"there are {len(decoding)} and {len(prefill)}; fleets are for plan, size, routing and report"
        )
        raise ScenarioError(scenario.fault("cluster", problem))
    if decoding[0].role == "decode" and not prefill:
        raise ScenarioError(scenario.fault("cluster", "no cluster prefills; give one the role 'prefill' or 'pd'"))
    return (prefill[0] if prefill else None), decoding[0]


def _link(scenario: Scenario, remote: Cluster | None, local: Cluster) -> Link | None:
    if remote is None:
        return None
    link = scenario.link_between(remote.name, local.name)
    same_site = bool(remote.site) and remote.site == local.site
    if link is None and not same_site:
        problem = f"no link from {remote.name!r} to {local.name!r}; add one, or give both clusters one site"
        raise ScenarioError(scenario.fault("link", problem))
    return link


def planned_system(case: Case) -> tuple[System, int]:
    """Give the deployment that is planned, and the instances of its local cluster."""
    return prfaas_system(case) if case.remote else homogeneous_system(case, case.local.instances)


def prfaas_system(case: Case) -> tuple[System, int]:
    """Long requests prefill remotely, short ones locally, all decode locally (PrfaaS-PD)."""
    if not case.can_prefill_locally:
        return naive_system(case)
    return _system(case, case.remote, case.local_prefill), case.local.instances


def homogeneous_system(case: Case, instances: int) -> tuple[System, int]:
    """Every request prefills and decodes in the local cluster, with no link."""
    return _system(case, None, case.local_prefill), instances


def naive_system(case: Case) -> tuple[System, int]:
    """Every request prefills remotely and every local instance decodes."""
    return _system(case, case.remote, None), case.local.instances


def _system(case: Case, remote: Cluster | None, local_prefill: PrefillService | None) -> System:
    local = case.local
    linked = case.link if remote is not None else None
    return System(
        law=case.workload.law,
        output_tokens=case.workload.output_tokens,
        kv_bytes=case.kv_bytes,
        link_bytes_per_s=math.inf if linked is None else usable_bytes_per_s(linked),
        link_delay_s=0.0 if linked is None else linked.rtt_ms / 2e3,
        remote=_prefill_pool(remote, case.remote_prefill) if remote else None,
        local=_prefill_pool(local, local_prefill) if local_prefill else None,
        decode=DecodePool(
            local.name,
            local.accelerator,
            local.gpus_per_instance,
            local.instances,
            case.decode.batch,
            case.decode.step_seconds,
        ),
        at_mean_length=case.scenario.service_time == AT_MEAN_LENGTH,
    )


def _prefill_pool(cluster: Cluster, service: PrefillService | None) -> PrefillPool:
    seconds = service.seconds if service else Curve.polynomial(math.inf)
    return PrefillPool(cluster.name, cluster.accelerator, cluster.gpus_per_instance, cluster.instances, seconds)


def operating_points(case: Case) -> list[OperatingPoint]:
    """List the operating points of the planned deployment, best first.

    Raises `InfeasibleError` where nothing can be served.
    """
    return points_of(*planned_system(case))


def points_of(system: System, instances: int) -> list[OperatingPoint]:
    """List the operating points of a system over the splits of its local cluster, best first.

    Raises `InfeasibleError` where nothing can be served.
    """
    points = [best_point(system.split(0, instances))] if system.local is None else best_split(system, instances)
    refuse_nothing(system, instances, points[0] if points else None)
    return points


def refuse_nothing(system: System, instances: int, best: OperatingPoint | None) -> None:
    """Raise `InfeasibleError` where there is no operating point, or one that serves nothing."""
    needed = 1 if system.has_remote else 2
    if best is None or instances < needed:
        raise InfeasibleError(
            f"cluster {system.decode.cluster!r} has {instances} instances; "
            f"{'decode needs one' if needed == 1 else 'prefill and decode need one each'}",
            f"{needed} instances would do",
        )
    if not best.max_rate > 0.0:
        binding = " and ".join(best.bottlenecks)
        raise InfeasibleError(f"{binding} can serve nothing", "one instance there (or some bandwidth) would help")

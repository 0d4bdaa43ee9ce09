"""From a scenario to a plan: the best split, threshold and rates, and the comparison with simpler fleets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from prfaas_plan.catalog import load_model
from prfaas_plan.errors import Fault, InfeasibleError, ScenarioError
from prfaas_plan.explanation import Provenance
from prfaas_plan.kv_cache import KvOptions, describe_options, wire_curve
from prfaas_plan.model import ModelProfile
from prfaas_plan.numerics import Curve
from prfaas_plan.plan_record import Comparison, EqualCost, Plan, build_plan
from prfaas_plan.routing import best_point, best_split
from prfaas_plan.scenario import AT_MEAN_LENGTH, Cluster, Link, Scenario
from prfaas_plan.services import DecodeService, PrefillService, Services
from prfaas_plan.throughput import DecodePool, OperatingPoint, PrefillPool, System, operate
from prfaas_plan.workload import Workload

__all__ = ["compare", "plan"]

Folders = Sequence[str | Path]


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
        return self.local.role == "pd"


def plan(scenario: Scenario, *, profiles: Folders = ()) -> Plan:
    """Find the plan with the largest throughput: split, length threshold, rates, latency and cost.

    Raises `InputError` for a scenario that cannot be planned, `InfeasibleError` where nothing can be served.
    """
    case = look_up(scenario, profiles)
    system, instances = planned_system(case)
    name = "prfaas-pd" if case.remote else "homogeneous-pd"
    return _best_plan(case, name, system, instances)


def compare(scenario: Scenario, *, profiles: Folders = ()) -> Comparison:
    """Set the plan beside a homogeneous fleet of as many GPUs, naive remote prefill, and one of equal cost.

    Raises as `plan` does.
    """
    case = look_up(scenario, profiles, need_local_prefill=True)
    gpus = case.local.gpus + (case.remote.gpus if case.remote else 0)
    same_size = gpus // case.local.gpus_per_instance
    homogeneous = _best_plan(case, "homogeneous-pd", *homogeneous_system(case, same_size))
    if case.remote is None:
        return Comparison((homogeneous,), homogeneous, None)
    prfaas = _best_plan(case, "prfaas-pd", *prfaas_system(case))
    naive = _best_plan(case, "naive-heterogeneous-pd", *naive_system(case))
    return Comparison((prfaas, homogeneous, naive), homogeneous, _equal_cost(case, prfaas))


def look_up(scenario: Scenario, profiles: Folders = (), *, need_local_prefill: bool = False) -> Case:
    """Find the profiles a scenario names and give each cluster its service times.

    Raises `ScenarioError` where the clusters do not form a deployment this planner knows.
    """
    where = scenario.where or "scenario"
    remote, local = _roles(scenario, where)
    model = load_model(scenario.model, profiles, where=where, key="model")
    services = Services(scenario, model, profiles)
    if scenario.workload is None:
        raise ScenarioError(Fault(where, "workload", "missing"))
    local_prefills = local.role == "pd" or need_local_prefill
    options = KvOptions(scenario.kv.dtype, scenario.kv.engine, scenario.kv.state_dtype)
    return Case(
        scenario=scenario,
        model=model,
        kv_bytes=wire_curve(model, options=options),
        workload=scenario.workload,
        remote=remote,
        local=local,
        link=_link(scenario, remote, local, where),
        remote_prefill=services.prefill(remote) if remote else None,
        local_prefill=services.prefill(local) if local_prefills else None,
        decode=services.decode(local),
    )


def _roles(scenario: Scenario, where: str) -> tuple[Cluster | None, Cluster]:
    prefill = [c for c in scenario.cluster if c.role == "prefill"]
    decoding = [c for c in scenario.cluster if c.role != "prefill"]
    if len(decoding) != 1 or len(prefill) > 1:
        problem = (
            "expected one cluster of role 'pd' or 'decode' and at most one of role 'prefill'; "
            f"there are {len(decoding)} and {len(prefill)}"
        )
        raise ScenarioError(Fault(where, "cluster", problem))
    if decoding[0].role == "decode" and not prefill:
        raise ScenarioError(Fault(where, "cluster", "no cluster prefills; give one the role 'prefill' or 'pd'"))
    return (prefill[0] if prefill else None), decoding[0]


def _link(scenario: Scenario, remote: Cluster | None, local: Cluster, where: str) -> Link | None:
    if remote is None:
        return None
    link = scenario.link_between(remote.name, local.name)
    same_site = bool(remote.site) and remote.site == local.site
    if link is None and not same_site:
        problem = f"no link from {remote.name!r} to {local.name!r}; add one, or give both clusters one site"
        raise ScenarioError(Fault(where, "link", problem))
    return link


def planned_system(case: Case) -> tuple[System, int]:
    """Give the deployment that is planned, and the instances of its local cluster."""
    return prfaas_system(case) if case.remote else homogeneous_system(case, case.local.instances)


def operating_points(case: Case) -> list[OperatingPoint]:
    """List the operating points of the planned deployment, best first.

    Raises `InfeasibleError` where nothing can be served.
    """
    points = _points(*planned_system(case))
    refuse_nothing(case, points[0] if points else None)
    return points


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
    rate = math.inf if case.link is None or remote is None else case.link.usable_bytes_per_s
    return System(
        law=case.workload.law,
        output_tokens=case.workload.output_tokens,
        kv_bytes=case.kv_bytes,
        link_bytes_per_s=rate,
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


def _best_plan(case: Case, name: str, system: System, instances: int) -> Plan:
    points = _points(system, instances)
    refuse_nothing(case, points[0] if points else None)
    other = _points(replace(system, at_mean_length=not system.at_mean_length), instances)[0]
    return build_plan(case.scenario, name, points, other, _provenance(case), _interval(case, points[0]))


def _interval(case: Case, best: OperatingPoint) -> tuple[float, float] | None:
    """Rates [req/s] of the same plan with every estimated time at the slow and at the fast end of its 80 % interval."""
    services = (case.remote_prefill, case.local_prefill, case.decode)
    if all(s is None or s.interval is None for s in services):
        return None
    fast, slow = (operate(_at_end(case, best.system, end), best.threshold).max_rate for end in (0, 1))
    return slow, fast


def _at_end(case: Case, system: System, end: int) -> System:
    decode = case.decode.interval
    return replace(
        system,
        remote=_pool_at_end(system.remote, case.remote_prefill, end),
        local=_pool_at_end(system.local, case.local_prefill, end),
        decode=replace(system.decode, step_seconds=decode[end]) if decode else system.decode,
    )


def _pool_at_end(pool: PrefillPool | None, service: PrefillService | None, end: int) -> PrefillPool | None:
    if pool is None or service is None or service.interval is None:
        return pool
    return replace(pool, seconds=service.interval[end])


def _points(system: System, instances: int) -> list[OperatingPoint]:
    if system.local is None:
        return [best_point(system.split(0, instances))]
    return best_split(system, instances)


def refuse_nothing(case: Case, best: OperatingPoint | None) -> None:
    """Raise `InfeasibleError` where there is no operating point, or one that serves nothing."""
    if best is None:
        needed = 1 if case.remote else 2
        raise InfeasibleError(
            f"cluster {case.local.name!r} has {case.local.instances} instances; prefill and decode need {needed}",
            f"{needed} instances would do",
        )
    if not best.max_rate > 0.0:
        binding = " and ".join(best.bottlenecks)
        raise InfeasibleError(f"{binding} can serve nothing", "one instance there (or some bandwidth) would help")


def _provenance(case: Case) -> Provenance:
    options = KvOptions(case.scenario.kv.dtype, case.scenario.kv.engine, case.scenario.kv.state_dtype)
    return Provenance(
        kv_notes=tuple(describe_options(case.model, options)),
        workload=case.workload,
        remote_prefill=case.remote_prefill,
        local_prefill=case.local_prefill,
        decode=case.decode,
        link=case.link,
    )


def _equal_cost(case: Case, prfaas: Plan) -> EqualCost | None:
    remote, local = case.remote, case.local
    if remote is None or not remote.price_usd_per_gpu_hour or not local.price_usd_per_gpu_hour:
        return None
    money = remote.gpus * remote.price_usd_per_gpu_hour + local.gpus * local.price_usd_per_gpu_hour
    instances = int(money / (local.price_usd_per_gpu_hour * local.gpus_per_instance) + 1e-9)
    fleet = _best_plan(case, "homogeneous-pd", *homogeneous_system(case, instances))
    ratio = remote.price_usd_per_gpu_hour / local.price_usd_per_gpu_hour
    gain = prfaas.lambda_max_rps / fleet.lambda_max_rps - 1.0
    return EqualCost(ratio, instances, fleet.lambda_max_rps, gain, fleet)

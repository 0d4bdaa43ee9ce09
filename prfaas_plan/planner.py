"""From a scenario to a plan: the best split, threshold and rates, and the comparison with simpler fleets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from prfaas_plan.case import (
    Case,
    homogeneous_system,
    kv_options,
    look_up,
    naive_system,
    planned_system,
    points_of,
    prfaas_system,
)
from prfaas_plan.errors import InfeasibleError
from prfaas_plan.explanation import Provenance
from prfaas_plan.kv_cache import describe_options
from prfaas_plan.plan_build import build_plan
from prfaas_plan.plan_record import Comparison, EqualCost, Plan
from prfaas_plan.routing import best_point
from prfaas_plan.scenario import Scenario, as_scenario
from prfaas_plan.service_records import PrefillService
from prfaas_plan.throughput import OperatingPoint, PrefillPool, System

if TYPE_CHECKING:
    from prfaas_plan.loaded import Loaded

__all__ = ["compare", "plan"]

Folders = Sequence[str | Path]


def plan(scenario: Scenario | str | Path, *, profiles: Folders = ()) -> Plan:
    """Find the plan with the largest throughput: split, length threshold, rates, latency and cost.

    Raises `InputError` for a scenario that cannot be planned, `InfeasibleError` where nothing can be served.
    """
    case = look_up(as_scenario(scenario), profiles)
    name = "prfaas-pd" if case.remote else "homogeneous-pd"
    return _best_plan(case, name, *planned_system(case))


def compare(scenario: Scenario | str | Path, *, profiles: Folders = ()) -> Comparison:
    """Set the plan beside a homogeneous fleet of as many GPUs, naive remote prefill, and one of equal cost.

    A fleet that can serve nothing is left out and named with the reason. Raises as `plan` does.
    """
    case = look_up(as_scenario(scenario), profiles, need_local_prefill=True)
    gpus = case.local.gpus + (case.remote.gpus if case.remote else 0)
    same_size, left_over = divmod(gpus, case.local.gpus_per_instance)
    alone = homogeneous_system(case, same_size)
    if case.remote is None:
        plan_alone = _best_plan(case, "homogeneous-pd", *alone)
        return Comparison((plan_alone,), plan_alone, None)
    prfaas = _best_plan(case, "prfaas-pd", *prfaas_system(case))
    left_out: dict[str, str] = {}
    homogeneous = _try_plan(case, "homogeneous-pd", alone, left_out)
    naive = _try_plan(case, "naive-heterogeneous-pd", naive_system(case), left_out)
    found = tuple(p for p in (prfaas, homogeneous, naive) if p is not None)
    return Comparison(found, homogeneous, _equal_cost(case, prfaas, left_out), left_out, left_over)


def _try_plan(case: Case, name: str, system: tuple[System, int], left_out: dict[str, str]) -> Plan | None:
    try:
        return _best_plan(case, name, *system)
    except InfeasibleError as error:
        left_out[name] = error.binding
        return None


def _best_plan(case: Case, name: str, system: System, instances: int) -> Plan:
    points = points_of(system, instances)
    other = points_of(replace(system, at_mean_length=not system.at_mean_length), instances)[0]
    points, within = _within_target(case, points)
    found = build_plan(case.scenario, name, points, other, _provenance(case), _interval(case, points[0]))
    loaded = _loaded(case, points[0])
    notes = (*found.notes, *_queue_notes(case, within, loaded))
    return replace(found, within_ttft=within, loaded=loaded, notes=notes)


def _queue_notes(case: Case, within: Loaded | None, loaded: Loaded | None) -> list[str]:
    latencies = [x for x in (within, loaded) if x is not None]
    stated = case.workload.rate_rps
    found = []
    if latencies:
        found.append(
            "Under load each prefill pool queues on its own; the gaps between requests vary by "
            f"{case.workload.arrival_cv:g} (1 is Poisson; workload.arrival_cv). Waiting for the link or for decode is "
            "not counted."
        )
    found += [f"Under load: {limit}." for x in latencies for limit in x.limits]
    if stated is not None and case.scenario.load is None and loaded is None:
        found.append(f"The stated {stated:g} req/s is more than this deployment can serve at the mean service time.")
    return found


def _within_target(case: Case, points: list[OperatingPoint]) -> tuple[list[OperatingPoint], Loaded | None]:
    """Put the split and threshold first that serve most within the promised time to first token, if one is promised."""
    promised = case.scenario.slo.ttft_p90_s
    if promised is None:
        return points, None
    from prfaas_plan.loaded import Target, best_for_target, loaded_ttft

    variation = case.workload.arrival_cv
    best, rate = best_for_target(points, Target(promised), variation)
    return [best, *(p for p in points if p.system != best.system)], loaded_ttft(best, rate, variation)


def _loaded(case: Case, best: OperatingPoint) -> Loaded | None:
    """Latency at the load the scenario states, or at the rate its workload does, where the plan can serve that."""
    load, stated = case.scenario.load, case.workload.rate_rps
    if load is None and stated is None:
        return None
    from prfaas_plan.loaded import loaded_ttft, steady

    largest = steady(best).max_rate
    rate = stated if load is None else load * largest
    if rate is None or rate >= largest:
        return None
    return loaded_ttft(best, rate, case.workload.arrival_cv)


def _interval(case: Case, best: OperatingPoint) -> tuple[float, float] | None:
    """Rates [req/s] with every estimated time at the slow and at the fast end of its 80 % interval.

    The instances stay as planned; the threshold is chosen anew, as a router would.
    """
    services = (case.remote_prefill, case.local_prefill, case.decode)
    if all(s is None or s.interval is None for s in services):
        return None
    fast, slow = (best_point(_at_end(case, best.system, end)).max_rate for end in (0, 1))
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


def _provenance(case: Case) -> Provenance:
    return Provenance(
        model=case.model,
        kv_notes=tuple(describe_options(case.model, kv_options(case.scenario))),
        workload=case.workload,
        remote_prefill=case.remote_prefill,
        local_prefill=case.local_prefill,
        decode=case.decode,
        link=case.link,
    )


def _equal_cost(case: Case, prfaas: Plan, left_out: dict[str, str]) -> EqualCost | None:
    """Plan the homogeneous fleet that the same money buys; ``None`` without prices, or where nothing costs anything."""
    local_price, money = case.local.usd_per_instance_hour, prfaas.cost_usd_per_hour
    if case.remote is None or not local_price or money is None:
        return None
    remote_price = case.remote.usd_per_instance_hour or 0.0
    ratio = (remote_price / case.remote.gpus_per_instance) / (local_price / case.local.gpus_per_instance)
    instances = int(money / local_price + 1e-9)
    fleet = _try_plan(case, "homogeneous fleet of equal cost", homogeneous_system(case, instances), left_out)
    if fleet is None:
        return None
    gain = prfaas.lambda_max_rps / fleet.lambda_max_rps - 1.0
    return EqualCost(ratio, instances, fleet.lambda_max_rps, gain, money - instances * local_price, fleet)

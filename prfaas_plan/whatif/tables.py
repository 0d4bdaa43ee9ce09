"""The tables behind a report: the rate by threshold, split and bandwidth, the KV rate by length."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from prfaas_plan.case import Case, look_up, operating_points
from prfaas_plan.errors import Fault, PlanError, ScenarioError
from prfaas_plan.loaded import loaded_ttft
from prfaas_plan.numerics import Curve, finite_or_none
from prfaas_plan.plan_record import Comparison, Plan
from prfaas_plan.planner import compare, plan
from prfaas_plan.scenario import Scenario
from prfaas_plan.throughput import OperatingPoint, System, operate
from prfaas_plan.units import GBPS
from prfaas_plan.whatif.kv_rates import ComparedRates, KvRate, compared_rates, kv_rates
from prfaas_plan.whatif.record import Tornado
from prfaas_plan.whatif.roofs import Roofs, roofs
from prfaas_plan.whatif.sweeps import tornado

__all__ = ["BandwidthRow", "LoadRow", "SplitRow", "ThresholdRow", "WhatIf", "Worth", "what_if"]

Folders = Sequence[str | Path]

_POINTS = 61


@dataclass(frozen=True, slots=True)
class ThresholdRow:
    """The rate of all requests that each stage allows at a threshold [req/s]; ``None`` where nothing limits."""

    threshold_tokens: int
    remote_rps: float | None
    local_rps: float | None
    decode_rps: float | None
    lambda_max_rps: float


@dataclass(frozen=True, slots=True)
class SplitRow:
    """The best rate of one split of the local instances."""

    prefill_instances: int
    decode_instances: int
    threshold_tokens: int | None
    lambda_max_rps: float
    bottleneck: str


@dataclass(frozen=True, slots=True)
class BandwidthRow:
    """The best plan at a nominal bandwidth."""

    bandwidth_gbps: float
    lambda_max_rps: float
    threshold_tokens: int | None
    used_gbps: float


@dataclass(frozen=True, slots=True)
class LoadRow:
    """Time to first token [s] of the plan at a share of its largest rate, with queues."""

    load_fraction: float
    rate_rps: float
    mean_s: float
    p50_s: float
    p90_s: float


@dataclass(frozen=True, slots=True)
class Worth:
    """The best rate with a little more of one thing."""

    what: str
    lambda_max_rps: float


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A plan with everything a report shows beside it."""

    scenario: Scenario
    case: Case
    plan: Plan
    comparison: Comparison | None
    """``None`` where the local accelerator's prefill times are not known."""
    best: OperatingPoint
    thresholds: tuple[ThresholdRow, ...]
    splits: tuple[SplitRow, ...]
    bandwidths: tuple[BandwidthRow, ...]
    kv_rates: tuple[KvRate, ...]
    compared: tuple[ComparedRates, ...]
    roofs: Roofs
    tornado: Tornado
    worth: tuple[Worth, ...]
    loads: tuple[LoadRow, ...] = ()
    profiles: tuple[str | Path, ...] = ()
    alone: Curve | None = None
    """Prefill time of a local instance [s], also where the plan does not prefill there; ``None`` if unknown."""


def what_if(scenario: Scenario, *, profiles: Folders = ()) -> WhatIf:
    """Plan a scenario and compute what a report shows beside the plan.

    Raises as `plan` does.
    """
    if scenario.is_fleet:
        problem = "a what-if report shows one local and at most one remote cluster of fixed sizes; plan this as a fleet"
        raise ScenarioError(Fault(scenario.where or scenario.name, "", problem))
    case = look_up(scenario, profiles)
    points = operating_points(case)
    best = plan(scenario, profiles=profiles)
    chosen = _point_of(best, points)
    rates = kv_rates(case)
    try:
        comparison = compare(scenario, profiles=profiles)
    except PlanError:
        comparison = None
    return WhatIf(
        scenario=scenario,
        case=case,
        plan=best,
        comparison=comparison,
        best=chosen,
        thresholds=tuple(_thresholds(chosen)),
        splits=tuple(_splits(points)),
        bandwidths=tuple(_bandwidths(case)),
        kv_rates=rates,
        compared=compared_rates(case.model.id, [r.length_tokens for r in rates]),
        roofs=roofs(case, chosen, profiles),
        tornado=tornado(scenario, profiles=profiles),
        worth=tuple(_worth(case)),
        loads=tuple(_loads(case, chosen)),
        profiles=tuple(profiles),
        alone=_alone(scenario, profiles),
    )


def _point_of(found: Plan, points: Sequence[OperatingPoint]) -> OperatingPoint:
    """Give the operating point of a plan; a promised time to first token may put it away from the largest rate."""
    decode = sum(pool.instances for pool in found.pools if pool.role == "decode")
    point = next((p for p in points if p.system.decode.instances == decode), points[0])
    return point if point.threshold == found.threshold_tokens else operate(point.system, found.threshold_tokens)


def _alone(scenario: Scenario, profiles: Folders) -> Curve | None:
    try:
        service = look_up(scenario, profiles, need_local_prefill=True).local_prefill
    except PlanError:
        return None
    return service.seconds if service else None


def threshold_points(system: System) -> list[int]:
    """Choose thresholds for a curve: evenly up to the length that nine in ten requests stay below."""
    first, _ = system.law.finite_support
    last = system.law.quantile(0.95)
    step = (last - first) / (_POINTS - 1)
    return sorted({max(0, round(first + i * step)) for i in range(_POINTS)})


def _thresholds(best: OperatingPoint) -> list[ThresholdRow]:
    system = best.system
    if best.threshold is None:
        return []
    chosen = sorted({*threshold_points(system), best.threshold})
    return [threshold_row(system, t) for t in chosen]


def threshold_row(system: System, threshold: int) -> ThresholdRow:
    """Evaluate one threshold [token]: what each stage allows for all requests."""
    point = operate(system, threshold)
    long, short = point.long_share, 1.0 - point.long_share
    remote = point.prfaas_rate / long if point.prfaas_rate is not None and long > 0.0 else None
    local = point.local_prefill_rate / short if point.local_prefill_rate is not None and short > 0.0 else None
    decode = finite_or_none(point.decode_rate)
    return ThresholdRow(threshold, remote, local, decode, point.max_rate)


def _splits(points: Sequence[OperatingPoint]) -> list[SplitRow]:
    found = [
        SplitRow(
            p.system.local.instances if p.system.local else 0,
            p.system.decode.instances,
            p.threshold,
            p.max_rate,
            " and ".join(p.bottlenecks),
        )
        for p in points
    ]
    return sorted(found, key=lambda row: row.prefill_instances)


def bandwidth_points(case: Case) -> list[float]:
    """Choose nominal bandwidths [Gbit/s] around the stated one: 1, 2, 5 and 10 of each decade and itself."""
    if case.link is None:
        return []
    stated = case.link.bandwidth_gbps
    middle = stated if math.isfinite(stated) and stated > 0.0 else 100.0
    decade = math.floor(math.log10(middle))
    chosen = {mantissa * 10.0**d for d in range(decade - 2, decade + 2) for mantissa in (1, 1.5, 2, 3, 5, 7)}
    return sorted({*(float(f"{b:.6g}") for b in chosen), middle})


def _bandwidths(case: Case) -> list[BandwidthRow]:
    if case.link is None:
        return []
    found = []
    for gbps in bandwidth_points(case):
        try:
            point = operating_points(replace(case, link=replace(case.link, bandwidth_gbps=gbps)))[0]
        except PlanError:
            continue
        used = point.link_used_bytes_per_s / GBPS
        found.append(BandwidthRow(gbps, point.max_rate, point.threshold, used))
    return found


def _loads(case: Case, best: OperatingPoint) -> Iterator[LoadRow]:
    for percent in (10, 20, 30, 40, 50, 60, 70, 75, 80, 85, 90, 95):
        rate = percent / 100.0 * best.max_rate
        try:
            times = loaded_ttft(best, rate, case.workload.arrival_cv).ttft_s
        except PlanError:
            return
        yield LoadRow(percent / 100.0, rate, times.mean, times.p50, times.p90)


def _worth(case: Case) -> Iterator[Worth]:
    """Plan anew with one instance more at either site, and with a tenth more bandwidth."""
    if case.remote is not None:
        more = replace(case, remote=replace(case.remote, instances=case.remote.instances + 1))
        yield Worth(f"remote instance ({case.remote.name})", operating_points(more)[0].max_rate)
    more = replace(case, local=replace(case.local, instances=case.local.instances + 1))
    yield Worth(f"local instance ({case.local.name})", operating_points(more)[0].max_rate)
    if case.link is not None and math.isfinite(case.link.bandwidth_gbps):
        tenth = 0.1 * case.link.bandwidth_gbps
        more = replace(case, link=replace(case.link, bandwidth_gbps=case.link.bandwidth_gbps + tenth))
        yield Worth(f"{tenth:g} Gbit/s of bandwidth", operating_points(more)[0].max_rate)

"""Event simulation of a planned deployment: is it stable, how long do requests wait, what does a policy save."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from prfaas_plan.case import homogeneous_system, look_up, prfaas_system
from prfaas_plan.catalog import load_model
from prfaas_plan.checks import Checks
from prfaas_plan.errors import Fault, InfeasibleError, InputError
from prfaas_plan.routing import best_point, best_split
from prfaas_plan.scenario import Scenario, as_scenario
from prfaas_plan.simulation.measures import POOLS, TimeRow, measure, request_times, time_line
from prfaas_plan.simulation.requests import Draw, trace_rate
from prfaas_plan.simulation.result import (
    PARTS,
    LinkLoad,
    PolicyComparison,
    PoolLoad,
    SimulationResult,
    count_is_enough,
    delays,
    stable,
)
from prfaas_plan.simulation.run import Run, check_pools
from prfaas_plan.simulation.settings import POLICIES, Settings, settings_from
from prfaas_plan.simulation.statistics import Estimate, estimate
from prfaas_plan.throughput import OperatingPoint, System, operate
from prfaas_plan.units import GBPS

__all__ = ["compare_policies", "planned_point", "simulate", "simulate_point"]

Folders = Sequence[str | Path]
Progress = Callable[[int, int], Any]
"""Called with requests done so far and requests in all."""


def simulate(
    scenario: Scenario | str | Path,
    rps: float | None = None,
    settings: Settings | None = None,
    *,
    profiles: Folders = (),
    progress: Progress | None = None,
    **changes: Any,
) -> SimulationResult:
    """Simulate the plan of a scenario at a request rate [1/s]; any field of `Settings` may be given by name.

    Without a rate that of the trace is taken, or else that of the scenario. Raises `InputError` with every wrong
    setting, and what `plan` raises. The same seed gives the same result.

    >>> from prfaas_plan.scenario import load_scenario
    >>> result = simulate(load_scenario("case-study"), 0.5, requests=500, replications=2)
    >>> result.stable, result.requests
    (True, 500)
    """
    chosen, scenario = settings_from(settings, changes), as_scenario(scenario)
    if chosen.transfer == "overlapped" and chosen.layers is None:
        chosen = replace(chosen, layers=_layers(scenario, profiles))
    point = planned_point(scenario, profiles)
    rate = rps
    if rate is None and chosen.trace is None and scenario.workload is not None:
        rate = scenario.workload.rate_rps
    return simulate_point(point, rate, chosen, name=scenario.name, progress=progress)


def compare_policies(
    scenario: Scenario,
    rps: float | None = None,
    policies: Sequence[str] = POLICIES,
    *,
    profiles: Folders = (),
    progress: Progress | None = None,
    **changes: Any,
) -> PolicyComparison:
    """Simulate the plan of a scenario under several policies, on the same requests; savings are against the first.

    Raises as `simulate` does.
    """
    total = len(policies)

    def one(place: int, policy: str) -> SimulationResult:
        def report(done: int, of: int) -> None:
            if progress is not None:
                progress(place * of + done, total * of)

        return simulate(scenario, rps, profiles=profiles, progress=report, **{**changes, "policy": policy})

    if not policies:
        raise InputError(Fault("simulate", "policies", "expected at least one of " + ", ".join(POLICIES)))
    return PolicyComparison(tuple(one(place, policy) for place, policy in enumerate(policies)))


def planned_point(scenario: Scenario, profiles: Folders = ()) -> OperatingPoint:
    """Give the operating point that `plan` chooses for a scenario; raises as `plan` does."""
    case = look_up(scenario, profiles)
    system, instances = prfaas_system(case) if case.remote else homogeneous_system(case, case.local.instances)
    points = [best_point(system.split(0, instances))] if system.local is None else best_split(system, instances)
    if not points or not points[0].max_rate > 0.0:
        raise InfeasibleError("no split of the instances serves anything", "one more instance would help")
    return points[0]


def _layers(scenario: Scenario, profiles: Folders) -> int:
    model = load_model(scenario.model, profiles, where=scenario.where or "scenario", key="model")
    if not model.depth:
        problem = f"the layers of {scenario.model} are not published; say in how many parts its KV cache is sent"
        raise InputError(Fault("simulate", "layers", problem))
    return model.depth


def simulate_point(
    point: OperatingPoint,
    rps: float | None,
    settings: Settings,
    *,
    name: str = "",
    progress: Progress | None = None,
) -> SimulationResult:
    """Simulate an operating point at a request rate [1/s]; see `simulate`.

    Raises `InputError`.
    """
    settings.check()
    if settings.transfer == "overlapped" and settings.layers is None:
        raise InputError(Fault("simulate", "layers", "missing; expected in how many parts a KV cache is sent"))
    run = Run(point, _rate(rps, settings), settings)
    check_pools(point.system, settings)
    replications = 1 if settings.arrivals == "trace" else int(settings.replications)
    runs, times = [], []
    rows: list[TimeRow] = []
    for replication in range(replications):
        engine = run.once(replication, _stage(progress, replication, replications))
        runs.append(measure(engine, settings))
        if replication == 0:
            rows = time_line(engine, settings)
        if settings.keep_times:
            times.append(tuple(part.copy() for part in request_times(engine)))
    return _result(run, name, runs, rows, tuple((a, b) for a, b in times))


def _rate(rps: float | None, settings: Settings) -> float:
    checks = Checks("simulate")
    if rps is not None and not checks.number("rps", rps):
        checks.finish()
    if settings.arrivals == "closed":
        return rps or 1.0
    if rps is None and settings.trace is not None:
        return trace_rate(settings.trace)
    if rps is None:
        checks.fault("rps", "missing; expected a request rate above 0 [1/s]")
    else:
        checks.above("rps", rps)
    checks.finish()
    return float(rps or 0.0)


def _stage(progress: Progress | None, replication: int, replications: int) -> Progress | None:
    if progress is None:
        return None
    return lambda done, total: progress(replication * total + done, replications * total)


def _verdict(run: Run, growth: list[float], unfinished: list[float], arrivals: float) -> bool | None:
    """Judge by the growth of the backlog, and by the capacity of the threshold where nothing else decides it."""
    settings, point = run.settings, run.point
    plain = settings.policy == "static" and not (settings.prefix or settings.role_changes or settings.load_steps)
    capacity = operate(replace(point.system, at_mean_length=False), point.threshold).max_rate
    if plain and settings.arrivals != "closed" and settings.threshold_tokens is None and run.rate > capacity:
        return False
    return stable(growth, unfinished, arrivals, settings.confidence)


def _result(
    run: Run, name: str, runs: list[dict[str, float]], rows: list[TimeRow], times: tuple[tuple[Any, Any], ...]
) -> SimulationResult:
    settings, point = run.settings, run.point
    count = Draw(point.system, settings, run.rate).count
    second_half = 0.5 * (1.0 - settings.warmup_fraction) * count

    def over(key: str) -> Estimate:
        return estimate([r[key] for r in runs], settings.confidence)

    growth, unfinished = ([r[key] for r in runs] for key in ("growth_fraction", "unfinished"))
    routed = settings.policy == "static" and math.isfinite(run.threshold)
    return SimulationResult(
        scenario=name,
        policy=settings.policy,
        arrivals=settings.arrivals,
        transfer=settings.transfer,
        sharing=settings.sharing,
        rps=None if settings.arrivals == "closed" else run.rate,
        lambda_max_rps=operate(replace(point.system, at_mean_length=False), point.threshold).max_rate,
        threshold_tokens=run.threshold if routed else None,
        requests=count,
        replications=len(runs),
        seed=int(settings.seed),
        confidence=settings.confidence,
        warmup_fraction=settings.warmup_fraction,
        stable=None if not count_is_enough(second_half) else _verdict(run, growth, unfinished, second_half),
        served_rps=over("served_rps"),
        growth_fraction=over("growth_fraction"),
        unfinished=over("unfinished"),
        offloaded_fraction=over("offloaded_fraction"),
        ttft_s=delays(runs, "ttft", settings.confidence),
        affected_ttft_s=delays(runs, "affected", settings.confidence) if _disturbed(settings) else None,
        response_s=over("response.mean"),
        parts_s={part: over(f"part.{part}") for part in PARTS},
        pools=_pools(point.system, over),
        links=_links(point.system, over),
        time_line=tuple(rows),
        runs=tuple(runs),
        times=times,
        notes=_notes(settings),
    )


def _disturbed(settings: Settings) -> bool:
    return bool(settings.episodes or settings.failures)


def _pools(system: System, over: Callable[[str], Estimate]) -> tuple[PoolLoad, ...]:
    pools = zip(POOLS, (system.remote, system.local, system.decode), strict=True)
    return tuple(
        PoolLoad(
            pool.cluster,
            "decode" if name == "decode" else "prefill",
            pool.accelerator,
            pool.instances,
            pool.instances * pool.gpus_per_instance,
            over(f"load.{name}"),
            over(f"wait.{name}"),
        )
        for name, pool in pools
        if pool is not None
    )


def _links(system: System, over: Callable[[str], Estimate]) -> tuple[LinkLoad, ...]:
    if system.remote is None:
        return ()
    usable = system.link_bytes_per_s / GBPS
    ends = (system.remote.cluster, system.decode.cluster)
    return (LinkLoad(*ends, usable, over("link.gbps"), over("link.load"), over("transfer.remote")),)


def _notes(settings: Settings) -> tuple[str, ...]:
    notes = []
    if settings.arrivals == "trace":
        notes.append("a trace is one sample: there is one replication and no confidence interval")
    elif settings.replications < 2:
        notes.append("one replication gives no confidence interval")
    return tuple(notes)

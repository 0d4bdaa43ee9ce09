"""Plan a fleet: the largest rate within its limits, or the least cost, power or number of accelerators for a rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from prfaas_plan.errors import Fault, InputError, ScenarioError, nearest
from prfaas_plan.fleet.build import build_fleet_plan
from prfaas_plan.fleet.case import FleetCase, with_link_loss
from prfaas_plan.fleet.evaluate import evaluate
from prfaas_plan.fleet.inputs import fleet_case
from prfaas_plan.fleet.loaded import with_short_queues
from prfaas_plan.fleet.record import FleetPlan
from prfaas_plan.fleet.search import Outcome, Settings
from prfaas_plan.fleet.solve import solve_fleet
from prfaas_plan.fleet.tidy import tidy
from prfaas_plan.fleet.why import why_infeasible
from prfaas_plan.scenario import Scenario, as_scenario

__all__ = ["Settings", "fleet_plan", "size"]

Folders = Sequence[str | Path]
MINIMIZE = ("cost", "gpus", "power")
_LITTLE_USD = 1e-3
_SLACK = 1e-6
_LEAST_RPS, _MOST_RPS = 1e-3, 1e6
"""Rates the solver resolves; a rarer request needs one instance of each kind."""


def fleet_plan(
    scenario: Scenario | str | Path, *, profiles: Folders = (), settings: Settings | None = None
) -> FleetPlan:
    """Plan a fleet of any number of clusters, links, demands and periods for the scenario's objective.

    Maximises the rate of the busiest period [req/s]; with another objective, finds the least of it for the rates
    that the scenario states. Of plans with the same rate the cheapest is taken, and of routings with the same rate
    the one that loads prefill and links least. Raises `InputError` for what is missing, `InfeasibleError` naming the
    limit in the way, `SolverError` if time runs out before any plan.

    >>> from prfaas_plan.scenario import load_scenario
    >>> plan = fleet_plan(load_scenario("case-study"))
    >>> round(plan.lambda_max_rps, 3), [(p.role, p.instances) for p in plan.busiest.pools]
    (3.186, [('prefill', 4), ('prefill', 3), ('decode', 5)])
    """
    scenario = as_scenario(scenario)
    if scenario.objective != "throughput":
        return size(scenario, _stated_rate(scenario), minimize=scenario.objective, profiles=profiles, settings=settings)
    settings = settings or Settings()
    case = fleet_case(scenario, profiles)
    outcome = _solve(case, None, settings)
    if outcome is None or outcome.value <= 1e-9:
        raise why_infeasible(case, None, settings)
    outcome = tidy(_cheapest(outcome, settings), settings)
    return build_fleet_plan(outcome, None, "throughput", priced=_priced(scenario))


def size(  # noqa: PLR0913 (keyword-only choices)
    scenario: Scenario | str | Path,
    target_rps: float,
    *,
    minimize: str = "cost",
    spare: int = 0,
    headroom: float = 0.0,
    link_loss_fraction: float = 0.0,
    profiles: Folders = (),
    settings: Settings | None = None,
) -> FleetPlan:
    """Find the fleet with the least cost, accelerators or power that serves a rate in the busiest period [req/s].

    Where no cluster states a range, every cluster may have any number of instances. `spare` is the number of
    instances every pool keeps beyond its need (1 for N+1: any one instance of a pool may be lost without routing
    anew); `headroom` the share of every pool and link that stays free; with `link_loss_fraction` that share of
    every rate is still served after the loss of any one link. Raises as `fleet_plan` does.
    """
    scenario = as_scenario(scenario)
    _check(target_rps, minimize, spare, headroom)
    _check_fraction(scenario, link_loss_fraction)
    settings = settings or Settings()
    case = fleet_case(scenario, profiles, minimize)
    case = case.with_limits(spare=spare, headroom=headroom)
    if all(c.max is None for c in scenario.cluster):
        case = _any_size(case, target_rps)
    if link_loss_fraction > 0.0:
        case = with_link_loss(case, link_loss_fraction)
    counted = case
    if case.periods > 1 and minimize == "cost" and case.limits.switching_usd == 0.0:
        counted = case.with_limits(switching_usd=_LITTLE_USD)
    outcome = _solve(counted, target_rps, settings)
    if outcome is None:
        raise why_infeasible(case, target_rps, settings)
    outcome = tidy(outcome, settings)
    outcome.model.case = case.with_limits(queue_room=outcome.model.case.limits.queue_room)
    return build_fleet_plan(outcome, target_rps, minimize, priced=_priced(scenario))


def _solve(case: FleetCase, target_rps: float | None, settings: Settings) -> Outcome | None:
    """Solve a fleet, with short queues where a promise includes waiting."""
    if not any(t.loaded for t in case.traffic):
        return solve_fleet(case, target_rps, settings)

    def plan(case: FleetCase) -> Outcome | None:
        found = solve_fleet(case, target_rps, settings)
        return None if found is None else tidy(found, settings)

    return with_short_queues(case, plan)


def _check(target_rps: float, minimize: str, spare: int, headroom: float) -> None:
    faults = []
    if not (_LEAST_RPS <= target_rps <= _MOST_RPS):
        problem = f"expected from {_LEAST_RPS:g} to {_MOST_RPS:,.0f} [req/s]"
        faults.append(Fault("size", "target_rps", problem, target_rps))
    if minimize not in MINIMIZE:
        problem = "expected one of " + ", ".join(MINIMIZE)
        faults.append(Fault("size", "minimize", problem, minimize, nearest(minimize, MINIMIZE)))
    if spare < 0:
        faults.append(Fault("size", "spare", "expected a whole number of at least 0", spare))
    if not 0.0 <= headroom < 1.0:
        faults.append(Fault("size", "headroom", "expected a number of at least 0 and below 1", headroom))
    if faults:
        raise InputError(faults)


def _check_fraction(scenario: Scenario, fraction: float) -> None:
    if not 0.0 <= fraction <= 1.0:
        raise InputError(Fault("size", "link_loss_fraction", "expected a number from 0 to 1", fraction))
    if fraction > 0.0 and not scenario.link:
        raise InputError(Fault("size", "link_loss_fraction", "the scenario has no link that could be lost", fraction))


def _stated_rate(scenario: Scenario) -> float:
    """Give the total rate of the busiest period as the scenario states it [req/s]."""
    if not scenario.demand:
        rate = scenario.workload.rate_rps if scenario.workload else None
        if rate is None:
            problem = f"missing; the least {scenario.objective} is for a rate [req/s]"
            raise ScenarioError(Fault(scenario.where or "scenario", "workload.rate_rps", problem))
        return rate * max((p.rate_multiplier for p in scenario.period), default=1.0)
    if any(d.table.rate_rps is None for d in scenario.demand):
        problem = f"missing; the least {scenario.objective} is for stated rates [req/s]"
        raise ScenarioError(Fault(scenario.where or "scenario", "demand.0.rate_rps", problem))
    base = {d.name: d.weight for d in scenario.demand}
    totals = [sum((p.rates or {}).get(n, r * p.rate_multiplier) for n, r in base.items()) for p in scenario.period]
    return max(totals, default=sum(base.values()))


def _priced(scenario: Scenario) -> bool:
    return all(c.usd_per_instance_hour is not None for c in scenario.cluster)


def _any_size(case: FleetCase, target_rps: float) -> FleetCase:
    """Let every station have from no instance to as many as could serve everything."""
    stations = []
    for c, s in enumerate(case.stations):
        need = 0.0
        for traffic in case.traffic:
            prefill = traffic.law.expect(s.seconds) if s.seconds is not None else 0.0
            need += target_rps * (prefill + (traffic.decode_seconds[c] or 0.0))
        most = math.ceil(need / (1.0 - case.limits.headroom)) + 2 * case.limits.spare + 2
        stations.append(replace(s, fewest=0, most=most))
    return replace(case, stations=tuple(stations))


def _cheapest(outcome: Outcome, settings: Settings) -> Outcome:
    """Of the plans that reach the same rate take the cheapest (the one with the fewest accelerators without prices)."""
    case = outcome.model.case
    choices = any(s.fewest < s.most for s in case.stations) or any(w.bought for w in case.wires)
    if not choices and (case.periods == 1 or not any(s.both for s in case.stations)):
        return outcome
    stations = case.stations
    if not any(s.usd_per_hour for s in stations):
        stations = tuple(replace(s, usd_per_hour=float(s.gpus)) for s in stations)
    cheaper = replace(case, stations=stations, objective="cost")
    cheaper = cheaper.with_limits(switching_usd=max(case.limits.switching_usd, _LITTLE_USD))
    rate = evaluate(outcome).largest_rate * (1.0 - _SLACK)
    quiet = replace(settings, gap=max(settings.gap, 1e-3), time_limit_s=settings.time_limit_s / 2.0)
    found = solve_fleet(cheaper, rate, quiet, outcome.model)
    if found is None:
        return outcome
    found.model.case = case
    found.model.program = replace(found.model.program, objective={found.model.rate: 1.0}, maximise=True)
    found.value, found.bound, found.seen = rate, outcome.bound, outcome.seen
    return found

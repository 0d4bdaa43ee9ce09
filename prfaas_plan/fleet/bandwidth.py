"""How much bandwidth a fleet needs, and which threshold a router takes for the bandwidth that is left."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from prfaas_plan.errors import Fault, InputError
from prfaas_plan.fleet.case import FleetCase
from prfaas_plan.fleet.evaluate import evaluate
from prfaas_plan.fleet.planner import fleet_plan
from prfaas_plan.fleet.record import FleetPlan
from prfaas_plan.fleet.routes import SiteRouting, offload, wire_routing
from prfaas_plan.fleet.search import Outcome, Settings
from prfaas_plan.fleet.solve import solve_fleet, solve_routing
from prfaas_plan.fleet.tidy import tidy
from prfaas_plan.scenario import Scenario

__all__ = [
    "BandwidthNeed",
    "RoutingRow",
    "RoutingTable",
    "bandwidth_needed",
    "check_bandwidths",
    "check_shares",
    "needs_of_plan",
    "routing_table",
    "table_of_plan",
]

Folders = Sequence[str | Path]
_SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25)
_SLACK = 1e-6
_SCARCE = 1.0 - 1e-3
_MATTERS = 1.0 - 5e-3

PREFIX_RULES = {
    "scarce": {
        "uncached_tokens": "total - cached at the cluster that would decode",
        "local_if": "uncached_tokens <= threshold_tokens",
        "moves_cache": False,
    },
    "abundant": {
        "uncached_tokens": "total - the longer of the prefixes cached at the two clusters",
        "local_if": "uncached_tokens <= threshold_tokens",
        "moves_cache": True,
    },
    "source": "arXiv 2604.15039, section 3.4.3",
}
"""How a router counts a request's uncached tokens while bandwidth is scarce, and while it is abundant."""


@dataclass(frozen=True, slots=True)
class BandwidthNeed:
    """The least bandwidth that keeps a share of a plan's rate."""

    keep_fraction: float
    rate_rps: float
    total_gbps: float
    links: tuple[tuple[str, float], ...]
    bound_gbps: float

    def to_dict(self) -> dict[str, Any]:
        """Give the need by name."""
        return {
            "keep_fraction": self.keep_fraction,
            "rate_rps": self.rate_rps,
            "total_gbps": self.total_gbps,
            "bound_gbps": self.bound_gbps,
            "links": [{"link": name, "gbps": rate} for name, rate in self.links],
        }


@dataclass(frozen=True, slots=True)
class RoutingRow:
    """What a router does with some bandwidth on one link."""

    link: str
    available_gbps: float
    threshold_tokens: int | None
    offloaded_fraction: float
    lambda_max_rps: float
    link_load_fraction: float
    bandwidth: str
    """``scarce`` where the link is full (or too slow for any request), else ``abundant``."""
    routes: tuple[SiteRouting, ...] = ()
    """Which lengths of every origin are prefilled at the far end of the link, in the busiest period."""

    def to_dict(self) -> dict[str, Any]:
        """Give the row by name."""
        return {
            "link": self.link,
            "available_gbps": self.available_gbps,
            "threshold_tokens": self.threshold_tokens,
            "offloaded_fraction": self.offloaded_fraction,
            "lambda_max_rps": self.lambda_max_rps,
            "link_load_fraction": self.link_load_fraction,
            "bandwidth": self.bandwidth,
            "routes": [route.to_dict() for route in self.routes],
        }


@dataclass(frozen=True, slots=True)
class RoutingTable:
    """Thresholds by available bandwidth, for a router to load."""

    scenario: str
    rows: tuple[RoutingRow, ...]
    abundant_above_gbps: tuple[tuple[str, float], ...]

    def to_dict(self) -> dict[str, Any]:
        """Give the table by name."""
        return {
            "scenario": self.scenario,
            "rows": [row.to_dict() for row in self.rows],
            "abundant_above_gbps": dict(self.abundant_above_gbps),
            "prefix_rules": PREFIX_RULES,
        }


def bandwidth_needed(
    scenario: Scenario,
    keep: Sequence[float] = (0.95, 0.99, 1.0),
    *,
    profiles: Folders = (),
    settings: Settings | None = None,
) -> tuple[BandwidthNeed, ...]:
    """Find the least total nominal rate of all links [Gbit/s] that keeps shares of the plan's throughput.

    The instances of every cluster stay, their roles are planned again. Raises as `fleet_plan` does, and `InputError`
    for a share outside (0, 1].
    """
    check_shares(keep)
    settings = settings or Settings()
    return needs_of_plan(fleet_plan(scenario, profiles=profiles, settings=settings), keep, settings)


def check_shares(keep: Sequence[float]) -> None:
    """Raise `InputError` for a share outside (0, 1]."""
    faults = [Fault("bandwidth", "keep", "expected a share above 0 and at most 1", k) for k in keep if not 0 < k <= 1]
    if faults:
        raise InputError(faults)


def needs_of_plan(plan: FleetPlan, keep: Sequence[float], settings: Settings) -> tuple[BandwidthNeed, ...]:
    """Find the bandwidth that a plan needs to keep shares of its throughput; see `bandwidth_needed`."""
    case = _open_links(_as_planned(plan), plan.lambda_max_rps)
    found = []
    for share in keep:
        rate = plan.lambda_max_rps * min(share, 1.0 - _SLACK)
        outcome = solve_fleet(case, rate, settings, plan.outcome.model)
        if outcome is not None:
            links = {case.wires[w].name: outcome.values[v] for w, v in outcome.model.gbps.items()}
            found.append(BandwidthNeed(share, rate, sum(links.values()), tuple(links.items()), outcome.bound))
    return tuple(found)


def _as_planned(plan: FleetPlan) -> FleetCase:
    """Hold the number of instances the plan chose, and ask for the least bandwidth."""
    outcome, case = plan.outcome, plan.outcome.model.case
    counts = [round(outcome.values[outcome.model.owned[c]]) for c in range(len(case.stations))]
    stations = tuple(replace(s, fewest=n, most=n) for s, n in zip(case.stations, counts, strict=True))
    return replace(case, stations=stations, objective="bandwidth").with_limits(
        budget_usd_per_hour=None, power_cap_w=None
    )


def _open_links(case: FleetCase, rate: float) -> FleetCase:
    """Let every link have any rate up to its own, an unlimited one up to what all requests together need."""
    everything = rate * max(t.law.expect(t.kv_gbit) for t in case.traffic)
    wires = []
    for wire in case.wires:
        most = wire.most_gbps if math.isfinite(wire.most_gbps) else 2.0 * everything / wire.usable
        wires.append(replace(wire, least_gbps=0.0, most_gbps=most))
    return replace(case, wires=tuple(wires))


def routing_table(
    scenario: Scenario,
    bandwidths_gbps: Sequence[float] = (),
    *,
    profiles: Folders = (),
    settings: Settings | None = None,
) -> RoutingTable:
    """Give the threshold for each link by the bandwidth that is available on it, roles staying as planned.

    Without `bandwidths_gbps` the table has shares of the rate above which the link no longer limits, and only the
    least of them for a link whose bandwidth hardly matters. The other links keep their stated rates. Raises as
    `fleet_plan` does, and `InputError` for a bandwidth that is not above 0.
    """
    check_bandwidths(bandwidths_gbps)
    settings = replace(settings or Settings(), progress=None)
    return table_of_plan(fleet_plan(scenario, profiles=profiles, settings=settings), bandwidths_gbps, settings)


def check_bandwidths(bandwidths_gbps: Sequence[float]) -> None:
    """Raise `InputError` for a bandwidth that is not above 0."""
    faults = [Fault("routing-table", "bandwidth", "expected above 0 [Gbit/s]", b) for b in bandwidths_gbps if not b > 0]
    if faults:
        raise InputError(faults)


def table_of_plan(plan: FleetPlan, bandwidths_gbps: Sequence[float], settings: Settings) -> RoutingTable:
    """Give the thresholds of a plan by available bandwidth; see `routing_table`."""
    settings = replace(settings, progress=None)
    rows: list[RoutingRow] = []
    enough: list[tuple[str, float]] = []
    for w, wire in enumerate(plan.outcome.model.case.wires):
        free = _row(plan, w, math.inf, settings)
        needed = free.link_load_fraction
        enough.append((wire.name, needed))
        chosen = sorted(bandwidths_gbps or [needed * share for share in _SHARES if needed > 0.0])
        table = [_row(plan, w, b, settings) for b in chosen[:1]]
        if bandwidths_gbps or any(row.lambda_max_rps < _MATTERS * free.lambda_max_rps for row in table):
            table += [_row(plan, w, b, settings) for b in chosen[1:]]
        rows += table
    return RoutingTable(plan.scenario, tuple(rows), tuple(enough))


def _row(plan: FleetPlan, w: int, rate_gbps: float, settings: Settings) -> RoutingRow:
    """Route again with a link at a rate; with an unlimited one the load is the nominal rate it would need [Gbit/s]."""
    case = plan.outcome.model.case
    wire = replace(case.wires[w], least_gbps=rate_gbps, most_gbps=rate_gbps)
    changed = replace(case, wires=(*case.wires[:w], wire, *case.wires[w + 1 :]), objective="throughput")
    outcome = solve_routing(changed, plan.outcome.integers, None, settings, like=plan.outcome.model)
    if outcome is None:
        return RoutingRow(wire.name, rate_gbps, None, 0.0, 0.0, 0.0, "scarce")
    return _describe(tidy(outcome, settings), w, rate_gbps)


def _describe(outcome: Outcome, w: int, rate_gbps: float) -> RoutingRow:
    evaluation = evaluate(outcome)
    case = evaluation.case
    wire, rate = case.wires[w], evaluation.largest_rate
    needs = [rate * evaluation.needs.get(("wire", h, w), 0.0) / wire.usable for h in range(len(case.states))]
    state = max(range(len(case.states)), key=lambda h: sum(case.states[h].rates))
    crossing = offload(evaluation, state)
    load = max(needs) if math.isinf(rate_gbps) else max(needs) / rate_gbps
    kind = "abundant" if math.isinf(rate_gbps) or (rate > 0.0 and load < _SCARCE) else "scarce"
    routes = wire_routing(evaluation, state, w)
    return RoutingRow(wire.name, rate_gbps, crossing.threshold, crossing.share, rate, load, kind, routes)

"""What a single length threshold per origin loses against free routing, and where one threshold is not enough."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from prfaas_plan.fleet.bins import cut
from prfaas_plan.fleet.case import FleetCase
from prfaas_plan.fleet.evaluate import Evaluation, evaluate
from prfaas_plan.fleet.model import build_model
from prfaas_plan.fleet.record import FleetPlan
from prfaas_plan.fleet.search import Settings
from prfaas_plan.fleet.solve import solve_routing
from prfaas_plan.solver import Options, solve

__all__ = ["Step", "ThresholdLoss", "ladders", "threshold_loss"]

_GRID = 16
_SWEEPS = 2
_NARROW = 12


@dataclass(frozen=True, slots=True)
class Step:
    """The lengths that one site prefills of an origin's requests, in one period."""

    origin: str
    period: str
    above_tokens: float
    up_to_tokens: float
    site: str
    fraction: float
    """Share of the requests of these lengths that the site takes; the rest goes elsewhere."""

    def to_dict(self) -> dict[str, Any]:
        """Give the step by name."""
        return {
            "origin": self.origin,
            "period": self.period,
            "above_tokens": round(self.above_tokens),
            "up_to_tokens": round(self.up_to_tokens),
            "prefill_site": self.site,
            "fraction": self.fraction,
        }


@dataclass(frozen=True, slots=True)
class ThresholdLoss:
    """The rate with one threshold per origin, and that with free routing, for the same instances."""

    free_rps: float
    single_rps: float
    thresholds: tuple[tuple[str, int], ...]
    not_optimal_for: tuple[str, ...]
    """Origins whose best routing has more than two steps of length, so that no threshold describes it."""

    @property
    def loss_fraction(self) -> float:
        """Share of the rate that one threshold loses."""
        return max(0.0, 1.0 - self.single_rps / self.free_rps) if self.free_rps > 0.0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Give everything by name."""
        return {
            "free_rps": self.free_rps,
            "single_rps": self.single_rps,
            "loss_fraction": self.loss_fraction,
            "thresholds": [{"origin": name, "threshold_tokens": tokens} for name, tokens in self.thresholds],
            "not_optimal_for": list(self.not_optimal_for),
        }


def ladders(evaluation: Evaluation) -> tuple[Step, ...]:
    """List for every period and origin which site takes most of which lengths, from short to long."""
    case = evaluation.case
    found: list[Step] = []
    for h, state in enumerate(case.states):
        for o, traffic in enumerate(case.traffic):
            shares: dict[float, dict[str, float]] = defaultdict(lambda: defaultdict(float))
            highs: dict[float, float] = {}
            for part in evaluation.parts:
                if (part.state, part.traffic) == (h, o) and state.lost_wire is None:
                    shares[part.bin.low][case.stations[part.route.station].place] += part.share
                    highs[part.bin.low] = part.bin.high
            for name in traffic.origins or ("",):
                found += _ladder(name, state.name, traffic.law.support, shares, highs)
    return tuple(found)


def _ladder(
    origin: str,
    period: str,
    support: tuple[float, float],
    shares: dict[float, dict[str, float]],
    highs: dict[float, float],
) -> list[Step]:
    steps: list[Step] = []
    for low in sorted(shares):
        site, fraction = max(shares[low].items(), key=lambda item: item[1])
        high = min(highs[low], support[1])
        if steps and steps[-1].site == site and abs(steps[-1].fraction - fraction) < 0.02:
            steps[-1] = replace(steps[-1], up_to_tokens=high)
        else:
            steps.append(Step(origin, period, max(low, support[0] - 1.0, 0.0), high, site, min(1.0, fraction)))
    return steps


def threshold_loss(plan: FleetPlan, settings: Settings | None = None) -> ThresholdLoss:
    """Compare free routing with one threshold per origin, for the instances and link rates of a plan.

    With a threshold, requests above it and requests below it are each spread over routes in fixed shares, whatever
    their length. The best thresholds are searched one origin after another (a grid of quantiles, then ever finer), so
    the loss is an upper estimate where there are several origins.
    """
    settings = settings or Settings()
    outcome = plan.outcome
    case = replace(_with_link_rates(plan), objective="throughput")
    free = solve_routing(case, outcome.integers, None, replace(settings, progress=None, gap=1e-7), like=outcome.model)
    free_rps = 0.0 if free is None else evaluate(free).largest_rate
    cuts = [t.law.quantile(0.5) for t in case.traffic]
    best = _rate(case, outcome.integers, cuts, settings)
    for _ in range(_SWEEPS if len(cuts) > 1 else 1):
        for o in range(len(cuts)):
            cuts, best = _search(case, outcome.integers, cuts, o, settings)
    names = [(name, round(x)) for t, x in zip(case.traffic, cuts, strict=True) for name in t.origins or ("",)]
    many = _many_steps(ladders(evaluate(outcome)))
    return ThresholdLoss(free_rps, best, tuple(names), many)


def _many_steps(steps: tuple[Step, ...]) -> tuple[str, ...]:
    sites: dict[tuple[str, str], list[str]] = defaultdict(list)
    for step in steps:
        mine = sites[step.origin, step.period]
        if step.fraction > 0.98 and (not mine or mine[-1] != step.site):
            mine.append(step.site)
    return tuple(dict.fromkeys(origin for (origin, _), ladder in sites.items() if len(ladder) > 2))


def _with_link_rates(plan: FleetPlan) -> FleetCase:
    """Hold the link rates that the plan chose."""
    outcome, case = plan.outcome, plan.outcome.model.case
    wires = []
    for w, wire in enumerate(case.wires):
        rate = outcome.values[outcome.model.gbps[w]] if w in outcome.model.gbps else wire.most_gbps
        wires.append(replace(wire, least_gbps=rate, most_gbps=rate))
    return replace(case, wires=tuple(wires))


def _rate(case: FleetCase, integers: dict[str, float], cuts: list[float], settings: Settings) -> float:
    """Give the rate with two bins for each kind of traffic; limits of time and length still cut further."""
    bins = [cut(t.law, sorted({x, *_limits(case, o)})) for o, (t, x) in enumerate(zip(case.traffic, cuts, strict=True))]
    model = build_model(case, bins)
    index = {model.program.variables[i].name: i for i in model.program.integers}
    solution = solve(
        model.program.fixed({index[n]: v for n, v in integers.items() if n in index}), Options(settings.time_limit_s)
    )
    return solution.objective if solution.found else 0.0


def _limits(case: FleetCase, traffic: int) -> set[float]:
    kind = case.traffic[traffic]
    low, high = kind.law.support
    found = {case.longest(kind, r, in_time=t) for r in case.routes for t in (False, True)}
    return {x for x in found if low <= x < high}


def _search(
    case: FleetCase, integers: dict[str, float], cuts: list[float], traffic: int, settings: Settings
) -> tuple[list[float], float]:
    law = case.traffic[traffic].law

    def rate(level: float) -> float:
        own = [*cuts[:traffic], law.quantile(level), *cuts[traffic + 1 :]]
        return _rate(case, integers, own, settings)

    level, best = _climb(rate)
    return [*cuts[:traffic], law.quantile(level), *cuts[traffic + 1 :]], best


def _climb(rate: Callable[[float], float]) -> tuple[float, float]:
    """Find the best level between 0 and 1: the best of a grid, then by thirds around it."""
    tried = {k / _GRID: rate(k / _GRID) for k in range(1, _GRID)}
    middle = max(tried, key=tried.__getitem__)
    low, high = middle - 1.0 / _GRID, middle + 1.0 / _GRID
    for _ in range(_NARROW):
        a, b = low + (high - low) / 3.0, high - (high - low) / 3.0
        tried[a], tried[b] = rate(a), rate(b)
        low, high = (low, b) if tried[a] >= tried[b] else (a, high)
    best = max(tried, key=tried.__getitem__)
    return best, tried[best]

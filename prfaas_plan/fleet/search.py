"""The state of a search for the best fleet: settings, bins so far, bounding rows, the best plan, progress."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from prfaas_plan.fleet.bins import cut, first_edges
from prfaas_plan.fleet.bound import Cut, Prices
from prfaas_plan.fleet.case import FleetCase
from prfaas_plan.fleet.model import build_model
from prfaas_plan.fleet.variables import Model

__all__ = ["Outcome", "Progress", "Search", "Settings", "gap_between", "start"]

_CLOSE = 1e-4


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a search has come."""

    step: str
    elapsed_s: float
    best: float | None
    bound: float | None

    @property
    def gap_fraction(self) -> float | None:
        """Relative distance between the best plan so far and the bound."""
        return None if self.best is None or self.bound is None else gap_between(self.best, self.bound)


@dataclass(frozen=True, slots=True)
class Settings:
    """How exactly and how long to search."""

    gap: float = 1e-4
    time_limit_s: float = 60.0
    bins: int = 20
    progress: Callable[[Progress], None] | None = None


@dataclass(slots=True)
class Outcome:
    """The best plan found, what no plan can exceed, and the prices of capacity at the plan."""

    model: Model
    values: Mapping[int, float]
    value: float
    bound: float
    prices: Prices
    seconds: float
    rounds: int
    seen: dict[tuple[tuple[str, float], ...], float] = field(default_factory=dict)
    """Every set of whole numbers that was tried, and what it reaches."""

    @property
    def gap_fraction(self) -> float:
        """Relative distance between the plan and the bound."""
        return gap_between(self.value, self.bound)

    @property
    def integers(self) -> dict[str, float]:
        """Instances (and other whole numbers) of the plan by the name of their variable."""
        variables = self.model.program.variables
        return {variables[i].name: float(round(self.values[i])) for i in self.model.program.integers}


def gap_between(value: float, bound: float) -> float:
    """Give the relative distance between a plan and a bound."""
    return abs(bound - value) / max(abs(value), abs(bound), 1e-12)


@dataclass(slots=True)
class Search:
    """A search under way."""

    case: FleetCase
    target: float | None
    settings: Settings
    edges: list[set[float]]
    cuts: list[Cut] = field(default_factory=list)
    best: Outcome | None = None
    bound: float = math.nan
    started: float = field(default_factory=time.monotonic)
    rounds: int = 0
    seen: dict[tuple[tuple[str, float], ...], float] = field(default_factory=dict)
    shift: Mapping[str, float] = field(default_factory=dict)
    """What is added to the right side of rows, by name, to see what that is worth."""

    @property
    def maximises(self) -> bool:
        """Whether the rate is maximised; otherwise the objective is minimised for a rate."""
        return self.target is None

    @property
    def left_s(self) -> float:
        """Seconds left, and never less than half a second."""
        return max(0.5, self.settings.time_limit_s - (time.monotonic() - self.started))

    @property
    def out_of_time(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() - self.started > self.settings.time_limit_s

    def model(self) -> Model:
        """Write the programme with the bins so far."""
        bins = [cut(t.law, sorted(e)) for t, e in zip(self.case.traffic, self.edges, strict=True)]
        model = build_model(self.case, bins, self.target)
        return shifted(model, self.shift) if self.shift else model

    def tell(self, step: str) -> None:
        """Report progress."""
        if self.settings.progress is not None:
            best = None if self.best is None else self.best.value
            bound = None if math.isnan(self.bound) else self.bound
            self.settings.progress(Progress(step, time.monotonic() - self.started, best, bound))

    def closed(self) -> bool:
        """Whether plan and bound agree within the gap."""
        return self.best is not None and gap_between(self.best.value, self.bound) <= self.settings.gap

    def tighten(self, bound: float) -> None:
        """Take a bound if it is better than the one so far."""
        if self.case.objective == "gpus" and not self.maximises:
            step = math.gcd(*(s.gpus for s in self.case.stations))
            bound = step * math.ceil(bound / step - 1e-6)
        if math.isnan(self.bound):
            self.bound = bound
        self.bound = min(self.bound, bound) if self.maximises else max(self.bound, bound)

    def cut_bins(self, changes: Sequence[set[float]]) -> bool:
        """Cut bins where the cheapest route changes, unless an edge is close by; say whether anything was cut."""
        cut_any = False
        for edges, wanted in zip(self.edges, changes, strict=True):
            for x in sorted(wanted):
                if all(abs(x - e) > _CLOSE * x for e in edges):
                    edges.add(x)
                    cut_any = True
        return cut_any

    def keep(self, outcome: Outcome) -> None:
        """Keep a plan if it is better than the best so far."""
        self.seen[tuple(sorted(outcome.integers.items()))] = outcome.value
        better = self.best is None or (outcome.value > self.best.value) == self.maximises
        if better:
            self.best = outcome


def shifted(model: Model, shift: Mapping[str, float]) -> Model:
    """Add to the right side of rows, by name."""
    for name, more in shift.items():
        row = model.sheet.rows[name]
        model.sheet.rows[name] = replace(row, right=row.right + more)
    model.program = replace(model.program, rows=tuple(model.sheet.rows.values()))
    return model


def start(case: FleetCase, target_rps: float | None, settings: Settings, like: Model | None = None) -> Search:
    """Begin a search with bins of equal share, cut where a limit of length or time falls (and as those of `like`)."""
    edges = []
    for o, traffic in enumerate(case.traffic):
        cuts = {case.longest(traffic, r, in_time=t) for r in case.routes for t in (False, True)}
        cuts |= {b.low for b in like.bins[o][1:]} if like is not None else set()
        edges.append(set(first_edges(traffic.law, settings.bins, cuts)))
    return Search(case, target_rps, settings, edges)

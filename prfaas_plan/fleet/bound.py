"""What the best routing could reach: prices of capacity, the cheapest route for every length, and bounding rows.

Whatever the prices π >= 0 of the rows that requests draw on, a fleet that serves the rate Λ needs at least
``Λ · Σ rate · E[min over routes of the price at L]`` of what its capacities are worth. This is linear in instances,
link rates and Λ, holds for every routing and every number of instances, and the mean is exact. At the shadow prices
of a plan it is the bound the plan is measured against (Lagrangian duality; Benders' cuts where integers vary).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from prfaas_plan.fleet.bins import Offer, Stretch, cheapest, mean_price
from prfaas_plan.fleet.case import FleetCase, Route
from prfaas_plan.fleet.variables import Model
from prfaas_plan.numerics import Curve
from prfaas_plan.solver import Options, Program, Row, Solution, Variable, solve

__all__ = ["Bound", "Cut", "Prices", "best_possible", "cut_from", "prices_of", "routes_by_length"]

CARRIED = "usd_per_hour_carried"
_NOTHING = 1e-13


@dataclass(frozen=True, slots=True)
class Prices:
    """What one unit of each need is worth, by kind, state and station, wire or traffic."""

    by_need: Mapping[tuple[str, int, int], float]
    money: float = 0.0
    """Worth of one USD/h: the objective's own, plus the budget's."""
    rows: Mapping[str, float] = field(default_factory=dict)
    """The same by row."""

    def of(self, kind: str, state: int, index: int) -> float:
        """Give the price of one need; nothing where it does not bind."""
        return self.by_need.get((kind, state, index), 0.0)


@dataclass(frozen=True, slots=True)
class Cut:
    """A row on instances, link rates and Λ that every plan satisfies: Σ coefficient · variable <= right."""

    terms: Mapping[str, float]
    right: float


@dataclass(frozen=True, slots=True)
class Bound:
    """The best value that no plan exceeds, and where the rows would allow it."""

    value: float
    values: Mapping[str, float]


def prices_of(model: Model, solution: Solution) -> Prices:
    """Read the prices of needs from the shadow prices of a solved programme without integers."""
    sign = 1.0 if model.program.maximise else -1.0
    found: dict[tuple[str, int, int], float] = {}
    rows = {name: max(0.0, sign * solution.duals.get(name, 0.0)) for name in model.needs}
    for name, subject in model.needs.items():
        found[subject] = found.get(subject, 0.0) + rows[name]
    money = found.pop(("money", 0, 0), 0.0)
    spends = not model.program.maximise and model.case.objective == "cost"
    return Prices(found, money + (1.0 if spends else 0.0), rows)


def offers_at(case: FleetCase, prices: Prices, state: int, traffic: int) -> tuple[list[Offer], list[Route]]:
    """List what every route asks for a request by its length, at given prices."""
    kind = case.traffic[traffic]
    offers, routes = [], []
    for route in case.routes:
        longest = case.longest(kind, route, in_time=False)
        if longest <= 0.0 or (route.wire is not None and route.wire == case.states[state].lost_wire):
            continue
        price = _price(case, prices, state, traffic, route)
        in_time = case.longest(kind, route, in_time=True)
        offers.append(Offer(price, in_time))
        routes.append(route)
        if in_time < longest and kind.late_share > 0.0:
            late = Curve.polynomial(prices.of("late", state, traffic))
            offers.append(Offer(price + late, longest))
            routes.append(route)
    return offers, routes


def _price(case: FleetCase, prices: Prices, state: int, traffic: int, route: Route) -> Curve:
    kind = case.traffic[traffic]
    seconds = case.stations[route.station].seconds
    assert seconds is not None  # noqa: S101 (a route starts at a station that prefills)
    decode = min(
        prices.of("decode", state, d) * (kind.decode_seconds[d] or 0.0) for d in case.decoders(kind, route.dock)
    )
    total = seconds.scaled(prices.of("prefill", state, route.station)) + Curve.polynomial(decode)
    if route.wire is not None:
        wire, hours = case.wires[route.wire], case.states[state].hours
        carried = prices.money * wire.usd_per_gbps_carried * hours / case.hours
        total += kind.kv_gbit.scaled(prices.of("wire", state, route.wire) + carried)
    return total


def routes_by_length(
    case: FleetCase, prices: Prices, state: int, traffic: int
) -> tuple[list[Stretch], list[Offer], list[Route]]:
    """Find the cheapest route for every length at given prices: stretches of lengths, offers and their routes."""
    offers, routes = offers_at(case, prices, state, traffic)
    low, high = case.traffic[traffic].law.support
    return cheapest(offers, low - 1.0, high), offers, routes


def cut_from(model: Model, prices: Prices) -> tuple[Cut, list[set[float]]]:
    """Make the row that holds at given prices, and list by traffic the lengths where the cheapest route changes."""
    case = model.case
    worth = 0.0
    changes: list[set[float]] = [set() for _ in case.traffic]
    for h, state in enumerate(case.states):
        for o, traffic in enumerate(case.traffic):
            if state.rates[o] > 0.0:
                stretches, offers, _ = routes_by_length(case, prices, h, o)
                worth += state.rates[o] * mean_price(traffic.law, offers, stretches)
                changes[o] |= {s.high for s in stretches[:-1]}
    return _row(model, prices, worth), changes


def _row(model: Model, prices: Prices, worth: float) -> Cut:
    flows, names = model.flow_variables(), model.sheet.variables
    terms: dict[str, float] = {names[model.rate].name: worth}
    right = 0.0
    spends = not model.program.maximise and model.case.objective == "cost"
    if spends:
        terms[CARRIED] = -1.0
    for name, price in prices.rows.items():
        row = model.sheet.rows[name]
        right += price * row.right
        for v, coefficient in row.terms.items() if price > 0.0 else ():
            if v not in flows:
                terms[names[v].name] = terms.get(names[v].name, 0.0) + price * coefficient
    return Cut(terms, right)


def best_possible(
    model: Model,
    cuts: Iterable[Cut],
    *,
    options: Options | None = None,
    fixed: Mapping[str, float] | None = None,
    relaxed: bool = False,
) -> Bound | None:
    """Solve for instances and link rates alone under the rows gathered so far; ``None`` if they cannot be met.

    Its value bounds every plan: from above where the rate is maximised, from below where something is minimised.
    `fixed` holds whole numbers at given values, `relaxed` lets them be fractions.
    """
    program = _without_flows(model, list(cuts))
    if fixed is not None:
        index = {v.name: i for i, v in enumerate(program.variables)}
        program = program.fixed({index[name]: value for name, value in fixed.items()})
    solution = solve(program.relaxed() if relaxed else program, options)
    if not solution.found:
        return None
    return Bound(solution.objective, {v.name: x for v, x in zip(program.variables, solution.values, strict=True)})


def _without_flows(model: Model, cuts: list[Cut]) -> Program:
    flows, sheet = model.flow_variables(), model.sheet
    kept = [i for i in range(len(sheet.variables)) if i not in flows]
    place = {old: new for new, old in enumerate(kept)}
    variables = [*(sheet.variables[i] for i in kept), Variable(CARRIED, 0.0, math.inf if _meters(model) else 0.0)]
    index = {v.name: i for i, v in enumerate(variables)}
    rows = []
    for row in sheet.rows.values():
        own = {place[v]: c for v, c in row.terms.items() if v in place}
        pays = row.name == "budget_is_kept"
        if own and (pays or len(own) == len(row.terms)):
            rows.append(Row(row.name, own, row.sense, row.right))
    for number, cut in enumerate(cuts):
        size = max((abs(c) for c in cut.terms.values()), default=1.0) or 1.0
        scaled = {index[n]: c / size for n, c in cut.terms.items() if abs(c) > _NOTHING * size}
        rows.append(Row(f"no_routing_does_better({number})", scaled, "<=", cut.right / size))
    objective = {place[v]: c for v, c in model.program.objective.items() if v in place}
    if not model.program.maximise:
        objective[index[CARRIED]] = 1.0
    return Program(tuple(variables), tuple(rows), objective, model.program.maximise)


def _meters(model: Model) -> bool:
    return model.case.objective == "cost" and any(w.usd_per_gb > 0.0 for w in model.case.wires)

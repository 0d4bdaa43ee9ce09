"""Of all routings that serve the same rate, the one that leaves prefill and links the most room.

Where decode (or nothing) binds, many routings are equally good and a solver returns any of them. The plan shows the one
whose busiest prefill pool or link is loaded least, which is also the one that sends each length where it is cheapest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from prfaas_plan.fleet.bound import Prices, cut_from, prices_of
from prfaas_plan.fleet.model import build_model
from prfaas_plan.fleet.search import Outcome, Settings, start
from prfaas_plan.fleet.variables import Model
from prfaas_plan.solver import Options, Program, Row, Solution, Variable, solve

__all__ = ["tidy"]

_ROUNDS = 4
_SLACK = 2e-7
_A_LITTLE = 1e-3


def tidy(outcome: Outcome, settings: Settings) -> Outcome:
    """Route the rate of a plan so that the busiest prefill pool or link of every state is loaded least."""
    maximises = outcome.model.program.maximise
    rate = outcome.values[outcome.model.rate]
    search = start(outcome.model.case, rate, settings, outcome.model)
    names = outcome.model.program.variables
    held = {**outcome.integers, **{names[v].name: outcome.values[v] for v in _rates(outcome)}}
    best = outcome
    for _ in range(_ROUNDS):
        model = search.model()
        program, weights = _program(model, held, rate, None if maximises else outcome.value)
        solution = solve(program, Options(settings.time_limit_s))
        if not solution.found:
            return best
        values = {**dict(enumerate(solution.values[: len(model.program.variables)])), model.rate: rate}
        shown = build_model(model.case, model.bins) if maximises else model
        best = replace(outcome, model=shown, values=values)
        if not search.cut_bins(cut_from(model, _prices(model, solution, weights))[1]):
            break
    return best


def _prices(model: Model, solution: Solution, weights: Mapping[tuple[str, int, int], float]) -> Prices:
    found = prices_of(model, solution)
    money = max(0.0, -solution.duals.get("objective_is_kept", 0.0)) if model.case.objective == "cost" else 0.0
    by_need = dict(found.by_need)
    for need, weight in weights.items():
        by_need[need] = by_need.get(need, 0.0) + weight
    return Prices(by_need, money, found.rows)


def _rates(outcome: Outcome) -> list[int]:
    return [v for w, v in outcome.model.gbps.items() if outcome.model.case.wires[w].bought]


def _program(
    model: Model, held: Mapping[str, float], rate: float, objective: float | None
) -> tuple[Program, dict[tuple[str, int, int], float]]:
    """Hold whole numbers, link rates and the served rate, and minimise the largest load of every state.

    A little of the sum of all loads is added, so that requests of pools that are not the busiest are told apart too.
    Gives the programme, and the weight of each need in that sum.
    """
    variables = _held(model, held, rate * (1.0 - _SLACK))
    flows, loads = model.flow_variables(), dict[int, int]()
    weights: dict[tuple[str, int, int], float] = {}
    costs: dict[int, float] = defaultdict(float)
    rows = []
    for row in model.program.rows:
        subject = model.needs.get(row.name, ("", 0, 0))
        if subject[0] not in ("prefill", "wire") or row.name.startswith("a_pool"):
            rows.append(row)
            continue
        if subject[1] not in loads:
            loads[subject[1]] = len(variables)
            variables.append(Variable(f"load({subject[1]})", 0.0, 1.0))
        need = {v: c for v, c in row.terms.items() if v in flows}
        capacity = row.right - sum(c * variables[v].low for v, c in row.terms.items() if v not in need)
        rows.append(Row(row.name, {**need, loads[subject[1]]: -capacity}, "<=", 0.0))
        weights[subject] = _A_LITTLE / capacity if capacity > 0.0 else 0.0
        for v, c in need.items():
            costs[v] += c * weights[subject]
    if objective is not None and model.program.objective:
        kept = objective + _SLACK * abs(objective) + 1e-9
        rows.append(Row("objective_is_kept", model.program.objective, "<=", kept))
    goal = {**dict.fromkeys(loads.values(), 1.0), **costs}
    return Program(tuple(variables), tuple(rows), goal, maximise=False), weights


def _held(model: Model, held: Mapping[str, float], rate: float) -> list[Variable]:
    variables = list(model.program.variables)
    index = {v.name: i for i, v in enumerate(variables)}
    for name, value in held.items():
        variables[index[name]] = Variable(name, value, value)
    variables[model.rate] = Variable("rate_rps", rate, rate)
    return variables

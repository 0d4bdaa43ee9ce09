"""Of all routings that serve the same rate, the one that leaves prefill and links the most room.

Where decode (or nothing) binds, many routings are equally good and a solver returns any of them. The plan shows the one
whose busiest prefill pool or link is loaded least, which is also the one that sends each length where it is cheapest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from prfaas_plan.fleet_bound import Prices, cut_from, prices_of
from prfaas_plan.fleet_model import build_model
from prfaas_plan.fleet_search import Outcome, Settings, start
from prfaas_plan.fleet_variables import Model
from prfaas_plan.solver import Options, Program, Row, Solution, Variable, solve

__all__ = ["tidy"]

_ROUNDS = 4
_SLACK = 2e-7


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
        program = _program(model, held, rate, None if maximises else outcome.value)
        solution = solve(program, Options(settings.time_limit_s))
        if not solution.found:
            return best
        values = {**dict(enumerate(solution.values[: len(model.program.variables)])), model.rate: rate}
        shown = build_model(model.case, model.bins) if maximises else model
        best = replace(outcome, model=shown, values=values)
        if not search.cut_bins(cut_from(model, _prices(model, solution))[1]):
            break
    return best


def _prices(model: Model, solution: Solution) -> Prices:
    found = prices_of(model, solution)
    money = max(0.0, -solution.duals.get("objective_is_kept", 0.0)) if model.case.objective == "cost" else 0.0
    return Prices(found.by_need, money, found.rows)


def _rates(outcome: Outcome) -> list[int]:
    return [v for w, v in outcome.model.gbps.items() if outcome.model.case.wires[w].bought]


def _program(model: Model, held: Mapping[str, float], rate: float, objective: float | None) -> Program:
    """Hold whole numbers, link rates and the served rate, and minimise the sum over states of the largest load."""
    variables = list(model.program.variables)
    index = {v.name: i for i, v in enumerate(variables)}
    for name, value in held.items():
        variables[index[name]] = Variable(name, value, value)
    served = rate * (1.0 - _SLACK)
    variables[model.rate] = Variable("rate_rps", served, served)
    loads: dict[int, int] = {}
    flows = model.flow_variables()
    rows = []
    for row in model.program.rows:
        kind, state, _ = model.needs.get(row.name, ("", 0, 0))
        if kind not in ("prefill", "wire") or row.name.startswith("a_pool"):
            rows.append(row)
            continue
        if state not in loads:
            loads[state] = len(variables)
            variables.append(Variable(f"load({state})", 0.0, 1.0))
        rows.append(_loaded(row, flows, variables, loads[state]))
    if objective is not None and model.program.objective:
        kept = objective + _SLACK * abs(objective) + 1e-9
        rows.append(Row("objective_is_kept", model.program.objective, "<=", kept))
    return Program(tuple(variables), tuple(rows), dict.fromkeys(loads.values(), 1.0), maximise=False)


def _loaded(row: Row, flows: frozenset[int], variables: list[Variable], load: int) -> Row:
    """Turn ``need <= capacity`` into ``need <= load · capacity``, the capacity being held."""
    need = {v: c for v, c in row.terms.items() if v in flows}
    capacity = row.right - sum(c * variables[v].low for v, c in row.terms.items() if v not in need)
    return Row(row.name, {**need, load: -capacity}, "<=", 0.0)

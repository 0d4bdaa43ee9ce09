"""Solve a fleet: bins cut where the route changes, integers by branch and bound, and a bound that every plan obeys."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import replace

from prfaas_plan.errors import SolverError
from prfaas_plan.fleet_bound import best_possible, cut_from, prices_of
from prfaas_plan.fleet_case import FleetCase
from prfaas_plan.fleet_search import Outcome, Search, Settings, gap_between, start
from prfaas_plan.fleet_variables import Model
from prfaas_plan.solver import Options, Program, Solution, solve

__all__ = ["solve_fleet", "solve_routing"]

_ROUNDS = 8
_MANY_INTEGERS = 60
_MOST_CUTS = 100


def solve_fleet(
    case: FleetCase, target_rps: float | None = None, settings: Settings | None = None, like: Model | None = None
) -> Outcome | None:
    """Find the best plan of a fleet: the largest rate, or the least of the objective that serves a target rate.

    Bins start as those of `like` where it is given. Gives ``None`` where nothing satisfies the rows. The bound holds
    for any routing by length, not only by bins.
    Raises `SolverError` if the solver fails or time runs out before a plan is found.
    """
    search = start(case, target_rps, settings or Settings(), like)
    relaxed = _refine(search, None)
    if relaxed is None:
        return None
    search.tell("relaxation")
    model, solution = relaxed
    if not model.program.integers:
        _keep(search, model, solution)
    else:
        _search_integers(search, model, solution)
        _prove(search)
    if search.best is None:
        return None
    search.best.bound, search.best.rounds, search.best.seen = search.bound, search.rounds, search.seen
    search.best.seconds = time.monotonic() - search.started
    search.tell("done")
    return search.best


def solve_routing(
    case: FleetCase,
    integers: Mapping[str, float],
    target_rps: float | None = None,
    settings: Settings | None = None,
    *,
    like: Model | None = None,
    shift: Mapping[str, float] | None = None,
) -> Outcome | None:
    """Find the best routing for given whole numbers, to within the gap of any routing by length.

    `shift` adds to the right side of rows by name.
    """
    search = start(case, target_rps, settings or Settings(), like)
    search.shift = shift or {}
    found = _refine(search, integers)
    if found is None:
        return None
    outcome = _keep(search, *found)
    bound = best_possible(found[0], search.cuts, fixed=integers)
    outcome.bound = outcome.value if bound is None else bound.value
    outcome.rounds, outcome.seconds = search.rounds, time.monotonic() - search.started
    return outcome


def _with(program: Program, integers: Mapping[str, float] | None) -> Program:
    if integers is None:
        return program.relaxed()
    index = {program.variables[i].name: i for i in program.integers}
    return program.fixed({index[name]: value for name, value in integers.items()})


def _refine(search: Search, integers: Mapping[str, float] | None) -> tuple[Model, Solution] | None:
    """Solve without whole numbers (or with given ones), cutting bins where the cheapest route changes."""
    found = None
    for _ in range(_ROUNDS):
        model = search.model()
        if model.unreachable:
            return None
        solution = solve(_with(model.program, integers), Options(search.left_s))
        if solution.status == "infeasible":
            return None
        if not solution.found:
            raise SolverError(f"the programme of the fleet is {solution.status}")
        search.rounds += 1
        found = (model, solution)
        row, changes = cut_from(model, prices_of(model, solution))
        search.cuts.append(row)
        bound = best_possible(model, [row], fixed=integers, relaxed=integers is None)
        if bound is not None and integers is None:
            search.tighten(bound.value)
        close = bound is not None and gap_between(solution.objective, bound.value) <= search.settings.gap / 4.0
        if close or not search.cut_bins(changes) or search.out_of_time:
            return found
    return found


def _keep(search: Search, model: Model, solution: Solution) -> Outcome:
    values = dict(enumerate(solution.values))
    outcome = Outcome(model, values, solution.objective, search.bound, prices_of(model, solution), 0.0, search.rounds)
    search.keep(outcome)
    return outcome


def _search_integers(search: Search, model: Model, relaxed: Solution) -> None:
    """Look near the relaxed plan first where there are many whole numbers, then everywhere."""
    half = search.settings.gap / 2.0
    if len(model.program.integers) > _MANY_INTEGERS:
        near = solve(_near(model.program, relaxed), Options(search.left_s / 3.0, half))
        _evaluate(search, model, near)
        search.tell("near the relaxation")
        if search.closed():
            return
    everywhere = _solve_or_none(model.program, Options(search.left_s * 0.7, half))
    _evaluate(search, model, everywhere)
    search.tell("branch and bound")


def _solve_or_none(program: Program, options: Options) -> Solution | None:
    try:
        return solve(program, options)
    except SolverError:
        return None


def _evaluate(search: Search, model: Model, solution: Solution | None) -> None:
    if solution is None or not solution.found:
        return
    integers = {model.program.variables[i].name: solution.values[i] for i in model.program.integers}
    found = _refine(search, integers)
    if found is not None:
        _keep(search, *found)


def _near(program: Program, relaxed: Solution) -> Program:
    """Keep whole numbers next to their relaxed values; what is owned may be one more."""
    variables = list(program.variables)
    for i in program.integers:
        v, x = variables[i], relaxed.values[i]
        low, high = math.floor(x + 1e-6), math.ceil(x - 1e-6) + (1 if v.name.startswith("owned") else 0)
        variables[i] = replace(v, low=max(v.low, low), high=min(v.high, high))
    return replace(program, variables=tuple(variables))


def _prove(search: Search) -> None:
    """Close the gap: ask the bounding rows for better whole numbers, and add the row that they lead to."""
    for _ in range(_MOST_CUTS):
        if search.out_of_time or search.closed():
            return
        model = search.model()
        bound = best_possible(model, search.cuts, options=Options(search.left_s, search.settings.gap / 10.0))
        if bound is None:
            return
        search.tighten(bound.value)
        search.tell("bound")
        if search.closed():
            return
        integers = {model.program.variables[i].name: float(round(x)) for i, x in _whole(model, bound.values)}
        found = _refine(search, integers)
        if found is not None:
            _keep(search, *found)
        elif not _refuse(search, integers):
            return


def _whole(model: Model, values: Mapping[str, float]) -> list[tuple[int, float]]:
    return [(i, values[model.program.variables[i].name]) for i in model.program.integers]


def _refuse(search: Search, integers: Mapping[str, float]) -> bool:
    """Add the row that rules out whole numbers which cannot serve the target."""
    if search.maximises:
        return False
    largest = replace(search, target=None, best=None, bound=math.nan)
    before = len(search.cuts)
    return _refine(largest, integers) is not None and len(search.cuts) > before

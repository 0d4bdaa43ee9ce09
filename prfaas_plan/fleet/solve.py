"""Solve a fleet: bins cut where the route changes, integers by branch and bound, and a bound that every plan obeys."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from prfaas_plan.errors import SolverError
from prfaas_plan.fleet.bound import best_possible, cut_from, prices_of
from prfaas_plan.fleet.case import FleetCase
from prfaas_plan.fleet.search import Outcome, Progress, Search, Settings, gap_between, start
from prfaas_plan.fleet.sheet import label
from prfaas_plan.fleet.variables import Model
from prfaas_plan.solver import Options, Program, Solution, solve

__all__ = ["solve_fleet", "solve_routing"]

_ROUNDS = 8
_MANY_INTEGERS = 60
_MOST_CUTS = 100
_LAST_TRIED = 1


def solve_fleet(
    case: FleetCase, target_rps: float | None = None, settings: Settings | None = None, like: Model | None = None
) -> Outcome | None:
    """Find the best plan of a fleet: the largest rate, or the least of the objective that serves a target rate.

    Bins start as those of `like` where it is given. Gives ``None`` where nothing satisfies the rows. The bound holds
    for any routing by length, not only by bins.
    Raises `SolverError` if the solver fails or time runs out before a plan is found.
    """
    if target_rps is None and case.separable and all(sum(s.rates) > 0.0 for s in case.states):
        return _period_by_period(case, settings or Settings())
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


def _period_by_period(case: FleetCase, settings: Settings) -> Outcome | None:
    """Find the largest rate of each period by itself; the smallest of them is what the whole fleet serves.

    Periods are taken from the tightest on, and each needs to reach no more than the smallest rate so far.
    """
    began = time.monotonic()
    quiet = replace(settings, progress=None)
    relaxed = []
    for p in range(case.periods):
        found = _refine(start(case.only_period(p), None, replace(quiet, gap=max(settings.gap, 1e-3))), None)
        if found is None:
            return None
        relaxed.append(found[1].objective)
    enough, bound, rounds, tightest = math.inf, math.inf, 0, None
    integers: dict[str, float] = {}
    tried: list[Outcome] = []
    for p in sorted(range(case.periods), key=relaxed.__getitem__):
        one = case.only_period(p).with_limits(enough_rps=enough)
        left = settings.time_limit_s - (time.monotonic() - began)
        limits = replace(quiet, time_limit_s=max(0.5, left / 2.0 if tightest is None else left))
        outcome = _as_before(one, tried, limits) or solve_fleet(one, None, limits)
        if outcome is None:
            return None
        tried.append(outcome)
        integers |= outcome.integers
        rounds += outcome.rounds
        if outcome.value < enough * (1.0 - settings.gap / 2.0):
            enough, bound, tightest = outcome.value, min(bound, outcome.bound), outcome.model
        if settings.progress is not None:
            settings.progress(Progress(f"period {case.states[p].name}", time.monotonic() - began, enough, bound))
    whole = solve_routing(case, integers, None, replace(quiet, gap=max(settings.gap, 1e-3)), like=tightest)
    if whole is not None:
        whole.bound, whole.rounds, whole.seconds = max(bound, whole.value), rounds, time.monotonic() - began
    return whole


def _as_before(one: FleetCase, tried: Sequence[Outcome], settings: Settings) -> Outcome | None:
    """Keep the roles of one of the last periods that were planned, if they serve enough in this one too."""
    enough = one.limits.enough_rps * (1.0 - settings.gap / 2.0)
    for outcome in reversed(tried[-_LAST_TRIED:]):
        before, now = (label("", c.states[0].name).strip("()") for c in (outcome.model.case, one))
        roles = {name.replace(f"({before},", f"({now},", 1): x for name, x in outcome.integers.items()}
        found = solve_routing(one, roles, None, replace(settings, gap=1e-3))
        if found is not None and found.value >= enough:
            return found
    return None


def _with(program: Program, integers: Mapping[str, float] | None) -> Program:
    if integers is None:
        return program.relaxed()
    index = {program.variables[i].name: i for i in program.integers}
    return program.fixed({index[name]: value for name, value in integers.items() if name in index})


def _refine(search: Search, integers: Mapping[str, float] | None) -> tuple[Model, Solution] | None:
    """Solve without whole numbers (or with given ones), cutting bins where the cheapest route changes."""
    found = None
    for _ in range(_ROUNDS):
        model = search.model()
        if model.unreachable:
            return None
        options = Options(search.left_s, barrier=integers is None)
        solution = solve(_with(model.program, integers), options)
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
        if not search.maximises and model.case.periods > 1:
            _keep_if_any(search, _grown(search, model, relaxed))
            search.tell("period after period")
        else:
            near = _near(model.program, relaxed)
            _evaluate(search, model, _solve_or_none(near, Options(search.left_s / 3.0, half, barrier=True)))
            search.tell("near the relaxation")
        if search.closed():
            return
    everywhere = _solve_or_none(model.program, Options(search.left_s * 0.7, half, barrier=True))
    _evaluate(search, model, everywhere)
    if search.best is None:
        _keep_if_any(search, _rounded(model, relaxed, search.maximises))
    search.tell("branch and bound")


def _solve_or_none(program: Program, options: Options) -> Solution | None:
    try:
        return solve(program, options)
    except SolverError:
        return None


def _evaluate(search: Search, model: Model, solution: Solution | None) -> None:
    if solution is None or not solution.found:
        return
    _keep_if_any(search, {model.program.variables[i].name: solution.values[i] for i in model.program.integers})


def _keep_if_any(search: Search, integers: Mapping[str, float] | None) -> None:
    found = None if integers is None else _refine(search, integers)
    if found is not None:
        _keep(search, *found)


def _grown(search: Search, model: Model, relaxed: Solution) -> dict[str, float] | None:
    """Own the relaxed numbers rounded down, then add period after period what each still needs at the least price.

    Each period is planned for a little more than its rate, since the bins of all periods together are coarser.
    """
    case = model.case
    integers: dict[str, float] = {}
    owned = {c: math.floor(relaxed.values[v] + 1e-6) for c, v in model.owned.items()}
    busiest_first = sorted(range(case.periods), key=lambda p: -sum(case.states[p].rates))
    for done, p in enumerate(busiest_first):
        stations = tuple(replace(s, fewest=max(s.fewest, owned[c])) for c, s in enumerate(case.stations))
        one = replace(case.only_period(p), stations=stations)
        quiet = replace(search.settings, progress=None, gap=max(search.settings.gap, 1e-3))
        quiet = replace(quiet, time_limit_s=max(1.0, search.left_s / (case.periods - done)))
        found = solve_fleet(one, (search.target or 0.0) * (1.0 + quiet.gap / 4.0), quiet, model)
        if found is None:
            return None
        integers |= {n: x for n, x in found.integers.items() if not n.startswith("owned")}
        owned = {c: round(found.values[v]) for c, v in found.model.owned.items()}
    return integers | {
        model.program.variables[v].name: float(owned[c])
        for c, v in model.owned.items()
        if model.program.variables[v].integer
    }


def _rounded(model: Model, relaxed: Solution, down: bool) -> dict[str, float]:
    """Round roles down where the rate is maximised and up where it is given, and own what the roles need."""
    variables = model.program.variables
    whole = {i: _whole_number(relaxed.values[i], down) for i in model.program.integers}
    for c, v in model.owned.items():
        station = model.case.stations[c]
        for p in range(model.case.periods) if station.both and station.most > 0 else ():
            pair = sorted((model.prefill[p, c], model.decode[p, c]), key=lambda i: relaxed.values[i] % 1.0)
            if sum(whole[i] for i in pair) > station.most:
                whole[pair[0]] = _whole_number(relaxed.values[pair[0]], True)
            if v in whole:
                whole[v] = max(whole[v], sum(whole[i] for i in pair))
    return {variables[i].name: float(x) for i, x in whole.items()}


def _whole_number(x: float, down: bool) -> int:
    return math.floor(x + 1e-6) if down else math.ceil(x - 1e-6)


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

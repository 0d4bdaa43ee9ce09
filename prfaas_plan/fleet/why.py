"""Why a fleet cannot serve what it is asked for: the limit in the way, and the smallest change that would help.

Each limit in turn (instances, links, budget, power, time to first token, head room) is made elastic while the others
stay, and the programme is solved again for the least stretch. A limit whose stretch alone is enough is in the way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from prfaas_plan.errors import InfeasibleError, SolverError
from prfaas_plan.fleet.case import FleetCase
from prfaas_plan.fleet.search import Settings, start
from prfaas_plan.fleet.solve import solve_fleet
from prfaas_plan.fleet.variables import Model
from prfaas_plan.solver import Options, Program, Row, Solution, Variable, solve

__all__ = ["why_infeasible"]

_PLENTY = 1e5
_LEAST = 1e-6


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A limit that was made elastic: its name, and the least that would do in words."""

    limit: str
    enough: str


def why_infeasible(case: FleetCase, target_rps: float | None, settings: Settings) -> InfeasibleError:
    """Name the limit in the way of serving a rate (any at all if ``None``), and the smallest relaxation that helps."""
    model = start(case, target_rps, settings).model()
    if model.unreachable:
        return _no_route(model)
    wanted = target_rps if target_rps is not None else 1e-3
    found = [s for family in _FAMILIES if (s := family(case, wanted, settings)) is not None]
    largest = solve_fleet(replace(case, objective="throughput"), None, replace(settings, gap=1e-3))
    most = "" if largest is None or target_rps is None else f" (at most {largest.value:.4g} req/s can be served)"
    what = "nothing can be served" if target_rps is None else f"{target_rps:g} req/s cannot be served{most}"
    if not found:
        return InfeasibleError(f"{what}: no single limit is in the way, several are", "raise them together")
    limits = ", or ".join(s.limit for s in found)
    return InfeasibleError(f"{what}: {limits} in the way", " or ".join(s.enough for s in found) + " would do")


def _no_route(model: Model) -> InfeasibleError:
    case = model.case
    h, o, k = model.unreachable[-1]
    traffic, b = case.traffic[o], model.bins[o][k]
    length = min(b.reach, traffic.law.support[1])
    whose = f"prompts of {length:,.0f} tokens" + (f" from {'+'.join(traffic.origins)}" if any(traffic.origins) else "")
    lost = case.states[h].lost_wire
    open_routes = [
        r for r in case.routes if case.longest(traffic, r, in_time=False) > 0.0 and (r.wire is None or r.wire != lost)
    ]
    fitting = [r for r in open_routes if case.longest(traffic, r, in_time=False) >= length]
    if fitting:
        fastest = min(case.first_token(traffic, r)(length) for r in fitting)
        return InfeasibleError(
            f"a first token for {whose} takes {fastest:.3g} s at best, on however many instances, and the target is "
            f"{traffic.ttft_s:g} s",
            f"a target of {math.ceil(fastest * 1e3) / 1e3:g} s, a lower ttft_percentile, shorter prompts or faster "
            "instances (more GPUs each) would do",
        )
    if open_routes:
        return InfeasibleError(
            f"the KV cache of {whose} fits into no instance that may prefill it", "more kv_memory_gb"
        )
    where = f" in the state '{case.states[h].name}'" if lost is not None else ""
    return InfeasibleError(
        f"no route leads {whose} from a cluster that may prefill to one that may decode{where}",
        "a link, a cluster of role 'pd', or a wider decode_at would do",
    )


def _elastic_instances(case: FleetCase, target: float, settings: Settings) -> _Stretch | None:
    wider = replace(case, stations=tuple(replace(s, most=s.most + _extra(case, target)) for s in case.stations))

    def limits(model: Model) -> dict[int, float]:
        return {v: float(case.stations[c].most) for c, v in model.owned.items()}

    found = _least_stretch(wider, target, settings, limits, whole=True)
    if found is None:
        return None
    more = [f"{round(x)} at {case.stations[c].name}" for c, x in found.items()]
    count = sum(round(x) for x in found.values())
    return _Stretch("the instances are", f"{count} more instance{'s' if count > 1 else ''} ({', '.join(more)})")


def _extra(case: FleetCase, target: float) -> int:
    """Give a number of instances with which any pool could serve everything."""
    need = 1.0
    for traffic in case.traffic:
        decode = [d for d in traffic.decode_seconds if d is not None]
        prefill = [traffic.law.expect(s.seconds) for s in case.stations if s.seconds is not None]
        need += target * (max(decode, default=0.0) + max(prefill, default=0.0))
    return math.ceil(2.0 * need / (1.0 - case.limits.headroom)) + case.limits.spare


def _elastic_links(case: FleetCase, target: float, settings: Settings) -> _Stretch | None:
    wires = [w for w, x in enumerate(case.wires) if math.isfinite(x.most_gbps)]
    if not wires:
        return None
    wider = replace(case, wires=tuple(replace(x, most_gbps=x.most_gbps + _PLENTY) for x in case.wires))

    def limits(model: Model) -> dict[int, float]:
        return {v: case.wires[w].most_gbps for w, v in model.gbps.items()}

    found = _least_stretch(wider, target, settings, limits)
    if found is None:
        return None
    more = [f"{x + case.wires[w].most_gbps:.4g} Gbit/s on {case.wires[w].name}" for w, x in found.items()]
    return _Stretch("the links are", " and ".join(more))


def _elastic_budget(case: FleetCase, target: float, settings: Settings) -> _Stretch | None:
    if case.limits.budget_usd_per_hour is None:
        return None
    free = replace(case.with_limits(budget_usd_per_hour=None), objective="cost")
    found = solve_fleet(free, target, settings)
    if found is None or found.value <= case.limits.budget_usd_per_hour * (1.0 + _LEAST):
        return None
    have, need = case.limits.budget_usd_per_hour, math.ceil(found.value * 100.0) / 100.0
    return _Stretch(f"the budget of {have:g} USD/h is", f"a budget of {need:g} USD/h")


def _elastic_power(case: FleetCase, target: float, settings: Settings) -> _Stretch | None:
    if case.limits.power_cap_w is None:
        return None
    free = replace(case.with_limits(power_cap_w=None), objective="power")
    found = solve_fleet(free, target, settings)
    if found is None or found.value * 1e3 <= case.limits.power_cap_w * (1.0 + _LEAST):
        return None
    return _Stretch(f"the power cap of {case.limits.power_cap_w / 1e3:g} kW is", f"a cap of {found.value:.6g} kW")


def _elastic_first_token(case: FleetCase, target: float, settings: Settings) -> _Stretch | None:
    tightest = min(t.ttft_s for t in case.traffic)
    if math.isinf(tightest):
        return None

    def feasible(factor: float) -> bool:
        slower = replace(case, traffic=tuple(replace(t, ttft_s=t.ttft_s * factor) for t in case.traffic))
        return solve_fleet(slower, target, replace(settings, gap=1e-2)) is not None

    if not feasible(1e6):
        return None
    low, high = 1.0, 2.0
    while not feasible(high):
        low, high = high, high * 2.0
    while high - low > 1e-3 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if feasible(middle) else (middle, high)
    enough = math.ceil(tightest * high * 1e3) / 1e3
    return _Stretch(f"the time to first token of {tightest:g} s is", f"a time to first token of {enough:g} s")


def _elastic_head_room(case: FleetCase, target: float, settings: Settings) -> _Stretch | None:
    limits = case.limits
    if not limits.headroom and not limits.spare:
        return None
    if solve_fleet(case.with_limits(headroom=0.0, spare=0), target, settings) is None:
        return None
    kept = [f"a head room of {limits.headroom:.0%}"] if limits.headroom else []
    kept += [f"{limits.spare} spare in every pool"] if limits.spare else []
    return _Stretch(" and ".join(kept) + " is", "a fleet without it")


_FAMILIES: tuple[Callable[[FleetCase, float, Settings], _Stretch | None], ...] = (
    _elastic_instances,
    _elastic_links,
    _elastic_budget,
    _elastic_power,
    _elastic_first_token,
    _elastic_head_room,
)


def _least_stretch(
    case: FleetCase,
    target: float,
    settings: Settings,
    limits: Callable[[Model], dict[int, float]],
    *,
    whole: bool = False,
) -> dict[int, float] | None:
    """Give the least total stretch beyond limits on variables, by position of the limit; ``None`` if none is enough."""
    model = start(case, target, settings).model()
    if model.unreachable:
        return None
    own = limits(model)
    solution = _solved(_stretched(model.program, own, whole=whole), settings)
    if solution is None:
        return None
    first = len(model.program.variables)
    stretch = dict(enumerate(solution.values[first:]))
    positions = list(model.owned) if whole else list(model.gbps)
    found = {positions[i]: x for i, x in stretch.items() if x > _LEAST}
    return found or None


def _stretched(program: Program, limits: dict[int, float], *, whole: bool) -> Program:
    variables, rows = list(program.variables), list(program.rows)
    first = len(variables)
    for number, (v, limit) in enumerate(limits.items()):
        variables.append(Variable(f"stretch({number})", 0.0, math.inf, whole))
        rows.append(Row(f"limit_is_stretched({number})", {v: 1.0, first + number: -1.0}, "<=", limit))
    return Program(tuple(variables), tuple(rows), {first + i: 1.0 for i in range(len(limits))}, maximise=False)


def _solved(program: Program, settings: Settings) -> Solution | None:
    try:
        solution = solve(program, Options(settings.time_limit_s, 1e-6))
    except SolverError:
        return None
    return solution if solution.found else None

"""What one more of everything is worth: shadow prices at the plan, whole steps planned again, and break-even prices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from prfaas_plan.fleet.case import FleetCase
from prfaas_plan.fleet.record import UNITS_OF, FleetPlan
from prfaas_plan.fleet.search import Outcome, Settings
from prfaas_plan.fleet.solve import solve_fleet, solve_routing
from prfaas_plan.solver import Options, solve

__all__ = ["BreakEven", "Worth", "WorthLine", "worth"]

_STEP = 1e-2
_KINK = 0.05
_NOTHING = 1e-9
_NOISE = 1e-6
_GAP = 1e-4
_TRIED = 4


@dataclass(frozen=True, slots=True)
class WorthLine:
    """What one more unit of something is worth, in units of the objective; a saving where it is minimised."""

    what: str
    unit: str
    shadow: float | None
    """With all whole numbers as they are; ``None`` where it acts only through whole numbers."""
    up: float | None
    """The same for a little more of it, planned again."""
    down: float | None
    """The same for a little less of it, planned again."""
    degenerate: bool
    """Whether a little more and a little less differ, so that the shadow price is one of several."""
    relaxed: float | None = None
    """With all numbers free to be fractions."""
    step: float | None = None
    """With one whole unit more and everything planned again."""

    def to_dict(self) -> dict[str, Any]:
        """Give the line by name."""
        return {
            "what": self.what,
            "unit": self.unit,
            "shadow_price": self.shadow,
            "one_more_little": self.up,
            "one_less_little": self.down,
            "degenerate": self.degenerate,
            "relaxed_price": self.relaxed,
            "whole_step": self.step,
        }


@dataclass(frozen=True, slots=True)
class BreakEven:
    """The price below which an accelerator is worth having in a plan of least cost."""

    cluster: str
    accelerator: str
    instances: int
    price_usd_per_gpu_hour: float
    pays_below_usd_per_gpu_hour: float | None
    """``None`` where the plan cannot do without it at any price. What is not bought was tried with up to four
    instances."""
    pays_below_ratio: float | None
    """The same as a share of the dearest accelerator's price."""

    def to_dict(self) -> dict[str, Any]:
        """Give the price by name."""
        return {
            "cluster": self.cluster,
            "accelerator": self.accelerator,
            "instances": self.instances,
            "price_usd_per_gpu_hour": self.price_usd_per_gpu_hour,
            "pays_below_usd_per_gpu_hour": self.pays_below_usd_per_gpu_hour,
            "pays_below_ratio": self.pays_below_ratio,
        }


@dataclass(frozen=True, slots=True)
class Worth:
    """What limits a plan, and what it would give for more."""

    objective_unit: str
    binding: str
    lines: tuple[WorthLine, ...]
    break_even: tuple[BreakEven, ...]

    def to_dict(self) -> dict[str, Any]:
        """Give everything by name."""
        return {
            "objective_unit": self.objective_unit,
            "binding": self.binding,
            "lines": [line.to_dict() for line in self.lines],
            "break_even": [price.to_dict() for price in self.break_even],
        }


@dataclass(frozen=True, slots=True)
class _Question:
    plan: FleetPlan
    settings: Settings
    base: Outcome
    sign: float

    @property
    def case(self) -> FleetCase:
        return self.base.model.case

    def gain(self, outcome: Outcome | None) -> float | None:
        """Give what is gained against the plan; ``None`` where the change leaves no plan."""
        return None if outcome is None else self.sign * (outcome.value - self.base.value)


def worth(plan: FleetPlan, *, steps: bool = False, settings: Settings | None = None) -> Worth:
    """Price everything that limits a plan; with `steps`, also add one whole unit of each and plan again.

    Shadow prices come from the linear programme with the plan's whole numbers; each is compared with what a
    hundredth more and less of it really gives, and marked where the two differ.
    """
    settings = settings or Settings()
    exact = replace(settings, gap=1e-9, progress=None)
    outcome = plan.outcome
    case = replace(outcome.model.case, objective=plan.objective)
    base = solve_routing(case, outcome.integers, plan.target_rps, exact, like=outcome.model)
    assert base is not None  # noqa: S101 (the plan itself is one)
    question = _Question(plan, exact, base, 1.0 if plan.target_rps is None else -1.0)
    lines = [*_pools(question), *_wires(question), *_totals(question), *_served(question), *_first_token(question)]
    if steps:
        lines = [replace(line, step=_whole_step(question, line, settings)) for line in lines]
    return Worth(UNITS_OF[plan.objective], plan.bottleneck, tuple(lines), _break_even(question, settings))


def _pools(q: _Question) -> list[WorthLine]:
    found = []
    for role, pools in (("prefill", q.base.model.prefill), ("decode", q.base.model.decode)):
        for (p, c), v in sorted(pools.items()):
            if q.base.values[v] <= 0.0:
                continue
            free = q.case.limits.free(role)
            rows = _rows(q, role, {h for h, s in enumerate(q.case.states) if s.period == p}, c)
            when = f" in {q.case.states[p].name}" if q.case.periods > 1 else ""
            name = f"one more instance that {role}s at {q.case.stations[c].name}{when}"
            found.append(_line(q, name, "instance", dict.fromkeys(rows, free), _STEP * q.base.values[v]))
    return found


def _wires(q: _Question) -> list[WorthLine]:
    found = []
    for w, v in sorted(q.base.model.gbps.items()):
        wire, rate = q.case.wires[w], q.base.values[v]
        rows = _rows(q, "wire", set(range(len(q.case.states))), w)
        usable = wire.usable * (1.0 - q.case.limits.headroom)
        if rows and not wire.bought:
            line = _line(q, f"one more Gbit/s on {wire.name}", "Gbit/s", dict.fromkeys(rows, usable), _STEP * rate)
            found.append(line)
    return found


def _rows(q: _Question, kind: str, states: set[int], index: int) -> list[str]:
    needs = q.base.model.needs.items()
    return [n for n, (k, h, i) in needs if k == kind and h in states and i == index and not n.startswith("a_pool")]


def _line(q: _Question, what: str, unit: str, per_unit: Mapping[str, float], step: float) -> WorthLine:
    """Price the rows that one unit widens, and try a little more and a little less of it."""
    shadow = sum(q.base.prices.rows.get(name, 0.0) * wide for name, wide in per_unit.items())
    up = down = 0.0
    if step > 0.0 and any(_is_tight(q, name) for name in per_unit):
        more, less = (_tried(q, per_unit, x) for x in (step, -step))
        up = math.nan if more is None else more / step
        down = math.nan if less is None else -less / step
    noise = _NOISE * abs(q.base.value)
    size = max(abs(up), abs(down), abs(shadow))
    smooth = abs(up - down) <= _KINK * size + noise
    shown_up, shown_down = (None if math.isnan(x) else x if abs(x) > noise else 0.0 for x in (up, down))
    return WorthLine(what, unit, shadow, shown_up, shown_down, not smooth)


def _is_tight(q: _Question, name: str) -> bool:
    """Say whether a row may bind after a small change of its right side."""
    row = q.base.model.sheet.rows[name]
    left = math.fsum(c * q.base.values[v] for v, c in row.terms.items())
    size = math.fsum(abs(c * q.base.values[v]) for v, c in row.terms.items())
    return row.right - left <= 3.0 * _STEP * size + _NOTHING


def _tried(q: _Question, per_unit: Mapping[str, float], step: float) -> float | None:
    shift = {name: wide * step for name, wide in per_unit.items()}
    again = solve_routing(q.case, q.base.integers, q.plan.target_rps, q.settings, like=q.base.model, shift=shift)
    return q.gain(again)


def _totals(q: _Question) -> list[WorthLine]:
    """Price the budget and the power cap, which act through whole numbers: from the programme without them."""
    program = q.base.model.program.relaxed()
    kinds = (("budget_is_kept", "one more USD/h of budget", "USD/h"), ("power_cap_is_kept", "one more kW", "kW"))
    names = {row.name for row in program.rows}
    wanted = [kind for kind in kinds if kind[0] in names]
    if not wanted:
        return []
    relaxed = solve(program, Options(q.settings.time_limit_s))
    return [
        WorthLine(what, unit, None, None, None, False, relaxed=q.sign * relaxed.duals.get(row, 0.0))
        for row, what, unit in wanted
    ]


def _served(q: _Question) -> list[WorthLine]:
    """Price the target: what one request a second less would save, all numbers free to be fractions."""
    target = q.plan.target_rps
    if target is None:
        return []
    program, rate = q.base.model.program.relaxed(), q.base.model.rate
    options = Options(q.settings.time_limit_s)
    less = target * (1.0 - _STEP)
    saved = solve(program, options).objective - solve(program.fixed({rate: less}), options).objective
    price = saved / (target - less)
    return [WorthLine("one request a second less to serve", "req/s", None, None, None, False, relaxed=price)]


def _first_token(q: _Question) -> list[WorthLine]:
    """Plan again with a time to first token that is a tenth tighter and a tenth looser."""
    if all(math.isinf(t.ttft_s) for t in q.case.traffic):
        return []
    gains = []
    for factor in (1.1, 0.9):
        traffic = tuple(replace(t, ttft_s=t.ttft_s * factor) for t in q.case.traffic)
        case = replace(q.case, traffic=traffic)
        gain = q.gain(solve_fleet(case, q.plan.target_rps, replace(q.settings, gap=_GAP)))
        gains.append(0.0 if gain is not None and abs(gain) <= _GAP * abs(q.base.value) else gain)
    looser, tighter = gains
    down = None if tighter is None else -tighter
    what = "time to first token a tenth looser (less: a tenth tighter)"
    return [WorthLine(what, "10 %", None, looser, down, False)]


def _whole_step(q: _Question, line: WorthLine, settings: Settings) -> float | None:
    case = q.case
    if line.unit == "instance":
        c = next(i for i, s in enumerate(case.stations) if f" at {s.name} in " in line.what + " in ")
        station = case.stations[c]
        fewest = station.fewest + (1 if station.fewest == station.most else 0)
        more = replace(station, fewest=fewest, most=station.most + 1)
        case = replace(case, stations=(*case.stations[:c], more, *case.stations[c + 1 :]))
    elif line.unit == "Gbit/s":
        w = next(i for i, x in enumerate(case.wires) if line.what.endswith(f" on {x.name}"))
        wire = case.wires[w]
        wider = replace(wire, least_gbps=wire.least_gbps + 1.0, most_gbps=wire.most_gbps + 1.0)
        case = replace(case, wires=(*case.wires[:w], wider, *case.wires[w + 1 :]))
    elif line.unit == "USD/h":
        case = case.with_limits(budget_usd_per_hour=(case.limits.budget_usd_per_hour or 0.0) + 1.0)
    elif line.unit != "kW":
        return None
    else:
        case = case.with_limits(power_cap_w=(case.limits.power_cap_w or 0.0) + 1e3)
    gain = q.gain(solve_fleet(case, q.plan.target_rps, replace(settings, progress=None), q.base.model))
    return 0.0 if gain is not None and abs(gain) <= settings.gap * abs(q.base.value) else gain


def _break_even(q: _Question, settings: Settings) -> tuple[BreakEven, ...]:
    """Price what was not bought by planning with a few of it, and what was bought by planning without it."""
    if q.plan.objective != "cost":
        return ()
    case, model = q.case, q.base.model
    dearest = max((s.usd_per_hour / s.gpus for s in case.stations), default=0.0)
    found = []
    for c, station in enumerate(case.stations):
        if station.fewest > 0 or station.most == 0:
            continue
        count = round(q.base.values[model.owned[c]])
        below = _enters_below(q, c, settings) if count == 0 else _pays_up_to(q, c, count, settings)
        ratio = None if below is None or dearest <= 0.0 else below / dearest
        price = station.usd_per_hour / station.gpus
        found.append(BreakEven(station.name, station.accelerator, count, price, below, ratio))
    return tuple(found)


def _enters_below(q: _Question, c: int, settings: Settings) -> float | None:
    """Give the price per GPU-hour below which one to four instances of a station lower the cost of the fleet."""
    station = q.case.stations[c]
    prices = []
    for count in range(1, min(station.most, _TRIED) + 1):
        held = replace(station, fewest=count, most=count)
        case = replace(q.case, stations=(*q.case.stations[:c], held, *q.case.stations[c + 1 :]))
        again = solve_fleet(case, q.plan.target_rps, replace(settings, progress=None))
        if again is not None:
            prices.append((station.usd_per_hour - (again.value - q.base.value) / count) / station.gpus)
    return max(prices, default=None)


def _pays_up_to(q: _Question, c: int, count: int, settings: Settings) -> float | None:
    station = q.case.stations[c]
    without = replace(station, fewest=0, most=0)
    case = replace(q.case, stations=(*q.case.stations[:c], without, *q.case.stations[c + 1 :]))
    again = solve_fleet(case, q.plan.target_rps, replace(settings, progress=None))
    if again is None:
        return None
    return (station.usd_per_hour + (again.value - q.base.value) / count) / station.gpus

"""Make the plan of a fleet from a solved programme: everything computed again from whole numbers and shares."""

from __future__ import annotations

import math
from collections.abc import Sequence

from prfaas_plan.explanation import Line
from prfaas_plan.fleet.case import FleetCase
from prfaas_plan.fleet.evaluate import Evaluation, evaluate, first_token_time, role_changes
from prfaas_plan.fleet.loaded import loaded_first_token
from prfaas_plan.fleet.record import FleetAlternative, FleetPlan, PeriodPlan, Purchase
from prfaas_plan.fleet.routes import offload, site_routing
from prfaas_plan.fleet.search import Outcome
from prfaas_plan.plan_parts import LinkUse, PoolUse

__all__ = ["build_fleet_plan"]

_BINDS = 1.0 - 1e-3


def build_fleet_plan(outcome: Outcome, target_rps: float | None, objective: str, *, priced: bool) -> FleetPlan:
    """Turn a solved fleet into a plan; every rate is computed again from the whole numbers and the shares."""
    case = outcome.model.case
    evaluation = evaluate(outcome, at_rate=target_rps)
    rate = evaluation.largest_rate if target_rps is None else target_rps
    states = [_period(evaluation, outcome, h, rate) for h, _ in enumerate(case.states)]
    failures = tuple(p for p, s in zip(states, case.states, strict=True) if s.lost_wire is not None)
    periods = tuple(p for p, s in zip(states, case.states, strict=True) if s.lost_wire is None)
    busiest = max(range(len(periods)), key=lambda h: periods[h].rate_rps)
    crossing = offload(evaluation, busiest)
    value = evaluation.largest_rate if target_rps is None else _spent(outcome, evaluation, objective)
    return FleetPlan(
        scenario=case.name,
        objective=objective,
        objective_value=value,
        bound=outcome.bound,
        gap_fraction=abs(outcome.bound - value) / max(abs(value), 1e-12),
        lambda_max_rps=evaluation.largest_rate,
        target_rps=target_rps,
        threshold_tokens=crossing.threshold,
        offloaded_fraction=crossing.share,
        mean_long_tokens=crossing.mean_long,
        mean_short_tokens=crossing.mean_short,
        periods=periods,
        failures=failures,
        purchases=_purchases(outcome, priced=priced),
        routing=site_routing(evaluation),
        role_changes=role_changes(outcome) if case.periods > 1 else 0,
        ttft_s=periods[busiest].ttft_s,
        loaded_ttft_s=loaded_first_token(evaluation, busiest, rate) if any(t.loaded for t in case.traffic) else None,
        tpot_s=_step_seconds(evaluation),
        bottleneck=_bottleneck(outcome, evaluation),
        mean_input_tokens=_mean(case, busiest, [t.law.mean for t in case.traffic]),
        output_tokens=_mean(case, busiest, [t.output_tokens for t in case.traffic]),
        cost_usd_per_hour=evaluation.usd_per_hour if priced else None,
        power_w=evaluation.watts or None,
        alternatives=_alternatives(outcome),
        explain=_explain(evaluation, outcome, rate),
        notes=(*case.notes, *_notes(case)),
        outcome=outcome,
    )


def _mean(case: FleetCase, state: int, values: Sequence[float]) -> float:
    rates = case.states[state].rates
    return sum(r * v for r, v in zip(rates, values, strict=True)) / sum(rates)


def _spent(outcome: Outcome, evaluation: Evaluation, objective: str) -> float:
    if objective == "cost":
        return evaluation.usd_per_hour
    if objective == "power":
        return evaluation.watts / 1e3
    if objective == "gpus":
        stations = evaluation.case.stations
        return float(sum(s.gpus * round(outcome.values[outcome.model.owned[c]]) for c, s in enumerate(stations)))
    return outcome.value


def _period(evaluation: Evaluation, outcome: Outcome, h: int, rate: float) -> PeriodPlan:
    state = evaluation.case.states[h]
    crossing = offload(evaluation, h)
    return PeriodPlan(
        name=state.name,
        hours=state.hours,
        rate_rps=rate * sum(state.rates),
        offloaded_fraction=crossing.share,
        threshold_tokens=crossing.threshold,
        pools=tuple(_pools(evaluation, h, rate)),
        links=tuple(_links(outcome, evaluation, h, rate)),
        ttft_s=first_token_time(evaluation, h),
    )


def _pools(evaluation: Evaluation, h: int, rate: float) -> list[PoolUse]:
    case = evaluation.case
    found = []
    for (role, state, c), instances in sorted(evaluation.capacity.items(), key=lambda item: item[0][2]):
        if role == "wire" or state != h or instances <= 0.0:
            continue
        station = case.stations[c]
        load = evaluation.load((role, h, c), rate)
        served = rate * evaluation.served((role, h, c))
        capacity = served / load if load > 0.0 else _idle_capacity(case, role, h, c) * instances
        found.append(PoolUse(station.name, role, station.accelerator, round(instances), station.gpus, capacity, load))
    return found


def _idle_capacity(case: FleetCase, role: str, h: int, c: int) -> float:
    """Give the requests an instance of a pool that is not used could serve of the period's mix [req/s]."""
    seconds = case.stations[c].seconds
    need = 0.0
    for traffic, rate in zip(case.traffic, case.states[h].rates, strict=True):
        own = traffic.law.expect(seconds) if role == "prefill" and seconds is not None else traffic.decode_seconds[c]
        need += rate * (own or 0.0)
    return sum(case.states[h].rates) / need if need > 0.0 else math.inf


def _links(outcome: Outcome, evaluation: Evaluation, h: int, rate: float) -> list[LinkUse]:
    case, model = evaluation.case, outcome.model
    found = []
    for w, wire in enumerate(case.wires):
        if w == case.states[h].lost_wire:
            continue
        nominal = outcome.values[model.gbps[w]] if w in model.gbps else math.inf
        used = rate * evaluation.needs.get(("wire", h, w), 0.0)
        found.append(LinkUse(wire.origin, wire.destination, nominal, nominal * wire.usable, used))
    return found


def _purchases(outcome: Outcome, *, priced: bool) -> tuple[Purchase, ...]:
    found = []
    for c, station in enumerate(outcome.model.case.stations):
        count = round(outcome.values[outcome.model.owned[c]])
        usd = count * station.usd_per_hour if priced else None
        found.append(Purchase(station.name, station.place, station.accelerator, count, station.gpus, usd))
    return tuple(found)


def _step_seconds(evaluation: Evaluation) -> float:
    """Give the longest decode step of any station that decodes [s]."""
    steps = [0.0]
    for part in evaluation.parts:
        own = evaluation.case.traffic[part.traffic].step_seconds
        steps.append((own[part.decoder] or 0.0) if own else 0.0)
    return max(steps)


def _bottleneck(outcome: Outcome, evaluation: Evaluation) -> str:
    """Name what is used up at the largest rate, in words."""
    case = evaluation.case
    names: list[str] = []
    for (role, h, index), need in evaluation.needs.items():
        key = (role, h, index)
        capacity = evaluation.capacity[key] - (case.limits.spare if role != "wire" else 0)
        most = capacity * case.limits.free(role)
        if need > 0.0 and evaluation.largest_rate * need >= most * _BINDS:
            who = f"link {case.wires[index].name}" if role == "wire" else f"{role} at {case.stations[index].name}"
            names.append(who + _when(case, h))
    return " and ".join([*names, *_limits(outcome)])


def _when(case: FleetCase, h: int) -> str:
    """Name the period, and the link that is lost, in words; nothing where there is only one of them."""
    name = case.states[h].name.strip()
    joint = " " if name.startswith("without ") else " in "
    return joint + name if name and len(case.states) > 1 else ""


def _limits(outcome: Outcome) -> list[str]:
    program, values = outcome.model.program, outcome.values
    words = {"budget_is_kept": "the budget", "power_cap_is_kept": "the power cap"}
    found = []
    for row in program.rows:
        if row.name in words and program.maximise:
            used = sum(c * values[v] for v, c in row.terms.items())
            cheapest = min((c for v, c in row.terms.items() if v in outcome.model.owned.values()), default=0.0)
            if used + cheapest > row.right:
                found.append(words[row.name])
    return found


def _alternatives(outcome: Outcome) -> tuple[FleetAlternative, ...]:
    best = tuple(sorted(outcome.integers.items()))
    seen = {names: value for names, value in outcome.seen.items() if names != best and value > 0.0}
    order = sorted(seen, key=seen.__getitem__, reverse=outcome.model.program.maximise)
    return tuple(FleetAlternative(tuple((n, round(x)) for n, x in names), seen[names]) for names in order[:3])


def _explain(evaluation: Evaluation, outcome: Outcome, rate: float) -> tuple[Line, ...]:
    case = evaluation.case
    lines = [
        Line("Λ", rate, "req/s", "min over pools, links and periods of capacity / need per request", "recomputed"),
        Line("bound", outcome.bound, "", "no routing by length and no whole numbers do better", "shadow prices"),
    ]
    for (role, h, index), need in sorted(evaluation.needs.items()):
        unit, what = (
            ("Gbit", "E[S_kv]") if role == "wire" else ("s", "E[T_prefill]" if role == "prefill" else "L_out·T/BS")
        )
        name = case.wires[index].name if role == "wire" else case.stations[index].name
        when = f", {case.states[h].name}" if len(case.states) > 1 else ""
        lines.append(
            Line(f"{role} {name}{when}", need, unit, f"{what} of its requests, per request of all", "routed shares")
        )
    return tuple(lines)


def _notes(case: FleetCase) -> list[str]:
    found = ["Time to first token is prefill and transfer on idle machines, half a round trip included; no queueing."]
    if any(t.loaded for t in case.traffic):
        room = case.limits.queue_room
        found = [
            f"{room:.0%} of every prefill pool stays free, so that the promise is kept with the wait for an instance."
        ]
    if any(w.bought for w in case.wires):
        found.append("A link whose rate the plan chooses is taken at its largest rate in the time to first token.")
    if any(t.late_share for t in case.traffic):
        found.append(
            "A time to first token for a share of the requests is met by the requests of each origin together."
        )
    return found

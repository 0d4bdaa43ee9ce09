"""The fleet as a linear programme: who prefills and who decodes how many requests of which length, in which period.

The rate of a bin of lengths that takes a route is a variable. Each family of constraints below is one function, and a
row is named after what it says. Capacity in instances, link rates in Gbit/s, money in USD/h.
"""

from __future__ import annotations

from collections import defaultdict

from prfaas_plan.fleet.case import FleetCase
from prfaas_plan.fleet.sheet import label
from prfaas_plan.fleet.variables import Bins, Model, new_model

__all__ = ["FAMILIES", "build_model", "cost_terms", "objective_terms"]


def build_model(case: FleetCase, bins: Bins, target_rps: float | None = None) -> Model:
    """Write down the programme: the largest rate within the limits, or the least of the objective for a target rate."""
    model = new_model(case, bins, target_rps)
    for family in FAMILIES:
        family(model)
    if target_rps is None:
        model.program = model.sheet.program({model.rate: 1.0}, maximise=True)
    else:
        model.program = model.sheet.program(objective_terms(model, case.objective), maximise=False)
    return model


def every_request_is_served(model: Model) -> None:
    """Σ over routes of the rate of a bin = Λ · rate of the traffic in the state · share of the bin."""
    served: dict[tuple[int, int, int], dict[int, float]] = defaultdict(dict)
    for v, flow in model.flows.items():
        served[flow.state, flow.traffic, flow.bin][v] = 1.0
    for h, state in enumerate(model.case.states):
        for o, traffic in enumerate(model.case.traffic):
            for k, b in enumerate(model.bins[o]):
                if state.rates[o] > 0.0:
                    if not served[h, o, k]:
                        model.unreachable.append((h, o, k))
                    terms = {**served[h, o, k], model.rate: -state.rates[o] * b.share}
                    model.sheet.row(label("every_request_is_served", state.name, traffic.name, k), terms, "=", 0.0)


def prefill_within_instances(model: Model) -> None:
    """Σ rate · mean prefill time of the bin <= instances that prefill, less head room and spares."""
    case = model.case
    needs: dict[tuple[int, int], dict[int, float]] = defaultdict(dict)
    for v, flow in model.flows.items():
        c = case.routes[flow.route].station
        seconds = case.stations[c].seconds
        assert seconds is not None  # noqa: S101 (a route starts at a station that prefills)
        needs[flow.state, c][v] = model.mean(flow.traffic, flow.bin, seconds)
    for (h, c), terms in sorted(needs.items()):
        _within(model, "prefill", h, c, terms)


def decode_within_instances(model: Model) -> None:
    """Σ rate · L_out · T_decode / BS_max <= instances that decode, less head room and spares."""
    case = model.case
    needs: dict[tuple[int, int], dict[int, float]] = defaultdict(dict)
    for v, flow in model.flows.items():
        traffic = case.traffic[flow.traffic]
        stations = case.decoders(traffic, case.routes[flow.route].dock)
        if len(stations) == 1:
            needs[flow.state, stations[0]][v] = traffic.decode_seconds[stations[0]] or 0.0
    for v, (h, o, d) in model.decoded.items():
        needs[h, d][v] = case.traffic[o].decode_seconds[d] or 0.0
    for (h, d), terms in sorted(needs.items()):
        _within(model, "decode", h, d, terms)


def _within(model: Model, role: str, h: int, c: int, terms: dict[int, float]) -> None:
    case = model.case
    state = case.states[h]
    pools = model.prefill if role == "prefill" else model.decode
    free = case.limits.free(role)
    pool = pools.get((state.period, c))
    if pool is not None:
        marks = {_in_use(model, role, h, c, terms): free * case.limits.spare} if case.limits.spare else {}
        terms = {**terms, pool: -free, **marks}
    _need(model, label(f"{role}_within_instances", state.name, case.stations[c].name), terms, (role, h, c))


def _need(model: Model, name: str, terms: dict[int, float], subject: tuple[str, int, int]) -> None:
    model.sheet.row(name, terms, "<=", 0.0)
    model.needs[name] = subject


def _in_use(model: Model, role: str, h: int, c: int, need: dict[int, float]) -> int:
    """Mark a pool as in use where it serves anything, and give the index of the mark."""
    case = model.case
    station, key = case.stations[c], (role, case.states[h].period, c)
    names = (case.states[key[1]].name, station.name)
    if key not in model.in_use:
        used = model.in_use[key] = model.sheet.variable(label(f"{role}_in_use", *names), 0, 1, integer=True)
        pool = (model.prefill if role == "prefill" else model.decode)[key[1], c]
        spares = {used: float(case.limits.spare), pool: -1.0}
        model.sheet.row(label(f"spares_stand_by_what_{role}s", *names), spares, "<=", 0.0)
    most = max(0.0, (station.most - case.limits.spare) * case.limits.free(role))
    terms = {**need, model.in_use[key]: -most}
    _need(model, label(f"a_pool_that_{role}s_is_marked", case.states[h].name, station.name), terms, (role, h, c))
    return model.in_use[key]


def decode_receives_what_was_prefilled(model: Model) -> None:
    """At a dock of several stations: Σ rates that arrive = Σ rates that its stations decode."""
    case = model.case
    balance: dict[tuple[int, int, int], dict[int, float]] = defaultdict(dict)
    for v, flow in model.flows.items():
        g = case.routes[flow.route].dock
        if len(case.decoders(case.traffic[flow.traffic], g)) > 1:
            balance[flow.state, flow.traffic, g][v] = 1.0
    dock_of = {d: g for g, dock in enumerate(case.docks) for d in dock.stations}
    for v, (h, o, d) in model.decoded.items():
        balance[h, o, dock_of[d]][v] = -1.0
    for (h, o, g), terms in sorted(balance.items()):
        names = (case.states[h].name, case.traffic[o].name, case.docks[g].place, g)
        model.sheet.row(label("decode_receives_what_was_prefilled", *names), terms, "=", 0.0)


def links_carry_the_caches(model: Model) -> None:
    """Σ rate · mean KV cache of the bin [Gbit] <= usable rate of the wire [Gbit/s], less head room."""
    case = model.case
    needs: dict[tuple[int, int], dict[int, float]] = defaultdict(dict)
    for v, flow in model.flows.items():
        w = case.routes[flow.route].wire
        if w is not None and w in model.gbps:
            needs[flow.state, w][v] = model.mean(flow.traffic, flow.bin, case.traffic[flow.traffic].kv_gbit)
    for (h, w), terms in sorted(needs.items()):
        terms[model.gbps[w]] = -case.wires[w].usable * (1.0 - case.limits.headroom)
        name = label("links_carry_the_caches", case.states[h].name, case.wires[w].name)
        _need(model, name, terms, ("wire", h, w))


def roles_within_instances(model: Model) -> None:
    """Instances that prefill + instances that decode <= instances, in every period."""
    case = model.case
    for c, station in enumerate(case.stations):
        for p in range(case.periods) if station.both else ():
            terms = {model.prefill[p, c]: 1.0, model.decode[p, c]: 1.0, model.owned[c]: -1.0}
            model.sheet.row(label("roles_within_instances", case.states[p].name, station.name), terms, "<=", 0.0)


def capacity_needs_a_port(model: Model) -> None:
    """Keep the rate of a wire at zero unless its port is paid for."""
    for w, port in model.port.items():
        wire = model.case.wires[w]
        if w in model.gbps and model.sheet.variables[port].low < 1.0:
            terms = {model.gbps[w]: 1.0, port: -wire.most_gbps}
            model.sheet.row(label("capacity_needs_a_port", wire.name), terms, "<=", 0.0)


def few_requests_are_late(model: Model) -> None:
    """Σ rates above the time to first token <= the share that may be late · rate of the traffic."""
    late: dict[tuple[int, int], dict[int, float]] = defaultdict(dict)
    for v, flow in model.flows.items():
        if flow.late:
            late[flow.state, flow.traffic][v] = 1.0
    for (h, o), terms in sorted(late.items()):
        state, traffic = model.case.states[h], model.case.traffic[o]
        terms[model.rate] = -state.rates[o] * traffic.late_share
        _need(model, label("few_requests_are_late", state.name, traffic.name), terms, ("late", h, o))


def role_changes_are_counted(model: Model) -> None:
    """Instances that take a role >= instances in the role less those in the period before, around the cycle."""
    case = model.case
    if case.periods < 2 or case.limits.switching_usd <= 0.0 or case.limits.roles_stay:
        return
    for role, pools in (("prefill", model.prefill), ("decode", model.decode)):
        for (p, c), pool in list(pools.items()):
            if case.stations[c].both:
                names = (case.states[p].name, case.stations[c].name)
                taken = model.sheet.variable(label(f"turned_to_{role}", *names))
                model.changes[role, p, c] = taken
                before = pools[(p - 1) % case.periods, c]
                terms = {pool: 1.0, before: -1.0, taken: -1.0}
                model.sheet.row(label("role_changes_are_counted", role, *names), terms, "<=", 0.0)


def budget_is_kept(model: Model) -> None:
    """Cost of instances, links, traffic and role changes <= budget [USD/h]."""
    budget = model.case.limits.budget_usd_per_hour
    if budget is not None:
        model.sheet.row("budget_is_kept", cost_terms(model), "<=", budget)
        model.needs["budget_is_kept"] = ("money", 0, 0)


def power_cap_is_kept(model: Model) -> None:
    """Power of all instances <= the cap [kW]."""
    cap = model.case.limits.power_cap_w
    if cap is not None:
        model.sheet.row("power_cap_is_kept", power_terms(model), "<=", cap / 1e3)


FAMILIES = (
    every_request_is_served,
    prefill_within_instances,
    decode_within_instances,
    decode_receives_what_was_prefilled,
    links_carry_the_caches,
    roles_within_instances,
    capacity_needs_a_port,
    few_requests_are_late,
    role_changes_are_counted,
    budget_is_kept,
    power_cap_is_kept,
)


def cost_terms(model: Model) -> dict[int, float]:
    """Give the cost of the fleet [USD/h] as a sum over variables."""
    case = model.case
    terms = {model.owned[c]: s.usd_per_hour for c, s in enumerate(case.stations)}
    terms |= {v: case.wires[w].usd_per_gbps_hour for w, v in model.gbps.items()}
    terms |= {v: case.wires[w].usd_per_port_hour for w, v in model.port.items()}
    terms |= dict.fromkeys(model.changes.values(), case.limits.switching_usd / case.hours)
    for v, flow in model.flows.items():
        w = case.routes[flow.route].wire
        hours = case.states[flow.state].hours
        if w is not None and case.wires[w].usd_per_gb > 0.0 and hours > 0.0:
            carried = model.mean(flow.traffic, flow.bin, case.traffic[flow.traffic].kv_gbit)
            terms[v] = carried * case.wires[w].usd_per_gbps_carried * hours / case.hours
    return {v: c for v, c in terms.items() if c}


def power_terms(model: Model) -> dict[int, float]:
    """Give the power of the fleet [kW] as a sum over variables."""
    return {model.owned[c]: s.watts / 1e3 for c, s in enumerate(model.case.stations) if s.watts}


def objective_terms(model: Model, objective: str) -> dict[int, float]:
    """Give what is minimised for a target rate: cost [USD/h], power [kW], accelerators or bandwidth [Gbit/s]."""
    if objective == "power":
        return power_terms(model)
    if objective == "gpus":
        return {model.owned[c]: float(s.gpus) for c, s in enumerate(model.case.stations)}
    if objective == "bandwidth":
        return {v: 1.0 for w, v in model.gbps.items() if model.case.wires[w].bought}
    return cost_terms(model)

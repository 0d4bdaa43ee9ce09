"""The unknowns of a fleet: instances by role and period, link rates, and the rate of every bin on every route."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from prfaas_plan.fleet.bins import Bin
from prfaas_plan.fleet.case import FleetCase, State, Traffic
from prfaas_plan.fleet.sheet import Sheet, label
from prfaas_plan.numerics import Curve
from prfaas_plan.solver import Program

__all__ = ["Bins", "Flow", "Model", "new_model"]

Bins = Sequence[Sequence[Bin]]
"""The bins of each kind of traffic."""


@dataclass(frozen=True, slots=True)
class Flow:
    """The variable of the requests of one bin that take one route in one state."""

    state: int
    traffic: int
    bin: int
    route: int
    late: bool


@dataclass(slots=True)
class Model:
    """The programme of a fleet, and which of its variables says what."""

    case: FleetCase
    bins: Bins
    sheet: Sheet = field(default_factory=Sheet)
    rate: int = -1
    """Index of Λ, the rate of the busiest period [req/s]."""
    owned: dict[int, int] = field(default_factory=dict)
    """Instances by station."""
    prefill: dict[tuple[int, int], int] = field(default_factory=dict)
    """Instances that prefill, by period and station."""
    decode: dict[tuple[int, int], int] = field(default_factory=dict)
    """Instances that decode, by period and station."""
    in_use: dict[tuple[str, int, int], int] = field(default_factory=dict)
    """Whether a pool is in use, by role, period and station."""
    gbps: dict[int, int] = field(default_factory=dict)
    """Nominal rate by wire, where it is finite."""
    port: dict[int, int] = field(default_factory=dict)
    """Whether a port is paid for, by wire."""
    changes: dict[tuple[str, int, int], int] = field(default_factory=dict)
    """Instances that take a role at the start of a period, by role, period and station."""
    flows: dict[int, Flow] = field(default_factory=dict)
    decoded: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """Rates of traffic that decode at a station of a dock with several: state, traffic, station."""
    needs: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    """Rows that requests draw on by name: kind, state and station, wire or traffic."""
    unreachable: list[tuple[int, int, int]] = field(default_factory=list)
    """Bins that no route may serve: state, traffic and bin."""
    means: dict[tuple[int, int, Curve], float] = field(default_factory=dict)
    program: Program = field(default_factory=lambda: Program((), (), {}))

    def mean(self, traffic: int, number: int, curve: Curve) -> float:
        """Give the exact mean of a curve over the lengths of one bin."""
        key = (traffic, number, curve)
        if key not in self.means:
            b = self.bins[traffic][number]
            self.means[key] = self.case.traffic[traffic].law.expect(curve, b.low, b.high) / b.share
        return self.means[key]

    def flow_variables(self) -> frozenset[int]:
        """Give the indexes of the variables that are rates of requests."""
        return frozenset(self.flows) | frozenset(self.decoded)


def new_model(case: FleetCase, bins: Bins, target_rps: float | None = None) -> Model:
    """Write down the unknowns; without a target the rate is one of them."""
    model = Model(case, bins)
    target = (0.0, case.limits.enough_rps) if target_rps is None else (target_rps, target_rps)
    model.rate = model.sheet.variable("rate_rps", *target)
    _instances(model)
    _wires(model)
    _flows(model)
    return model


def _instances(model: Model) -> None:
    case, sheet = model.case, model.sheet
    for c, station in enumerate(case.stations):
        choose = station.fewest < station.most
        model.owned[c] = sheet.variable(label("owned", station.name), station.fewest, station.most, integer=choose)
        for p in range(case.periods):
            when = case.states[p].name
            if not station.both:
                (model.prefill if station.prefills else model.decode)[p, c] = model.owned[c]
            elif case.limits.roles_stay and p > 0:
                model.prefill[p, c], model.decode[p, c] = model.prefill[0, c], model.decode[0, c]
            else:
                name = label("prefill", when, station.name)
                model.prefill[p, c] = sheet.variable(name, 0, station.most, integer=True)
                model.decode[p, c] = sheet.variable(label("decode", when, station.name), 0, station.most, integer=True)


def _wires(model: Model) -> None:
    for w, wire in enumerate(model.case.wires):
        if math.isfinite(wire.most_gbps):
            model.gbps[w] = model.sheet.variable(label("gbps", wire.name), wire.least_gbps, wire.most_gbps)
        if wire.usd_per_port_hour > 0.0:
            least = 0.0 if wire.bought and wire.least_gbps == 0.0 else 1.0
            name = label("port", wire.name)
            model.port[w] = model.sheet.variable(name, least, 1.0, integer=least == 0.0)


def _flows(model: Model) -> None:
    """Add a variable for every bin, state and route; limits of length, time and place leave some out."""
    case = model.case
    for o, traffic in enumerate(case.traffic):
        most = traffic.law.support[1]
        limits = [
            (case.longest(traffic, r, in_time=False), case.longest(traffic, r, in_time=True)) for r in case.routes
        ]
        for h, state in enumerate(case.states):
            for r, route in enumerate(case.routes):
                if state.rates[o] <= 0.0 or (route.wire is not None and route.wire == state.lost_wire):
                    continue
                for k, b in enumerate(model.bins[o]):
                    longest = min(b.reach, most)
                    late = longest > limits[r][1]
                    if longest <= limits[r][0] and not (late and traffic.late_share <= 0.0):
                        model.flows[_flow_variable(model, state, traffic, k, r)] = Flow(h, o, k, r, late)
            _decoded(model, h, o)


def _flow_variable(model: Model, state: State, traffic: Traffic, k: int, r: int) -> int:
    case, route = model.case, model.case.routes[r]
    dock = case.docks[route.dock]
    where = case.stations[dock.stations[0]].name if len(dock.stations) == 1 else dock.place
    return model.sheet.variable(label("rps", state.name, traffic.name, k, case.stations[route.station].name, where))


def _decoded(model: Model, h: int, o: int) -> None:
    case = model.case
    traffic, state = case.traffic[o], case.states[h]
    for g, _ in enumerate(case.docks):
        stations = case.decoders(traffic, g)
        for d in stations if len(stations) > 1 else ():
            name = label("decoded_rps", state.name, traffic.name, case.stations[d].name)
            model.decoded[model.sheet.variable(name)] = (h, o, d)

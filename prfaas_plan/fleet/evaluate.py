"""What a fleet really does: shares of every bin by route, and from them and the instances the rates, loads and delays.

Nothing here comes from the solver but the whole numbers, the link rates and the shares; every rate is computed again
with the functions a plan of two clusters uses.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from prfaas_plan.fleet.bins import Bin
from prfaas_plan.fleet.case import FleetCase, Route
from prfaas_plan.fleet.search import Outcome
from prfaas_plan.latency import FirstToken
from prfaas_plan.numerics import Curve, bisect_root
from prfaas_plan.throughput import rate_over_share

__all__ = ["Evaluation", "Part", "evaluate", "first_token_time"]

_LEAST = 1e-9


@dataclass(frozen=True, slots=True)
class Part:
    """The share of one bin's requests that takes one route to one station, in one state."""

    state: int
    traffic: int
    bin: Bin
    route: Route
    decoder: int
    share: float


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The rate a fleet serves, and how much of each pool and wire one request a second in the busiest period takes.

    `needs` is by role (``prefill``, ``decode``: instances; ``wire``: Gbit/s), state and station or wire; `capacity`
    likewise.
    """

    case: FleetCase
    parts: tuple[Part, ...]
    needs: Mapping[tuple[str, int, int], float]
    capacity: Mapping[tuple[str, int, int], float]
    largest_rate: float
    usd_per_hour: float
    watts: float

    def load(self, key: tuple[str, int, int], rate_rps: float) -> float:
        """Give the share of a capacity [1] that is used when the busiest period has a rate [req/s]."""
        capacity = self.capacity.get(key, 0.0)
        return rate_rps * self.needs.get(key, 0.0) / capacity if capacity > 0.0 else 0.0

    def served(self, key: tuple[str, int, int]) -> float:
        """Give the requests [1] at a pool per request of the busiest period."""
        role, state, index = key
        total = 0.0
        for part in self.parts:
            place = {"prefill": part.route.station, "decode": part.decoder, "wire": part.route.wire}[role]
            if part.state == state and place == index:
                total += part.share * part.bin.share * self.case.states[state].rates[part.traffic]
        return total


def evaluate(outcome: Outcome, *, at_rate: float | None = None) -> Evaluation:
    """Compute the largest rate of a solved fleet again from its whole numbers, link rates and routed shares.

    `at_rate` is the rate at which traffic is paid for; the largest rate if absent.
    """
    case = outcome.model.case
    parts = tuple(_parts(outcome))
    needs = _needs(case, parts)
    capacity = _capacity(outcome)
    rates = [
        case.limits.free(key[0]) * _usable(case, key, capacity) / need for key, need in needs.items() if need > 0.0
    ]
    largest = min(rates, default=0.0)
    rate = largest if at_rate is None else at_rate
    usd = _fixed_usd(outcome) + _carried_usd(case, needs, rate)
    watts = sum(s.watts * outcome.values[outcome.model.owned[c]] for c, s in enumerate(case.stations))
    return Evaluation(case, parts, needs, capacity, largest, usd, watts)


def _usable(case: FleetCase, key: tuple[str, int, int], capacity: Mapping[tuple[str, int, int], float]) -> float:
    spare = case.limits.spare if key[0] != "wire" else 0
    return max(0.0, capacity.get(key, 0.0) - spare)


def _parts(outcome: Outcome) -> list[Part]:
    model, case = outcome.model, outcome.model.case
    totals: dict[tuple[int, int, int], float] = defaultdict(float)
    for v, flow in model.flows.items():
        totals[flow.state, flow.traffic, flow.bin] += outcome.values[v]
    decoders = _decoder_shares(outcome)
    found = []
    for v, flow in model.flows.items():
        total = totals[flow.state, flow.traffic, flow.bin]
        share = outcome.values[v] / total if total > 0.0 else 0.0
        if share <= _LEAST:
            continue
        route = case.routes[flow.route]
        for station, part in decoders[flow.state, flow.traffic, route.dock].items():
            b = model.bins[flow.traffic][flow.bin]
            found.append(Part(flow.state, flow.traffic, b, route, station, share * part))
    return found


def _decoder_shares(outcome: Outcome) -> dict[tuple[int, int, int], dict[int, float]]:
    """Give the shares in which the stations of each dock decode a kind of traffic."""
    model, case = outcome.model, outcome.model.case
    shares: dict[tuple[int, int, int], dict[int, float]] = {}
    for h, _ in enumerate(case.states):
        for o, traffic in enumerate(case.traffic):
            for g, _ in enumerate(case.docks):
                shares[h, o, g] = dict.fromkeys(case.decoders(traffic, g)[:1], 1.0)
    dock_of = {d: g for g, dock in enumerate(case.docks) for d in dock.stations}
    rates: dict[tuple[int, int, int], dict[int, float]] = defaultdict(dict)
    for v, (h, o, d) in model.decoded.items():
        rates[h, o, dock_of[d]][d] = outcome.values[v]
    for key, own in rates.items():
        total = sum(own.values())
        if total > 0.0:
            shares[key] = {d: rate / total for d, rate in own.items() if rate > total * _LEAST}
    return shares


def _needs(case: FleetCase, parts: tuple[Part, ...]) -> dict[tuple[str, int, int], float]:
    needs: dict[tuple[str, int, int], float] = defaultdict(float)
    cache: dict[tuple[int, Bin, Curve], float] = {}

    def need(traffic: int, b: Bin, curve: Curve) -> float:
        key = (traffic, b, curve)
        if key not in cache:
            cache[key] = 1.0 / rate_over_share(1.0, curve, case.traffic[traffic].law, b.low, b.high, at_mean=False)
        return cache[key]

    for part in parts:
        kind = case.traffic[part.traffic]
        weight = part.share * case.states[part.state].rates[part.traffic]
        seconds = case.stations[part.route.station].seconds
        assert seconds is not None  # noqa: S101 (a route starts at a station that prefills)
        needs["prefill", part.state, part.route.station] += weight * need(part.traffic, part.bin, seconds)
        decode = kind.decode_seconds[part.decoder] or 0.0
        needs["decode", part.state, part.decoder] += weight * part.bin.share * decode
        if part.route.wire is not None:
            needs["wire", part.state, part.route.wire] += weight * need(part.traffic, part.bin, kind.kv_gbit)
    return dict(needs)


def _capacity(outcome: Outcome) -> dict[tuple[str, int, int], float]:
    model, case = outcome.model, outcome.model.case
    found: dict[tuple[str, int, int], float] = {}
    for h, state in enumerate(case.states):
        for role, pools in (("prefill", model.prefill), ("decode", model.decode)):
            for (p, c), v in pools.items():
                if p == state.period:
                    found[role, h, c] = float(round(outcome.values[v]))
        for w, wire in enumerate(case.wires):
            rate = outcome.values[model.gbps[w]] if w in model.gbps else math.inf
            found["wire", h, w] = 0.0 if w == state.lost_wire else rate * wire.usable
    return found


def _fixed_usd(outcome: Outcome) -> float:
    """Sum what instances, link rates, ports and role changes cost [USD/h]."""
    model, case = outcome.model, outcome.model.case
    total = sum(s.usd_per_hour * round(outcome.values[model.owned[c]]) for c, s in enumerate(case.stations))
    total += sum(case.wires[w].usd_per_gbps_hour * outcome.values[v] for w, v in model.gbps.items())
    total += sum(case.wires[w].usd_per_port_hour * round(outcome.values[v]) for w, v in model.port.items())
    return total + case.limits.switching_usd * role_changes(outcome) / case.hours


def role_changes(outcome: Outcome) -> int:
    """Count the instances that take another role during one cycle of the periods."""
    model, case = outcome.model, outcome.model.case
    count = 0
    for pools in (model.prefill, model.decode):
        for (p, c), v in pools.items():
            before = outcome.values[pools[(p - 1) % case.periods, c]]
            count += max(0, round(outcome.values[v]) - round(before)) if case.stations[c].both else 0
    return count


def _carried_usd(case: FleetCase, needs: Mapping[tuple[str, int, int], float], rate: float) -> float:
    total = 0.0
    for (role, h, w), need in needs.items():
        if role == "wire":
            total += rate * need * case.wires[w].usd_per_gbps_carried * case.states[h].hours / case.hours
    return total


def first_token_time(evaluation: Evaluation, state: int) -> FirstToken | None:
    """Give mean and percentiles of the time to first token [s] in one state on idle machines."""
    case = evaluation.case
    parts = [p for p in evaluation.parts if p.state == state]
    weights = [p.share * case.states[state].rates[p.traffic] for p in parts]
    total = sum(w * p.bin.share for w, p in zip(weights, parts, strict=True))
    if total <= 0.0:
        return None
    curves = [case.first_token(case.traffic[p.traffic], p.route) for p in parts]
    rows = list(zip(parts, weights, curves, strict=True))
    mean = sum(w * case.traffic[p.traffic].law.expect(c, p.bin.low, p.bin.high) for p, w, c in rows) / total

    def quantile(q: float) -> float:
        def missing(seconds: float) -> float:
            return sum(w * _within(case, p, c, seconds) for p, w, c in rows) / total - q

        longest = max(c(min(p.bin.high, case.traffic[p.traffic].law.support[1])) for p, _, c in rows)
        return bisect_root(missing, 0.0, longest if math.isfinite(longest) else 1e9, relative=1e-10)

    return FirstToken(mean, quantile(0.5), quantile(0.9), quantile(0.99))


def _within(case: FleetCase, part: Part, curve: Curve, seconds: float) -> float:
    """Give the share of all requests of a part's bin whose first token takes at most some seconds."""
    law = case.traffic[part.traffic].law
    first, last = law.support
    low, high = max(part.bin.low, first - 1.0), min(part.bin.high, last)
    start = max(low, first)
    if curve(start) > seconds:
        return 0.0
    if math.isinf(high):
        high = max(start, 1.0)
        while curve(high) <= seconds and high < 1e12:
            high *= 2.0
    return law.share(low, curve.inverse(seconds, start, high))

"""Random small fleets against exhaustive enumeration: every split of the instances, routing by a fine linear programme.

The oracle is written on its own, with SciPy and 300 bins, and knows nothing of the planner's rows. The suite takes a
few fleets; PRFAAS_FLEETS=300 takes as many as one likes.
"""

from __future__ import annotations

import itertools
import math
import os
import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import csr_matrix

from prfaas_plan.fleet.case import FleetCase, Limits, State, Station, Traffic, Wire, connect
from prfaas_plan.fleet.evaluate import evaluate
from prfaas_plan.fleet.search import Settings, start
from prfaas_plan.fleet.solve import solve_fleet, solve_routing
from prfaas_plan.fleet.tidy import tidy
from prfaas_plan.laws import Constant, Histogram, LengthLaw, LogNormal
from prfaas_plan.numerics import Curve
from prfaas_plan.solver import solve

FLEETS = int(os.environ.get("PRFAAS_FLEETS", "8"))
MOST_SPLITS = 10**9 if "PRFAAS_FLEETS" in os.environ else 30
LEVELS = sorted({i / 120 for i in range(1, 120)} | {x for i in range(1, 101) for x in (i / 1600, 1 - i / 1600)})
"""Levels of the quantiles that cut the oracle's bins; finer in the tails, to which a narrow link leads."""


def random_law(rng: random.Random) -> LengthLaw:
    kind = rng.random()
    if kind < 0.6:
        return LogNormal(mu=rng.uniform(7.5, 10.0), sigma=rng.uniform(0.4, 1.3), min=128, max=131072)
    if kind < 0.85:
        edges = sorted(rng.sample(range(100, 60000), 5))
        return Histogram(edges=tuple(map(float, edges)), weights=tuple(rng.uniform(0.1, 1) for _ in range(4)))
    return Constant(float(rng.randint(500, 50000)))


def random_fleet(seed: int, *, ranges: bool) -> FleetCase:
    rng = random.Random(seed)
    kinds = rng.randint(1, 3)
    curves = [
        Curve.polynomial(rng.uniform(0.1, 0.6), rng.uniform(3e-5, 2e-4), rng.choice([0.0, rng.uniform(0, 1e-9)]))
        for _ in range(kinds)
    ]
    decode = [rng.uniform(0.4, 2.5) for _ in range(kinds)]
    price = [rng.uniform(5, 40) for _ in range(kinds)]
    places = [f"site{i}" for i in range(rng.randint(1, 4))]
    stations = []
    both = 0
    for c in range(rng.randint(2, 5)):
        role = rng.choice(["prefill", "decode", "pd"]) if both < 2 else rng.choice(["prefill", "decode"])
        role = "pd" if c == 0 else role
        both += role == "pd"
        k = rng.randrange(kinds)
        most = rng.randint(1, 3 if ranges else 6)
        stations.append(
            Station(
                f"c{c}", rng.choice(places), f"acc{k}", 8, role != "decode", role != "prefill",
                0 if ranges else most, most, curves[k] if role != "decode" else None, price[k], 5000.0,
            )
        )  # fmt: skip
    wires = tuple(
        Wire(f"{a}-{b}", a, b, rate, rate, 0.9, 0.03)
        for a, b in itertools.permutations(places, 2)
        if rng.random() < 0.6
        for rate in [rng.choice([0.5, 2.0, 8.0, 40.0])]
    )
    docks, routes = connect(stations, wires)
    traffic = []
    for o in range(rng.randint(1, 2)):
        inside = {p for p in places if rng.random() < 0.7} or set(places)
        allowed = [s.decodes and s.place in inside for s in stations]
        if not any(allowed):
            allowed = [s.decodes for s in stations]
        traffic.append(
            Traffic(
                f"t{o}", (f"t{o}",), random_law(rng), 500.0, Curve.polynomial(rng.uniform(0, 1.5), 1.4e-4),
                tuple(decode[int(s.accelerator[3:])] if ok else None for s, ok in zip(stations, allowed, strict=True)),
                tuple(math.inf if s.prefills else 0.0 for s in stations),
                rng.choice([math.inf, math.inf, rng.uniform(3, 15)]), rng.choice([0.0, 0.1]),
            )
        )  # fmt: skip
    shares = [rng.uniform(0.2, 1.0) for _ in traffic]
    state = State("", 24.0, tuple(s / sum(shares) for s in shares), 0)
    return FleetCase(f"fleet {seed}", tuple(stations), wires, tuple(traffic), docks, routes, (state,), Limits(), "cost")


class Oracle:
    """The largest rate for given instances, by a linear programme over fine bins."""

    def __init__(self, case: FleetCase) -> None:
        self.case = case
        n = len(case.stations)
        self.prefill: list[list[tuple[int, float]]] = [[] for _ in range(n)]
        self.decode: list[list[tuple[int, float]]] = [[] for _ in range(n)]
        self.wire: list[list[tuple[int, float]]] = [[] for _ in case.wires]
        self.late: list[list[tuple[int, float]]] = [[] for _ in case.traffic]
        self.served: list[tuple[list[int], float]] = []
        self.count = 1
        for o, t in enumerate(case.traffic):
            cuts = {t.law.quantile(level) for level in LEVELS} | self._limits(t)
            for low, high in itertools.pairwise([-math.inf, *sorted(cuts), math.inf]):
                if t.law.share(low, high) > 1e-6:
                    self._add(o, t, low, high)
            self.late[o].append((0, -t.late_share * case.states[0].rates[o]))
        rows = [*self.prefill, *self.decode, *self.wire, *self.late]
        self.a_ub = np.zeros((len(rows), self.count))
        for i, row in enumerate(rows):
            for j, value in row:
                self.a_ub[i, j] = value
        self.a_eq = np.zeros((len(self.served), self.count))
        for i, (mine, weight) in enumerate(self.served):
            self.a_eq[i, mine] = 1.0
            self.a_eq[i, 0] = weight
        self.columns = self.a_ub.shape[1]
        self.a_ub, self.a_eq = csr_matrix(self.a_ub), csr_matrix(self.a_eq)
        self.wires = [w.most_gbps * 0.9 for w in case.wires]

    def _add(self, o: int, t: Traffic, low: float, high: float) -> None:
        share, mine = t.law.share(low, high), []
        for p, d, w in self._ways(t):
            seconds = self.case.stations[p].seconds
            assert seconds is not None
            x = min(high, t.law.support[1])
            first = seconds(x)
            if w is not None:
                first += t.kv_gbit(x) / (self.case.wires[w].most_gbps * 0.9) + 0.015
            if first > t.ttft_s * (1 + 1e-9):
                if not t.late_share:
                    continue
                self.late[o].append((self.count, 1.0))
            self.prefill[p].append((self.count, t.law.expect(seconds, low, high) / share))
            self.decode[d].append((self.count, t.decode_seconds[d] or 0.0))
            if w is not None:
                self.wire[w].append((self.count, t.law.expect(t.kv_gbit, low, high) / share))
            mine.append(self.count)
            self.count += 1
        self.served.append((mine, -share * self.case.states[0].rates[o]))

    def _limits(self, t: Traffic) -> set[float]:
        """Lengths at which a route stops meeting the time to first token, by bisection."""
        found = set()
        low, high = t.law.support
        for p, _, w in self._ways(t):
            seconds = self.case.stations[p].seconds
            assert seconds is not None

            def first(x: float, p: int = p, w: int | None = w, s: Curve = seconds) -> float:
                return s(x) + (t.kv_gbit(x) / (self.case.wires[w].most_gbps * 0.9) + 0.015 if w is not None else 0)

            if first(low) <= t.ttft_s < first(high):
                a, b = low, high
                for _ in range(80):
                    m = 0.5 * (a + b)
                    a, b = (m, b) if first(m) <= t.ttft_s else (a, m)
                found.add(a)
        return found

    def _ways(self, t: Traffic) -> Iterator[tuple[int, int, int | None]]:
        for p, a in enumerate(self.case.stations):
            for d, b in enumerate(self.case.stations):
                if not a.prefills or t.decode_seconds[d] is None:
                    continue
                if a.place == b.place:
                    yield p, d, None
                for w, x in enumerate(self.case.wires):
                    if (x.origin, x.destination) == (a.place, b.place):
                        yield p, d, w

    def rate(self, prefill: tuple[int, ...], decode: tuple[int, ...]) -> float:
        right = [*prefill, *decode, *self.wires, *([0.0] * len(self.case.traffic))]
        cost = np.zeros(self.columns)
        cost[0] = -1.0
        found = linprog(cost, self.a_ub, right, self.a_eq, np.zeros(len(self.served)), method="highs-ds")
        assert found.status == 0
        return float(-found.fun)


def splits(case: FleetCase, owned: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    choices = [range(n + 1) if s.both else [n if s.prefills else 0] for s, n in zip(case.stations, owned, strict=True)]
    for prefill in itertools.product(*choices):
        decode = tuple(n - p if s.decodes else 0 for s, n, p in zip(case.stations, owned, prefill, strict=True))
        yield prefill, decode


def seeds(first: int, *, ranges: bool) -> list[int]:
    """The first fleets that can be enumerated in reasonable time."""
    found: list[int] = []
    for seed in itertools.count(first):
        if len(found) == FLEETS:
            return found
        stations = random_fleet(seed, ranges=ranges).stations
        count = math.prod(s.most + 1 for s in stations if s.both or ranges)
        if count <= MOST_SPLITS:
            found.append(seed)
    return found


def most_rate(case: FleetCase, oracle: Oracle, owned: tuple[int, ...], enough: float = math.inf) -> float:
    best = 0.0
    for prefill, decode in splits(case, owned):
        best = max(best, oracle.rate(prefill, decode))
        if best >= enough:
            break
    return best


@pytest.mark.parametrize("seed", seeds(0, ranges=False))
def test_largest_rate_is_that_of_the_best_enumerated_split(seed: int) -> None:
    case = random_fleet(seed, ranges=False)
    want = most_rate(case, Oracle(case), tuple(s.most for s in case.stations))
    found = solve_fleet(case, None, Settings(gap=2e-5))
    rate = 0.0 if found is None else found.value
    assert rate == pytest.approx(want, rel=1e-4, abs=1e-9)
    if found is not None and want > 1e-9:
        assert found.gap_fraction <= 1e-4
        assert found.bound >= rate * (1 - 1e-7)


@pytest.mark.parametrize("seed", seeds(1000, ranges=True))
def test_least_cost_is_that_of_the_cheapest_enumerated_fleet(seed: int) -> None:
    case = random_fleet(seed, ranges=True)
    oracle = Oracle(case)
    largest = most_rate(case, oracle, tuple(s.most for s in case.stations))
    if largest <= 1e-9:
        assert solve_fleet(case, 1.0) is None
        return
    target = random.Random(seed).uniform(0.3, 0.95) * largest
    owned = list(itertools.product(*(range(s.most + 1) for s in case.stations)))
    costs = {o: sum(n * s.usd_per_hour for n, s in zip(o, case.stations, strict=True)) for o in owned}
    enough = target * (1 - 1e-6)
    want = next(costs[o] for o in sorted(owned, key=costs.__getitem__) if most_rate(case, oracle, o, enough) >= enough)
    found = solve_fleet(case, target, Settings(gap=2e-5))
    assert found is not None
    assert found.value == pytest.approx(want, rel=1e-4)
    assert found.gap_fraction <= 1e-4
    assert solve_fleet(case, largest * 1.01) is None


PROPERTY_SEEDS = range(int(os.environ.get("PRFAAS_FLEETS_PROPERTIES", "6")))


def rate_of(case: FleetCase) -> float:
    found = solve_fleet(case, None, Settings(gap=2e-5))
    return 0.0 if found is None else found.value


@pytest.mark.parametrize("seed", PROPERTY_SEEDS)
def test_more_of_anything_never_lowers_the_rate(seed: int) -> None:
    case = random_fleet(seed, ranges=False)
    rate, rng = rate_of(case), random.Random(seed)
    c = rng.randrange(len(case.stations))
    station = case.stations[c]
    bigger = replace(station, fewest=station.fewest + 1, most=station.most + 1)
    more = replace(case, stations=(*case.stations[:c], bigger, *case.stations[c + 1 :]))
    assert rate_of(more) >= rate * (1 - 1e-4)
    wider = replace(
        case, wires=tuple(replace(w, least_gbps=w.least_gbps * 2, most_gbps=w.most_gbps * 2) for w in case.wires)
    )
    assert rate_of(wider) >= rate * (1 - 1e-4)


@pytest.mark.parametrize("seed", PROPERTY_SEEDS)
def test_twice_the_fleet_serves_at_least_twice_and_its_relaxation_exactly_twice(seed: int) -> None:
    case = random_fleet(seed, ranges=False)
    case = replace(case, traffic=tuple(replace(t, ttft_s=math.inf, late_share=0.0) for t in case.traffic))
    twice = replace(
        case,
        stations=tuple(replace(s, fewest=2 * s.fewest, most=2 * s.most) for s in case.stations),
        wires=tuple(replace(w, least_gbps=2 * w.least_gbps, most_gbps=2 * w.most_gbps) for w in case.wires),
    )
    assert rate_of(twice) >= 2 * rate_of(case) * (1 - 1e-4)
    models = [start(c, None, Settings()).model() for c in (case, twice)]
    if not models[0].unreachable:
        one, two = (solve(m.program.relaxed()).objective for m in models)
        assert two == pytest.approx(2 * one, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("seed", PROPERTY_SEEDS)
def test_the_order_of_sites_links_and_demands_changes_nothing(seed: int) -> None:
    case, rng = random_fleet(seed, ranges=False), random.Random(seed)
    order = rng.sample(range(len(case.stations)), len(case.stations))
    stations = tuple(case.stations[i] for i in order)
    wires = tuple(rng.sample(case.wires, len(case.wires)))
    traffic = tuple(
        replace(
            t,
            decode_seconds=tuple(t.decode_seconds[i] for i in order),
            prefill_longest=tuple(t.prefill_longest[i] for i in order),
        )
        for t in reversed(case.traffic)
    )
    docks, routes = connect(stations, wires)
    state = replace(case.states[0], rates=tuple(reversed(case.states[0].rates)))
    shuffled = FleetCase("shuffled", stations, wires, traffic, docks, routes, (state,), Limits(), "cost")
    assert rate_of(shuffled) == pytest.approx(rate_of(case), rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("seed", PROPERTY_SEEDS)
def test_rates_are_conserved_and_nothing_is_overloaded(seed: int) -> None:
    case = random_fleet(seed, ranges=False)
    found = solve_fleet(case, None, Settings(gap=2e-5))
    if found is None or found.value < 1e-9:
        return
    done = evaluate(tidy(found, Settings()))
    assert done.largest_rate == pytest.approx(found.value, rel=1e-5)
    for o, traffic in enumerate(case.traffic):
        served: dict[float, float] = {}
        for part in (p for p in done.parts if p.traffic == o):
            served[part.bin.low] = served.get(part.bin.low, 0.0) + part.share
            assert traffic.decode_seconds[part.decoder] is not None
        assert all(share == pytest.approx(1.0, abs=1e-7) for share in served.values())
        total = sum(p.bin.share for p in {p.bin.low: p for p in done.parts if p.traffic == o}.values())
        assert total == pytest.approx(1.0, abs=1e-9)
    assert all(done.load(key, done.largest_rate) <= 1 + 1e-9 for key in done.needs)
    owned = [
        sum(done.capacity.get((role, 0, c), 0.0) for role in ("prefill", "decode")) for c in range(len(case.stations))
    ]
    assert all(count <= s.most for count, s in zip(owned, case.stations, strict=True))


def larger(case: FleetCase, key: tuple[str, int], factor: float) -> FleetCase:
    """Make one capacity larger by a factor, by what a request needs of it."""
    kind, index = key
    if kind == "wire":
        wires = tuple(
            replace(w, least_gbps=w.least_gbps * factor, most_gbps=w.most_gbps * factor) if i == index else w
            for i, w in enumerate(case.wires)
        )
        return replace(case, wires=wires)
    if kind == "prefill":
        stations = tuple(
            replace(s, seconds=s.seconds.scaled(1 / factor)) if i == index and s.seconds else s
            for i, s in enumerate(case.stations)
        )
        return replace(case, stations=stations)
    traffic = tuple(
        replace(t, decode_seconds=tuple(x / factor if i == index and x else x for i, x in enumerate(t.decode_seconds)))
        for t in case.traffic
    )
    return replace(case, traffic=traffic)


@pytest.mark.parametrize("seed", range(int(os.environ.get("PRFAAS_FLEETS_DUALS", "5"))))
def test_shadow_prices_are_what_a_little_more_gives(seed: int) -> None:
    case = random_fleet(seed, ranges=False)
    case = replace(case, traffic=tuple(replace(t, ttft_s=math.inf, late_share=0.0) for t in case.traffic))
    found = solve_fleet(case, None, Settings(gap=2e-5))
    if found is None or found.value < 1e-9:
        return
    exact, step = Settings(gap=1e-9, bins=40), 2e-3
    base = solve_routing(case, found.integers, None, exact)
    assert base is not None
    amounts = {("wire", w): x.most_gbps * x.usable for w, x in enumerate(case.wires)}
    for role, pools in (("prefill", found.model.prefill), ("decode", found.model.decode)):
        amounts |= {(role, c): found.values[v] for (_, c), v in pools.items()}
    for key, amount in amounts.items():
        price = base.prices.of(key[0], 0, key[1]) * amount
        up, down = (solve_routing(larger(case, key, 1 + x), found.integers, None, exact) for x in (step, -step))
        assert up is not None
        assert down is not None
        gains = (up.value - base.value) / step, (base.value - down.value) / step
        if abs(gains[0] - gains[1]) <= 0.01 * max(map(abs, gains)) + 1e-6:
            assert price == pytest.approx(sum(gains) / 2, rel=5e-3, abs=1e-4 * base.value)

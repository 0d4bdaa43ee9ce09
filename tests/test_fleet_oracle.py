"""Random small fleets against exhaustive enumeration: every split of the instances, routing by a fine linear programme.

The oracle is written on its own, with SciPy and 160 bins, and knows nothing of the planner's rows. The suite takes a
few fleets; PRFAAS_FLEETS=300 takes as many as one likes.
"""

from __future__ import annotations

import itertools
import math
import os
import random
from collections.abc import Iterator

import numpy as np
import pytest
from scipy.optimize import linprog

from prfaas_plan.fleet_case import FleetCase, Limits, State, Station, Traffic, Wire, connect
from prfaas_plan.fleet_search import Settings
from prfaas_plan.fleet_solve import solve_fleet
from prfaas_plan.laws import Constant, Histogram, LengthLaw, LogNormal
from prfaas_plan.numerics import Curve

FLEETS = int(os.environ.get("PRFAAS_FLEETS", "10"))
MOST_SPLITS = 10**9 if "PRFAAS_FLEETS" in os.environ else 60
FINE_BINS = 120


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
        self.columns: list[tuple[int, int, int, int]] = []
        rows: list[list[tuple[int, float]]] = []
        served: list[tuple[list[int], float]] = []
        n = len(case.stations)
        prefill: list[list[tuple[int, float]]] = [[] for _ in range(n)]
        decode: list[list[tuple[int, float]]] = [[] for _ in range(n)]
        wire: list[list[tuple[int, float]]] = [[] for _ in case.wires]
        late: list[list[tuple[int, float]]] = [[] for _ in case.traffic]
        count = 1
        for o, t in enumerate(case.traffic):
            cuts = {t.law.quantile(i / FINE_BINS) for i in range(1, FINE_BINS)} | self._limits(t)
            for low, high in itertools.pairwise([-math.inf, *sorted(cuts), math.inf]):
                share = t.law.share(low, high)
                if share <= 1e-12:
                    continue
                mine = []
                for p, d, w in self._ways(t):
                    seconds = case.stations[p].seconds
                    assert seconds is not None
                    x = min(high, t.law.support[1])
                    first = seconds(x) + (
                        t.kv_gbit(x) / (case.wires[w].most_gbps * 0.9) + 0.015 if w is not None else 0
                    )
                    if first > t.ttft_s * (1 + 1e-9):
                        if not t.late_share:
                            continue
                        late[o].append((count, 1.0))
                    prefill[p].append((count, t.law.expect(seconds, low, high) / share))
                    decode[d].append((count, t.decode_seconds[d] or 0.0))
                    if w is not None:
                        wire[w].append((count, t.law.expect(t.kv_gbit, low, high) / share))
                    mine.append(count)
                    count += 1
                served.append((mine, -share * case.states[0].rates[o]))
            late[o].append((0, -t.late_share * case.states[0].rates[o]))
        rows = [*prefill, *decode, *wire, *late]
        self.a_ub = np.zeros((len(rows), count))
        for i, row in enumerate(rows):
            for j, value in row:
                self.a_ub[i, j] = value
        self.a_eq = np.zeros((len(served), count))
        for i, (mine, weight) in enumerate(served):
            self.a_eq[i, mine] = 1.0
            self.a_eq[i, 0] = weight
        self.wires = [w.most_gbps * 0.9 for w in case.wires]

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
        cost = np.zeros(self.a_ub.shape[1])
        cost[0] = -1.0
        found = linprog(cost, self.a_ub, right, self.a_eq, np.zeros(len(self.a_eq)), method="highs")
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

"""The cheapest offer by length, and its mean, against a fine grid."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prfaas_plan.fleet.bins import Offer, cheapest, cut, first_edges, mean_price
from prfaas_plan.laws import Constant, Empirical, Histogram, LengthLaw, LogNormal
from prfaas_plan.numerics import Curve

LOGNORMAL = LogNormal(mu=8.0, sigma=1.0, min=100, max=50_000)
GRID = [LOGNORMAL.quantile((i + 0.5) / 8000) for i in range(8000)]
LAWS: list[LengthLaw] = [
    LOGNORMAL,
    LogNormal(mu=8.0, sigma=1.0),
    Histogram(edges=(10, 500, 9000, 40_000), weights=(2, 3, 1)),
    Empirical.of([5, 5, 900, 1200, 30_000]),
    Constant(777.0),
]


def random_offers(seed: int) -> list[Offer]:
    rng = random.Random(seed)
    found = []
    for _ in range(rng.randint(1, 6)):
        curve = Curve.polynomial(rng.uniform(0, 5), rng.uniform(0, 1e-3), rng.choice([0.0, rng.uniform(0, 1e-7)]))
        if rng.random() < 0.4:
            bend = rng.uniform(500, 20_000)
            more = rng.uniform(0, 2e-3)
            curve += Curve(((0.0, 0.0, 0.0), (-more * bend, more, 0.0)), (bend,))
        found.append(Offer(curve, math.inf if rng.random() < 0.7 else rng.uniform(200, 40_000)))
    return [*found, Offer(Curve.polynomial(50.0))]


def lowest(offers: list[Offer], x: float) -> float:
    return min(o.price(x) for o in offers if x <= o.longest)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_cheapest_is_the_lowest_price_at_every_length(seed: int) -> None:
    offers = random_offers(seed)
    stretches = cheapest(offers, 99.0, 50_000.0)
    assert stretches[0].low == 99.0
    assert stretches[-1].high == 50_000.0
    for before, after in itertools.pairwise(stretches):
        assert before.high == after.low
        assert before.offer != after.offer
    for stretch in stretches:
        for part in (0.001, 0.3, 0.7, 0.999):
            x = stretch.low + part * (stretch.high - stretch.low)
            assert stretch.offer is not None
            assert x <= offers[stretch.offer].longest
            assert offers[stretch.offer].price(x) == pytest.approx(lowest(offers, x), rel=1e-9, abs=1e-9)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_mean_price_is_that_of_a_fine_grid(seed: int) -> None:
    offers = random_offers(seed)
    found = mean_price(LOGNORMAL, offers, cheapest(offers, 99.0, 50_000.0))
    grid = sum(lowest(offers, x) for x in GRID) / len(GRID)
    assert found == pytest.approx(grid, rel=5e-3)


def test_lengths_nobody_takes_have_no_price() -> None:
    offers = [Offer(Curve.polynomial(1.0), 1000.0)]
    stretches = cheapest(offers, 99.0, 50_000.0)
    assert [s.offer for s in stretches] == [0, None]
    assert mean_price(LOGNORMAL, offers, stretches) == math.inf


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_bins_hold_every_request_once(law: LengthLaw) -> None:
    bins = cut(law, first_edges(law, 20, [300.0, 1000.0]))
    assert sum(b.share for b in bins) == pytest.approx(1.0, abs=1e-5)
    curve = Curve.polynomial(1.0, 2e-4, 1e-9)
    assert sum(law.expect(curve, b.low, b.high) for b in bins) == pytest.approx(law.expect(curve), rel=1e-9)

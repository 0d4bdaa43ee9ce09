"""Draws of the simulation against the laws they come from."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from prfaas_plan.laws import Constant, Empirical, Histogram, LengthLaw, LogNormal, Mixture
from prfaas_plan.numerics import Curve
from prfaas_plan.simulation.sampling import evaluate, gaps, lengths_at, outputs
from prfaas_plan.simulation.statistics import estimate, student_cdf, student_quantile

LAWS: list[LengthLaw] = [
    Constant(8000.0),
    LogNormal(mu=9.90, sigma=1.00, min=128, max=131072),
    LogNormal(mu=5.0, sigma=0.5),
    LogNormal(mu=5.0, sigma=1.0, min=20_000, max=1e6),
    LogNormal(mu=12.0, sigma=1.0, max=2_000),
    Histogram(edges=(0, 100, 300, 5000), weights=(1, 0, 3)),
    Empirical.of([7, 3, 3, 900]),
    Mixture(weights=(3, 1), laws=(Constant(100.0), LogNormal(mu=7.0, sigma=0.3))),
]


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_lengths_have_the_moments_of_their_law(law: LengthLaw) -> None:
    """Levels in the middle of equal shares integrate the law, but for the last half share of its tail."""
    levels = (np.arange(400_000) + 0.5) / 400_000
    found = lengths_at(law, np.random.default_rng(1).permutation(levels))
    share, first, second = law.moments()
    assert share == pytest.approx(1.0)
    assert float(found.mean()) == pytest.approx(first, rel=2e-5)
    assert float((found**2).mean()) == pytest.approx(second, rel=2e-4)
    assert law.support[0] <= found.min() <= found.max() <= law.support[1]


@given(st.sampled_from([LAWS[1], LAWS[2], LAWS[3], LAWS[4], LAWS[5]]), st.floats(1e-6, 1.0 - 1e-6))
def test_a_length_is_the_inverse_of_the_law(law: LengthLaw, level: float) -> None:
    length = float(lengths_at(law, np.array([level]))[0])
    assert law.share(high=length) == pytest.approx(level, abs=1e-9)


@given(st.floats(0.0, 1.0, exclude_max=True))
def test_an_observed_length_is_its_quantile(level: float) -> None:
    law = Empirical.of([7, 3, 3, 900, 1000])
    length = float(lengths_at(law, np.array([level]))[0])
    assert law.share(high=length) >= level - 1e-12
    assert law.share(high=length - 1) <= level + 1e-12


def test_a_law_that_is_not_known_is_inverted_by_its_quantiles() -> None:
    own = cast("LengthLaw", SimpleNamespace(quantile=lambda q: 1.0 + q))
    assert lengths_at(own, np.array([0.25, 0.5])).tolist() == [1.25, 1.5]


pieces = st.tuples(st.floats(0, 10), st.floats(0, 1), st.floats(0, 1e-3))


@given(st.lists(pieces, min_size=3, max_size=3), st.lists(st.floats(0.0, 1e4), min_size=1, max_size=20))
def test_a_curve_of_many_lengths_is_the_curve_of_each(parts: list[tuple[float, float, float]], xs: list[float]) -> None:
    curve = Curve(tuple(parts), (100.0, 5000.0))
    assert evaluate(curve, np.array([*xs, 100.0])).tolist() == pytest.approx([curve(x) for x in [*xs, 100.0]])


@pytest.mark.parametrize(
    ("kind", "cv"), [("poisson", 1.0), ("gamma", 0.0), ("gamma", 0.5), ("gamma", 2.0), ("hyperexponential", 3.0)]
)
def test_gaps_have_their_mean_and_variation(kind: str, cv: float) -> None:
    drawn = gaps(kind, 0.25, cv, 400_000, np.random.default_rng(3))
    assert float(drawn.mean()) == pytest.approx(0.25, rel=0.02)
    assert float(drawn.std() / drawn.mean()) == pytest.approx(cv, rel=0.02)


def test_hyperexponential_gaps_of_variation_one_are_poisson() -> None:
    drawn = gaps("hyperexponential", 1.0, 1.0, 20_000, np.random.default_rng(5))
    assert stats.kstest(drawn, "expon").pvalue > 0.01


def test_outputs() -> None:
    drawn = outputs("geometric", 100.0, 200_000, np.random.default_rng(4))
    assert drawn.min() >= 1.0
    assert float(drawn.mean()) == pytest.approx(100.0, rel=0.01)
    assert float(drawn.std()) == pytest.approx(math.sqrt(1.0 - 0.01) * 100.0, rel=0.01)
    assert outputs("geometric", 1.0, 3, np.random.default_rng(4)).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 9, 10, 29, 100, 1001])
def test_student(freedom: int) -> None:
    for t in (-30.0, -2.0, 0.0, 0.7, 5.0):
        assert student_cdf(t, freedom) == pytest.approx(stats.t.cdf(t, freedom), abs=1e-10)
    for q in (0.005, 0.3, 0.9, 0.975, 0.9995):
        assert student_quantile(q, freedom) == pytest.approx(stats.t.ppf(q, freedom), rel=1e-6)


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=12), st.sampled_from([0.9, 0.95, 0.99]))
def test_an_interval_is_students(values: list[float], confidence: float) -> None:
    found = estimate(values, confidence)
    error = stats.sem(values)
    assert found.value == pytest.approx(np.mean(values), abs=1e-9)
    if error > 1e-9:
        low, high = stats.t.interval(confidence, len(values) - 1, np.mean(values), error)
        assert (found.low, found.high) == pytest.approx((low, high), rel=1e-6, abs=1e-6)


def test_an_estimate_without_an_interval() -> None:
    assert estimate([3.0]).interval() is None
    assert estimate([1.0, math.inf]).number() is None
    assert estimate([1.0, math.inf]).value == math.inf
    assert math.isnan(estimate([1.0, math.nan]).value)

"""Curves, fits, bisection and small systems against NumPy and SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from prfaas_plan.numerics import Curve, bisect_root, first_integer, fit_polynomial, normal_cdf, solve_linear

COEFFICIENTS = st.tuples(st.floats(0, 10), st.floats(1e-6, 1), st.floats(0, 1e-3))


@given(COEFFICIENTS, st.floats(0, 1e5))
def test_inverse_undoes_a_rising_curve(c: tuple[float, float, float], x: float) -> None:
    curve = Curve.polynomial(*c)
    assert curve.inverse(curve(x), 0.0, 2e5) == pytest.approx(x, rel=1e-6, abs=1e-3)


@given(st.floats(1, 1000), st.floats(0.01, 10), st.floats(0, 3000))
def test_inverse_of_a_curve_with_a_flat_end(window: float, slope: float, y: float) -> None:
    curve = Curve(((0.0, slope, 0.0), (slope * window, 0.0, 0.0)), (window,))
    x = curve.inverse(y, 0.0, 5000.0)
    assert curve(x) <= y * (1 + 1e-12)
    assert x == 5000.0 or curve(min(5000.0, x + 1e-6 * window)) > y or x == pytest.approx(y / slope)


@given(COEFFICIENTS, COEFFICIENTS, st.floats(1, 50), st.floats(60, 99), st.floats(0, 200))
def test_sums_and_multiples_of_curves(
    a: tuple[float, float, float], b: tuple[float, float, float], cut: float, other: float, x: float
) -> None:
    first, second = Curve((a, b), (cut,)), Curve((b, a), (other,))
    assert (first + second)(x) == pytest.approx(first(x) + second(x))
    assert first.scaled(3.0)(x) == pytest.approx(3.0 * first(x))


def test_a_curve_needs_one_piece_more_than_breaks() -> None:
    with pytest.raises(ValueError, match="breaks"):
        Curve(((0.0, 1.0, 0.0),), (5.0,))


@settings(max_examples=50)
@given(st.lists(st.tuples(st.floats(1, 1e5), st.floats(0.1, 100)), min_size=3, max_size=12, unique_by=lambda p: p[0]))
def test_non_negative_fit_is_no_worse_than_scipys(points: list[tuple[float, float]]) -> None:
    xs, ys = np.array([p[0] for p in points]), np.array([p[1] for p in points])
    found = fit_polynomial(xs.tolist(), ys.tolist(), 1)
    scale = xs.max()
    best, residual = optimize.nnls(np.vander(xs / scale, 2, increasing=True), ys)
    own = np.linalg.norm(np.polyval(found[::-1], xs) - ys)
    assert own <= residual * (1 + 1e-6) + 1e-9
    assert all(c >= 0 for c in found)
    assert len(best) == len(found)


def test_weighted_fit_against_numpy() -> None:
    xs, ys = [1.0, 8.0, 32.0, 128.0], [0.44, 0.72, 1.84, 7.4]
    expected = np.polyfit(xs, ys, 2, w=1 / np.array(ys))[::-1]
    assert fit_polynomial(xs, ys, 2, [1 / y**2 for y in ys]) == pytest.approx(expected.tolist())


@given(st.floats(-30, 30))
def test_normal_distribution_in_both_tails(z: float) -> None:
    assert normal_cdf(z) == pytest.approx(stats.norm.cdf(z), rel=1e-12)


@given(st.floats(0.001, 1e6))
def test_bisection_finds_roots(target: float) -> None:
    assert bisect_root(lambda x: x**3 - target, 0.0, 1e3) == pytest.approx(target ** (1 / 3), rel=1e-9)


@given(st.integers(-1000, 1000), st.integers(0, 2000))
def test_first_integer_from_which_it_holds(answer: int, width: int) -> None:
    low, high = answer - width, answer + width
    assert first_integer(lambda n: n >= answer, low, high) == answer


def test_solves_small_systems_and_refuses_singular_ones() -> None:
    matrix = [[0.0, 2.0, 1.0], [1.0, 1.0, 0.0], [3.0, 0.0, 1.0]]
    assert solve_linear(matrix, [7.0, 3.0, 6.0]) == pytest.approx(np.linalg.solve(matrix, [7, 3, 6]).tolist())
    with pytest.raises(ValueError, match="singular"):
        solve_linear([[1.0, 1.0], [1.0, 1.0]], [1.0, 2.0])
    assert math.isfinite(fit_polynomial([5.0], [2.0], 2)[0])

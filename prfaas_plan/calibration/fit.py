"""A law of service time with its uncertainty: non-negative least squares, standard errors, Student intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from prfaas_plan.numerics import bisect_root, fit_polynomial, solve_linear

__all__ = ["INTERVAL", "LawFit", "Term", "fit_law", "student_quantile"]

INTERVAL = 0.80
"""Share of the cases whose true value an interval should contain."""
_EXACT = 1e-9
_NEARLY_NORMAL = 400

Support = Literal["supported", "not supported", "undetermined"]


@dataclass(frozen=True, slots=True)
class Term:
    """One coefficient of a law, with its standard error and 80 % interval where the points determine them."""

    power: int
    value: float
    standard_error: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class LawFit:
    """A polynomial law through measured points and how well it holds."""

    terms: tuple[Term, ...]
    residual_fractions: tuple[float, ...]
    """(measured − law) / law at each point."""
    degrees_of_freedom: int
    rms_residual_fraction: float
    """Root mean square of the relative residuals by the degrees of freedom; 0 where the law meets every point."""
    highest_term: Support
    """Whether the points say that the highest power is there."""

    def __call__(self, x: float) -> float:
        """Evaluate the law."""
        return float(sum(term.value * x**term.power for term in self.terms))


def fit_law(xs: Sequence[float], ys: Sequence[float], degree: int) -> LawFit:
    """Fit ``y = Σ c_k·x^k`` with c_k >= 0 by least squares of relative errors, and give each c_k its 80 % interval.

    Weights are 1/y². Standard errors are the roots of the diagonal of ``s²·(XᵀWX)⁻¹`` over the terms that are
    kept, with s² the weighted residuals by the degrees of freedom; intervals are Student's. With as many terms
    as points there is no estimate of the error. The highest term is supported if its interval in the
    unconstrained fit stays above 0. Raises `ValueError` without points or for values that are not above 0.

    >>> fit = fit_law([1.0, 2.0, 3.0, 4.0], [3.0, 5.0, 7.0, 9.0], 2)
    >>> [round(term.value, 6) for term in fit.terms], fit.highest_term
    ([1.0, 2.0, 0.0], 'not supported')
    """
    if not ys or min(ys) <= 0:
        raise ValueError("a law of service times needs points above 0")
    weights = [1.0 / y**2 for y in ys]
    found = fit_polynomial(xs, ys, degree, weights)
    values = [
        c if any(c * x**k > _EXACT * y for x, y in zip(xs, ys, strict=True)) else 0.0 for k, c in enumerate(found)
    ]
    kept = [power for power, value in enumerate(values) if value > 0.0]
    law = [sum(values[p] * x**p for p in kept) for x in xs]
    freedom = len(xs) - len(kept)
    residuals = [(y - f) / y for y, f in zip(ys, law, strict=True)]
    rms = math.sqrt(sum(r * r for r in residuals) / freedom) if freedom > 0 else 0.0
    errors = standard_errors(xs, weights, kept, rms) if freedom > 0 else {}
    return LawFit(
        terms=tuple(_term(p, value, errors.get(p), freedom) for p, value in enumerate(values)),
        residual_fractions=tuple((y - f) / f for y, f in zip(ys, law, strict=True)),
        degrees_of_freedom=freedom,
        rms_residual_fraction=rms,
        highest_term=_support(xs, ys, degree),
    )


def standard_errors(
    xs: Sequence[float], weights: Sequence[float], powers: Sequence[int], sigma: float
) -> dict[int, float]:
    """Give the standard error of each coefficient: the root of the diagonal of ``sigma²·(XᵀWX)⁻¹``."""
    scale = max(abs(x) for x in xs)
    rows = [[(x / scale) ** p for p in powers] for x in xs]
    normal = [
        [sum(w * row[i] * row[j] for row, w in zip(rows, weights, strict=True)) for j in range(len(powers))]
        for i in range(len(powers))
    ]
    found = {}
    for i, power in enumerate(powers):
        column = solve_linear(normal, [float(i == j) for j in range(len(powers))])
        found[power] = sigma * math.sqrt(max(0.0, column[i])) / scale**power
    return found


def _term(power: int, value: float, error: float | None, freedom: int) -> Term:
    if error is None:
        return Term(power, value)
    reach = student_quantile(0.5 * (1.0 + INTERVAL), freedom) * error
    return Term(power, value, error, max(0.0, value - reach), value + reach)


def _support(xs: Sequence[float], ys: Sequence[float], degree: int) -> Support:
    """Judge the highest power by its Student interval in the fit without constraints."""
    powers = list(range(degree + 1))
    freedom = len(xs) - len(powers)
    if freedom < 1 or len(set(xs)) <= degree:
        return "undetermined"
    scale = max(xs)
    rows = [[(x / scale) ** p / y for p in powers] for x, y in zip(xs, ys, strict=True)]
    normal = [[sum(row[i] * row[j] for row in rows) for j in powers] for i in powers]
    found = solve_linear(normal, [sum(row[i] for row in rows) for i in powers])
    square = sum((1.0 - sum(c * v for c, v in zip(found, row, strict=True))) ** 2 for row in rows)
    sigma = math.sqrt(square / freedom)
    if sigma < _EXACT:
        return "supported" if found[-1] > _EXACT * max(ys) else "not supported"
    column = solve_linear(normal, [float(i == degree) for i in powers])
    reach = student_quantile(0.5 * (1.0 + INTERVAL), freedom) * sigma * math.sqrt(max(0.0, column[degree]))
    return "supported" if found[-1] > reach else "not supported"


def student_quantile(probability: float, freedom: int) -> float:
    """Give the quantile of Student's t distribution for a probability from 0.5 to 0.9999.

    Inverts the finite series of Abramowitz and Stegun 26.7.3 and 26.7.4.

    >>> round(student_quantile(0.9, 1), 4), round(student_quantile(0.9, 10), 4)
    (3.0777, 1.3722)
    """
    freedom = min(freedom, _NEARLY_NORMAL)
    angle = bisect_root(lambda a: 0.5 + 0.5 * _central_share(a, freedom) - probability, 0.0, 0.5 * math.pi)
    return math.tan(angle) * math.sqrt(freedom)


def _central_share(angle: float, freedom: int) -> float:
    """Give the probability of ``|t| < tan(angle)·√freedom``."""
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = 0.0
    for k in range(1 + odd, freedom, 2):
        total += term
        term *= cosine * cosine * k / (k + 1)
    return 2.0 / math.pi * (angle + sine * total) if odd else sine * total

"""Summaries of many lengths, and the laws fitted to them, each with how far it is off."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any

from prfaas_plan.numerics import normal_cdf

__all__ = ["LengthStats", "LogNormalFit", "MixtureFit", "Tally", "fit_lognormal", "fit_mixture"]

KS_BAD = 0.15
"""A Kolmogorov–Smirnov distance above this is a poor fit."""
MEAN_ERROR_BAD = 0.10
"""A fit whose mean is further off than this misleads: link and prefill load are proportional to the mean."""
_GROUPS = 800
_ITERATIONS = 300
_NARROWEST = 1e-3


@dataclass(frozen=True, slots=True)
class LengthStats:
    """Mean, percentiles (by linear interpolation) and longest of some lengths [token]."""

    mean: float
    p50: float
    p90: float
    p99: float
    max: int

    def to_dict(self) -> dict[str, float]:
        """Give the numbers by name."""
        return asdict(self)


class Tally:
    """Distinct values in rising order with their counts: all that statistics of a large sample need.

    >>> Tally([4, 1, 1]).percentile(75.0)
    2.5
    """

    def __init__(self, values: Iterable[int]) -> None:
        pairs = sorted(Counter(values).items())
        self.values = [value for value, _ in pairs]
        self.counts = [count for _, count in pairs]
        self.ends = list(accumulate(self.counts))
        self.size = self.ends[-1] if self.ends else 0

    def percentile(self, percent: float) -> float:
        """Interpolate linearly between the two nearest ranks."""
        place = percent / 100.0 * (self.size - 1)
        rank = min(math.floor(place), self.size - 1)
        low, high = self._at(rank), self._at(min(rank + 1, self.size - 1))
        return low + (high - low) * (place - rank)

    def _at(self, rank: int) -> int:
        return self.values[bisect_right(self.ends, rank)]

    @property
    def mean(self) -> float:
        """Mean of the values."""
        return sum(v * c for v, c in zip(self.values, self.counts, strict=True)) / self.size

    def stats(self) -> LengthStats | None:
        """Summarise; ``None`` if there are no values."""
        if not self.size:
            return None
        p50, p90, p99 = (self.percentile(p) for p in (50.0, 90.0, 99.0))
        return LengthStats(self.mean, p50, p90, p99, self.values[-1])

    def positive(self) -> Tally:
        """Leave out zeros, which have no logarithm."""
        if not self.values or self.values[0] > 0:
            return self
        rest = Tally(())
        keep = [(v, c) for v, c in zip(self.values, self.counts, strict=True) if v > 0]
        rest.values, rest.counts = [v for v, _ in keep], [c for _, c in keep]
        rest.ends = list(accumulate(rest.counts))
        rest.size = rest.ends[-1] if rest.ends else 0
        return rest


@dataclass(frozen=True, slots=True)
class LogNormalFit:
    """A log-normal law fitted by maximum likelihood: mean and population deviation of ln(length)."""

    mu: float
    sigma: float
    ks: float
    """Largest distance between the fitted and the observed distribution function."""
    mean_error_fraction: float
    """Mean of the fitted law over the observed mean, less 1."""

    @property
    def misleads(self) -> bool:
        """Whether the law is too far off to plan with."""
        return self.ks > KS_BAD or abs(self.mean_error_fraction) > MEAN_ERROR_BAD

    def to_dict(self) -> dict[str, Any]:
        """Give the numbers by name."""
        return asdict(self) | {"misleads": self.misleads}


@dataclass(frozen=True, slots=True)
class MixtureFit:
    """Two log-normal laws fitted together by expectation maximisation, the shorter one first."""

    weights: tuple[float, float]
    mu: tuple[float, float]
    sigma: tuple[float, float]
    ks: float
    mean_error_fraction: float

    @property
    def misleads(self) -> bool:
        """Whether the law is too far off to plan with."""
        return self.ks > KS_BAD or abs(self.mean_error_fraction) > MEAN_ERROR_BAD

    def to_dict(self) -> dict[str, Any]:
        """Give the numbers by name."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()} | {
            "misleads": self.misleads
        }


def fit_lognormal(tally: Tally) -> LogNormalFit | None:
    """Fit a log-normal law to the values above 0; ``None`` if they are fewer than two distinct ones.

    >>> fit = fit_lognormal(Tally([100, 1000, 10000]))
    >>> round(fit.mu, 3), round(fit.sigma, 3)
    (6.908, 1.88)
    """
    values = tally.positive()
    if len(values.values) < 2:
        return None
    logs = [math.log(v) for v in values.values]
    mu = math.fsum(x * c for x, c in zip(logs, values.counts, strict=True)) / values.size
    variance = math.fsum((x - mu) ** 2 * c for x, c in zip(logs, values.counts, strict=True)) / values.size
    parts = [(1.0, mu, math.sqrt(variance))]
    return LogNormalFit(mu, math.sqrt(variance), _distance(logs, values, parts), _mean_error(values, parts))


Parts = Sequence[tuple[float, float, float]]


def _distance(logs: Sequence[float], values: Tally, parts: Parts) -> float:
    """Give the Kolmogorov–Smirnov distance between the values and a mixture of (weight, mu, sigma)."""
    worst, below = 0.0, 0.0
    for x, end in zip(logs, values.ends, strict=True):
        fitted = sum(w * normal_cdf((x - mu) / sigma) for w, mu, sigma in parts)
        above = end / values.size
        worst = max(worst, fitted - below, above - fitted)
        below = above
    return worst


def _mean_error(values: Tally, parts: Parts) -> float:
    exponents = [(w, min(mu + 0.5 * sigma * sigma, 700.0)) for w, mu, sigma in parts]
    return sum(w * math.exp(e) for w, e in exponents) / values.mean - 1.0


def fit_mixture(tally: Tally) -> MixtureFit | None:
    """Fit two log-normal laws to the values above 0; ``None`` if there are fewer than four distinct ones.

    Expectation maximisation from three starts on at most 800 groups of neighbouring values, best likelihood kept.

    >>> fit = fit_mixture(Tally([90, 100, 110, 9000, 10000, 11000]))
    >>> [round(weight, 3) for weight in fit.weights]
    [0.5, 0.5]
    """
    values = tally.positive()
    if len(values.values) < 4:
        return None
    logs = [math.log(v) for v in values.values]
    xs, ws = _grouped(logs, values.counts, values.size)
    fits = [_expectation_maximisation(xs, ws, share) for share in (0.2, 0.5, 0.8)]
    _, parts = max(fits, key=lambda fit: fit[0])
    first, second = sorted(parts, key=lambda part: part[1])
    return MixtureFit(
        weights=(first[0], second[0]),
        mu=(first[1], second[1]),
        sigma=(first[2], second[2]),
        ks=_distance(logs, values, parts),
        mean_error_fraction=_mean_error(values, parts),
    )


def _grouped(logs: Sequence[float], counts: Sequence[int], size: int) -> tuple[list[float], list[float]]:
    """Merge neighbouring values into groups of about equal weight, each at its mean."""
    xs: list[float] = []
    ws: list[float] = []
    total = moment = 0.0
    for x, count in zip(logs, counts, strict=True):
        total += count
        moment += x * count
        if total >= size / _GROUPS:
            xs.append(moment / total)
            ws.append(total / size)
            total = moment = 0.0
    if total:
        xs.append(moment / total)
        ws.append(total / size)
    return xs, ws


def _expectation_maximisation(
    xs: Sequence[float], ws: Sequence[float], share: float
) -> tuple[float, list[tuple[float, float, float]]]:
    cut = xs[min(bisect_right(list(accumulate(ws)), share), len(xs) - 1)]
    left = [1.0 if x < cut else 0.0 for x in xs]
    parts = _maximise(xs, ws, left)
    likelihood = -math.inf
    for _ in range(_ITERATIONS):
        (w0, m0, s0), (w1, m1, s1) = parts
        a, b = math.log(w0 / s0), math.log(w1 / s1)
        previous, likelihood = likelihood, 0.0
        for i, x in enumerate(xs):
            p = a - 0.5 * ((x - m0) / s0) ** 2
            q = b - 0.5 * ((x - m1) / s1) ** 2
            top = max(p, q)
            total = math.exp(p - top) + math.exp(q - top)
            left[i] = math.exp(p - top) / total
            likelihood += ws[i] * (top + math.log(total))
        if likelihood - previous < 1e-9:
            break
        parts = _maximise(xs, ws, left)
    return likelihood, parts


def _maximise(xs: Sequence[float], ws: Sequence[float], left: Sequence[float]) -> list[tuple[float, float, float]]:
    parts = []
    for side in (0, 1):
        shares = [w * (p if side == 0 else 1.0 - p) for w, p in zip(ws, left, strict=True)]
        total = max(math.fsum(shares), 1e-12)
        mu = math.fsum(s * x for s, x in zip(shares, xs, strict=True)) / total
        variance = math.fsum(s * (x - mu) ** 2 for s, x in zip(shares, xs, strict=True)) / total
        parts.append((total, mu, max(math.sqrt(variance), _NARROWEST)))
    whole = parts[0][0] + parts[1][0]
    return [(w / whole, mu, sigma) for w, mu, sigma in parts]

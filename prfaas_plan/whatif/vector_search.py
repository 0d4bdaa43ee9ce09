"""The best threshold and split of many cases at once, with NumPy: the search of `routing` over arrays.

The service times and the KV law are those of one deployment; instances, link rates, decode capacity and the
length law may differ from case to case. A case whose answer is not clear beyond rounding is marked as unsure,
for the exact search to decide.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prfaas_plan.laws import LengthLaw, LogNormal
from prfaas_plan.numerics import Curve
from prfaas_plan.routing import threshold_grid

__all__ = ["Batch", "Found", "Needs", "search"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Moments = tuple[Any, Any, Any]

MARGIN = 1e-9
"""Relative difference beyond which one candidate is surely better than another."""
LEAST_SHARE = 1e-6
"""Shares of a class below this lose digits in a difference of tails; such cases are unsure."""
LONGEST_TABLE = 2_000_000

_erfc: Any = np.frompyfunc(math.erfc, 1, 1)


@dataclass(frozen=True, slots=True)
class Batch:
    """Cases of one structure: a value of each for every case."""

    remote_instances: Floats
    link_bytes_per_s: Floats
    local_instances: Ints
    decode_work: Floats
    """Step time times output tokens [s]; the rate of n instances is n · batch / work."""
    decode_batch: Floats
    decode_step: Floats


@dataclass(frozen=True, slots=True)
class Found:
    """The best split and threshold of every case."""

    prefill_instances: Ints
    threshold: Ints
    crossing: NDArray[np.bool_]
    """Whether the threshold is a crossing (it or the length before it is best) rather than a point of the grid."""
    sure: NDArray[np.bool_]


class _LogNormals:
    """Partial moments of log-normal laws, one for each case or one for all."""

    def __init__(self, laws: list[LogNormal], orders: int) -> None:
        self.orders = range(orders)
        self.mu, self.sigma, self.low, self.high = (
            np.array([getattr(law, name) for law in laws]) for name in ("mu", "sigma", "min", "max")
        )
        self.mass = np.array([law._mass for law in laws])
        self.scale = [np.exp(n * self.mu + 0.5 * (n * self.sigma) ** 2) / self.mass for n in self.orders]
        self.ends = self.tails(self.low), self.tails(self.high)

    def tails(self, x: Any) -> list[tuple[Any, Any]]:
        """For each order: the shifted score of x, and the normal tail beyond it on its own side."""
        with np.errstate(divide="ignore"):
            z = (np.log(np.maximum(x, 0.0)) - self.mu) / self.sigma
        scores = [z - n * self.sigma for n in self.orders]
        return [(u, 0.5 * _erfc(np.abs(u) * math.sqrt(0.5)).astype(float)) for u in scores]

    def between(self, low: list[tuple[Any, Any]], high: list[tuple[Any, Any]]) -> Moments:
        """Moments between two points given by their tails; no two close numbers are subtracted across zero."""
        found = []
        for n in self.orders:
            (u, tail_u), (v, tail_v) = low[n], high[n]
            mass = np.where(u > 0.0, tail_u - tail_v, np.where(v < 0.0, tail_v - tail_u, 1.0 - tail_u - tail_v))
            found.append(self.scale[n] * np.maximum(mass, 0.0))
        return (*found, 0.0) if len(found) == 2 else (found[0], found[1], found[2])

    def split(self, t: Any, edges: list[float]) -> tuple[list[Moments], list[Moments]]:
        """Moments below and above t, on each piece between the edges."""
        cuts = [self.ends[0], *(self.tails(np.clip(edge, self.low, self.high)) for edge in edges), self.ends[1]]
        at = self.tails(np.clip(t, self.low, self.high))
        if len(cuts) == 2:
            return [self.between(cuts[0], at)], [self.between(at, cuts[1])]
        below, above = [], []
        for i in range(len(cuts) - 1):
            start, end = cuts[i], cuts[i + 1]
            inner = [self._clipped(at[n], start[n], end[n]) for n in self.orders]
            below.append(self.between(start, inner))
            above.append(self.between(inner, end))
        return below, above

    @staticmethod
    def _clipped(x: tuple[Any, Any], low: tuple[Any, Any], high: tuple[Any, Any]) -> tuple[Any, Any]:
        under, over = x[0] < low[0], x[0] > high[0]
        return tuple(np.where(under, low[i], np.where(over, high[i], x[i])) for i in (0, 1))


class _AnyLaw:
    """Partial moments of one law of any kind, asked length by length."""

    def __init__(self, law: LengthLaw, _orders: int) -> None:
        self.law = law

    def split(self, t: Any, edges: list[float]) -> tuple[list[Moments], list[Moments]]:
        """Moments below and above t, on each piece between the edges."""
        cuts = [-math.inf, *edges, math.inf]
        below, above = [], []
        for start, end in pairwise(cuts):
            inner = np.clip(t, start, end)
            below.append(self._moments([(start, x) for x in inner]))
            above.append(self._moments([(x, end) for x in inner]))
        return below, above

    def _moments(self, spans: list[tuple[float, float]]) -> Moments:
        found = np.array([self.law.moments(low, high) for low, high in spans])
        return found[:, 0], found[:, 1], found[:, 2]


class Needs:
    """Mean needs of the classes above and below a threshold, for one law in a table or one law a case."""

    def __init__(self, remote: Curve, kv: Curve, local: Curve, at_mean: bool, laws: list[LengthLaw]) -> None:
        self.curves, self.at_mean = (remote, kv, local), at_mean
        self.breaks = sorted({b for curve in self.curves for b in curve.breaks})
        normal = [law for law in laws if isinstance(law, LogNormal)]
        orders = 2 if at_mean and not self.breaks else 3
        self.moments = _LogNormals(normal, orders) if len(normal) == len(laws) else _AnyLaw(laws[0], orders)
        grids = [threshold_grid(law, at_mean) for law in laws]
        width = max(map(len, grids))
        self.grid = np.array([g + [g[-1]] * (width - len(g)) for g in grids])
        self.table: tuple[Floats, ...] | None = None
        if len(laws) == 1:
            self.first = int(self.grid[0, 0])
            size = int(self.grid[0, -1]) - self.first + 1
            if size <= LONGEST_TABLE:
                self.table = self._evaluate(np.arange(self.first, self.first + size))

    def at(self, t: Any) -> tuple[Floats, ...]:
        """Give share above, and needs of the remote pool, the link and the local pool per request of all."""
        if self.table is not None:
            return tuple(column[t - self.first] for column in self.table)
        return self._evaluate(t)

    def _evaluate(self, t: Any) -> tuple[Floats, ...]:
        below, above = self.moments.split(t, self.breaks)
        remote, kv, local = self.curves
        share = sum(m[0] for m in above)
        return share, self._need(remote, above), self._need(kv, above), self._need(local, below)

    def _need(self, curve: Curve, pieces: list[Moments]) -> Floats:
        if not self.at_mean:
            return self.mean_need(curve, pieces)
        share: Any = sum(m[0] for m in pieces)
        first: Any = sum(m[1] for m in pieces)
        mean = first / np.where(share > 0.0, share, 1.0)
        which = np.searchsorted(np.array(curve.breaks), mean) if curve.breaks else 0
        c0, c1, c2 = np.array(curve.pieces).T[:, which]
        return np.asarray(share * (c0 + mean * (c1 + mean * c2)))

    def mean_need(self, curve: Curve, pieces: list[Moments]) -> Floats:
        """Integrate a curve over the pieces between the breaks."""
        total: Any = 0.0
        for end, (m0, m1, m2) in zip([*self.breaks, math.inf], pieces, strict=True):
            c0, c1, c2 = curve.pieces[int(np.searchsorted(np.array(curve.breaks), end)) if curve.breaks else 0]
            total = total + c0 * m0 + c1 * m1 + c2 * m2
        return np.asarray(total)


def search(batch: Batch, needs: Needs) -> Found:
    """Find the best split and threshold of every case; both prefill pools have instances to give."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return _search(batch, needs)


def _search(batch: Batch, needs: Needs) -> Found:
    cases = len(batch.local_instances)
    grid = np.broadcast_to(needs.grid, (cases, needs.grid.shape[1]))
    columns = [needs.at(needs.grid[:, k]) for k in range(needs.grid.shape[1])]
    _, a, b, c = (np.broadcast_to(np.stack([col[i] for col in columns], axis=1), grid.shape) for i in range(4))
    remote = np.minimum(batch.remote_instances[:, None] / a, batch.link_bytes_per_s[:, None] / b)
    best = _Best(cases)
    always = np.zeros(cases, bool)
    best.offer(0, grid[:, 0], always, np.minimum(remote[:, 0], _decode(batch, 0)), ~always)
    for n in range(1, int(batch.local_instances.max(initial=0))):
        threshold, crossing, prefill, sure = _best_threshold(batch, needs, n, (grid, remote, c))
        best.offer(n, threshold, crossing, np.minimum(prefill, _decode(batch, n)), sure)
    return Found(best.n, best.threshold, best.crossing, best.sure & ~best.tied & (best.rate > 0.0))


def _decode(batch: Batch, n: int) -> Floats:
    return np.asarray((batch.local_instances - n) * batch.decode_batch / batch.decode_work)


def _limits(batch: Batch, needs: Needs, n: int, t: Ints) -> tuple[Floats, Floats, Floats]:
    share, a, b, c = needs.at(t)
    return np.minimum(batch.remote_instances / a, batch.link_bytes_per_s / b), n / c, share


def _best_threshold(batch: Batch, needs: Needs, n: int, at_grid: tuple[Ints, Floats, Floats]) -> tuple[Any, ...]:
    grid, remote, c = at_grid
    local = n / c
    room = remote >= local
    flips = room[:, 1:] != room[:, :-1]
    crossings = flips.sum(axis=1)
    place = flips.argmax(axis=1)
    rows = np.arange(len(place))
    low, high, wanted = grid[rows, place], grid[rows, place + 1], room[rows, place + 1]
    low = np.where(crossings > 0, low, high)
    while np.any(low < high):
        middle = (low + high) // 2
        far, near, _ = _limits(batch, needs, n, middle)
        holds = (far >= near) == wanted
        low, high = np.where(holds, low, np.minimum(middle + 1, high)), np.where(holds, middle, high)
    before = np.maximum(low - 1, grid[:, 0])
    far, near, share = _limits(batch, needs, n, low)
    far_before, near_before, _ = _limits(batch, needs, n, before)
    at, ahead = np.minimum(far, near), np.minimum(far_before, near_before)
    crossed = np.where(crossings > 0, np.maximum(at, ahead), -np.inf)
    others = np.where((grid == low[:, None]) | (grid == before[:, None]), -np.inf, np.minimum(remote, local))
    others = np.where((crossings > 0)[:, None], others, np.minimum(remote, local))
    ranked = others.argmax(axis=1)
    top = others[rows, ranked]
    others = np.where(grid == grid[rows, ranked][:, None], -np.inf, others)
    second = np.maximum(others.max(axis=1), np.minimum(crossed, top))
    is_crossing = crossed > top
    prefill = np.maximum(crossed, top)
    rival = np.where(is_crossing, top, second)
    clear = (rival < prefill * (1.0 - MARGIN)) & (crossings <= 1)
    digits = ~is_crossing | ((share > LEAST_SHARE) & (share < 1.0 - LEAST_SHARE))
    threshold = np.where(is_crossing, low, grid[rows, ranked])
    return threshold, is_crossing, prefill, clear & digits


class _Best:
    """The best offer so far for every case, and whether it is clear of the others."""

    def __init__(self, cases: int) -> None:
        self.rate, self.n, self.threshold = np.full(cases, -np.inf), np.zeros(cases, int), np.zeros(cases, int)
        self.crossing = np.zeros(cases, bool)
        self.sure, self.tied = np.ones(cases, bool), np.zeros(cases, bool)

    def offer(self, n: int, threshold: Ints, crossing: Any, rate: Floats, sure: Any) -> None:
        """Take an offer where it is better; one within the margin of the best leaves the case unsure."""
        valid = rate > 0.0
        better = valid & (rate > self.rate)
        near = valid & (np.abs(rate - self.rate) <= MARGIN * np.abs(rate))
        self.sure &= sure | ~valid
        self.tied = np.where(better, near, self.tied | near)
        self.n = np.where(better, n, self.n)
        self.threshold = np.where(better, threshold, self.threshold)
        self.crossing = np.where(better, crossing, self.crossing)
        self.rate = np.where(better, rate, self.rate)

"""Bins of a length law, and the cheapest of several ways to serve a request as a function of its length.

A plan that splits each bin between routes without looking at the lengths inside it uses exactly the mean need of the
bin, so it can be carried out as it stands. The best any routing could do at given prices is the mean of the cheapest
price at each length, and that mean is exact too. The two together bracket the optimum without a fine grid.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from prfaas_plan.laws import LengthLaw
from prfaas_plan.numerics import Curve, quadratic_roots

__all__ = ["LEAST_SHARE", "Bin", "Offer", "Stretch", "cheapest", "cut", "first_edges", "mean_price"]

_TIE = 1e-11
LEAST_SHARE = 1e-6
"""Requests rarer than one in a million are left out: a limit that only they miss is met."""


@dataclass(frozen=True, slots=True)
class Bin:
    """Requests with ``low < L <= high``, the share of all requests they are, and the length that limits look at."""

    low: float
    high: float
    share: float
    reach: float


@dataclass(frozen=True, slots=True)
class Offer:
    """A way to serve a request: its price by length, up to the longest request it takes."""

    price: Curve
    longest: float = math.inf


@dataclass(frozen=True, slots=True)
class Stretch:
    """Lengths ``low < L <= high`` for which one offer is the cheapest; ``None`` where no offer takes them."""

    low: float
    high: float
    offer: int | None


def first_edges(law: LengthLaw, count: int, cuts: Iterable[float] = ()) -> tuple[float, ...]:
    """Give the edges of `count` bins of equal share, with further cuts where something changes.

    >>> from prfaas_plan.laws import Histogram
    >>> first_edges(Histogram(edges=(0, 100), weights=(1,)), 4, [60])
    (25.0, 50.0, 60.0, 75.0)
    """
    low, high = law.support
    inner = {law.quantile(k / count) for k in range(1, count)} | {float(x) for x in cuts}
    return tuple(sorted(x for x in inner if low <= x < high))


def cut(law: LengthLaw, edges: Sequence[float]) -> tuple[Bin, ...]:
    """Cut a law at inner edges; what holds hardly any request is joined to the bin before it, whose reach stays.

    >>> from prfaas_plan.laws import Constant
    >>> cut(Constant(8.0), [4.0])
    (Bin(low=-inf, high=inf, share=1.0, reach=inf),)
    """
    found: list[Bin] = []
    low = -math.inf
    for start, end in pairwise((-math.inf, *edges, math.inf)):
        share = law.share(low if not found else start, end)
        if share > LEAST_SHARE:
            found.append(Bin(low if not found else start, end, share, end))
        elif found:
            last = found[-1]
            found[-1] = Bin(last.low, end, last.share + share, last.reach)
    return tuple(found)


def cheapest(offers: Sequence[Offer], low: float, high: float) -> list[Stretch]:
    """Find the cheapest offer for every length in ``(low, high]``, exactly, for piecewise quadratic prices.

    >>> near, far = Offer(Curve.polynomial(0.0, 2.0)), Offer(Curve.polynomial(5.0, 1.0))
    >>> cheapest([near, far], 0.0, 100.0)
    [Stretch(low=0.0, high=5.0, offer=0), Stretch(low=5.0, high=100.0, offer=1)]
    """
    cuts = {b for offer in offers for b in (*offer.price.breaks, offer.longest) if low < b < high}
    found: list[Stretch] = []
    for start, end in pairwise([low, *sorted(cuts), high]):
        for stretch in _within(offers, start, end):
            if found and found[-1].offer == stretch.offer:
                found[-1] = Stretch(found[-1].low, stretch.high, stretch.offer)
            else:
                found.append(stretch)
    return found


def _within(offers: Sequence[Offer], start: float, end: float) -> list[Stretch]:
    """Walk along the lower envelope between two lengths where every price is one quadratic."""
    live = [(i, o.price.spans(start, end)[0][2]) for i, o in enumerate(offers) if o.longest >= end]
    if not live:
        return [Stretch(start, end, None)]
    found: list[Stretch] = []
    here = start
    index, own = min(live, key=lambda item: _rank(item[1], here))
    while True:
        meeting, following = end, None
        for other, price in live:
            if other != index:
                x = _overtakes(own, price, here, meeting)
                if x is not None:
                    meeting, following = x, (other, price)
        found.append(Stretch(here, meeting, index))
        if following is None:
            return found
        here = meeting
        index, own = min(live, key=lambda item: _rank(item[1], here))
        if index == found[-1].offer:
            index, own = following


def _rank(price: tuple[float, float, float], x: float) -> tuple[float, float, float]:
    c0, c1, c2 = price
    value = c0 + x * (c1 + x * c2)
    return (value, c1 + 2.0 * x * c2, c2)


def _overtakes(
    own: tuple[float, float, float], other: tuple[float, float, float], here: float, before: float
) -> float | None:
    """Find the first length after `here` and before `before` from which the other price is the lower one."""
    a0, a1, a2 = (x - y for x, y in zip(other, own, strict=True))
    after = here + max(abs(here), 1.0) * _TIE
    for x in quadratic_roots(a0, a1, a2):
        if after < x < before and _falls_at(x, a1, a2):
            return x
    return None


def _falls_at(x: float, c1: float, c2: float) -> bool:
    slope = c1 + 2.0 * c2 * x
    return slope < 0.0 or (slope == 0.0 and c2 < 0.0)


def mean_price(law: LengthLaw, offers: Sequence[Offer], stretches: Sequence[Stretch]) -> float:
    """Give the mean of the cheapest price over a law of lengths; infinite where some length has no offer."""
    total = 0.0
    for stretch in stretches:
        if stretch.offer is not None:
            total += law.expect(offers[stretch.offer].price, stretch.low, stretch.high)
        elif law.share(stretch.low, stretch.high) > LEAST_SHARE:
            return math.inf
    return total

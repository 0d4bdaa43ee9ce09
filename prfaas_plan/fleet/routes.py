"""Length thresholds read from routed rates: what each cluster prefills of each origin, and if one length says it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from prfaas_plan.fleet.case import FleetCase
from prfaas_plan.fleet.evaluate import Evaluation, Part
from prfaas_plan.laws import LengthLaw

__all__ = ["Offload", "SiteRouting", "offload", "site_routing", "wire_routing"]

_EXCEPTIONS = 5e-3
_ALL = 1.0 - 1e-6


@dataclass(frozen=True, slots=True)
class SiteRouting:
    """The requests of one origin that one cluster prefills, in one period."""

    origin: str
    period: str
    site: str
    cluster: str
    share_fraction: float
    pattern: str
    """``all``, ``none``, ``above``, ``below`` (a threshold says it), or ``mixed`` (none does)."""
    threshold_tokens: int | None
    shortest_tokens: int
    longest_tokens: int
    exceptions_fraction: float
    """Share of the origin's requests that the threshold would send elsewhere than the plan does."""

    def to_dict(self) -> dict[str, Any]:
        """Give the routing by name."""
        return {
            "origin": self.origin,
            "period": self.period,
            "prefill_site": self.site,
            "prefill_cluster": self.cluster,
            "share_fraction": self.share_fraction,
            "pattern": self.pattern,
            "threshold_tokens": self.threshold_tokens,
            "shortest_tokens": self.shortest_tokens,
            "longest_tokens": self.longest_tokens,
            "exceptions_fraction": self.exceptions_fraction,
        }


@dataclass(frozen=True, slots=True)
class Offload:
    """The requests whose KV cache crosses a link, over all origins of one period."""

    share: float
    mean_long: float | None
    mean_short: float | None
    threshold: int | None
    """The one length above which every origin's requests are offloaded; ``None`` where there is no such length."""


def site_routing(evaluation: Evaluation) -> tuple[SiteRouting, ...]:
    """Say for every period, origin and cluster that prefills which lengths it takes."""
    case = evaluation.case
    found = []
    for h, state in enumerate(case.states):
        for number, traffic in enumerate(case.traffic):
            parts = [p for p in evaluation.parts if (p.state, p.traffic) == (h, number)]
            if state.lost_wire is not None or not parts:
                continue
            for c in sorted({p.route.station for p in parts}):
                station, taken = case.stations[c], _taken(parts, partial(_prefills_at, c))
                where = (station.place, station.name)
                found += [_describe((o, state.name, *where), traffic.law, taken) for o in traffic.origins or ("",)]
    return tuple(found)


def wire_routing(evaluation: Evaluation, state: int, wire: int) -> tuple[SiteRouting, ...]:
    """Say for every origin whose KV caches cross a link in a period which lengths they have."""
    case = evaluation.case
    found = []
    for number, traffic in enumerate(case.traffic):
        parts = [p for p in evaluation.parts if (p.state, p.traffic) == (state, number)]
        crossing = sorted({case.stations[p.route.station].name for p in parts if p.route.wire == wire})
        if crossing:
            taken = _taken(parts, lambda p: p.route.wire == wire)
            names = (case.states[state].name, case.wires[wire].origin, "+".join(crossing))
            found += [_describe((o, *names), traffic.law, taken) for o in traffic.origins or ("",)]
    return tuple(found)


def _prefills_at(station: int, part: Part) -> bool:
    return part.route.station == station


@dataclass(frozen=True, slots=True)
class _Taken:
    """What a site takes of one bin."""

    low: float
    high: float
    share: float
    fraction: float


def _taken(parts: Sequence[Part], belongs: Callable[[Part], bool]) -> list[_Taken]:
    bins = sorted({p.bin for p in parts}, key=lambda b: b.low)
    fractions: dict[float, float] = defaultdict(float)
    for part in parts:
        if belongs(part):
            fractions[part.bin.low] += part.share
    return [_Taken(b.low, b.high, b.share, min(1.0, fractions.get(b.low, 0.0))) for b in bins]


def _describe(names: tuple[str, str, str, str], law: LengthLaw, taken: Sequence[_Taken]) -> SiteRouting:
    share = sum(t.share * t.fraction for t in taken)
    first, last = law.support
    served = [t for t in taken if t.fraction > 1e-6]
    shortest = math.ceil(max(first, min((t.low for t in served), default=first)))
    longest = math.floor(min(last, max((t.high for t in served), default=last), 1e15))
    pattern, threshold, exceptions = "all", None, 0.0
    if share <= 1.0 - _ALL:
        pattern = "none"
    elif share < _ALL:
        above, below = _missed_above(taken, law, share), _missed_below(taken, law, share)
        pattern, exceptions = ("above", above) if above <= below else ("below", below)
        threshold = round(law.quantile(1.0 - share if pattern == "above" else share))
        if exceptions > max(_EXCEPTIONS * share, 1e-9):
            pattern, threshold = "mixed", None
    return SiteRouting(*names, share, pattern, threshold, shortest, longest, exceptions)


def _missed_above(taken: Sequence[_Taken], law: LengthLaw, share: float) -> float:
    """Give the share of requests above the threshold of a site's share that the site does not take."""
    cut = law.quantile(1.0 - share)
    long = [t for t in taken if t.high > cut]
    return sum(max(0.0, law.share(max(t.low, cut), t.high) - t.fraction * t.share) for t in long)


def _missed_below(taken: Sequence[_Taken], law: LengthLaw, share: float) -> float:
    """Give the share of requests below the threshold of a site's share that the site does not take."""
    cut = law.quantile(share)
    short = [t for t in taken if t.low < cut]
    return sum(max(0.0, law.share(t.low, min(t.high, cut)) - t.fraction * t.share) for t in short)


def offload(evaluation: Evaluation, state: int) -> Offload:
    """Say how many requests of a period prefill at another site than they decode, and which lengths they have."""
    case = evaluation.case
    parts = [p for p in evaluation.parts if p.state == state]
    total = crossing = long_tokens = all_tokens = 0.0
    for part in parts:
        moments = case.traffic[part.traffic].law.moments(part.bin.low, part.bin.high)
        weight = part.share * case.states[state].rates[part.traffic]
        total, all_tokens = total + weight * moments[0], all_tokens + weight * moments[1]
        if part.route.wire is not None:
            crossing, long_tokens = crossing + weight * moments[0], long_tokens + weight * moments[1]
    short = total - crossing
    return Offload(
        crossing / total if total else 0.0,
        long_tokens / crossing if crossing > 1e-9 * total else None,
        (all_tokens - long_tokens) / short if short > 1e-9 * total else None,
        _common_threshold(case, parts),
    )


def _common_threshold(case: FleetCase, parts: Sequence[Part]) -> int | None:
    found: list[int | None] = []
    for o in sorted({p.traffic for p in parts}):
        taken = _taken([p for p in parts if p.traffic == o], lambda p: p.route.wire is not None)
        routing = _describe(("", "", "", ""), case.traffic[o].law, taken)
        found.append(routing.threshold_tokens if routing.pattern == "above" else None)
    if not found or any(t is None for t in found):
        return None
    first = found[0]
    assert first is not None  # noqa: S101 (none is missing)
    alike = all(t is not None and abs(t - first) <= 0.01 * first for t in found)
    return first if alike else None

"""A fleet with everything looked up: stations with their service times, wires, traffic by kind, and states of the day.

A *station* is a cluster, a *wire* a link, a *dock* the stations of one site that can be reached the same way, a *route*
the way from the station that prefills to the dock that decodes. Rates of traffic are relative to the busiest period.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from prfaas_plan.fleet.bins import LEAST_SHARE
from prfaas_plan.laws import LengthLaw
from prfaas_plan.numerics import Curve

__all__ = ["Dock", "FleetCase", "Limits", "Route", "State", "Station", "Traffic", "Wire", "connect", "with_link_loss"]

GB_PER_GBIT = 0.125


@dataclass(frozen=True, slots=True)
class Station:
    """A cluster: what it may do, how many instances it may have, and what one of them costs, draws and takes."""

    name: str
    place: str
    accelerator: str
    gpus: int
    prefills: bool
    decodes: bool
    fewest: int
    most: int
    seconds: Curve | None = None
    """Prefill time of one request by length [s]."""
    usd_per_hour: float = 0.0
    """Price of one instance [USD/h]."""
    watts: float = 0.0
    """Power of one instance [W]."""

    @property
    def both(self) -> bool:
        """Whether the plan splits the instances between prefill and decode."""
        return self.prefills and self.decodes


@dataclass(frozen=True, slots=True)
class Wire:
    """A link: the rates it may have [Gbit/s], the share of it that carries KV caches, and its prices."""

    name: str
    origin: str
    destination: str
    least_gbps: float
    most_gbps: float
    usable: float = 1.0
    rtt_s: float = 0.0
    usd_per_gbps_hour: float = 0.0
    usd_per_port_hour: float = 0.0
    usd_per_gb: float = 0.0

    @property
    def bought(self) -> bool:
        """Whether the plan chooses the rate."""
        return self.least_gbps < self.most_gbps

    @property
    def usd_per_gbps_carried(self) -> float:
        """Price [USD/h] of carrying 1 Gbit/s all the time."""
        return self.usd_per_gb * GB_PER_GBIT * 3600.0


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests that are alike in length, promises and where they may be served."""

    name: str
    origins: tuple[str, ...]
    law: LengthLaw
    output_tokens: float
    kv_gbit: Curve
    """KV cache of a request by length [Gbit]."""
    decode_seconds: tuple[float | None, ...]
    """Seconds of one instance that decoding a request takes, by station; ``None`` where it must not or cannot."""
    prefill_longest: tuple[float, ...]
    """Longest request each station may prefill [token]; 0 where it must not."""
    ttft_s: float = math.inf
    late_share: float = 0.0
    """Share of the requests that may miss the time to first token."""
    step_seconds: tuple[float | None, ...] = ()
    """Time of one decode step by station [s]."""
    loaded: bool = False
    """Whether the time to first token includes the wait for a free instance."""
    arrival_cv: float = 1.0
    """Coefficient of variation of the gaps between requests [1]; 1 is Poisson."""


@dataclass(frozen=True, slots=True)
class Dock:
    """Stations of one place that decode and are reached over the same wires."""

    place: str
    stations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Route:
    """From the station that prefills over a wire (``None`` within a place) to the dock that decodes."""

    station: int
    dock: int
    wire: int | None


@dataclass(frozen=True, slots=True)
class State:
    """A period, or the same period with a wire lost: rates by kind of traffic, relative to the busiest period."""

    name: str
    hours: float
    rates: tuple[float, ...]
    period: int
    lost_wire: int | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """What holds for the fleet as a whole."""

    budget_usd_per_hour: float | None = None
    power_cap_w: float | None = None
    switching_usd: float = 0.0
    headroom: float = 0.0
    """Share of every pool and link that stays free."""
    spare: int = 0
    """Instances every pool has beyond what it needs."""
    roles_stay: bool = False
    """Whether every instance keeps its role in all periods."""
    enough_rps: float = math.inf
    """Rate beyond which more is of no use [req/s]."""
    queue_room: float = 0.0
    """Share of every prefill pool that stays free so that queues stay short."""

    def free(self, role: str) -> float:
        """Give the share of a capacity that may be used: of instances that prefill or decode, or of a wire."""
        return 1.0 - (max(self.headroom, self.queue_room) if role == "prefill" else self.headroom)


@dataclass(frozen=True)
class FleetCase:
    """A fleet to be planned."""

    name: str
    stations: tuple[Station, ...]
    wires: tuple[Wire, ...]
    traffic: tuple[Traffic, ...]
    docks: tuple[Dock, ...]
    routes: tuple[Route, ...]
    states: tuple[State, ...]
    limits: Limits = Limits()
    objective: str = "throughput"
    notes: tuple[str, ...] = ()

    @property
    def periods(self) -> int:
        """Number of periods; states beyond them are failures."""
        return 1 + max(s.period for s in self.states)

    @property
    def hours(self) -> float:
        """Length of the whole cycle [h]."""
        return sum(s.hours for s in self.states)

    @property
    def separable(self) -> bool:
        """Whether the largest rate of each period can be found by itself: nothing is bought, and roles may change."""
        bought = any(s.fewest < s.most for s in self.stations) or any(w.bought for w in self.wires)
        spends = self.limits.budget_usd_per_hour is not None or self.limits.power_cap_w is not None
        return self.periods > 1 and not (bought or spends or self.limits.roles_stay)

    def only_period(self, period: int) -> FleetCase:
        """Give the same fleet in one of its periods."""
        own = tuple(replace(s, period=0) for s in self.states if s.period == period)
        return replace(self, states=own)

    def decoders(self, traffic: Traffic, dock: int) -> list[int]:
        """List the stations of a dock that may decode a kind of traffic."""
        return [d for d in self.docks[dock].stations if traffic.decode_seconds[d] is not None]

    def longest(self, traffic: Traffic, route: Route, *, in_time: bool) -> float:
        """Give the longest request [token] a route takes; with `in_time`, that also meets the time to first token."""
        limit = self._snapped(traffic, traffic.prefill_longest[route.station])
        if limit <= 0.0 or not self.decoders(traffic, route.dock):
            return 0.0
        low, high = traffic.law.support
        if not in_time or math.isinf(traffic.ttft_s):
            return limit
        curve = self.first_token(traffic, route)
        if curve(low) > traffic.ttft_s:
            return 0.0
        high = min(high, limit)
        if math.isinf(high):
            high = max(low, 1.0)
            while curve(high) <= traffic.ttft_s and high < 1e12:
                high *= 2.0
        return min(limit, self._snapped(traffic, curve.inverse(traffic.ttft_s, low, high)))

    def _snapped(self, traffic: Traffic, longest: float) -> float:
        """Lift a limit that hardly any request misses."""
        return math.inf if longest > 0.0 and traffic.law.share(longest) <= LEAST_SHARE else longest

    def first_token(self, traffic: Traffic, route: Route) -> Curve:
        """Give the time to first token on idle machines [s]: prefill, then the transfer, then half a round trip."""
        seconds = self.stations[route.station].seconds
        assert seconds is not None  # noqa: S101 (a station that prefills has service times)
        if route.wire is None:
            return seconds
        wire = self.wires[route.wire]
        rate = wire.most_gbps * wire.usable
        transfer = traffic.kv_gbit.scaled(0.0 if math.isinf(rate) else 1.0 / rate) if rate > 0.0 else None
        if transfer is None:
            return Curve.polynomial(math.inf)
        return seconds + transfer + Curve.polynomial(wire.rtt_s / 2.0)

    def with_limits(self, **changes: object) -> FleetCase:
        """Give the same fleet under other limits."""
        return replace(self, limits=replace(self.limits, **changes))  # type: ignore[arg-type]


def connect(stations: Sequence[Station], wires: Sequence[Wire]) -> tuple[tuple[Dock, ...], tuple[Route, ...]]:
    """Find the docks and the routes of stations and wires; a wire ends at a station or at a whole place."""
    groups: dict[tuple[str, tuple[tuple[int, int | None], ...]], list[int]] = {}
    for d, decoder in enumerate(stations):
        if decoder.decodes:
            ways = tuple((c, w) for c, s in enumerate(stations) if s.prefills for w in _wires(s, decoder, wires))
            groups.setdefault((decoder.place, ways), []).append(d)
    docks = tuple(Dock(place, tuple(members)) for (place, _), members in groups.items())
    routes = [Route(c, g, w) for g, (_, ways) in enumerate(groups) for c, w in ways]
    return docks, tuple(routes)


def _wires(origin: Station, destination: Station, wires: Sequence[Wire]) -> list[int | None]:
    if origin.place == destination.place:
        return [None]
    starts, ends = (origin.name, origin.place), (destination.name, destination.place)
    return [w for w, wire in enumerate(wires) if wire.origin in starts and wire.destination in ends]


def with_link_loss(case: FleetCase, fraction: float) -> FleetCase:
    """Add, for every period and wire, the state in which the wire is lost and a fraction of the rate is served."""
    lost = [
        State(f"{s.name} without {wire.name}", 0.0, tuple(r * fraction for r in s.rates), s.period, w)
        for s in case.states
        if s.lost_wire is None
        for w, wire in enumerate(case.wires)
    ]
    return replace(case, states=(*case.states, *lost))

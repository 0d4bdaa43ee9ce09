"""One run of a simulated deployment: requests arrive, prefill in one of two pools, cross the link, and decode."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from prfaas_plan.simulation.policies import Caches, Places, Router
from prfaas_plan.simulation.settings import Failure, RoleChange
from prfaas_plan.simulation.stations import Events, SharedLink, Station, times_of

__all__ = ["Deployment", "Engine", "Requests"]

_REPORTS: Final = 100


@dataclass(frozen=True, slots=True)
class Deployment:
    """How many instances there are of each pool, and how the link is used."""

    local: int
    decode: int
    remote: int = 0
    decode_width: int = 1
    """Sequences that one decode instance decodes at once."""
    link_bytes_per_s: float = math.inf
    fair: bool = False
    layers: int = 0
    """Parts in which a KV cache is sent while it is computed; 0 to send it after prefill."""


@dataclass(slots=True)
class Requests:
    """What comes: arrival times, or think times of users, and the time each request takes in each place."""

    times: array[float]
    """Arrival times [s], rising; in a closed loop they are filled in by the run."""
    lengths: list[float]
    remote_s: list[float]
    local_s: list[float]
    sizes: list[float]
    """Bytes that cross the link after a remote prefill."""
    decode_s: list[float]
    users: int = 0
    """Users of a closed loop; 0 where requests come by themselves."""
    think_s: list[float] = field(default_factory=list)


class _Layered(Station):
    """A pool that tells when a request starts."""

    begun: Callable[[float, int], None]

    def _start(self, now: float, slot: int, request: int) -> None:
        Station._start(self, now, slot, request)
        self.begun(now, request)


class Engine:
    """A deployment and its events; `run` takes it from the first arrival to the last answer."""

    def __init__(self, deployment: Deployment, requests: Requests, caches: Caches | None = None) -> None:
        self.events = Events()
        self.requests = requests
        self.deployment = deployment
        self.remote = (_Layered if deployment.layers else Station)(self.events, requests.remote_s, deployment.remote)
        self.local = Station(self.events, requests.local_s, deployment.local)
        self.decode = Station(self.events, requests.decode_s, deployment.decode, deployment.decode_width)
        self.link = SharedLink(self.events, deployment.link_bytes_per_s, fair=deployment.fair)
        self.places = Places(self.remote, self.local, self.link, requests.lengths, requests.sizes, caches)
        self.at_remote = bytearray(len(requests.lengths))
        """Whether each request prefilled remotely."""
        self.delivered = times_of(len(requests.lengths))
        """When the KV cache of each request was complete where it decodes."""
        self.first: dict[int, float] = {}
        """First start of decode of the requests that lost their KV cache later."""
        self.router: Router | None = None
        self._recompute: Callable[[int, bool, bool], float] | None = None
        self._layers_left: dict[int, int] = {}
        self._attempt: dict[int, int] = {}
        self._asked = 0
        self._connect()

    def _connect(self) -> None:
        self.local.then = self._deliver
        if isinstance(self.remote, _Layered):
            self.remote.begun = self._begin_layers
        else:
            self.remote.then = self._send
        if self.requests.users:
            self.decode.then = self._answered

    def recompute_with(self, recompute: Callable[[int, bool, bool], float]) -> None:
        """Let times and bytes of a request be set as it arrives; the function gives the bytes to move beforehand."""
        self._recompute = recompute

    def run(self, router: Router, progress: Callable[[int, int], Any] | None = None) -> None:
        """Route and serve every request."""
        self.router = router
        total = len(self.requests.lengths)
        if self.requests.users:
            for _ in range(min(self.requests.users, total)):
                self._think(0.0)
        else:
            self._arrivals(total, progress)
        self.events.run_until(math.inf)

    def _arrivals(self, total: int, progress: Callable[[int, int], Any] | None) -> None:
        times, run_until = self.requests.times, self.events.run_until
        arrive = self._arrive if self._recompute is None else self._arrive_cached
        step = max(1, -(-total // _REPORTS))
        for start in range(0, total, step):
            end = min(total, start + step)
            for request in range(start, end):
                now = times[request]
                run_until(now)
                arrive(now, request)
            if progress is not None:
                progress(end, total)

    def _arrive(self, now: float, request: int) -> None:
        if self.router.choose(now, request):  # type: ignore[union-attr]
            self.at_remote[request] = 1
            self.remote.submit(now, request)
        else:
            self.local.submit(now, request)

    def _arrive_cached(self, now: float, request: int) -> None:
        router, caches, recompute = self.router, self.places.caches, self._recompute
        if router is None or caches is None or recompute is None:
            raise RuntimeError("caches need a router and a way to recompute")
        caches.look_up(request)
        remote = router.choose(now, request)
        moved = recompute(request, remote, router.abundant)
        if remote:
            self.at_remote[request] = 1
            self.remote.submit(now, request)
        elif moved > 0.0:
            self.link.submit(now, moved, request, self.local.submit)
        else:
            self.local.submit(now, request)

    def _send(self, now: float, request: int) -> None:
        self.link.submit(now, self.requests.sizes[request], request, self._deliver)

    def _deliver(self, now: float, request: int) -> None:
        self.delivered[request] = now
        self.decode.submit(now, request)

    def _begin_layers(self, now: float, request: int) -> None:
        attempt = self._attempt[request] = self._attempt.get(request, 0) + 1
        key = request + attempt * len(self.delivered)
        self._layers_left[key] = self.deployment.layers
        self.events.at(now + self.requests.remote_s[request] / self.deployment.layers, self._layer, key, 1)

    def _layer(self, now: float, _number: int, key: int, place: int) -> None:
        attempt, request = divmod(key, len(self.delivered))
        if attempt != self._attempt[request]:
            return
        layers, seconds = self.deployment.layers, self.requests.remote_s[request]
        if place < layers:
            share = seconds if place + 1 == layers else seconds * (place + 1) / layers
            self.events.at(self.remote.started[request] + share, self._layer, key, place + 1)
        self.link.submit(now, self.requests.sizes[request] / layers, key, self._layer_arrived)

    def _layer_arrived(self, now: float, key: int) -> None:
        self._layers_left[key] -= 1
        if self._layers_left[key] == 0:
            del self._layers_left[key]
            self._deliver(now, key % len(self.delivered))

    def _think(self, now: float) -> None:
        if self._asked < len(self.requests.lengths):
            request, self._asked = self._asked, self._asked + 1
            self.events.at(now + self.requests.think_s[request], self._ask, request)

    def _ask(self, now: float, _number: int, request: int, _b: int) -> None:
        self.requests.times[request] = now
        (self._arrive if self._recompute is None else self._arrive_cached)(now, request)

    def _answered(self, now: float, _request: int) -> None:
        self._think(now)

    def set_rate_at(self, time: float, rate: float) -> None:
        """Change the rate of the link at a time [s, B/s]."""
        self.events.at(time, partial(self._set_rate, rate))

    def _set_rate(self, rate: float, now: float, *_: int) -> None:
        self.link.set_rate(now, rate)

    def fail_at(self, station: Station, failure: Failure) -> None:
        """Lose instances of a pool for a time."""
        self.events.at(failure.start_s, partial(self._fail, station, failure))

    def _fail(self, station: Station, failure: Failure, now: float, *_: int) -> None:
        failed, lost = station.fail(now, failure.instances)
        if math.isfinite(failure.end_s):
            self.events.at(failure.end_s, partial(self._restore, station, failed))
        if station is not self.decode:
            for request in lost:
                self._attempt[request] = self._attempt.get(request, 0) + 1
            station.return_to_head(now, lost)
            return
        for request in lost:
            self._prefill_again(now, request)

    def _restore(self, station: Station, failed: list[int], now: float, *_: int) -> None:
        station.restore(now, failed)

    def _prefill_again(self, now: float, request: int) -> None:
        started = self.decode.started[request]
        self.first.setdefault(request, started)
        self.requests.decode_s[request] -= now - started
        (self.remote if self.at_remote[request] else self.local).submit(now, request)

    def change_role_at(self, change: RoleChange) -> None:
        """Move instances between local prefill and decode at a time."""
        self.events.at(change.at_s, partial(self._change_role, change))

    def _change_role(self, change: RoleChange, now: float, *_: int) -> None:
        giving, taking = (self.local, self.decode) if change.to_role == "decode" else (self.decode, self.local)

        def emptied(now: float) -> None:
            self.events.at(now + change.switch_s, partial(self._join, taking))

        giving.drain(now, change.instances, emptied)

    def _join(self, station: Station, now: float, *_: int) -> None:
        station.add(now)

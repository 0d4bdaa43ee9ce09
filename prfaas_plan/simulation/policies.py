"""Where a simulated request prefills: the routing policies, and what prefix caches hold.

The paper (arXiv 2604.15039, section 3.4.3) sends a request to the remote pool when the part of its prompt that is not
cached exceeds a threshold, and searches the threshold again when the link or a queue fills up. It leaves open when
that is and how far the search looks ahead; `Settings.control_s`, `horizon_s` and `scarce_fraction` are chosen here.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from prfaas_plan.numerics import Curve
from prfaas_plan.simulation.settings import PrefixHits, Settings
from prfaas_plan.simulation.stations import SharedLink, Station
from prfaas_plan.throughput import System

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["Caches", "Needs", "Places", "Router", "law_needs", "router_of", "sample_needs"]

_GRID: Final = 512
_LEAST: Final = 1e-9


@dataclass(slots=True)
class Places:
    """What a router sees: both prefill pools, the link, and what each request would take."""

    remote: Station
    local: Station
    link: SharedLink
    lengths: Sequence[float]
    sizes: Sequence[float]
    caches: Caches | None = None


class Router(Protocol):
    """Decides where a request prefills."""

    abundant: bool
    """Whether bandwidth is plentiful, so that cached prefixes are moved to where they are needed."""

    def choose(self, now: float, request: int) -> bool:
        """Say whether a request prefills remotely."""


class Fixed:
    """Longer requests prefill remotely; the threshold [token] never changes."""

    abundant = False

    def __init__(self, places: Places, threshold: float) -> None:
        self.threshold = threshold
        caches = places.caches
        self._length = places.lengths.__getitem__ if caches is None else caches.left_locally

    def choose(self, now: float, request: int) -> bool:  # noqa: ARG002
        """Say whether a request prefills remotely."""
        return self._length(request) > self.threshold


@dataclass(frozen=True)
class Needs:
    """What one request of the whole traffic needs of each resource, on average, by threshold."""

    thresholds: Floats
    remote_s: Floats
    local_s: Floats
    link_bytes: Floats


def law_needs(system: System) -> Needs:
    """Compute the needs exactly from the law of lengths, at thresholds that cut it into equal shares."""
    import numpy as np

    law, remote, local = system.law, system.remote, system.local
    cuts = sorted({law.support[0] - 1.0, *(law.quantile(k / _GRID) for k in range(1, _GRID + 1))})
    no_time = Curve.polynomial(0.0)
    far, near = (pool.seconds if pool else no_time for pool in (remote, local))
    columns = (
        [law.expect(far, t) for t in cuts],
        [law.expect(near, -math.inf, t) for t in cuts],
        [law.expect(system.kv_bytes, t) for t in cuts],
    )
    return Needs(np.asarray(cuts), *(np.asarray(c) for c in columns))


def sample_needs(lengths: Floats, remote_s: Floats, local_s: Floats, sizes: Floats) -> Needs:
    """Compute the needs from requests: uncached lengths [token], times on either side [s] and bytes."""
    import numpy as np

    order = np.argsort(lengths, kind="stable")
    count = len(order)
    places = np.unique(np.linspace(0, count, _GRID + 1).astype(int))

    def below(values: Floats) -> Floats:
        sums = np.concatenate(([0.0], np.cumsum(values[order])))
        part: Floats = sums[places] / count
        return part

    cuts = np.concatenate(([lengths[order[0]] - 1.0], lengths[order]))[places]
    far, size = below(remote_s), below(sizes)
    return Needs(cuts, far[-1] - far, below(local_s), size[-1] - size)


class BandwidthAware:
    """The threshold is searched again every few seconds, for the rate and the queues there are at that time.

    For each threshold and each resource: the time to finish what waits and what comes in the next seconds, on what is
    in service now. The threshold with the smallest of the longest times is taken, but not above one that fills the
    local pool beyond a limit: where everything together is too much, the long requests wait for the link, which are
    few and go at once when it recovers, and not the short ones. What waits for the remote pool counts as bytes to come.
    """

    abundant = True

    def __init__(self, places: Places, needs: Needs, rate: float, settings: Settings) -> None:
        self.places = places
        self.needs = needs
        self.threshold = math.nan
        self.history = array("d")
        """Times of changes, each followed by the threshold from then on."""
        self._rate, self._settings = rate, settings
        self._next, self._before, self._seen = 0.0, 0.0, 0
        self._length: Callable[[int], float] = places.lengths.__getitem__
        self._bytes_per_work = 0.0

    def choose(self, now: float, request: int) -> bool:
        """Say whether a request prefills remotely."""
        if now >= self._next:
            self._search(now)
        self._seen += 1
        return self._length(request) > self.threshold

    def _search(self, now: float) -> None:
        import numpy as np

        ahead, needs, places = self._settings.horizon_s, self.needs, self.places
        self._measure(now)
        coming = self._rate * ahead
        waiting = places.link.backlog(now) + places.remote.work * self._bytes_per_work
        link_s = (waiting + coming * needs.link_bytes) / max(places.link.rate, _LEAST)
        remote_s = (places.remote.work + coming * needs.remote_s) / max(places.remote.instances, _LEAST)
        local_s = (places.local.work + coming * needs.local_s) / max(places.local.instances, _LEAST)
        allowed = max(1, int(np.searchsorted(local_s, self._settings.local_limit * ahead, side="right")))
        best = int(np.argmin(np.maximum(np.maximum(link_s, remote_s), local_s)[:allowed]))
        threshold = float(needs.thresholds[best])
        if threshold != self.threshold:
            self.history.extend((now, threshold))
        self.threshold = threshold
        need = float(needs.remote_s[best])
        self._bytes_per_work = float(needs.link_bytes[best]) / need if need > 0.0 else 0.0
        self.abundant = bool(link_s[best] <= self._settings.scarce_fraction * ahead)
        if places.caches is not None:
            self._length = places.caches.left_anywhere if self.abundant else places.caches.left_locally

    def _measure(self, now: float) -> None:
        passed = now - self._before
        if passed > 0.0:
            weight = min(1.0, passed / self._settings.horizon_s)
            self._rate += weight * (self._seen / passed - self._rate)
        self._before, self._seen, self._next = now, 0, now + self._settings.control_s


class LeastLoaded:
    """The pool with the shortest wait takes the request, whatever its length; with no wait in either the faster one.

    The wait is the unfinished work over the instances in service, and the backlog of the link for the remote pool.
    """

    abundant = False

    def __init__(self, places: Places, *, own_time: bool) -> None:
        self.places = places
        self.own_time = own_time
        """Whether the request's own time counts, so that it goes where it is done first."""

    def choose(self, now: float, request: int) -> bool:
        """Say whether a request prefills remotely."""
        remote, local, link = self.places.remote, self.places.local, self.places.link
        far, near = remote.delay() + (link.backlog(now) / link.rate if link.rate > 0.0 else math.inf), local.delay()
        if self.own_time or far == near:
            sending = self.places.sizes[request] / link.rate if link.rate > 0.0 else math.inf
            far, near = far + remote.seconds[request] + sending, near + local.seconds[request]
        return far < near


def router_of(places: Places, needs: Callable[[], Needs], rate: float, threshold: float, settings: Settings) -> Router:
    """Make the router of a policy, for a request rate [1/s] and the plan's threshold [token]."""
    far, near = places.remote.instances > 0, places.local.instances > 0
    if settings.policy == "all-remote" or not near:
        return Fixed(places, -math.inf)
    if settings.policy == "all-local" or not far:
        return Fixed(places, math.inf)
    if settings.policy == "bandwidth-aware":
        return BandwidthAware(places, needs(), rate, settings)
    if settings.policy == "static":
        return Fixed(places, threshold)
    return LeastLoaded(places, own_time=settings.policy == "earliest-finish")


class Caches:
    """How much of each prompt the prefix caches of both clusters hold, and what is then left to compute and to send."""

    def __init__(self, hits: PrefixHits, lengths: Sequence[float], cached: tuple[list[float], list[float]]) -> None:
        self.lengths = lengths
        self.local, self.remote = cached
        self.blocks: Sequence[array[int]] = ()
        self.block_tokens = 0
        most = math.inf if hits.pool_blocks is None else hits.pool_blocks
        self._pools = (_BlockPool(most), _BlockPool(most))

    def look_up(self, request: int) -> None:
        """Find the blocks of a request in both caches."""
        if self.blocks:
            for pool, cached in zip(self._pools, (self.local, self.remote), strict=True):
                found = pool.match(self.blocks[request]) * self.block_tokens
                cached[request] = min(float(found), self.lengths[request] - 1.0)

    def left_locally(self, request: int) -> float:
        """Give the tokens to compute with what the local cluster holds."""
        return self.lengths[request] - self.local[request]

    def left_anywhere(self, request: int) -> float:
        """Give the tokens to compute with the longer of both caches."""
        return self.lengths[request] - max(self.local[request], self.remote[request])

    def settle(self, request: int, remote: bool, move: bool) -> tuple[float, float, float]:
        """Give tokens to compute, tokens to send after prefill, and cached tokens to send before it.

        With `move` the longer cache is brought to where the request prefills; only what goes to the local cluster uses
        the link in the direction that is simulated.
        """
        near, far, length = self.local[request], self.remote[request], self.lengths[request]
        if self.blocks:
            self._pools[remote].keep(self.blocks[request])
        if remote:
            return length - (max(near, far) if move else far), length - near, 0.0
        if move and far > near:
            return length - far, 0.0, far - near
        return length - near, 0.0, 0.0


class _BlockPool:
    """Blocks of a cache, least recently used first."""

    def __init__(self, most: float) -> None:
        self.most = most
        self.held: OrderedDict[int, None] = OrderedDict()

    def match(self, blocks: Sequence[int]) -> int:
        held = self.held
        return next((i for i, block in enumerate(blocks) if block not in held), len(blocks))

    def keep(self, blocks: Sequence[int]) -> None:
        for block in reversed(blocks):
            self.held[block] = None
            self.held.move_to_end(block)
        while len(self.held) > self.most:
            self.held.popitem(last=False)


def threshold_at(router: Router, times: Sequence[float]) -> list[float | None]:
    """Give the threshold [token] in force at each time; ``None`` where the policy has none."""
    if isinstance(router, Fixed):
        return [router.threshold if math.isfinite(router.threshold) else None] * len(times)
    if not isinstance(router, BandwidthAware):
        return [None] * len(times)
    changes, values = router.history[::2], router.history[1::2]
    return [values[max(0, bisect_right(changes, t) - 1)] if values else None for t in times]

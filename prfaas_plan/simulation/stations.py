"""The parts of an event simulation: a queue of events, pools of instances, and a link that transfers share."""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush

__all__ = ["Action", "Events", "SharedLink", "Station", "times_of"]

Action = Callable[[float, int, int, int], None]
"""What happens at an event: called with its time, its number, and two integers."""
Then = Callable[[float, int], None]
"""What follows for a request at a time."""


class Events:
    """Events in order of time; those of one time in the order they were made."""

    __slots__ = ("heap", "made")

    def __init__(self) -> None:
        self.heap: list[tuple[float, int, Action, int, int]] = []
        self.made = 0

    def at(self, time: float, act: Action, a: int = 0, b: int = 0) -> int:
        """Let something happen at a time, and give the number of the event."""
        self.made = number = self.made + 1
        heappush(self.heap, (time, number, act, a, b))
        return number

    def run_until(self, time: float) -> None:
        """Let everything happen that is due at a time."""
        heap = self.heap
        while heap and heap[0][0] <= time:
            now, number, act, a, b = heappop(heap)
            act(now, number, a, b)


def times_of(requests: int) -> array[float]:
    """Make a time for each request, infinite until it is known."""
    return array("d", [math.inf]) * requests


class Station:
    """A pool of instances, each with a number of slots, and one queue served first come, first served.

    A slot holds one request for its own time. Instances can fail, drain, come back and be added.
    """

    def __init__(self, events: Events, seconds: list[float], instances: int, width: int = 1) -> None:
        self.events = events
        self.seconds = seconds
        """Time each request takes [s]."""
        self.width = width
        self.instances = instances
        """Instances that take work."""
        self.then: Then | None = None
        self.queue: deque[int] = deque()
        self.started = times_of(len(seconds))
        self.finished = times_of(len(seconds))
        self.work = 0.0
        """Seconds of service asked for and not yet done."""
        self.lost_s = 0.0
        """Seconds of service that ended in a failure."""
        self.changes: list[tuple[float, int]] = [(0.0, instances)]
        """When the number of instances changed, and by how much."""
        slots = instances * width
        self._free = deque(k * width + j for j in range(width) for k in range(instances))
        self._running = [0] * slots
        self._holds = [0] * slots
        self._out = [False] * slots
        self._empty: dict[int, tuple[int, Callable[[float], None]]] = {}

    def submit(self, now: float, request: int) -> None:
        """Take a request, at once if a slot is free."""
        self.work += self.seconds[request]
        if self._free:
            self._start(now, self._free.popleft(), request)
        else:
            self.queue.append(request)

    def delay(self) -> float:
        """Give the time a new request will roughly wait [s]: unfinished work over instances, none if a slot is free."""
        if self._free:
            return 0.0
        return self.work / self.instances if self.instances else math.inf

    def _start(self, now: float, slot: int, request: int) -> None:
        self.started[request] = now
        self._holds[slot] = request
        self._running[slot] = self.events.at(now + self.seconds[request], self._finish, slot, request)

    def _finish(self, now: float, number: int, slot: int, request: int) -> None:
        if self._running[slot] != number:
            return
        self.finished[request] = now
        self.work -= self.seconds[request]
        if self._out[slot]:
            self._running[slot] = 0
            self._drained(now, slot)
        elif self.queue:
            self._start(now, slot, self.queue.popleft())
        else:
            self._running[slot] = 0
            self._free.append(slot)
        if self.then is not None:
            self.then(now, request)

    def _pull(self, now: float) -> None:
        while self.queue and self._free:
            self._start(now, self._free.popleft(), self.queue.popleft())

    def return_to_head(self, now: float, requests: Iterable[int]) -> None:
        """Put requests back before all others; the lowest number first."""
        for request in sorted(requests, reverse=True):
            self.work += self.seconds[request]
            self.queue.appendleft(request)
        self._pull(now)

    def _slots(self, instance: int) -> range:
        return range(instance * self.width, (instance + 1) * self.width)

    def _busy(self, instance: int) -> int:
        return sum(self._running[s] > 0 for s in self._slots(instance))

    def _take(self, now: float, instances: Sequence[int]) -> None:
        for instance in instances:
            for slot in self._slots(instance):
                self._out[slot] = True
        self._free = deque(s for s in self._free if not self._out[s])
        self.instances -= len(instances)
        self.changes.append((now, -len(instances)))

    def _in_service(self) -> list[int]:
        return [k for k in range(len(self._out) // self.width) if not self._out[k * self.width]]

    def fail(self, now: float, count: int) -> tuple[list[int], list[int]]:
        """Lose the first instances in service: give their numbers and the requests they were working on."""
        failed = self._in_service()[:count]
        self._take(now, failed)
        lost = []
        for slot in (s for k in failed for s in self._slots(k) if self._running[s]):
            request = self._holds[slot]
            self._running[slot] = 0
            self.work -= self.seconds[request]
            self.lost_s += now - self.started[request]
            lost.append(request)
        return failed, lost

    def restore(self, now: float, instances: Sequence[int]) -> None:
        """Bring failed instances back."""
        for slot in (s for k in instances for s in self._slots(k)):
            self._out[slot] = False
            self._free.append(slot)
        self.instances += len(instances)
        self.changes.append((now, len(instances)))
        self._pull(now)

    def drain(self, now: float, count: int, emptied: Callable[[float], None]) -> None:
        """Let instances, the emptiest first, finish their work; `emptied` is called as each one is done."""
        chosen = sorted(self._in_service(), key=self._busy)[:count]
        self._take(now, chosen)
        for instance in chosen:
            busy = self._busy(instance)
            if busy:
                self._empty[instance] = (busy, emptied)
            else:
                emptied(now)

    def _drained(self, now: float, slot: int) -> None:
        instance = slot // self.width
        if instance in self._empty:
            busy, emptied = self._empty[instance]
            self._empty[instance] = (busy - 1, emptied)
            if busy == 1:
                emptied(now)

    def add(self, now: float, count: int = 1) -> None:
        """Add instances."""
        first = len(self._out)
        more = count * self.width
        self._out += [False] * more
        self._running += [0] * more
        self._holds += [0] * more
        self._free.extend(range(first, first + more))
        self.instances += count
        self.changes.append((now, count))
        self._pull(now)


class SharedLink:
    """A link that carries transfers one after the other, or all at once at equal rates; its rate may change.

    Both are one clock that counts bytes: a transfer is done when the clock reaches its tag. In turn the clock runs at
    the full rate and tags add up; shared it runs at the rate over the number of transfers and a tag is the clock plus
    the size.
    """

    def __init__(self, events: Events, rate: float, *, fair: bool = False) -> None:
        self.events = events
        self.rate = rate
        """Rate now [B/s]; may be infinite or 0."""
        self.fair = fair
        self.offered = 0.0
        """Bytes of all transfers so far."""
        self.sent = 0.0
        """Bytes sent so far."""
        self.log = array("d")
        """Times of changes, each followed by the bytes sent until then."""
        self.rates: list[tuple[float, float]] = [(0.0, rate)]
        self._jobs: list[tuple[float, int, int, Then]] = []
        self._clock = self._last = self._seen = 0.0
        self._made = self._due = 0

    def backlog(self, now: float) -> float:
        """Give the bytes that wait or are on their way."""
        if not self._jobs:
            return 0.0
        return max(0.0, self.offered - self.sent - self.rate * (now - self._seen))

    def submit(self, now: float, size: float, request: int, then: Then) -> None:
        """Send some bytes for a request; `then` is called when the last one has arrived."""
        if math.isinf(self.rate):
            then(now, request)
            return
        self._advance(now)
        self.offered += size
        base = self._clock if self.fair or not self._jobs else self._last
        self._last = base + size
        self._made += 1
        heappush(self._jobs, (self._last, self._made, request, then))
        if self.fair or len(self._jobs) == 1:
            self._plan(now)

    def _advance(self, now: float) -> None:
        if self._jobs and math.isinf(self.rate):
            self.sent = self.offered
        elif self._jobs:
            passed = self.rate * (now - self._seen)
            self.sent += passed
            self._clock += passed / len(self._jobs) if self.fair else passed
        self._seen = now
        self.log.append(now)
        self.log.append(self.sent)

    def _plan(self, now: float) -> None:
        self._due = 0
        if self._jobs and self.rate > 0.0:
            speed = self.rate / len(self._jobs) if self.fair else self.rate
            left = max(0.0, self._jobs[0][0] - self._clock) / speed
            self._due = self.events.at(now + left, self._arrived)

    def _arrived(self, now: float, number: int, _a: int, _b: int) -> None:
        if number != self._due:
            return
        self._advance(now)
        self._clock, _, request, then = heappop(self._jobs)
        if not self._jobs:
            self._clock = 0.0
        self._plan(now)
        then(now, request)

    def set_rate(self, now: float, rate: float) -> None:
        """Change the rate [B/s]."""
        self._advance(now)
        self.rate = rate
        self.rates.append((now, rate))
        self._plan(now)

"""A promise on the time to first token that includes waiting: the least room in the prefill pools that keeps it.

Every prefill pool is a queue with the station's instances as servers (`prfaas_plan.pool_wait`), fed by the requests it
is sent, whatever their origin. All pools keep the same share of their capacity free; the larger the share, the shorter
the waits and the smaller the rate, so the least share that keeps every promise is found by bisection.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from prfaas_plan.arrivals import Arrivals
from prfaas_plan.errors import InfeasibleError
from prfaas_plan.fleet.case import FleetCase
from prfaas_plan.fleet.evaluate import Evaluation, Part, evaluate
from prfaas_plan.fleet.search import Outcome
from prfaas_plan.pool_wait import Wait, wait_in_pool
from prfaas_plan.queueing import Response, mixed_response
from prfaas_plan.service_times import ServiceTimes

__all__ = ["late_share", "loaded_first_token", "with_short_queues"]

_POINTS = 6
_MOST_ROOM = 0.97
_STEPS = 9


def with_short_queues(case: FleetCase, plan: Callable[[FleetCase], Outcome | None]) -> Outcome | None:
    """Plan with as little room in the prefill pools as keeps every promise that includes waiting.

    Gives ``None`` where even without waiting there is no plan. Raises `InfeasibleError` where no room is enough.
    """
    room = case.with_limits(queue_room=_MOST_ROOM)
    best = plan(room)
    if best is None:
        return None if plan(case) is None else _refuse("no fleet within its limits keeps queues short enough")
    if not _keeps(best):
        return _refuse("a promised time to first token is missed even where nearly nobody waits")
    low, high = 0.0, _MOST_ROOM
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        found = plan(case.with_limits(queue_room=middle))
        if found is not None and _keeps(found):
            best, high = found, middle
        else:
            low = middle
    return best


def _refuse(why: str) -> Outcome:
    raise InfeasibleError(
        f"{why}, waits included",
        "a longer ttft_s, a lower ttft_percentile, more instances or ttft_load = 'idle' would do",
    )


def _keeps(outcome: Outcome) -> bool:
    evaluation = evaluate(outcome)
    rate = outcome.values[outcome.model.rate]
    case = evaluation.case
    return all(
        late_share(evaluation, h, o, rate) <= traffic.late_share
        for h, state in enumerate(case.states)
        for o, traffic in enumerate(case.traffic)
        if traffic.loaded and state.rates[o] > 0.0
    )


def late_share(evaluation: Evaluation, state: int, traffic: int, rate_rps: float) -> float:
    """Give the share of a kind of traffic that waits and prefills longer than promised, in one state at a rate."""
    kind = evaluation.case.traffic[traffic]
    late = 0.0
    for part, wait, times in _parts(evaluation, state, rate_rps):
        if part.traffic == traffic:
            weight = part.share * part.bin.share
            pairs = zip(times.seconds, times.weights, strict=True)
            late += weight * sum(w * wait.survival(kind.ttft_s - s) for s, w in pairs)
    return late


def loaded_first_token(evaluation: Evaluation, state: int, rate_rps: float) -> Response:
    """Give mean and percentiles of the time to first token [s], waits included, in one state at a rate [req/s]."""
    rates = evaluation.case.states[state].rates
    parts = _parts(evaluation, state, rate_rps)
    weights = [p.share * p.bin.share * rates[p.traffic] for p, _, _ in parts]
    total = sum(weights)
    return mixed_response([(x / total, wait, times) for x, (_, wait, times) in zip(weights, parts, strict=True)])


def _parts(evaluation: Evaluation, state: int, rate_rps: float) -> list[tuple[Part, Wait, ServiceTimes]]:
    """List the parts of a state with the wait at their pool and their times from service to first token."""
    case = evaluation.case
    by_station: dict[int, list[Part]] = defaultdict(list)
    for part in evaluation.parts:
        if part.state == state and case.states[state].rates[part.traffic] > 0.0:
            by_station[part.route.station].append(part)
    found = []
    for station, parts in by_station.items():
        wait = _wait(evaluation, state, station, parts, rate_rps)
        for part in parts:
            kind = case.traffic[part.traffic]
            curve = case.first_token(kind, part.route)
            found.append((part, wait, ServiceTimes.of(kind.law, curve, part.bin.low, part.bin.high, _POINTS)))
    return found


def _wait(evaluation: Evaluation, state: int, station: int, parts: list[Part], rate_rps: float) -> Wait:
    case = evaluation.case
    rates = case.states[state].rates
    seconds = case.stations[station].seconds
    assert seconds is not None  # noqa: S101 (a station that prefills has service times)
    points: list[tuple[float, float]] = []
    total = 0.0
    for part in parts:
        weight = part.share * part.bin.share * rates[part.traffic]
        times = ServiceTimes.of(case.traffic[part.traffic].law, seconds, part.bin.low, part.bin.high, _POINTS)
        points += [(s, w * weight) for s, w in zip(times.seconds, times.weights, strict=True)]
        total += weight
    points.sort()
    service = ServiceTimes(tuple(s for s, _ in points), tuple(w / total for _, w in points))
    everyone = sum(rates)
    cv = max(case.traffic[p.traffic].arrival_cv for p in parts)
    stream = Arrivals(rate_rps * everyone, cv).thinned(min(1.0, total / everyone))
    servers = max(1, round(evaluation.capacity["prefill", state, station]))
    return wait_in_pool(stream, service, servers)

"""When the requests of a trace come: rate, burstiness, peaks, the step of the clock, the hour of the peak."""

from __future__ import annotations

import math
import random
from array import array
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from prfaas_plan.trace.records import Trace

__all__ = ["Arrivals", "arrivals", "peak_to_mean"]

TIED_BAD = 0.2
"""With more than this share of gaps at zero, the clock is too coarse for the variation of the gaps to mean much."""
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How the requests of a trace arrive."""

    span_s: float
    rate_rps: float | None
    """Gaps between first and last request over their sum [1/s]."""
    interarrival_cv: float | None
    """Standard deviation of the gaps over their mean, as the file has them; 1 for Poisson arrivals."""
    interarrival_cv_spread: float | None
    """The same after requests are spread at random over the clock step, where the clock is coarse."""
    clock_step_s: float | None
    """Smallest time between two different stamps [s]."""
    tied_fraction: float
    """Share of the gaps that are zero."""
    peak_to_mean_1min: float | None
    """Requests of the busiest minute over those of the mean minute; a last, partial minute is left out."""
    peak_to_mean_1h: float | None
    peak_to_mean_1min_input_tokens: float | None
    peak_to_mean_1min_output_tokens: float | None
    peak_minute_at: str | None
    """Date and time of the busiest minute, where the file has dates."""
    peak_hour: int | None
    """Hour of the day (0 to 23) with the most requests, for traces with dates that cover a day or more."""
    time_zone: str | None
    """``UTC``, or ``not stated`` where dates have no offset; ``None`` where times are relative."""

    @property
    def quantised(self) -> bool:
        """Whether so many requests share a time stamp that gaps between them mean little."""
        return self.tied_fraction > TIED_BAD

    def to_dict(self) -> dict[str, Any]:
        """Give the numbers by name; what does not exist is ``None``."""
        return asdict(self) | {"quantised": self.quantised}


def arrivals(trace: Trace) -> Arrivals | None:
    """Describe the arrivals of a trace; ``None`` where it has no times.

    Peaks count full minutes (or hours) from the first request; there is none with fewer than two.

    >>> trace = Trace("made.csv", "plain", array("i", [5, 5, 5]), array("i"), array("d", [0.0, 1.0, 4.0]))
    >>> arrivals(trace).rate_rps, arrivals(trace).interarrival_cv
    (0.5, 0.5)
    """
    times = trace.times_s
    if not times:
        return None
    span = times[-1]
    gaps = len(times) - 1
    step, ties = _clock(times)
    tied = ties / gaps if gaps else 0.0
    cv = _variation(times, span)
    spread = _spread(times, step) if step and tied > TIED_BAD else times
    per_minute = _per_bin(times, None, _MINUTE)
    start = datetime.fromisoformat(trace.start) if trace.start else None
    return Arrivals(
        span_s=span,
        rate_rps=gaps / span if span > 0 else None,
        interarrival_cv=cv,
        interarrival_cv_spread=_variation(spread, span) if spread is not times else cv,
        clock_step_s=step,
        tied_fraction=tied,
        peak_to_mean_1min=_peak(per_minute),
        peak_to_mean_1h=_peak(_per_bin(times, None, _HOUR)),
        peak_to_mean_1min_input_tokens=peak_to_mean(trace, trace.input_tokens),
        peak_to_mean_1min_output_tokens=peak_to_mean(trace, trace.output_tokens),
        peak_minute_at=_moment(start, per_minute),
        peak_hour=_peak_hour(times, start),
        time_zone=None if start is None else "UTC" if start.tzinfo else "not stated",
    )


def peak_to_mean(trace: Trace, weights: Sequence[int], width_s: float = _MINUTE) -> float | None:
    """Divide the work of the busiest full bin by that of the mean full bin; work is the sum of the weights.

    `weights` has one number a request, such as its uncached tokens; `width_s` is the bin [s]. ``None`` with
    fewer than two full bins, without times, or without weights.

    >>> trace = Trace("made.csv", "plain", array("i", [5, 5, 5]), array("i"), array("d", [0.0, 61.0, 121.0]))
    >>> peak_to_mean(trace, [100, 300, 100])
    1.5
    """
    if len(weights) != len(trace.times_s):
        return None
    return _peak(_per_bin(trace.times_s, weights, width_s))


def _per_bin(times: Sequence[float], weights: Sequence[int] | None, width: float) -> list[int]:
    bins = math.floor(times[-1] / width) if len(times) else 0
    if bins > 100_000_000:
        return []
    totals = [0] * bins
    end = bins * width
    for i, time in enumerate(times):
        if time >= end:
            break
        totals[min(int(time / width), bins - 1)] += 1 if weights is None else weights[i]
    return totals


def _peak(totals: Sequence[int]) -> float | None:
    whole = sum(totals)
    return max(totals) * len(totals) / whole if len(totals) >= 2 and whole else None


def _variation(times: Sequence[float], span: float) -> float | None:
    gaps = len(times) - 1
    if gaps < 2 or span <= 0:
        return None
    mean = span / gaps
    squares = math.fsum((b - a - mean) ** 2 for a, b in pairwise(times))
    return math.sqrt(squares / gaps) / mean


def _clock(times: Sequence[float]) -> tuple[float | None, int]:
    """Find the smallest step between two different stamps, and how many stamps equal the one before."""
    step, ties = math.inf, 0
    for before, time in pairwise(times):
        if time == before:
            ties += 1
        elif time - before < step:
            step = time - before
    return (step if step < math.inf else None), ties


def _spread(times: Sequence[float], step: float) -> array[float]:
    """Spread the requests of each stamp at random over the step that follows it, reproducibly."""
    draw = random.Random(1).random  # noqa: S311 (no secret)
    return array("d", sorted(time + step * draw() for time in times))


def _moment(start: datetime | None, per_minute: Sequence[int]) -> str | None:
    if start is None or not per_minute:
        return None
    busiest = max(range(len(per_minute)), key=per_minute.__getitem__)
    try:
        return (start + timedelta(minutes=busiest)).isoformat(sep=" ", timespec="minutes")
    except OverflowError:
        return None


def _peak_hour(times: Sequence[float], start: datetime | None) -> int | None:
    if start is None or times[-1] < _DAY:
        return None
    offset = start.hour * _HOUR + start.minute * _MINUTE + start.second + start.microsecond * 1e-6
    counts = [0] * 24
    whole_days = times[-1] // _DAY * _DAY
    for time in times:
        if time >= whole_days:
            break
        counts[int((time + offset) // _HOUR) % 24] += 1
    return max(range(24), key=counts.__getitem__)

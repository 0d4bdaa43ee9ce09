"""How long a KV transfer takes, what overlapping hides, when recomputing wins, and the room that bursts need.

Rates are bytes per second of payload, as `prfaas_plan.link.usable_rate` gives them.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Final

from prfaas_plan.checks import Checks
from prfaas_plan.errors import InfeasibleError
from prfaas_plan.numerics import Curve, bisect_root, finite_or_none, quadratic_roots
from prfaas_plan.units import GBPS

__all__ = [
    "Bursts",
    "Overlap",
    "PullOrRecompute",
    "buffer_for_overflow",
    "cold_start_seconds",
    "overlapped_transfer",
    "pull_or_recompute",
    "rate_for_overflow",
    "transfer_seconds",
]

INITIAL_WINDOW: Final = 10
"""Segments a new TCP connection may send at once (RFC 6928)."""


def transfer_seconds(size_bytes: float, rate_bytes_per_s: float, rtt_s: float, cold_s: float = 0.0) -> float:
    """Give the time [s] until the last byte of a transfer arrives: ``RTT/2 + bytes/rate``, plus a cold start [s].

    An infinite rate leaves half a round trip. Raises `InputError`.

    >>> transfer_seconds(1.25e9, 12.5e9, 0.03)
    0.115
    """
    checks = Checks("transfer_seconds")
    checks.at_least("size_bytes", size_bytes)
    checks.above("rate_bytes_per_s", rate_bytes_per_s, infinite=True)
    checks.at_least("rtt_s", rtt_s)
    checks.at_least("cold_s", cold_s)
    checks.finish()
    return 0.5 * rtt_s + size_bytes / rate_bytes_per_s + cold_s


def cold_start_seconds(
    size_bytes: float, rate_bytes_per_s: float, rtt_s: float, segment_bytes: int, connections: int = 1
) -> float:
    """Give the time [s] a transfer loses on connections that are new: the handshake and slow start.

    The window starts at 10 segments a connection (RFC 6928) and doubles each round trip until it covers rate × RTT, so
    a long transfer loses ``RTT·log2(rate·RTT / (N·10·MSS))`` (handshake included, at least one RTT) and a short one
    ends on the way. Slow start without loss; a cached or paced window starts faster. Raises `InputError`.

    >>> round(cold_start_seconds(1e9, 12.5e9, 0.03, 1460) / 0.03, 1)
    14.6
    """
    checks = Checks("cold_start_seconds")
    checks.at_least("size_bytes", size_bytes)
    checks.above("rate_bytes_per_s", rate_bytes_per_s)
    checks.at_least("rtt_s", rtt_s)
    checks.above("segment_bytes", segment_bytes)
    checks.at_least("connections", connections, 1)
    checks.finish()
    first = INITIAL_WINDOW * segment_bytes * connections
    pipe = rate_bytes_per_s * rtt_s
    if pipe <= first:
        return rtt_s
    sent = min(size_bytes, pipe - first)
    return rtt_s * (1.0 + math.log2(1.0 + sent / first)) - sent / rate_bytes_per_s


@dataclass(frozen=True, slots=True)
class Overlap:
    """When a request's KV is on the other side, for a transfer that follows prefill and for one that overlaps it."""

    prefill_s: float
    serial_s: float
    """From the start of prefill to the last byte, sent after prefill."""
    overlapped_s: float
    """The same, each layer sent as soon as it is computed."""
    hidden_s: float
    """What overlapping saves: serial minus overlapped."""
    tail_s: float
    """What the overlapped transfer adds to prefill."""

    def to_dict(self) -> dict[str, float]:
        """Give the times under their names."""
        return asdict(self)


def overlapped_transfer(prefill_s: float, sending_s: float, rtt_s: float, layers: int) -> Overlap:
    """Compare a transfer that follows prefill with one that sends each layer's KV as soon as it exists.

    Layers of equal time and bytes pass two stations in line, so the last byte leaves at
    ``max(T + X/n, T/n + X)`` for prefill T [s], sending X = bytes/rate [s] and n layers that hold KV; ``T + X`` in
    series. Both add RTT/2. The hidden part is ``min(T, X)·(1 - 1/n)``. Raises `InputError`.

    >>> result = overlapped_transfer(2.0, 0.8, 0.03, layers=16)
    >>> round(result.serial_s, 3), round(result.overlapped_s, 3), round(result.hidden_s, 3), round(result.tail_s, 3)
    (2.815, 2.065, 0.75, 0.065)
    """
    checks = Checks("overlapped_transfer")
    checks.at_least("prefill_s", prefill_s)
    checks.at_least("sending_s", sending_s)
    checks.at_least("rtt_s", rtt_s)
    checks.at_least("layers", layers, 1)
    checks.finish()
    serial = prefill_s + sending_s + 0.5 * rtt_s
    hidden = min(prefill_s, sending_s) * (1.0 - 1.0 / layers)
    return Overlap(prefill_s, serial, serial - hidden, hidden, serial - hidden - prefill_s)


@dataclass(frozen=True, slots=True)
class PullOrRecompute:
    """Fetching the KV of a prefix against computing it again."""

    length_tokens: float
    transfer_s: float
    recompute_s: float
    faster: str
    """``transfer`` or ``recompute``."""
    break_even_bytes_per_s: float
    """Rate at which both take as long at this length; infinite where recomputing takes less than half a round trip."""
    break_even_tokens: tuple[float, ...]
    """Lengths at which both take as long at this rate, rising; empty where one is always faster."""

    def to_dict(self) -> dict[str, object]:
        """Give the comparison under the names of the JSON output; an infinite rate is ``None``."""
        rate = self.break_even_bytes_per_s
        return {
            "length_tokens": self.length_tokens,
            "transfer_s": self.transfer_s,
            "recompute_s": self.recompute_s,
            "faster": self.faster,
            "break_even_gbps": finite_or_none(rate / GBPS),
            "break_even_tokens": list(self.break_even_tokens),
        }


def pull_or_recompute(
    length_tokens: float,
    kv_bytes: Curve,
    prefill_s: Curve,
    rate_bytes_per_s: float,
    rtt_s: float,
    longest_tokens: float = 1e7,
) -> PullOrRecompute:
    """Compare fetching the KV of a prefix with prefilling it, and find where the two cross.

    ``RTT/2 + S(l)/B`` against ``T(l)``, for the curves of bytes [B] and seconds [s] over length; the crossings are
    exact roots of their piecewise quadratic difference up to `longest_tokens`. A queue in front of either is not
    counted. Raises `InputError`.

    >>> kv, prefill = Curve.polynomial(0.0, 35136.0), Curve.polynomial(0.01, 5e-5, 1e-9)
    >>> result = pull_or_recompute(32768, kv, prefill, 0.5e9, 0.08)
    >>> round(result.transfer_s, 2), round(result.recompute_s, 2), result.faster
    (2.34, 2.72, 'transfer')
    >>> [round(l) for l in result.break_even_tokens], round(result.break_even_bytes_per_s / 1e9, 2)
    ([21657], 0.43)
    """
    checks = Checks("pull_or_recompute")
    checks.above("length_tokens", length_tokens)
    checks.above("longest_tokens", longest_tokens)
    checks.above("rate_bytes_per_s", rate_bytes_per_s)
    checks.at_least("rtt_s", rtt_s)
    checks.finish()
    recompute = prefill_s(length_tokens)
    transfer = transfer_seconds(kv_bytes(length_tokens), rate_bytes_per_s, rtt_s)
    spare = recompute - 0.5 * rtt_s
    saved = prefill_s + kv_bytes.scaled(-1.0 / rate_bytes_per_s) + Curve.polynomial(-0.5 * rtt_s)
    return PullOrRecompute(
        length_tokens,
        transfer,
        recompute,
        "transfer" if transfer < recompute else "recompute",
        kv_bytes(length_tokens) / spare if spare > 0.0 else math.inf,
        tuple(_crossings(saved, longest_tokens)),
    )


def _crossings(curve: Curve, longest: float) -> list[float]:
    """Find where a piecewise quadratic changes sign in ``(0, longest]``, by roots and at jumps."""
    points: list[float] = []
    before = 0.0
    for start, end, (c0, c1, c2) in curve.spans(0.0, longest):
        inside = [x for x in quadratic_roots(c0, c1, c2) if start < x < end]
        edges = [start, *inside, end]
        for left, right in pairwise(edges):
            middle = 0.5 * (left + right)
            sign = math.copysign(1.0, c0 + middle * (c1 + middle * c2))
            if before and sign != before:
                points.append(left)
            before = sign
    return points


@dataclass(frozen=True, slots=True)
class Bursts:
    """A stream of transfers that wait for a link: how often, how large, how irregular."""

    arrivals_per_s: float
    """Transfers per second."""
    sizes_bytes: tuple[float, ...]
    """Sizes that occur [B]."""
    weights: tuple[float, ...]
    """Their probabilities, which need not add up to 1 exactly."""
    arrival_cv: float = 1.0
    """Coefficient of variation of the gaps, taken as gamma-distributed; 1 is Poisson."""

    @property
    def mean_rate(self) -> float:
        """Mean offered rate [B/s]."""
        pairs = zip(self.sizes_bytes, self.weights, strict=True)
        return self.arrivals_per_s * sum(s * w for s, w in pairs) / sum(self.weights)

    def check(self, where: str) -> Checks:
        """Collect what is wrong with the stream."""
        checks = Checks(where)
        checks.above("arrivals_per_s", self.arrivals_per_s)
        checks.at_least("arrival_cv", self.arrival_cv)
        if len(self.sizes_bytes) != len(self.weights) or not self.sizes_bytes:
            checks.fault("weights", "expected as many weights as sizes, at least one", len(self.weights))
        if any(not (0.0 <= s < math.inf) for s in self.sizes_bytes) or not any(self.sizes_bytes):
            checks.fault("sizes_bytes", "expected finite sizes of at least 0, one of them above 0")
        if any(not (0.0 <= w < math.inf) for w in self.weights) or not any(self.weights):
            checks.fault("weights", "expected finite weights of at least 0, one of them above 0")
        return checks

    def _effective_rate(self, decay: float) -> float:
        """Give the rate at which the backlog's tail decays as ``exp(-decay·b)``: the effective bandwidth."""
        largest = max(self.sizes_bytes)
        pairs = zip(self.sizes_bytes, self.weights, strict=True)
        scaled = sum(w * math.exp(decay * (s - largest)) for s, w in pairs) / sum(self.weights)
        log_moment = decay * largest + math.log(scaled)
        square = self.arrival_cv**2
        grown = log_moment if square == 0.0 else _exp_minus_1_over(square * log_moment) * log_moment
        return self.arrivals_per_s * grown / decay


def _exp_minus_1_over(x: float) -> float:
    if abs(x) < 1e-12:
        return 1.0
    return math.expm1(x) / x if x < 700.0 else math.inf


def rate_for_overflow(bursts: Bursts, buffer_bytes: float, probability: float) -> float:
    """Give the link rate [B/s] with which an arriving transfer finds more than a buffer [B] waiting with a probability.

    ``P(backlog > b) <= exp(-θb)`` where ``E[exp(θS)]·E[exp(-θCA)] = 1`` for sizes S, gaps A and rate C (Kingman 1964;
    Ross, J. Appl. Prob. 11, 1974); solved for C this is the effective bandwidth (Kelly 1996), for Poisson arrivals
    ``C = λ(E[exp(θS)] - 1)/θ``, for gamma gaps of variation c ``λ(E[exp(θS)]**c² - 1)/(θc²)``. An upper bound, for
    renewal arrivals and whole transfers that become ready at once: sending layer by layer needs less, arrivals that
    depend on each other more. Head room is the result less `Bursts.mean_rate`. Raises `InputError`.

    >>> calls = Bursts(10.0, (50e6, 500e6), (0.8, 0.2))
    >>> round(calls.mean_rate / 1e9, 2), round(rate_for_overflow(calls, 5e9, 1e-3) / 1e9, 2)
    (1.4, 1.85)
    """
    checks = bursts.check("rate_for_overflow")
    checks.above("buffer_bytes", buffer_bytes)
    checks.inside("probability", probability)
    checks.finish()
    return bursts._effective_rate(-math.log(probability) / buffer_bytes)


def buffer_for_overflow(bursts: Bursts, rate_bytes_per_s: float, probability: float) -> float:
    """Give the buffer [B] that an arriving transfer finds exceeded with a probability on a link of a rate [B/s].

    The inverse of `rate_for_overflow`, with its bound and limits; the arriving transfer's own bytes come on top.
    Raises `InputError`, and `InfeasibleError` where the link carries less than the stream's mean.

    >>> calls = Bursts(10.0, (50e6, 500e6), (0.8, 0.2))
    >>> round(buffer_for_overflow(calls, 1.85e9, 1e-3) / 1e9, 1)
    5.0
    """
    checks = bursts.check("buffer_for_overflow")
    checks.above("rate_bytes_per_s", rate_bytes_per_s)
    checks.inside("probability", probability)
    checks.finish()
    mean = bursts.mean_rate
    if rate_bytes_per_s <= mean:
        raise InfeasibleError(
            f"the link of {rate_bytes_per_s / GBPS:.4g} Gbit/s fills without end: transfers offer "
            f"{mean / GBPS:.4g} Gbit/s on average",
            f"a link of more than {mean / GBPS:.4g} Gbit/s would help",
        )
    high = 1.0 / max(bursts.sizes_bytes)
    while bursts._effective_rate(high) < rate_bytes_per_s and high < 1e3:
        high *= 2.0
    decay = bisect_root(lambda x: bursts._effective_rate(x) - rate_bytes_per_s, 0.0, high)
    return -math.log(probability) / decay

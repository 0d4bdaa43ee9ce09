"""What a wide-area link carries: framing, the transport's answer to loss and round trip, and the inverse questions.

Rates are bytes of payload per second, ``GBPS`` (`prfaas_plan.units`) is one Gbit/s. A loss-based transport is held to
its response function per connection, a rate-based one loses a little more than the packets lost, and a window caps all
of them at window / RTT. The loss fraction means independent losses (loss *events*); a burst of lost packets counts
once, so a per-packet loss ratio measured on a bursty path makes the estimate pessimistic.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from prfaas_plan.checks import Checks
from prfaas_plan.errors import InfeasibleError
from prfaas_plan.numerics import finite_or_none
from prfaas_plan.tcp import TCP_IPV4_BYTES, TIMESTAMP_BYTES, cubic_window, framing_fraction, reno_rate, timeout_seconds
from prfaas_plan.units import GBPS

__all__ = [
    "CONGESTION",
    "LinkRate",
    "Path",
    "Transport",
    "connections_needed",
    "longest_rtt",
    "tolerable_loss",
    "usable_rate",
]

BBR_GAIN: Final = 0.97
"""Share of the link a BBRv3 flow uses: ProbeRTT costs about 2 %, the pacing margin 1 % (draft-ietf-ccwg-bbr)."""
BBR_LOSS_LIMIT: Final = 0.01
"""Average loss that BBRv3 aims to stay below (draft-ietf-ccwg-bbr); it backs off above 2 % in a round."""
BBR1_LOSS_LIMIT: Final = 0.15
"""Loss up to which BBRv1 keeps its rate (text of the Linux commit; 0.20 in Cardwell's derivation)."""
CONGESTION: Final = ("reno", "cubic", "bbr", "bbr1")
"""Names of the congestion controls: Reno, CUBIC, BBRv3 and BBRv1."""
_LEAST_LOSS: Final = 1e-18
_MOST_LOSS: Final = 0.5
_LONGEST_RTT: Final = 100.0


@dataclass(frozen=True, slots=True)
class Path:
    """A network path between two sites."""

    nominal_bytes_per_s: float
    """Line rate [B/s]; may be infinite."""
    rtt_s: float
    """Round trip [s]."""
    loss_fraction: float = 0.0
    """Probability that a segment is lost for a reason other than the transfer itself [1]."""
    mtu_bytes: int = 1500
    """Largest IP packet [B]; 1500 is Ethernet's standard, 9000 must hold on every hop."""
    encapsulation_bytes: int = 0
    """Further bytes on the wire per packet: VLAN tag 4, VXLAN 50 [B]."""
    host_fraction: float = 1.0
    """Share of the framed rate that the end hosts reach (NIC, PCIe, copies), where it was measured [1]."""


@dataclass(frozen=True, slots=True)
class Transport:
    """How the bytes are sent: congestion control, parallel connections, windows."""

    congestion: str
    """One of `CONGESTION`."""
    connections: int
    """Parallel connections."""
    window_bytes: float = math.inf
    """Largest window of one connection: the smaller of the socket buffers [B]."""
    header_bytes: int = TCP_IPV4_BYTES + TIMESTAMP_BYTES
    """Network and transport headers inside the MTU [B]; 40 without options, 20 more with IPv6."""
    delayed_ack: bool = False
    """Whether every second segment is acknowledged (only Reno's constant depends on it)."""
    timeouts: bool = True
    """Whether a loss-based control also loses the time of retransmission timeouts (PFTK); matters above 1e-3."""
    own_queue_loss: bool = True
    """Whether the flows overflow a small buffer in front of the link themselves (loss-based controls only)."""


@dataclass(frozen=True, slots=True)
class LinkRate:
    """The payload rate of a path under a transport, and what limits it."""

    nominal_bytes_per_s: float
    framed_bytes_per_s: float
    """What fits between the headers, times the hosts' share [B/s]."""
    per_connection_bytes_per_s: float
    """What one connection reaches alone [B/s]."""
    usable_bytes_per_s: float
    bound: str
    """``link``, ``loss``, ``window`` or ``own queue``."""
    limits: tuple[str, ...] = ()
    """What to keep in mind about the estimate."""

    @property
    def efficiency_fraction(self) -> float:
        """Usable rate over nominal rate; 0 for an infinite line that does not limit."""
        return self.usable_bytes_per_s / self.nominal_bytes_per_s if math.isfinite(self.nominal_bytes_per_s) else 0.0

    def to_dict(self) -> dict[str, object]:
        """Give the rates in Gbit/s under the names of the JSON output; what is infinite is ``None``."""
        finite = math.isfinite(self.nominal_bytes_per_s)
        return {
            "nominal_gbps": _gbps(self.nominal_bytes_per_s),
            "framed_gbps": _gbps(self.framed_bytes_per_s),
            "per_connection_gbps": _gbps(self.per_connection_bytes_per_s),
            "usable_gbps": _gbps(self.usable_bytes_per_s),
            "efficiency_fraction": self.efficiency_fraction if finite else None,
            "bound": self.bound,
            "limits": list(self.limits),
        }


def _gbps(rate: float) -> float | None:
    return finite_or_none(rate / GBPS)


def _check(path: Path, transport: Transport, where: str) -> Checks:
    checks = Checks(where)
    checks.above("nominal_bytes_per_s", path.nominal_bytes_per_s, infinite=True)
    checks.at_least("rtt_s", path.rtt_s)
    checks.fraction("loss_fraction", path.loss_fraction)
    checks.at_least("header_bytes", transport.header_bytes)
    checks.above("mtu_bytes", path.mtu_bytes, transport.header_bytes)
    checks.at_least("encapsulation_bytes", path.encapsulation_bytes)
    checks.above("host_fraction", path.host_fraction)
    checks.fraction("host_fraction", path.host_fraction)
    checks.choice("congestion", transport.congestion, CONGESTION)
    checks.at_least("connections", transport.connections, 1)
    checks.above("window_bytes", transport.window_bytes, infinite=True)
    return checks


def _framed(path: Path, transport: Transport) -> float:
    framing = framing_fraction(path.mtu_bytes, transport.header_bytes, path.encapsulation_bytes)
    return path.nominal_bytes_per_s * framing * path.host_fraction


def _loss_based(path: Path, transport: Transport) -> float:
    segment = path.mtu_bytes - transport.header_bytes
    growth = reno_rate(segment, path.rtt_s, path.loss_fraction, delayed_ack=transport.delayed_ack)
    if transport.congestion != "reno" and path.rtt_s > 0.0:
        growth = max(growth, segment * cubic_window(path.rtt_s, path.loss_fraction) / path.rtt_s)
    b = 2.0 if transport.delayed_ack else 1.0
    seconds = segment / growth + (timeout_seconds(path.rtt_s, path.loss_fraction, b) if transport.timeouts else 0.0)
    return segment / seconds if seconds > 0.0 else math.inf


def _is_rate_based(path: Path, transport: Transport) -> bool:
    limit = {"bbr": BBR_LOSS_LIMIT, "bbr1": BBR1_LOSS_LIMIT}.get(transport.congestion, -1.0)
    return path.loss_fraction <= limit


def _ceiling(path: Path, transport: Transport) -> float:
    framed = _framed(path, transport)
    if transport.congestion.startswith("bbr"):
        return framed * (1.0 - path.loss_fraction) * (BBR_GAIN if transport.congestion == "bbr" else 1.0)
    if transport.own_queue_loss:
        return framed * (1.0 - 1.0 / (1.0 + 3.0 * transport.connections))
    return framed


def usable_rate(path: Path, transport: Transport) -> LinkRate:
    """Give the payload rate [B/s] that a path carries under a transport, and what limits it.

    ``min(N·min(response(RTT, p), window/RTT), ceiling)``. The ceiling is the framed line; for Reno and CUBIC in front
    of a small buffer ``line·(1 - 1/(1+3N))`` (Altman et al. 2006, unsynchronised Reno: cautious for CUBIC), for BBRv3
    ``0.97·line·(1-p)``, for BBRv1 ``line·(1-p)``. Above their loss limit the BBRs are taken to fall back to the
    loss-based response, a lower bound. Reno and CUBIC lose PFTK's timeouts on top of their window's law.
    Raises `InputError` with every fault in the arguments.

    >>> path = Path(100 * GBPS, rtt_s=0.03, loss_fraction=1e-5, mtu_bytes=9000)
    >>> rate = usable_rate(path, Transport("cubic", connections=64))
    >>> round(rate.usable_bytes_per_s / GBPS, 1), rate.bound
    (65.2, 'loss')
    """
    _check(path, transport, "usable_rate").finish()
    window = transport.window_bytes / path.rtt_s if path.rtt_s > 0.0 else math.inf
    rate_based = _is_rate_based(path, transport)
    response = math.inf if rate_based else _loss_based(path, transport)
    framed, ceiling = _framed(path, transport), _ceiling(path, transport)
    flows = transport.connections * min(response, window)
    if flows < ceiling:
        bound = "window" if window < response else "loss"
    elif transport.congestion.startswith("bbr") or ceiling == framed:
        bound = "link"
    else:
        bound = "own queue"
    return LinkRate(
        path.nominal_bytes_per_s,
        framed,
        min(response, window, framed),
        min(flows, ceiling),
        bound,
        _limits(path, transport),
    )


def _limits(path: Path, transport: Transport) -> tuple[str, ...]:
    notes = []
    if path.loss_fraction == 0.0:
        notes.append("no loss is an assumption: no wide-area path is free of it")
    if transport.congestion.startswith("bbr") and not _is_rate_based(path, transport):
        notes.append("loss is above what BBR tolerates: the loss-based response is a lower bound")
    elif path.loss_fraction > 1e-3 and transport.congestion in ("reno", "cubic"):
        notes.append("above a loss of 0.001 timeouts dominate and the estimate is rough")
    return tuple(notes)


def _meets(path: Path, transport: Transport, rate: float) -> bool:
    return usable_rate(path, transport).usable_bytes_per_s >= rate


def connections_needed(path: Path, transport: Transport, share: float = 0.9) -> int:
    """Give the fewest parallel connections that use a share [1] of the framed line.

    `transport.connections` is ignored.
    Raises `InputError` for wrong arguments and `InfeasibleError` where no number of connections reaches the share.

    >>> connections_needed(Path(100 * GBPS, 0.03, 1e-6), Transport("cubic", connections=1, header_bytes=40))
    92
    """
    checks = _check(path, transport, "connections_needed")
    checks.above("share", share)
    checks.fraction("share", share)
    checks.finish()
    target = share * _framed(path, transport)
    most = 2**30
    if not _meets(path, replace(transport, connections=most), target * (1.0 - 1e-12)):
        reached = usable_rate(path, replace(transport, connections=most))
        raise InfeasibleError(
            f"no number of connections reaches {share:.1%} of the link ({reached.bound} limits it to "
            f"{reached.usable_bytes_per_s / GBPS:.4g} Gbit/s)",
            f"ask for at most {reached.usable_bytes_per_s / reached.framed_bytes_per_s:.1%}",
        )
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _meets(path, replace(transport, connections=middle), target) else (middle, high)
    return high


def _largest(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Bisect on a logarithmic scale for the largest value at which a falling predicate holds."""
    if holds(high):
        return high
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _too_slow(best: LinkRate, rate: float, relaxation: str) -> InfeasibleError:
    return InfeasibleError(
        f"the link carries {best.usable_bytes_per_s / GBPS:.4g} Gbit/s at best ({best.bound} limits it) and "
        f"{rate / GBPS:.4g} Gbit/s are required",
        relaxation,
    )


def tolerable_loss(path: Path, transport: Transport, rate_bytes_per_s: float) -> float:
    """Give the largest loss fraction [1] at which the path still carries a rate [B/s], 0.5 at most.

    Raises `InfeasibleError` if it does not carry the rate even without loss.

    >>> alone = Transport("cubic", connections=1, header_bytes=40, own_queue_loss=False)
    >>> path = Path(100 * GBPS, 0.03)
    >>> f"{tolerable_loss(path, alone, 94.9 * GBPS):.1e}"
    '2.1e-09'
    """
    checks = _check(path, transport, "tolerable_loss")
    checks.above("rate_bytes_per_s", rate_bytes_per_s)
    checks.finish()
    if not _meets(replace(path, loss_fraction=_LEAST_LOSS), transport, rate_bytes_per_s):
        best = usable_rate(replace(path, loss_fraction=_LEAST_LOSS), transport)
        raise _too_slow(best, rate_bytes_per_s, "more connections, a larger window or a faster link would help")
    return _largest(
        lambda loss: _meets(replace(path, loss_fraction=loss), transport, rate_bytes_per_s), _LEAST_LOSS, _MOST_LOSS
    )


def longest_rtt(path: Path, transport: Transport, rate_bytes_per_s: float) -> float:
    """Give the longest round trip [s] at which the path still carries a rate [B/s]; infinite above 100 s.

    Raises `InfeasibleError` if it does not carry the rate even next door.

    >>> path = Path(100 * GBPS, 0.03, 1e-6, mtu_bytes=9000)
    >>> round(longest_rtt(path, Transport("reno", connections=32), 50 * GBPS), 4)
    0.0561
    """
    checks = _check(path, transport, "longest_rtt")
    checks.above("rate_bytes_per_s", rate_bytes_per_s)
    checks.finish()
    shortest = 1e-9
    if not _meets(replace(path, rtt_s=shortest), transport, rate_bytes_per_s):
        best = usable_rate(replace(path, rtt_s=shortest), transport)
        raise _too_slow(best, rate_bytes_per_s, "more connections, less loss or a faster link would help")
    found = _largest(lambda rtt: _meets(replace(path, rtt_s=rtt), transport, rate_bytes_per_s), shortest, _LONGEST_RTT)
    return math.inf if found >= _LONGEST_RTT else found

"""TCP and RoCE on a long line: the share of framing, and the response of one connection to loss and round trip.

Rates are bytes of payload per second. The loss fraction means independent losses (loss *events*); a burst of lost
packets counts once, so a per-packet ratio measured on a bursty path makes these laws pessimistic.
"""

from __future__ import annotations

import math
from typing import Final

from prfaas_plan.checks import Checks

__all__ = [
    "TCP_IPV4_BYTES",
    "TIMESTAMP_BYTES",
    "cubic_window",
    "fibre_rtt",
    "framing_fraction",
    "pftk_rate",
    "reno_rate",
    "roce_framing_fraction",
    "timeout_seconds",
]

ETHERNET_BYTES: Final = 38
"""Ethernet on the wire per frame: header 14, check sequence 4, preamble 8, inter-frame gap 12 (IEEE 802.3)."""
TCP_IPV4_BYTES: Final = 40
"""IPv4 header 20 (RFC 791) and TCP header 20 (RFC 9293)."""
TIMESTAMP_BYTES: Final = 12
"""TCP timestamp option with padding (RFC 7323), on by default in Linux."""
ROCE_BYTES: Final = 44
"""RoCEv2 per packet: IPv4 20, UDP 8, base transport header 12, invariant check 4 (InfiniBand annex A17)."""
MATHIS_EVERY_ACK: Final = math.sqrt(1.5)
"""Constant of the square-root law when every segment is acknowledged (Mathis et al. 1997; RFC 9438, AIMD(1, 0.5))."""
MATHIS_DELAYED_ACK: Final = math.sqrt(0.75)
"""The same when every second segment is acknowledged (Mathis et al. 1997; RFC 3819)."""
CUBIC_FACTOR: Final = 1.054
"""Average CUBIC window factor for C = 0.4 and beta = 0.7, ``(C(3+b)/(4(1-b)))**(1/4)`` (RFC 9438, eq. 6-7)."""
FIBRE_S_PER_KM: Final = 4.9e-6
"""One-way delay of light in fibre (n = 1.468)."""


def framing_fraction(mtu_bytes: int, header_bytes: int = 52, encapsulation_bytes: int = 0) -> float:
    """Give the share of an Ethernet line that is TCP payload [1]: ``(MTU - headers) / (MTU + 38 + encapsulation)``.

    Raises `InputError` if the headers fill the MTU [B].

    >>> round(framing_fraction(1500), 4), round(framing_fraction(9000), 4)
    (0.9415, 0.99)
    """
    checks = Checks("framing_fraction")
    checks.above("mtu_bytes", mtu_bytes, header_bytes)
    checks.at_least("header_bytes", header_bytes)
    checks.at_least("encapsulation_bytes", encapsulation_bytes)
    checks.finish()
    return (mtu_bytes - header_bytes) / (mtu_bytes + ETHERNET_BYTES + encapsulation_bytes)


def roce_framing_fraction(path_mtu_bytes: int = 4096) -> float:
    """Give the share of an Ethernet line that is RoCEv2 payload [1] for a path MTU [B].

    The first packet of a write has 16 bytes more. How RoCE behaves under loss (go-back-N) is not modelled.

    >>> round(roce_framing_fraction(), 4), round(roce_framing_fraction(1024), 4)
    (0.9804, 0.9259)
    """
    checks = Checks("roce_framing_fraction")
    checks.above("path_mtu_bytes", path_mtu_bytes)
    checks.finish()
    return path_mtu_bytes / (path_mtu_bytes + ROCE_BYTES + ETHERNET_BYTES)


def fibre_rtt(kilometres: float) -> float:
    """Give the round trip [s] of a length of fibre [km]; a fibre route exceeds the distance on the map.

    >>> round(fibre_rtt(1000.0), 6)
    0.0098
    """
    return 2.0 * FIBRE_S_PER_KM * kilometres


def reno_rate(segment_bytes: float, rtt_s: float, loss_fraction: float, *, delayed_ack: bool = False) -> float:
    """Give the rate [B/s] of one Reno connection, ``k·MSS / (RTT·sqrt(p))`` (Mathis et al., CCR 27(3), 1997).

    Holds for small loss (below about 1e-3); above it timeouts matter, see `pftk_rate`. Infinite without loss or RTT.

    >>> round(reno_rate(1460, 0.03, 1e-6) * 8 / 1e9, 3)
    0.477
    """
    k = MATHIS_DELAYED_ACK if delayed_ack else MATHIS_EVERY_ACK
    scale = rtt_s * math.sqrt(loss_fraction)
    return k * segment_bytes / scale if scale > 0.0 else math.inf


def pftk_rate(segment_bytes: float, rtt_s: float, loss_fraction: float, *, delayed_ack: bool = True) -> float:
    """Give the rate [B/s] of one Reno connection with timeouts (Padhye et al., SIGCOMM 1998; RFC 3819).

    ``MSS / (R·sqrt(2bp/3) + T0·min(1, 3·sqrt(3bp/8))·p·(1 + 32p²))`` with b = 2 for delayed acknowledgements, else 1,
    and the retransmission timer ``T0 = max(4·RTT, 200 ms)``.

    >>> round(pftk_rate(8960, 0.01, 1e-5) * 8 / 1e9, 3)
    1.962
    """
    b = 2.0 if delayed_ack else 1.0
    seconds = rtt_s * math.sqrt(2.0 * b * loss_fraction / 3.0) + timeout_seconds(rtt_s, loss_fraction, b)
    return segment_bytes / seconds if seconds > 0.0 else math.inf


def timeout_seconds(rtt_s: float, loss_fraction: float, segments_per_ack: float = 1.0) -> float:
    """Give the time [s] that timeouts cost per segment, the second term of `pftk_rate`.

    >>> f"{timeout_seconds(0.03, 1e-3):.2e}"
    '1.16e-05'
    """
    p = loss_fraction
    timer = max(4.0 * rtt_s, 0.2)
    return timer * min(1.0, 3.0 * math.sqrt(3.0 * segments_per_ack * p / 8.0)) * p * (1.0 + 32.0 * p * p)


def cubic_window(rtt_s: float, loss_fraction: float) -> float:
    """Give the average window of one CUBIC connection [segment]: the larger of CUBIC's and Reno's (RFC 9438).

    ``max(1.054·RTT**0.75 / p**0.75, sqrt(1.5/p))``, RTT in s; infinite without loss.

    >>> round(cubic_window(0.1, 1e-5)), round(cubic_window(0.01, 1e-2))
    (1054, 12)
    """
    if loss_fraction <= 0.0:
        return math.inf
    return max(CUBIC_FACTOR * math.pow(rtt_s / loss_fraction, 0.75), MATHIS_EVERY_ACK / math.sqrt(loss_fraction))

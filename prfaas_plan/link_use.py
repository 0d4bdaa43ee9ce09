"""What of a scenario's link its transfers reach, and by which rule."""

from __future__ import annotations

import math
from dataclasses import dataclass

from prfaas_plan.inventory import LINK_EFFICIENCY, Link
from prfaas_plan.units import GBPS

__all__ = ["LinkRule", "rule_of", "usable_bytes_per_s"]


@dataclass(frozen=True, slots=True)
class LinkRule:
    """The usable rate of a link [B/s], the equation behind it, and what to keep in mind."""

    bytes_per_s: float
    equation: str
    notes: tuple[str, ...] = ()


def usable_bytes_per_s(link: Link) -> float:
    """Give the rate at which KV caches cross a link [B/s]."""
    return rule_of(link).bytes_per_s


def rule_of(link: Link) -> LinkRule:
    """Give the usable rate of a link: by its efficiency alone, or by its transport where a congestion control is named.

    With a congestion control the round trip, the loss, the connections and the MTU decide (`link.usable_rate`), and
    the efficiency is what the end hosts reach of that.

    >>> rule_of(Link("a", "b", bandwidth_gbps=100.0, efficiency=0.5)).bytes_per_s / GBPS
    50.0
    >>> lossy = Link("a", "b", 100.0, efficiency=1.0, congestion="cubic", connections=8, rtt_ms=30.0, loss=1e-5)
    >>> round(rule_of(lossy).bytes_per_s / GBPS, 2)
    1.32
    """
    if link.congestion is None or math.isinf(link.bandwidth_gbps) or link.bandwidth_gbps <= 0.0:
        return LinkRule(link.usable_bytes_per_s, "bandwidth × efficiency × (1 − loss)", _efficiency_note(link))
    from prfaas_plan.link import Path, Transport, usable_rate

    path = Path(link.bandwidth_gbps * GBPS, link.rtt_ms / 1e3, link.loss, link.mtu_bytes, host_fraction=link.efficiency)
    rate = usable_rate(path, Transport(link.congestion, link.connections))
    equation = (
        f"{link.connections} {link.congestion} connections at {link.rtt_ms:g} ms and loss {link.loss:g}; "
        f"{rate.bound} limits them"
    )
    return LinkRule(rate.usable_bytes_per_s, equation, (*rate.limits, *_efficiency_note(link)))


def _efficiency_note(link: Link) -> tuple[str, ...]:
    if link.efficiency != LINK_EFFICIENCY:
        return ()
    return (
        f"Transfers are taken to reach {LINK_EFFICIENCY:.0%} of the nominal rate (87 of 100 Gbit/s measured, "
        "kvcache-ai/Mooncake#434); set link.efficiency to your own figure.",
    )

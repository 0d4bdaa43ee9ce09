"""What a network path carries, how far it can be stretched, and whether fetching a KV cache beats computing it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from prfaas_plan.errors import InfeasibleError
from prfaas_plan.link import LinkRate, Path, Transport, connections_needed, longest_rtt, tolerable_loss, usable_rate
from prfaas_plan.numerics import Curve, finite_or_none
from prfaas_plan.transfer import PullOrRecompute, pull_or_recompute
from prfaas_plan.units import GBPS

__all__ = ["LinkTable", "link"]


@dataclass(frozen=True, slots=True)
class LinkTable:
    """The answers about one path; a question without an answer has the reason beside it."""

    path: Path
    transport: Transport
    rate: LinkRate
    needed_bytes_per_s: float | None
    connections_for_90_percent: int | None
    tolerable_loss_fraction: float | None
    longest_rtt_s: float | None
    pulls: tuple[PullOrRecompute, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Give the answers by name, keys with their unit."""
        rtt = self.longest_rtt_s
        return {
            "nominal_gbps": self.path.nominal_bytes_per_s / GBPS,
            "rtt_s": self.path.rtt_s,
            "loss_fraction": self.path.loss_fraction,
            "mtu_bytes": self.path.mtu_bytes,
            "congestion": self.transport.congestion,
            "connections": self.transport.connections,
            **{k: v for k, v in self.rate.to_dict().items() if k != "nominal_gbps"},
            "needed_gbps": None if self.needed_bytes_per_s is None else self.needed_bytes_per_s / GBPS,
            "connections_for_90_percent": self.connections_for_90_percent,
            "tolerable_loss_fraction": self.tolerable_loss_fraction,
            "longest_rtt_s": finite_or_none(rtt),
            "pull_or_recompute": [pull.to_dict() for pull in self.pulls],
            "notes": list(self.notes),
        }


def link(
    path: Path,
    transport: Transport,
    needed_bytes_per_s: float | None = None,
    curves: tuple[Curve, Curve] | None = None,
    lengths: Sequence[int] = (),
) -> LinkTable:
    """Answer what a path carries [B/s], and what loss and round trip it stands at a needed rate.

    With `curves` of KV bytes [B] and prefill seconds [s] by length [token], also compare fetching a prefix of each
    length with computing it again. Raises `InputError` for a wrong argument.
    """
    rate = usable_rate(path, transport)
    notes = list(rate.limits)
    wanted = needed_bytes_per_s if needed_bytes_per_s is not None else 0.9 * rate.usable_bytes_per_s
    connections = loss = rtt = None
    try:
        connections = connections_needed(path, transport)
    except InfeasibleError as error:
        notes.append(f"Connections for 90 % of the line: {error.binding}.")
    try:
        loss, rtt = tolerable_loss(path, transport, wanted), longest_rtt(path, transport, wanted)
    except InfeasibleError as error:
        notes.append(f"At {wanted / GBPS:.4g} Gbit/s: {error.binding}; {error.relaxation}.")
    if needed_bytes_per_s is None:
        notes.append("Loss and round trip are those at which 90 % of the usable rate is left; give the rate you need.")
    pulls = [
        pull_or_recompute(length, curves[0], curves[1], rate.usable_bytes_per_s, path.rtt_s)
        for length in lengths
        if curves is not None
    ]
    return LinkTable(path, transport, rate, needed_bytes_per_s, connections, loss, rtt, tuple(pulls), tuple(notes))

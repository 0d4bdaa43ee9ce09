"""The answers about a link as a document."""

from __future__ import annotations

import math

from prfaas_plan.link_table import LinkTable
from prfaas_plan.reports.document import Cell, Column, Document, Table, columns, flatten, rows
from prfaas_plan.units import GBPS, show

__all__ = ["report_link"]

_BOUND = {
    "link": "the line itself",
    "loss": "packet loss",
    "window": "the window of a connection",
    "own queue": "losses in its own queue",
}


def report_link(table: LinkTable) -> Document:
    """Lay out what a path carries and how far it can be stretched."""
    rate, path = table.rate, table.path
    headline = (
        f"{show(rate.usable_bytes_per_s / GBPS, 'Gbit/s')} of {show(path.nominal_bytes_per_s / GBPS, 'Gbit/s')} are "
        f"usable with {table.transport.connections:,} {table.transport.congestion} connections; "
        f"limited by {_BOUND[rate.bound]}."
    )
    return Document(
        title=f"Link: round trip {show(path.rtt_s * 1e3, 'ms')}, loss {path.loss_fraction:g}, MTU {path.mtu_bytes:,} B",
        headline=(headline,),
        tables=(_answers(table), *_pulls(table)),
        notes=table.notes,
        rows=(flatten(table.to_dict()),),
    )


def _answers(table: LinkTable) -> Table:
    rate, rtt = table.rate, table.longest_rtt_s
    body: list[list[Cell]] = [
        ["rate between the headers", show(rate.framed_bytes_per_s / GBPS, "Gbit/s")],
        ["one connection alone", show(rate.per_connection_bytes_per_s / GBPS, "Gbit/s")],
        ["usable", show(rate.usable_bytes_per_s / GBPS, "Gbit/s")],
        ["connections for 90 % of the line", _count(table.connections_for_90_percent)],
        ["needed", _rate(table.needed_bytes_per_s)],
        ["most loss that leaves it", _loss(table.tolerable_loss_fraction)],
        ["longest round trip that leaves it", "any" if rtt == math.inf else show(rtt and rtt * 1e3, "ms")],
    ]
    return Table("Answers", columns("question", Column("answer")), rows(body))


def _count(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _rate(value: float | None) -> str:
    return "90 % of the usable rate" if value is None else show(value / GBPS, "Gbit/s")


def _loss(value: float | None) -> str:
    return "–" if value is None else f"{value:.2g}"


def _pulls(table: LinkTable) -> list[Table]:
    if not table.pulls:
        return []
    heads: list[str | Column] = [
        Column("length", "token"),
        Column("fetch", "s"),
        Column("recompute", "s"),
        "faster",
        Column("even at", "Gbit/s"),
        "even at length",
    ]
    body: list[list[Cell]] = [
        [
            p.length_tokens,
            p.transfer_s,
            p.recompute_s,
            "fetch" if p.faster == "transfer" else "recompute",
            p.break_even_bytes_per_s / GBPS,
            ", ".join(f"{x:,.0f}" for x in p.break_even_tokens) or "none",
        ]
        for p in table.pulls
    ]
    return [Table("Fetch the KV cache of a prefix, or compute it again", columns(*heads), rows(body))]

"""The routing of a fleet as a document."""

from __future__ import annotations

from prfaas_plan.fleet.routing import Routing
from prfaas_plan.reports.document import Column, Document, Table, columns, rows, without_blanks
from prfaas_plan.units import show

__all__ = ["report_routing"]


def report_routing(found: Routing) -> Document:
    """Lay out who prefills which lengths, the threshold by available bandwidth, and the bandwidth needed."""
    tables = [table for table in (_steps(found), _by_bandwidth(found), _needs(found)) if table.rows]
    return Document(
        title=f"{found.scenario}: routing",
        headline=tuple(_headline(found)),
        tables=tuple(without_blanks(table) for table in tables),
        notes=(*_NOTES, *_too_slow(found)),
        rows=tuple(row.to_dict() for row in found.table.rows),
    )


_NOTES = (
    "Threshold: uncached tokens of the prompt above which a request is prefilled remotely. While bandwidth is scarce "
    "(the link is full) count only the prefix cached where the request would decode; while it is abundant count the "
    "longer of the prefixes at the two clusters, and move the cache (arXiv 2604.15039, section 3.4.3).",
    "Instances keep the roles of the plan; the rate is that of the busiest period.",
)


def _too_slow(found: Routing) -> list[str]:
    if all(r.lambda_max_rps > 0.0 for r in found.table.rows):
        return []
    return ["Rate 0: with so little bandwidth some prompts would miss the promised time to first token."]


def _headline(found: Routing) -> list[str]:
    loss = found.loss
    lines = [
        f"One threshold per origin serves {show(loss.single_rps, 'req/s', 4)} of the {show(loss.free_rps, 'req/s', 4)} "
        f"of free routing ({loss.loss_fraction:.2%} less)."
    ]
    if loss.not_optimal_for:
        lines.append(f"No single threshold describes the best routing of {', '.join(loss.not_optimal_for)}.")
    lines += [f"{name} limits below {show(rate, 'Gbit/s')}." for name, rate in found.table.abundant_above_gbps]
    return lines


def _steps(found: Routing) -> Table:
    return Table(
        "Who prefills which lengths",
        columns(
            "period",
            "origin",
            Column("above", "token"),
            Column("up to", "token"),
            "prefill at",
            Column("share", percent=True),
        ),
        rows(
            [s.period, s.origin, round(s.above_tokens), round(s.up_to_tokens), s.site, s.fraction] for s in found.steps
        ),
    )


def _by_bandwidth(found: Routing) -> Table:
    listed = [(r, route) for r in found.table.rows for route in (r.routes or (None,))]
    return Table(
        "Threshold by available bandwidth",
        columns(
            "link",
            Column("available", "Gbit/s"),
            "origin",
            Column("threshold", "token"),
            Column("remote", percent=True),
            Column("rate", "req/s"),
            Column("load", percent=True),
        ),
        rows(
            [
                r.link,
                r.available_gbps,
                route.origin if route else "",
                route.threshold_tokens if route else None,
                route.share_fraction if route else 0.0,
                r.lambda_max_rps,
                r.link_load_fraction,
            ]
            for r, route in listed
        ),
        frozenset(i for i, (r, _) in enumerate(listed) if r.bandwidth == "scarce"),
    )


def _needs(found: Routing) -> Table:
    return Table(
        "Least bandwidth that keeps a share of the rate",
        columns(Column("share", percent=True), Column("rate", "req/s"), Column("all links", "Gbit/s"), "link by link"),
        rows(
            [n.keep_fraction, n.rate_rps, n.total_gbps, ", ".join(f"{name} {show(r, 'Gbit/s')}" for name, r in n.links)]
            for n in found.needs
        ),
    )

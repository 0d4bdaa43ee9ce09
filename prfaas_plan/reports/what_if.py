"""The what-if report as a document: the plan, the comparison, and the tables behind its curves."""

from __future__ import annotations

from dataclasses import replace

from prfaas_plan.reports.document import Column, Document, Table, columns, rows
from prfaas_plan.reports.plan import report_comparison, report_plan
from prfaas_plan.reports.sweeps import report_tornado
from prfaas_plan.whatif.tables import WhatIf

__all__ = ["curve_tables", "report_what_if"]


def report_what_if(found: WhatIf) -> Document:
    """Lay out a plan with everything around it, most important first."""
    document = report_plan(found.plan, explain=False)
    explained = report_plan(found.plan, explain=True).tables[-1]
    side_by_side = report_comparison(found.comparison) if found.comparison else None
    beside = side_by_side.tables[:2] if side_by_side else ()
    more = side_by_side.headline if side_by_side else ()
    tables = (*document.tables, *beside, *curve_tables(found), *report_tornado(found.tornado).tables, explained)
    return replace(document, headline=(*document.headline, *more), tables=tables)


def curve_tables(found: WhatIf) -> list[Table]:
    """Give the tables behind the curves, each where it has rows."""
    tables = [_thresholds(found), _splits(found), _bandwidths(found), _kv_rates(found), load_table(found)]
    return [table for table in tables if table.rows]


def _thresholds(found: WhatIf) -> Table:
    best = {i for i, row in enumerate(found.thresholds) if row.threshold_tokens == found.plan.threshold_tokens}
    return Table(
        "Rate by threshold, with the split of the plan",
        columns(
            Column("threshold", "token"),
            Column("remote allows", "req/s"),
            Column("local prefill allows", "req/s"),
            Column("decode allows", "req/s"),
            Column("rate", "req/s", 4),
        ),
        rows([r.threshold_tokens, r.remote_rps, r.local_rps, r.decode_rps, r.lambda_max_rps] for r in found.thresholds),
        frozenset(best),
    )


def _splits(found: WhatIf) -> Table:
    return Table(
        "Rate by split of the local instances, each at its best threshold",
        columns(
            Column("prefill", "inst."),
            Column("decode", "inst."),
            Column("threshold", "token"),
            Column("rate", "req/s", 4),
            "limited by",
        ),
        rows(
            [s.prefill_instances, s.decode_instances, s.threshold_tokens, s.lambda_max_rps, s.bottleneck]
            for s in found.splits
        ),
    )


def _bandwidths(found: WhatIf) -> Table:
    return Table(
        "Best plan by bandwidth of the link",
        columns(
            Column("nominal", "Gbit/s", 4),
            Column("rate", "req/s", 4),
            Column("threshold", "token"),
            Column("used", "Gbit/s", 4),
        ),
        rows([b.bandwidth_gbps, b.lambda_max_rps, b.threshold_tokens, b.used_gbps] for b in found.bandwidths),
    )


def _kv_rates(found: WhatIf) -> Table:
    return Table(
        "KV throughput of one instance by prompt length",
        columns(Column("length", "token"), Column("remote", "Gbit/s"), Column("local", "Gbit/s")),
        rows([k.length_tokens, k.remote_gbps, k.local_gbps] for k in found.kv_rates),
    )


def load_table(found: WhatIf) -> Table:
    """Give the time to first token by load."""
    return Table(
        "Time to first token by load, with queues",
        columns(
            Column("load", percent=True),
            Column("rate", "req/s"),
            Column("mean", "s"),
            Column("p50", "s"),
            Column("p90", "s"),
        ),
        rows([x.load_fraction, x.rate_rps, x.mean_s, x.p50_s, x.p90_s] for x in found.loads),
    )

"""The what-if report as a document: the plan, the comparison, and the tables behind its curves."""

from __future__ import annotations

from dataclasses import replace

from prfaas_plan.reports.document import Column, Document, Table, columns, rows
from prfaas_plan.reports.plan import report_comparison, report_plan
from prfaas_plan.reports.sweeps import report_tornado
from prfaas_plan.whatif.tables import WhatIf

__all__ = ["curve_tables", "load_table", "report_what_if", "roof_tables"]


def report_what_if(found: WhatIf) -> Document:
    """Lay out a plan with everything around it, most important first."""
    document = report_plan(found.plan, explain=False)
    explained = report_plan(found.plan, explain=True).tables[-1]
    side_by_side = report_comparison(found.comparison) if found.comparison else None
    beside = side_by_side.tables[:2] if side_by_side else ()
    more = side_by_side.headline if side_by_side else ()
    tables = (*document.tables, *beside, *curve_tables(found), *report_tornado(found.tornado).tables, explained)
    notes = (*document.notes, *found.roofs.notes)
    return replace(document, headline=(*document.headline, *more), tables=tables, notes=notes)


def curve_tables(found: WhatIf) -> list[Table]:
    """Give the tables behind the curves, each where it has rows."""
    tables = [_thresholds(found), _splits(found), _bandwidths(found), _kv_rates(found), load_table(found)]
    tables += roof_tables(found)
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
    others = [Column(f"{c.model} on {c.gpus} × {c.accelerator}", "Gbit/s") for c in found.compared]
    return Table(
        "KV throughput of one instance by prompt length",
        columns(Column("length", "token"), Column("remote", "Gbit/s"), Column("local", "Gbit/s"), *others),
        rows(
            [k.length_tokens, k.remote_gbps, k.local_gbps, *(c.gbps[i] for c in found.compared)]
            for i, k in enumerate(found.kv_rates)
        ),
    )


def roof_tables(found: WhatIf) -> list[Table]:
    """Give the roofs of the accelerators, and the phases that stand under them where they can be counted."""
    return [_roofs(found), _roof_points(found)]


def _roofs(found: WhatIf) -> Table:
    return Table(
        "Roofline of one accelerator, from its data sheet",
        columns(
            "accelerator", "data type", Column("peak", "TFLOP/s"), Column("memory", "TB/s"), Column("ridge", "FLOP/B")
        ),
        rows([r.accelerator, r.dtype, r.flops / 1e12, r.bandwidth / 1e12, r.ridge] for r in found.roofs.roofs),
    )


def _roof_points(found: WhatIf) -> Table:
    return Table(
        "Operating points of one accelerator, counted from the model's layers over the planned time",
        columns(
            "phase",
            "pool",
            "accelerator",
            Column("batch"),
            Column("prompt or context", "token"),
            Column("intensity", "FLOP/B"),
            Column("reached", "TFLOP/s"),
            Column("attainable", "TFLOP/s"),
            Column("share", percent=True),
            "time is",
        ),
        rows(
            [p.phase, p.cluster, p.accelerator, p.batch, p.tokens, p.intensity, p.flops / 1e12, p.attainable / 1e12,
             p.flops / p.attainable, p.basis]
            for p in found.roofs.points
        ),
    )  # fmt: skip


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

"""The plots of the report page, each with the table behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prfaas_plan.reports.document import Table
from prfaas_plan.reports.sweeps import report_tornado
from prfaas_plan.reports.what_if import curve_tables
from prfaas_plan.units import show
from prfaas_plan.whatif.tables import WhatIf
from prfaas_plan.writers.page_machines import Plot, kv_plot, roof_plot
from prfaas_plan.writers.svg import Axis, Line, bar_chart, line_chart, span_chart

__all__ = ["Plot", "plots"]


def plots(found: WhatIf) -> Iterator[Plot]:
    """Draw every plot that the plan has numbers for."""
    tables = {table.title.split(",")[0].split(" by ")[-1]: table for table in curve_tables(found)}
    by_word: list[tuple[str, Callable[[WhatIf, Table], Plot]]] = [
        ("threshold", _threshold),
        ("split of the local instances", _split),
        ("bandwidth of the link", _bandwidth),
        ("load", _load),
        ("prompt length", kv_plot),
    ]
    for word, draw in by_word:
        if word in tables:
            yield draw(found, tables[word])
    if found.tornado.bars:
        yield _tornado(found)
    if found.roofs.roofs:
        yield roof_plot(found)


def _top(value: float) -> float:
    """Give a round number some way above a value."""
    return float(f"{1.15 * value:.2g}") or 1.0


def _threshold(found: WhatIf, table: Table) -> Plot:
    rows, plan = found.thresholds, found.plan
    best = plan.lambda_max_rps
    x = Axis("length threshold [tokens]", 0.0, float(rows[-1].threshold_tokens))
    y = Axis("requests per second", 0.0, _top(1.6 * best))
    lines = [
        Line("remote allows", _series(rows, "remote_rps"), "a", 0.75, "right"),
        Line("local prefill allows", _series(rows, "local_rps"), "b", 0.0, "right"),
        Line("decode allows", _series(rows, "decode_rps"), "c", 0.9),
        Line("served", _series(rows, "lambda_max_rps"), "main", 0.8, "above"),
    ]
    if plan.threshold_tokens is not None:
        name = f"{show(best, 'req/s')} at {plan.threshold_tokens:,}"
        lines.append(Line(name, [(float(plan.threshold_tokens), best)], "main"))
    says = (
        f"With the planned split, {show(best, 'req/s')} are served at a threshold of {plan.threshold_tokens:,} tokens; "
        "below it the remote site limits, above it local prefill."
    )
    drawing = line_chart("threshold", "Rate by length threshold", says, (x, y), lines)
    return Plot("Rate by length threshold", says, drawing, (table,))


def _series(rows: tuple[object, ...], name: str) -> list[tuple[float, float]]:
    pairs = [(float(getattr(r, "threshold_tokens")), getattr(r, name)) for r in rows]  # noqa: B009
    return [(a, float(b)) for a, b in pairs if b is not None]


def _split(found: WhatIf, table: Table) -> Plot:
    best = found.best.system.local.instances if found.best.system.local else 0
    chosen = sorted(found.splits, key=lambda s: -s.lambda_max_rps)[:16]
    bars = [
        (f"{s.prefill_instances}+{s.decode_instances}", s.lambda_max_rps, s.prefill_instances == best)
        for s in sorted(chosen, key=lambda s: s.prefill_instances)
    ]
    top = max(value for _, value, _ in bars)
    says = f"Local instances split as prefill + decode, each at its best threshold; {best} prefill in the plan."
    axes = ("local prefill + decode instances", Axis("requests per second", 0.0, _top(top)))
    drawing = bar_chart("split", "Rate by split", says, axes, bars)
    return Plot("Rate by split", says, drawing, (table,))


def _bandwidth(found: WhatIf, table: Table) -> Plot:
    rows = found.bandwidths
    x = Axis("nominal bandwidth [Gbit/s]", rows[0].bandwidth_gbps, rows[-1].bandwidth_gbps, log=True)
    top = max(r.used_gbps for r in rows)
    y = Axis("Gbit/s across the link", 0.0, _top(top))
    link = found.case.link
    share = link.usable_fraction if link else 1.0
    usable = [(r.bandwidth_gbps, share * r.bandwidth_gbps) for r in rows]
    lines = [
        Line("usable", usable, "c", 0.6, "left"),
        Line("used", [(r.bandwidth_gbps, r.used_gbps) for r in rows], "main", 0.95, "below"),
    ]
    if found.plan.links:
        use = found.plan.links[0]
        lines.append(Line(f"{show(use.used_gbps, 'Gbit/s')} planned", [(use.capacity_gbps, use.used_gbps)], "main"))
    says = (
        f"The best plan of each bandwidth carries at most {show(top, 'Gbit/s')}; more bandwidth than that does not "
        "raise the rate."
    )
    return Plot("Egress by bandwidth", says, line_chart("egress", "Egress by bandwidth", says, (x, y), lines), (table,))


def _load(found: WhatIf, table: Table) -> Plot:
    rows = found.loads
    x = Axis("load [% of the largest rate]", 0.0, 100.0)
    top = 1.05 * max(r.p90_s for r in rows)
    calm = next((r for r in rows if r.load_fraction >= 0.8), rows[-1])
    lines = [
        Line("mean", [(100.0 * r.load_fraction, r.mean_s) for r in rows], "main", 0.6, "below"),
        Line("p90", [(100.0 * r.load_fraction, r.p90_s) for r in rows], "a", 0.6, "above"),
    ]
    says = (
        f"Time to first token with queues: at {calm.load_fraction:.0%} load {show(calm.mean_s, 's')} on average and "
        f"{show(calm.p90_s, 's')} for nine in ten."
    )
    axes = (x, Axis("seconds to first token", 0.0, _top(top / 1.15)))
    return Plot("Latency by load", says, line_chart("load", "Latency by load", says, axes, lines), (table,))


def _tornado(found: WhatIf) -> Plot:
    result = found.tornado
    spans = [
        (f"{b['input']}: {_short(b['at_low'])} … {_short(b['at_high'])}", b["low"], b["high"]) for b in result.bars
    ]
    says = "Rate of the best plan when one input at a time moves by about a fifth, the widest first."
    drawing = span_chart("tornado", "What moves the rate", says, (result.base, "req/s"), spans)
    return Plot("What moves the rate", says, drawing, report_tornado(result).tables[:1])


def _short(value: object) -> str:
    return show(value) if isinstance(value, float) and not value.is_integer() else f"{value:,.0f}" if isinstance(
        value, (int, float)) else str(value)  # fmt: skip

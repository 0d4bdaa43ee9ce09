"""The what-if report as a workbook that calculates: inputs, results in formulas, grids, charts and explanations."""

from __future__ import annotations

import math
from dataclasses import replace

from prfaas_plan.case import Case
from prfaas_plan.laws import LogNormal
from prfaas_plan.numerics import Curve
from prfaas_plan.reports.document import Column, Table, columns, rows
from prfaas_plan.reports.plan import report_plan
from prfaas_plan.reports.what_if import curve_tables
from prfaas_plan.scenario import Cluster
from prfaas_plan.units import GBPS
from prfaas_plan.whatif.tables import WhatIf
from prfaas_plan.writers.book import Book, Sheet
from prfaas_plan.writers.formula import Cell, choose, number
from prfaas_plan.writers.live_decode import DecodeTable, decode_table, write_decode
from prfaas_plan.writers.live_grids import write_grids
from prfaas_plan.writers.live_inputs import LiveInputs, searched_splits, write_inputs
from prfaas_plan.writers.live_lengths import LiveLaw, write_curve, write_lognormal, write_table_law
from prfaas_plan.writers.live_results import choose_plan, write_results
from prfaas_plan.writers.live_search import LinkPrice, Live, search_splits, usable_link

__all__ = ["write_workbook"]

_NEVER = 1e12
"""Prefill time [s] that stands for a pool that cannot prefill."""
_BINS = 20


def write_workbook(found: WhatIf) -> bytes:
    """Write the workbook of a plan; the same plan gives the same bytes."""
    book = Book(f"{found.plan.scenario}: what-if workbook")
    results = book.sheet("Plan", [42, 38, 12, 38, 70])
    inputs_sheet = book.sheet("Inputs", [34, 18, 12, 78])
    grids = book.sheet("What-if", [16, 16, 16, 16, 16, 16, 16, 16])
    lengths = book.sheet("Lengths", [18, 20, 18, 18, 18, 18, 18, 18, 14])
    services = book.sheet("Service times", [30, 16, 16, 16, 18, 16, 16, 16, 16])
    explained = book.sheet("Explanation", [24, 16, 12, 60, 90])
    fleet = book.sheet("Fleet", [30, 22, 22, 22, 18, 18, 40])
    notes = book.sheet("Notes", [120])
    work = book.sheet("Calculation", [14] * 24)

    decodes = decode_table(found)
    inputs = write_inputs(inputs_sheet, found, list(decodes.services))
    live = _live(found, inputs, decodes, lengths, services)
    splits = search_splits(live, work, grids, 3, searched_splits(found))
    chosen = choose_plan(live, work, work.next_free, splits)
    cells = write_results(live, results, work, chosen, found)
    write_grids(live, grids, work, cells, found, splits)
    _bins(live, lengths, cells["threshold"], found)
    _explanation(explained, found)
    _fleet(fleet, found)
    _notes(notes, found)
    results.sheet.activate()
    return book.content()


def _live(found: WhatIf, inputs: LiveInputs, decodes: DecodeTable, lengths: Sheet, sheet: Sheet) -> Live:
    case = found.case
    sheet.text(0, 0, "Service times", "title")
    sheet.text(1, 0, "Fixed numbers of the model on its instances, as planned with; moments follow the inputs.")
    names = _names(sheet, case)
    law = _law(found, inputs, lengths)
    decode = write_decode(sheet, 6, inputs, law, decodes)
    row = decode.next_row
    curves = (_seconds(case, remote=True), case.kv_bytes, _seconds(case, remote=False))
    titles = ("remote prefill [s]", "KV cache on the link [B]", "local prefill [s]")
    live = []
    for title, curve in zip(titles, curves, strict=True):
        written, row = write_curve(sheet, row, f"{title}: c0 + c1·L + c2·L²", curve, law)
        live.append(written)
    alone = live[2]
    if case.local_prefill is None and found.alone is not None:
        alone, row = write_curve(sheet, row, "local prefill for comparison [s]", found.alone, law)
    link = sheet.formula(row, 1, usable_link(inputs))
    sheet.text(row, 0, "usable rate of the link [B/s]")
    return Live(
        inputs, law, live[0], live[1], live[2], alone, link, decode.each, decode.batch, decode.step, curves,
        *_prices(case), names,
    )  # fmt: skip


def _prices(case: Case) -> tuple[float, tuple[float, float], LinkPrice, bool]:
    """Give the delay of the link and what costs money beside the prices per GPU-hour."""

    def paid_off(cluster: Cluster | None) -> float:
        if cluster is None:
            return 0.0
        whole = replace(cluster, price_usd_per_gpu_hour=0.0).usd_per_instance_hour or 0.0
        return whole / cluster.gpus_per_instance

    link = case.link
    prices = LinkPrice()
    if link is not None:
        prices = LinkPrice(link.usd_per_port_hour, link.usd_per_gb or 0.0, link.usd_per_gbps_hour)
    delay = 0.0 if link is None else link.rtt_ms / 2e3
    return delay, (paid_off(case.remote), paid_off(case.local)), prices, case.remote is None


def _names(sheet: Sheet, case: Case) -> tuple[Cell, Cell]:
    sheet.text(3, 0, "remote cluster")
    sheet.text(4, 0, "local cluster")
    far = case.remote.name if case.remote else "nowhere"
    return sheet.text(3, 1, far), sheet.text(4, 1, case.local.name)


def _seconds(case: Case, *, remote: bool) -> Curve:
    service = case.remote_prefill if remote else case.local_prefill
    if service is None and not remote and case.remote is not None:
        return Curve.polynomial(_NEVER)
    return service.seconds if service is not None else Curve.polynomial(1.0)


def _law(found: WhatIf, inputs: LiveInputs, sheet: Sheet) -> LiveLaw:
    sheet.text(0, 0, "Lengths", "title")
    law = found.case.workload.law
    sheet.text(1, 0, law.describe())
    if isinstance(law, LogNormal):
        return write_lognormal(sheet, 3, inputs.law)
    chosen = [law.quantile(i / 400) for i in range(1, 400)]
    chosen += [r.threshold_tokens for r in found.thresholds]
    chosen += [s.threshold_tokens for s in found.splits if s.threshold_tokens is not None]
    chosen += [b for curve in (_seconds(found.case, remote=True), found.case.kv_bytes,
                               _seconds(found.case, remote=False)) for b in curve.breaks]  # fmt: skip
    return write_table_law(sheet, 12 + _BINS, law, chosen)


def _bins(live: Live, sheet: Sheet, threshold: Cell, found: WhatIf) -> None:
    """Write the length table: share, mean length, and service times and KV size at it, for equal shares of requests."""
    law = found.case.workload.law
    edges = sorted({math.ceil(law.quantile(i / _BINS)) for i in range(1, _BINS)})
    ends = [*map(float, edges), None]
    top = 8
    sheet.headings(top, ["up to [tokens]", "share of requests", "mean length [tokens]", "remote prefill [s]",
                         "local prefill [s]", "KV cache [MB]", "KV rate remote [Gbit/s]", "goes"])  # fmt: skip
    below: Cell = number(0.0)
    before, earlier = live.law.first, number(0.0)
    start = 12
    for i, end in enumerate(ends):
        row = top + 1 + i
        edge = sheet.number(row, 0, end) if end is not None else sheet.formula(row, 0, live.law.last + 0.0)
        clipped = live.law.clipped(edge)
        h = live.law.moments(sheet, row, start, clipped)
        first = sheet.formula(row, start + live.law.width, h[1])
        share = sheet.formula(row, 1, h[0] - below, "0.0%")
        mean = sheet.formula(row, 2, choose(share > 0.0, (first - earlier) / share, clipped), "#,##0")
        remote = sheet.formula(row, 3, live.remote.value(mean), "0.000")
        sheet.formula(row, 4, live.local.value(mean), "0.000")
        size = sheet.formula(row, 5, live.kv.value(mean) / 1e6, "#,##0.0")
        sheet.formula(row, 6, size * 1e6 / remote / GBPS, "0.000")
        cut = choose(Cell(f"ISNUMBER({threshold.text})", isinstance(threshold.value, float)), threshold, 0.0)
        cut = choose(live.inputs.remote > 0.0, cut, 1e12)
        sheet.formula(row, 7, choose(edge <= cut, "local", choose(before >= cut, "remote", "both")))
        below, before, earlier = h[0], edge, first


def _explanation(sheet: Sheet, found: WhatIf) -> None:
    sheet.text(0, 0, "How each number came about, for the scenario as it was planned", "title")
    sheet.headings(2, ["symbol", "value", "unit", "equation", "source"])
    for i, line in enumerate(found.plan.explain, start=3):
        sheet.text(i, 0, line.symbol)
        sheet.number(i, 1, line.value, "#,##0.######")
        sheet.text(i, 2, line.unit, "unit")
        sheet.text(i, 3, line.equation, "wrap")
        sheet.text(i, 4, line.source, "wrap")


def _fleet(sheet: Sheet, found: WhatIf) -> None:
    sheet.text(0, 0, "The fleet as it was planned, and what one more is worth (fixed numbers)", "title")
    row = 2
    for table in (*report_plan(found.plan).tables, _worth(found), *curve_tables(found)[2:]):
        row = sheet.table(row, table) + 1


def _worth(found: WhatIf) -> Table:
    return Table(
        "What one more is worth, everything else the same and planned anew",
        columns("one more", Column("rate", "req/s", 4), Column("gain", "req/s", 4), Column("gain", percent=True)),
        rows(
            [w.what, w.lambda_max_rps, w.lambda_max_rps - found.plan.lambda_max_rps,
             w.lambda_max_rps / found.plan.lambda_max_rps - 1.0]
            for w in found.worth
        ),
    )  # fmt: skip


def _notes(sheet: Sheet, found: WhatIf) -> None:
    sheet.text(0, 0, "Notes", "title")
    law = found.case.workload.law
    exact = isinstance(law, LogNormal)
    if found.scenario.slo.ttft_p90_s is not None:
        promise = "The plan keeps a promised time to first token, which the workbook does not compute: it starts with "
        sheet.text(1, 0, promise + "the planned split and threshold.", "wrap")
    lines = [
        "Yellow cells on “Inputs” may be changed; results, tables, grids and charts follow. No macros are used.",
        "Live: instances, split, threshold, bandwidth, efficiency, loss, output length, promised speed, prices, and "
        "the choice between mean service time and service time at the mean length"
        + (", and μ, σ, shortest and longest length." if exact else "."),
        "Fixed: the model, the accelerators, the service times and KV sizes by length, the batches by promised speed, "
        "purchase and link prices; make another workbook with prfaas-plan report to change them.",
        "The best threshold is found by bisection for every split, the best split by comparing them all, as in the "
        "plan.",
        "Moments of the truncated log-normal law are exact." if exact else
        "Cumulative moments of the length law are exact at the lengths of the table on “Lengths” and linear between "
        "them. The workbook starts with the planned split and threshold, where they are exact; “best” finds the "
        "optimum of the interpolated law. Percentiles of TTFT do not follow the inputs for this law.",
        *_about_decode(found),
        f"{1e9:g} Gbit/s stands for a link without limit, and 1E+99 req/s for a stage that does not limit.",
        *found.plan.notes,
    ]  # fmt: skip
    for i, line in enumerate(lines, start=2):
        sheet.text(i, 0, line, "wrap")


def _about_decode(found: WhatIf) -> list[str]:
    if found.case.decode.basis != "roofline":
        return []
    return [
        "The decode batch is estimated and depends on the mean context. It is exact at the planned context; between "
        "the contexts on “Service times” the output rate of an instance is taken as linear, which is good to about 2 %."
    ]

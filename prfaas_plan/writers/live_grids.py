"""The what-if sheet: rate by split, threshold, remote instances and bandwidth, in formulas, with native charts."""

from __future__ import annotations

from typing import Any

from prfaas_plan.units import GBPS
from prfaas_plan.whatif.tables import WhatIf
from prfaas_plan.writers.book import Sheet
from prfaas_plan.writers.formula import Cell, choose, number, smallest
from prfaas_plan.writers.live_search import Live, Rates, SplitSearch, bisections, evaluate, limits, search

__all__ = ["write_grids"]

_CHART = {"width": 620, "height": 360}
_OFFSETS = (-2, -1, 0, 1, 2)
_RATE = "#,##0.0000"


def write_grids(
    live: Live, sheet: Sheet, work: Sheet, cells: dict[str, Cell], found: WhatIf, splits: SplitSearch
) -> None:
    """Write the tables below one another, and a chart beside each."""
    sheet.text(0, 0, "What if", "title")
    sheet.text(1, 0, "Every table follows the inputs. Splits: each at its best threshold.")
    _split_chart(sheet, 3, len(splits.prefill.values))
    row = 3 + len(splits.prefill.values) + 22
    row = _thresholds(live, sheet, work, cells, found, row)
    if found.bandwidths:
        _bandwidths(live, sheet, work, cells, found, row + 2)


def _series(sheet: Sheet, name: str, rows: tuple[int, int], x: int, y: int, **more: Any) -> dict[str, Any]:
    title = sheet.title
    return {
        "name": name,
        "categories": [title, rows[0], x, rows[1], x],
        "values": [title, rows[0], y, rows[1], y],
        **more,
    }


def _place(sheet: Sheet, chart: Any, cell: tuple[int, int], titles: tuple[str, str, str], **axis: Any) -> None:
    chart.set_title({"name": titles[0], "name_font": {"size": 12}})
    chart.set_x_axis({"name": titles[1], **axis})
    chart.set_y_axis({"name": titles[2], "min": 0})
    chart.set_size(_CHART)
    chart.set_legend({"position": "bottom"})
    sheet.sheet.insert_chart(
        *cell, chart, {"description": f"Chart: {titles[0]}; its numbers are in the table beside it"}
    )


def _split_chart(sheet: Sheet, row: int, count: int) -> None:
    chart = sheet.book.file.add_chart({"type": "column"})
    chart.add_series(_series(sheet, "rate", (row + 1, row + count), 0, 5, fill={"color": "#2F6DB5"}))
    _place(sheet, chart, (row + count + 2, 0), ("Largest rate by split", "local prefill instances", "req/s"))


def _thresholds(live: Live, sheet: Sheet, work: Sheet, cells: dict[str, Cell], found: WhatIf, row: int) -> int:
    """Write the rates by threshold at the chosen split, and by threshold and remote instances."""
    prefill, decode = cells["prefill"], cells["decode"]
    sheet.text(row - 1, 0, "Rate by threshold, with the split of the plan; then with more or fewer remote instances")
    names = [f"rate at N {offset:+d} [req/s]" for offset in _OFFSETS if offset]
    sheet.headings(row, ["threshold [tokens]", "remote allows [req/s]", "local prefill allows [req/s]",
                         "decode allows [req/s]", "rate [req/s]", *names])  # fmt: skip
    chosen = [r.threshold_tokens for r in found.thresholds] or [0]
    at = work.next_free
    for i, threshold in enumerate(chosen):
        line = row + 1 + i
        t = sheet.number(line, 0, float(threshold), "#,##0", "input")
        work.formula(at + i, 3, t)
        rates = evaluate(live, work, at + i, 4, t)
        _threshold_line(live, sheet, line, rates, (prefill, decode))
    last = row + len(chosen)
    chart = sheet.book.file.add_chart({"type": "scatter", "subtype": "straight"})
    colours = ("#B5482F", "#2F8F5B", "#7A7A7A", "#2F6DB5")
    for which, (name, colour) in enumerate(zip(("remote", "local prefill", "decode", "rate"), colours, strict=True)):
        line_style = {"color": colour, "width": 3 if name == "rate" else 1.25}
        chart.add_series(_series(sheet, name, (row + 1, last), 0, which + 1, line=line_style))
    top = max((r.lambda_max_rps for r in found.thresholds), default=1.0)
    _place(sheet, chart, (row, 10), ("Rate by length threshold", "threshold [tokens]", "req/s"), num_format="#,##0")
    chart.set_y_axis({"name": "req/s", "min": 0, "max": float(f"{2 * top:.1g}")})
    return last


def _threshold_line(live: Live, sheet: Sheet, row: int, rates: Rates, split: tuple[Cell, Cell]) -> None:
    far, link, near = limits(live, rates, split[0])
    remote = sheet.formula(row, 1, _shown(smallest(far, link)), _RATE)
    local = sheet.formula(row, 2, _shown(near), _RATE)
    decode = sheet.formula(row, 3, live.decode(split[1]), _RATE)
    sheet.formula(row, 4, smallest(remote, local, decode), _RATE)
    column = 5
    for offset in _OFFSETS:
        if offset:
            instances = live.inputs.remote + float(offset)
            more = choose(rates.remote > 0.0, instances / rates.remote, 1e99)
            rate = choose(instances < 0.0, 0.0, smallest(more, link, local, decode))
            sheet.formula(row, column, rate, _RATE)
            column += 1


def _shown(rate: Cell) -> Cell:
    """Keep a rate that does not limit within what a chart can show."""
    return smallest(rate, number(1e6))


def _bandwidths(live: Live, sheet: Sheet, work: Sheet, cells: dict[str, Cell], found: WhatIf, row: int) -> None:
    """Write the best rate and the egress by bandwidth, with the split of the plan."""
    sheet.text(row - 1, 0, "Rate and egress by bandwidth, with the split of the plan and the best threshold of each")
    sheet.headings(row, ["nominal [Gbit/s]", "threshold [tokens]", "rate [req/s]", "egress [Gbit/s]"])
    prefill, decode = cells["prefill"], cells["decode"]
    usable = live.inputs.efficiency * (number(1.0) - live.inputs.loss) * GBPS
    kept = [b.bandwidth_gbps for b in found.bandwidths][::2]
    for i, gbps in enumerate(kept):
        line = row + 1 + i
        nominal = sheet.number(line, 0, gbps, "#,##0.##", "input")
        link = nominal * usable
        at = work.next_free
        threshold, rate, below = search(live, work, at, prefill, link, bisections(live))
        rates = evaluate(live, work, below, 4, threshold)
        sheet.formula(line, 1, threshold, "#,##0")
        served = sheet.formula(line, 2, smallest(rate, live.decode(decode)), _RATE)
        sheet.formula(line, 3, served * rates.mean_kv / GBPS, _RATE)
    chart = sheet.book.file.add_chart({"type": "scatter", "subtype": "straight_with_markers"})
    rows = (row + 1, row + len(kept))
    chart.add_series(_series(sheet, "egress [Gbit/s]", rows, 0, 3, line={"color": "#B5482F"}))
    chart.add_series(_series(sheet, "rate [req/s]", rows, 0, 2, line={"color": "#2F6DB5"}, y2_axis=True))
    titles = ("Egress and rate by bandwidth", "nominal bandwidth [Gbit/s]", "Gbit/s")
    _place(sheet, chart, (row, 5), titles, log_base=10, min=kept[0], max=kept[-1])
    chart.set_y2_axis({"name": "req/s", "min": 0})

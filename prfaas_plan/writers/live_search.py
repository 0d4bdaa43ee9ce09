"""The plan in formulas: every threshold and split evaluated, the best ones found by bisection in cells.

One line evaluates one threshold: the share of long requests, what the remote pool, the link and the local pool need
per request of all, and so the rates they allow. For a split, successive lines halve the interval in which remote and
local prefill allow the same rate; the last two are the candidates for the best threshold.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prfaas_plan.numerics import Curve
from prfaas_plan.units import GBPS
from prfaas_plan.writers.book import Sheet
from prfaas_plan.writers.formula import NOTHING_LIMITS, Cell, Range, choose, number, smallest, whole, whole_up
from prfaas_plan.writers.live_inputs import LONGEST, LiveInputs
from prfaas_plan.writers.live_lengths import LiveCurve, LiveLaw

__all__ = ["LinkPrice", "Live", "Rates", "SplitSearch", "bisections", "evaluate", "limits", "search", "search_splits"]


@dataclass(frozen=True, slots=True)
class LinkPrice:
    """Prices of the link that do not change in the workbook."""

    usd_per_port_hour: float = 0.0
    usd_per_gb: float = 0.0
    usd_per_gbps_hour: float = 0.0


@dataclass(frozen=True, slots=True)
class Live:
    """Everything a line of formulas refers to."""

    inputs: LiveInputs
    law: LiveLaw
    remote: LiveCurve
    kv: LiveCurve
    local: LiveCurve
    alone: LiveCurve
    """Local prefill of a homogeneous fleet; that of the plan unless the plan does not prefill locally."""
    link: Cell
    """Usable bytes per second."""
    decode_each: Cell
    """Rate of one decode instance [req/s]."""
    batch: Cell
    step: Cell
    curves: tuple[Curve, Curve, Curve]
    """Remote prefill [s], KV bytes and local prefill [s] by length, as fixed numbers."""
    delay: float
    """Half a round trip of the link [s]."""
    purchase: tuple[float, float]
    """Purchase of a remote and of a local GPU, paid off by the hour [USD/h]."""
    link_price: LinkPrice
    single: bool
    """Whether there is no remote cluster at all."""
    names: tuple[Cell, Cell]
    """Names of the remote and the local cluster."""

    def decode(self, instances: Cell) -> Cell:
        """Give the rate of some decode instances [req/s]."""
        return instances * self.decode_each


@dataclass(frozen=True, slots=True)
class Rates:
    """One threshold evaluated: share, mean lengths and needs per request of all."""

    threshold: Cell
    below: Cell
    share: Cell
    first_above: Cell
    mean_remote: Cell
    mean_kv: Cell
    mean_local: Cell
    remote: Cell
    kv: Cell
    local: Cell


def threshold_headings(law: LiveLaw) -> list[str]:
    """Name the columns of `evaluate`."""
    moments = [*[""] * (law.width - 3), "P(L ≤ t)", "E[L; L ≤ t]", "E[L²; L ≤ t]"]
    means = ["mean T remote, long [s]", "mean S_kv, long [B]", "mean T local, short [s]"]
    return ["threshold", "within the law", *moments, "p", "E[L; L > t]", *means, "need remote [s]", "need link [B]",
            "need local [s]"]  # fmt: skip


def evaluate(live: Live, sheet: Sheet, row: int, column: int, threshold: Cell) -> Rates:
    """Write the evaluation of a threshold, in as many columns as `threshold_headings` has."""
    law = live.law
    clipped = sheet.formula(row, column, law.clipped(threshold))
    h = law.moments(sheet, row, column + 1, clipped)
    at = column + 1 + law.width

    def put(offset: int, cell: Cell) -> Cell:
        return sheet.formula(row, at + offset, cell)

    share = put(0, law.total[0] - h[0])
    first = put(1, law.total[1] - h[1])
    mean_remote = put(2, choose(share > 0.0, live.remote.total - live.remote.up_to(clipped, h), 0.0))
    mean_kv = put(3, choose(share > 0.0, live.kv.total - live.kv.up_to(clipped, h), 0.0))
    mean_local = put(4, choose(h[0] > 0.0, live.local.up_to(clipped, h), 0.0))
    by_mean = live.inputs.reading.equals("mean")
    long, short = first / share, h[1] / h[0]
    remote = put(5, choose(by_mean, mean_remote, choose(share > 0.0, share * live.remote.value(long), 0.0)))
    kv = put(6, choose(by_mean, mean_kv, choose(share > 0.0, share * live.kv.value(long), 0.0)))
    local = put(7, choose(by_mean, mean_local, choose(h[0] > 0.0, h[0] * live.local.value(short), 0.0)))
    return Rates(threshold, h[0], share, first, mean_remote, mean_kv, mean_local, remote, kv, local)


def allowed(resource: Cell, need: Cell) -> Cell:
    """Give the rate of all requests a resource allows; next to infinite where nothing needs it."""
    return choose(need > 0.0, resource / need, NOTHING_LIMITS)


def limits(live: Live, rates: Rates, prefill: Cell) -> tuple[Cell, Cell, Cell]:
    """Give the rates that the remote pool, the link and `prefill` local instances allow."""
    return (
        allowed(live.inputs.remote, rates.remote),
        allowed(live.link, rates.kv),
        allowed(prefill, rates.local),
    )


@dataclass(frozen=True, slots=True)
class SplitSearch:
    """The best threshold and rate of every split, one line each."""

    prefill: Range
    threshold: Range
    rate: Range
    prefill_rate: Range


def search(live: Live, sheet: Sheet, row: int, prefill: Cell, link: Cell, count: int) -> tuple[Cell, Cell, int]:
    """Write the search for one split and link: the best threshold, the rate prefill allows there, the row below.

    Columns: prefill instances, low, high, then the evaluation of the middle, then whether remote has room there.
    """
    width = 1 + live.law.width + 8
    low, high = whole_up(live.law.first) - 1, whole_up(live.law.last)
    for i in range(count):
        line = row + i
        sheet.formula(line, 0, prefill)
        low, high = sheet.formula(line, 1, low), sheet.formula(line, 2, high)
        middle = sheet.formula(line, 3, whole((low + high) / 2))
        rates = evaluate(live, sheet, line, 4, middle)
        far = smallest(allowed(live.inputs.remote, rates.remote), allowed(link, rates.kv))
        room = sheet.formula(line, 4 + width, far >= allowed(prefill, rates.local))
        low, high = choose(room, low, smallest(middle + 1, high)), choose(room, middle, high)
    candidates = []
    for offset, threshold in enumerate((high, sheet.at(row + count, 3, high.value) - 1)):
        line = row + count + offset
        sheet.formula(line, 0, prefill)
        t = sheet.formula(line, 3, threshold)
        rates = evaluate(live, sheet, line, 4, t)
        far = smallest(allowed(live.inputs.remote, rates.remote), allowed(link, rates.kv))
        rate = sheet.formula(line, 4 + width, smallest(far, allowed(prefill, rates.local)))
        candidates.append((t, rate))
    (at, at_rate), (before, before_rate) = candidates
    better = before_rate >= at_rate
    return choose(better, before, at), choose(better, before_rate, at_rate), row + count + 2


def search_splits(live: Live, work: Sheet, table: Sheet, row: int, splits: Sequence[int]) -> SplitSearch:
    """Write the search of every split on one sheet and what it finds in a table on another."""
    count = bisections(live)
    work.headings(0, ["local prefill", "low", "high", "threshold", *threshold_headings(live.law), "remote has room"])
    own = evaluate(live, work, 1, 4, live.inputs.own_threshold)
    everything = evaluate(live, work, 2, 4, whole_up(live.law.first) - 1)
    table.headings(row, ["local prefill", "local decode", "best threshold [tokens]", "prefill allows [req/s]",
                         "decode allows [req/s]", "rate [req/s]"])  # fmt: skip
    next_row, columns = 4, list[list[Cell]]()
    for line, n in enumerate(splits, start=row + 1):
        prefill = number(float(n))
        if n == 0:
            far, link, _ = limits(live, everything, prefill)
            threshold, rate = number(0.0), smallest(far, link)
        else:
            threshold, rate, next_row = search(live, work, next_row, prefill, live.link, count)
            far, link, near = limits(live, own, prefill)
            fixed = live.inputs.threshold_mode.equals("own")
            threshold = choose(fixed, live.inputs.own_threshold, threshold)
            rate = choose(fixed, smallest(far, link, near), rate)
        columns.append(list(_line(live, table, line, n, (threshold, rate))))

    def column(which: int) -> Range:
        return table.range(row + 1, (0, 2, 3, 5)[which], [line[which].value for line in columns])

    return SplitSearch(column(0), column(1), column(3), column(2))


def bisections(live: Live) -> int:
    """Give the bisection steps that leave one token of lengths up to the longest an input may be."""
    longest = max(float(LONGEST) if live.inputs.law else 2.0, live.law.last.float)
    return math.ceil(math.log2(longest)) + 1


def _line(live: Live, table: Sheet, row: int, n: int, found: tuple[Cell, Cell]) -> Iterator[Cell]:
    local = live.inputs.local
    possible = local > float(n)
    yield table.number(row, 0, n, "#,##0")
    decode_instances = table.formula(row, 1, choose(possible, local - float(n), 0.0), "#,##0")
    yield table.formula(row, 2, found[0], "#,##0")
    prefill = table.formula(row, 3, choose(possible, found[1], 0.0), "#,##0.0000")
    yield prefill
    decode = table.formula(row, 4, live.decode(decode_instances), "#,##0.0000")
    yield table.formula(row, 5, choose(possible, smallest(prefill, decode), 0.0), "#,##0.0000")


def usable_link(inputs: LiveInputs) -> Cell:
    """Give the bytes a second that cross the link."""
    return inputs.gbps * inputs.efficiency * (number(1.0) - inputs.loss) * GBPS

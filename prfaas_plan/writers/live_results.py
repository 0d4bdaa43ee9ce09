"""The sheet of results in formulas: the plan, its latency and cost, and the fleets it is compared with."""

from __future__ import annotations

import math
from dataclasses import dataclass

from prfaas_plan.plan_record import Plan
from prfaas_plan.units import GBPS
from prfaas_plan.what_if_tables import WhatIf
from prfaas_plan.writers.book import Sheet
from prfaas_plan.writers.formula import (
    Cell,
    all_of,
    any_of,
    choose,
    index,
    largest,
    number,
    place,
    smallest,
    text,
    whole,
)
from prfaas_plan.writers.live_inputs import UNLIMITED_GBPS
from prfaas_plan.writers.live_search import Live, Rates, SplitSearch, evaluate, limits
from prfaas_plan.writers.live_wait import first_token_quantiles

__all__ = ["Chosen", "choose_plan", "write_results"]

NONE = "–"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The split and threshold that hold, and everything at them."""

    prefill: Cell
    decode: Cell
    threshold: Cell
    rates: Rates
    far: Cell
    link: Cell
    near: Cell
    decode_rate: Cell
    rate: Cell


class _Lines:
    """Lines of results: label, value, unit, what was planned for the scenario as it was, and how it is computed."""

    def __init__(self, sheet: Sheet) -> None:
        self.sheet, self.row = sheet, 3

    def part(self, title: str) -> None:
        """Start a part."""
        self.row += 1
        self.sheet.headings(self.row, [title, "value", "unit", "planned", "how"])
        self.row += 1

    def line(self, name: str, label: str, cell: Cell, unit: str, planned: float | str | None, how: str) -> Cell:
        """Write one result and name it."""
        sheet, row = self.sheet, self.row
        sheet.text(row, 0, label)
        digits = "0.0%" if unit == "%" else "#,##0" if unit in ("tokens", "instances", "GPUs") else "#,##0.0000"
        style = "main" if name == "lambda_max_rps" else "result"
        written = sheet.formula(row, 1, cell, digits, style)
        sheet.text(row, 2, "" if unit == "%" else unit, "unit")
        if isinstance(planned, str):
            sheet.text(row, 3, planned)
        elif planned is None:
            sheet.text(row, 3, NONE)
        else:
            sheet.number(row, 3, float(planned), digits)
        sheet.text(row, 4, how, "wrap")
        self.row += 1
        return sheet.book.name(written, f"out_{name}")


def choose_plan(live: Live, work: Sheet, row: int, splits: SplitSearch) -> Chosen:
    """Choose the split and the threshold, and evaluate them on one line of a sheet."""
    best = _first_best(splits)
    fixed = live.inputs.split_mode.equals("own")
    prefill = work.formula(row, 0, choose(fixed, live.inputs.own_prefill, index(splits.prefill, best)))
    threshold = work.formula(row, 3, index(splits.threshold, place(prefill, splits.prefill, exact=True)))
    rates = evaluate(live, work, row, 4, threshold)
    decode = live.inputs.local - prefill
    far, link, near = limits(live, rates, prefill)
    all_remote = prefill.equals(0.0)
    near = choose(all_remote, 1e99, near)
    decode_rate = live.decode(decode)
    rate = smallest(far, link, near, decode_rate)
    return Chosen(prefill, decode, threshold, rates, far, link, near, decode_rate, rate)


def _first_best(splits: SplitSearch) -> Cell:
    top = max(splits.rate.numbers())
    found = splits.rate.numbers().index(top) + 1
    return Cell(f"MATCH(MAX({splits.rate.text}),{splits.rate.text},0)", float(found))


def write_results(live: Live, sheet: Sheet, work: Sheet, chosen: Chosen, found: WhatIf) -> dict[str, Cell]:
    """Write every result and give the cells that charts and grids refer to."""
    lines = _Lines(sheet)
    plan = found.plan
    sheet.text(0, 0, f"{plan.scenario}: the plan, calculated", "title")
    sheet.text(
        1, 0, "Every value follows the sheet “Inputs”. “planned” is what prfaas-plan found for the scenario as it was."
    )
    cells = _throughput(live, lines, chosen, plan)
    _stages(live, lines, chosen, plan, cells)
    _latency(live, lines, work, chosen, plan)
    cost = _cost(live, lines, plan, cells)
    _comparison(live, lines, found, (cells["rate"], cost))
    return cells


def _throughput(live: Live, lines: _Lines, chosen: Chosen, plan: Plan) -> dict[str, Cell]:
    lines.part("What it serves")
    rate = lines.line("lambda_max_rps", "largest rate Λ_max", chosen.rate, "req/s", plan.lambda_max_rps,
                      "min(Θ_prfaas/p, Θ_pd-p/(1 − p), Θ_pd-d): arXiv 2604.15039, equation 6")  # fmt: skip
    routed = all_of(chosen.prefill > 0.0, live.inputs.remote > 0.0)
    threshold = lines.line(
        "threshold_tokens",
        "length threshold t",
        choose(routed, chosen.threshold, NONE),
        "tokens",
        plan.threshold_tokens,
        "longer prompts prefill remotely; found by bisection (equation 7)",
    )
    planned = {p.role: p.instances for p in plan.pools}
    local = next((p.instances for p in plan.pools if p.role == "prefill" and p.cluster == plan.pools[-1].cluster), 0)
    prefill = lines.line("local_prefill_instances", "local prefill", chosen.prefill, "instances", local, "best split")
    decode = lines.line(
        "decode_instances",
        "local decode",
        chosen.decode,
        "instances",
        planned.get("decode"),
        "the other local instances",
    )
    lines.line(
        "bottleneck",
        "limited by",
        _bottleneck(live, chosen, rate),
        "",
        plan.bottleneck,
        "stages within 0.1 % of the largest rate",
    )
    share = chosen.rates.share
    p = lines.line("offloaded_fraction", "offloaded share p", share, "%", plan.offloaded_fraction, "P(L > t)")
    lines.line(
        "mean_long_tokens",
        "mean offloaded length",
        choose(p > 0.0, chosen.rates.first_above / p, NONE),
        "tokens",
        plan.mean_long_tokens,
        "E[L | L > t]",
    )
    below, total = chosen.rates.below, live.law.total[1]
    lines.line("mean_short_tokens", "mean local length",
               choose(below > 0.0, (total - chosen.rates.first_above) / below, NONE), "tokens",
               plan.mean_short_tokens, "E[L | L ≤ t]")  # fmt: skip
    lines.line("mean_input_tokens", "mean length", total, "tokens", plan.mean_input_tokens, "E[L]")
    return {"rate": rate, "threshold": threshold, "prefill": prefill, "decode": decode}


def _bottleneck(live: Live, chosen: Chosen, rate: Cell) -> Cell:
    near = rate * number(1.001)
    far, home = live.names
    words: Cell = text("")
    parts = (
        (chosen.far, text(" and prefill at ").joined(far)),
        (chosen.link, text(" and link")),
        (chosen.near, text(" and prefill at ").joined(home)),
        (chosen.decode_rate, text(" and decode at ").joined(home)),
    )
    for limit, label in parts:
        words = words.joined(choose(limit <= near, label, ""))
    return words.after(5)


def _stages(live: Live, lines: _Lines, chosen: Chosen, plan: Plan, cells: dict[str, Cell]) -> None:
    rate = cells["rate"]
    share, below = chosen.rates.share, chosen.rates.below
    lines.part("Stages, links and their load")
    remote = choose(share > 0.0, smallest(chosen.far, chosen.link) * share, NONE)
    lines.line("prfaas_rps", "Θ_prfaas, of its own requests", remote, "req/s", plan.stages.prfaas_rps,
               "min(N / T_prefill, B_out / S_kv): equation 3")  # fmt: skip
    local = choose(all_of(chosen.prefill > 0.0, below > 0.0), chosen.near * below, NONE)
    lines.line("pd_prefill_rps", "Θ_pd-p, of its own requests", local, "req/s", plan.stages.pd_prefill_rps,
               "N_p / T_prefill: equation 4")  # fmt: skip
    lines.line("pd_decode_rps", "Θ_pd-d", chosen.decode_rate, "req/s", plan.stages.pd_decode_rps,
               "N_d · BS_max / (T_decode · L_out): equation 5")  # fmt: skip
    loads = {pool.role + ("" if pool.cluster == plan.pools[-1].cluster else " far"): pool for pool in plan.pools}
    for name, label, limit, key in (
        ("remote_prefill_load", "load of remote prefill", chosen.far, "prefill far"),
        ("local_prefill_load", "load of local prefill", chosen.near, "prefill"),
        ("decode_load", "load of decode", chosen.decode_rate, "decode"),
    ):
        planned = loads[key].load_fraction if key in loads else None
        lines.line(name, label, rate / limit, "%", planned, "Λ_max over what the pool allows")
    used = rate * chosen.rates.mean_kv / GBPS
    link = plan.links[0] if plan.links else None
    egress = lines.line("link_used_gbps", "egress", used, "Gbit/s", link.used_gbps if link else 0.0,
                        "Λ_max · p · mean S_kv of the offloaded requests")  # fmt: skip
    cells["egress"] = egress
    lines.line("link_load", "load of the link", choose(live.link > 0.0, egress * GBPS / live.link, 0.0), "%",
               link.load_fraction if link else 0.0, "egress over the usable rate")  # fmt: skip


def _latency(live: Live, lines: _Lines, work: Sheet, chosen: Chosen, plan: Plan) -> None:
    lines.part("Latency of idle machines (no queueing)")
    r, ttft = chosen.rates, plan.ttft_s
    all_remote = chosen.prefill.equals(0.0)
    transfer = choose(live.link > 0.0, r.mean_kv / live.link, 0.0) + r.share * live.delay
    mean = r.mean_remote + transfer + choose(all_remote, 0.0, r.mean_local)
    lines.line("ttft_mean_s", "TTFT, mean", mean, "s", ttft.mean, "T_prefill, plus S_kv / B_out where offloaded")
    planned = (("p50", ttft.p50), ("p90", ttft.p90), ("p99", ttft.p99))
    for (name, value), cell in zip(planned, first_token_quantiles(live, work, chosen.rates, all_remote), strict=True):
        how = "of the mixture of both routes" if cell is not None else "as planned; does not follow the inputs"
        shown = cell if cell is not None else number(value)
        lines.line(f"ttft_{name}_s", f"TTFT, {name}", shown, "s", value, how)
    lines.line("tpot_s", "time per output token", live.step + 0.0, "s", plan.tpot_s, "step time at BS_max")
    lines.line("batch", "decode batch BS_max", live.batch + 0.0, "1", None, "largest that keeps the promised speed")


def _cost(live: Live, lines: _Lines, plan: Plan, cells: dict[str, Cell]) -> Cell:
    i = live.inputs
    lines.part("Size and cost")
    gpus = i.remote * i.gpus_remote + i.local * i.gpus_local
    lines.line("gpus", "GPUs", gpus, "GPUs", plan.gpus, "instances × GPUs of each")
    priced, link = _priced(live), live.link_price
    far, home = _instance_prices(live)
    carried = cells["egress"] * GBPS * 3600.0 / 1e9
    per_gbps = choose(i.gbps < UNLIMITED_GBPS, i.gbps, 0.0) * link.usd_per_gbps_hour
    money = i.remote * far + i.local * home + link.usd_per_port_hour + carried * link.usd_per_gb + per_gbps
    cost = lines.line("cost_usd_per_hour", "cost", choose(priced, money, NONE), "USD/h", plan.cost_usd_per_hour,
                      "GPUs × price, purchase included, and the link with what it carries")  # fmt: skip
    tokens = cells["rate"] * i.output * number(3600.0) / 1e6
    lines.line("usd_per_million_output_tokens", "cost of a million output tokens",
               choose(priced, cost / tokens, NONE), "USD", plan.usd_per_million_output_tokens,
               "all GPUs counted, at the largest rate")  # fmt: skip
    return cost


def _instance_prices(live: Live) -> tuple[Cell, Cell]:
    """Give the price of a remote and a local instance-hour, the purchase paid off included."""
    i, (far, home) = live.inputs, live.purchase
    return i.gpus_remote * (_known(i.price_remote) + far), i.gpus_local * (_known(i.price_local) + home)


def _known(price: Cell) -> Cell:
    """Take a price that is not given as none."""
    return Cell(f"N({price.text})", 0.0 if math.isnan(price.float) else price.float)


def _priced(live: Live) -> Cell:
    i, bought = live.inputs, live.purchase
    given = [Cell(f"ISNUMBER({c.text})", not math.isnan(c.float)) for c in (i.price_remote, i.price_local)]
    far, home = (any_of(g, number(b) > 0.0) for g, b in zip(given, bought, strict=True))
    return all_of(any_of(far, number(float(live.alone)) > 0.0), home)


def _comparison(live: Live, lines: _Lines, found: WhatIf, money: tuple[Cell, Cell]) -> None:
    rate, cost = money
    i, compared = live.inputs, found.comparison
    lines.part("Compared with")
    planned = {p.deployment: p.lambda_max_rps for p in compared.deployments} if compared else {}
    need = choose(i.reading.equals("mean"), live.local.total, live.local.value(live.law.total[1]))
    need = lines.line("need_homogeneous_s", "local prefill time of all requests", need, "s", None,
                      "mean, or at the mean length")  # fmt: skip
    same = whole((i.remote * i.gpus_remote + i.local * i.gpus_local) / i.gpus_local)
    size = lines.line("homogeneous_instances", "homogeneous: instances of as many GPUs", same, "instances", None,
                      "all GPUs / GPUs of a local instance")  # fmt: skip
    homogeneous = lines.line(
        "homogeneous_rps",
        "homogeneous: rate at its best split",
        _best_of(live, size, need),
        "req/s",
        planned.get("homogeneous-pd"),
        "min(n / T, (N − n) · decode) at the best n",
    )
    lines.line("ratio_to_homogeneous", "plan over homogeneous", rate / homogeneous, "1",
               compared.ratio(compared.deployments[0]) if compared else None, "")  # fmt: skip
    by_mean = i.reading.equals("mean")
    mean_length = live.law.total[1]
    t_all = choose(by_mean, live.remote.total, live.remote.value(mean_length))
    s_all = choose(by_mean, live.kv.total, live.kv.value(mean_length))
    naive = smallest(i.remote / t_all, live.link / s_all, live.decode(i.local))
    lines.line("naive_rps", "naive: all prefill remote, all local decode", naive, "req/s",
               planned.get("naive-heterogeneous-pd"), "min(N / T, B_out / S_kv, Θ_pd-d)")  # fmt: skip
    _equal_cost(live, lines, found, (rate, cost), need)


def _equal_cost(live: Live, lines: _Lines, found: WhatIf, money: tuple[Cell, Cell], need: Cell) -> None:
    rate, cost = money
    equal = found.comparison.equal_cost if found.comparison else None
    known = all_of(Cell(f"ISNUMBER({cost.text})", isinstance(cost.value, float)), live.inputs.remote > 0.0)
    home = _instance_prices(live)[1]
    known = all_of(known, home > 0.0)
    instances = whole(cost / home + 1e-9)
    size = lines.line(
        "equal_cost_instances",
        "equal cost: homogeneous instances",
        choose(known, instances, NONE),
        "instances",
        equal.instances if equal else None,
        "the same money in local instances",
    )
    other = lines.line("equal_cost_rps", "equal cost: homogeneous rate",
                       choose(known, _best_of(live, size, need), NONE), "req/s",
                       equal.lambda_max_rps if equal else None, "at its best split")  # fmt: skip
    lines.line("gain_fraction", "gain of the plan over it", choose(known, rate / other - 1.0, NONE), "%",
               equal.gain_fraction if equal else None, "rate over that rate, less 1")  # fmt: skip


def _best_of(live: Live, size: Cell, need: Cell) -> Cell:
    """Give the rate of a homogeneous fleet at its best split: one of the two whole numbers around the balance."""
    each = live.decode_each
    balance = whole(size * each * need / (each * need + 1.0))

    def rate(n: Cell) -> Cell:
        kept = smallest(largest(n, 1.0), size - 1.0)
        return smallest(kept / need, (size - kept) * each)

    return largest(rate(balance), rate(balance + 1.0), 0.0)

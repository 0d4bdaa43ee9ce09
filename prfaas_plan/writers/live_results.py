"""The sheet of results in formulas: the plan, its latency and cost, and the fleets it is compared with."""

from __future__ import annotations

from dataclasses import dataclass

from prfaas_plan.plan_record import Plan
from prfaas_plan.units import GBPS
from prfaas_plan.whatif.tables import WhatIf
from prfaas_plan.writers.book import Sheet
from prfaas_plan.writers.formula import (
    Cell,
    all_of,
    choose,
    index,
    number,
    place,
    smallest,
    text,
)
from prfaas_plan.writers.live_compare import write_comparison, write_cost
from prfaas_plan.writers.live_lines import NONE, ResultLines
from prfaas_plan.writers.live_search import Live, Rates, SplitSearch, evaluate, limits
from prfaas_plan.writers.live_wait import first_token_quantiles

_LOAD = "Λ_max over what the pool allows"
_UNUSED = 1e90
"""A pool that allows more than this has nothing to do [req/s]."""

__all__ = ["Chosen", "choose_plan", "write_results"]


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
    lines = ResultLines(sheet)
    plan = found.plan
    sheet.text(0, 0, f"{plan.scenario}: the plan, calculated", "title")
    sheet.text(
        1, 0, "Every value follows the sheet “Inputs”. “planned” is what prfaas-plan found for the scenario as it was."
    )
    cells = _throughput(live, lines, chosen, plan)
    _stages(live, lines, chosen, plan, cells)
    _latency(live, lines, work, chosen, plan)
    cost = write_cost(live, lines, plan, cells)
    write_comparison(live, lines, found, (cells["rate"], cost))
    return cells


def _throughput(live: Live, lines: ResultLines, chosen: Chosen, plan: Plan) -> dict[str, Cell]:
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
    _classes(live, lines, chosen, plan)
    return {"rate": rate, "threshold": threshold, "prefill": prefill, "decode": decode}


def _classes(live: Live, lines: ResultLines, chosen: Chosen, plan: Plan) -> None:
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


def _stages(live: Live, lines: ResultLines, chosen: Chosen, plan: Plan, cells: dict[str, Cell]) -> None:
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
        lines.line(name, label, choose(limit < _UNUSED, rate / limit, NONE), "%", planned, _LOAD)
    used = rate * chosen.rates.mean_kv / GBPS
    link = plan.links[0] if plan.links else None
    egress = lines.line("link_used_gbps", "egress", used, "Gbit/s", link.used_gbps if link else None,
                        "Λ_max · p · mean S_kv of the offloaded requests")  # fmt: skip
    cells["egress"] = egress
    lines.line("link_load", "load of the link", choose(live.link > 0.0, egress * GBPS / live.link, 0.0), "%",
               link.load_fraction if link else None, "egress over the usable rate")  # fmt: skip


def _latency(live: Live, lines: ResultLines, work: Sheet, chosen: Chosen, plan: Plan) -> None:
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

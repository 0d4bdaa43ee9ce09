"""Cost and comparison in formulas: what the plan costs, and the fleets that it is set beside."""

from __future__ import annotations

import math

from prfaas_plan.plan_record import Plan
from prfaas_plan.units import GBPS
from prfaas_plan.whatif.tables import WhatIf
from prfaas_plan.writers.formula import Cell, all_of, any_of, choose, largest, number, smallest, whole
from prfaas_plan.writers.live_inputs import UNLIMITED_GBPS
from prfaas_plan.writers.live_lines import NONE, ResultLines
from prfaas_plan.writers.live_search import Live

__all__ = ["write_comparison", "write_cost"]


def write_cost(live: Live, lines: ResultLines, plan: Plan, cells: dict[str, Cell]) -> Cell:
    """Write size and cost, and give the cell of the cost."""
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
    return all_of(any_of(far, number(float(live.single)) > 0.0), home)


def write_comparison(live: Live, lines: ResultLines, found: WhatIf, money: tuple[Cell, Cell]) -> None:
    """Write the homogeneous fleet of as many GPUs, the naive one, and the homogeneous one of equal cost."""
    rate, cost = money
    i, compared = live.inputs, found.comparison
    lines.part("Compared with")
    planned = {p.deployment: p.lambda_max_rps for p in compared.deployments} if compared else {}
    need = choose(i.reading.equals("mean"), live.alone.total, live.alone.value(live.law.total[1]))
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


def _equal_cost(live: Live, lines: ResultLines, found: WhatIf, money: tuple[Cell, Cell], need: Cell) -> None:
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

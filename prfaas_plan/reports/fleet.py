"""The plan of a fleet as a document."""

from __future__ import annotations

from typing import Any

from prfaas_plan.fleet.periods import RoleGain
from prfaas_plan.fleet.record import UNITS_OF, FleetPlan, PeriodPlan
from prfaas_plan.fleet.worth import Worth
from prfaas_plan.plan_parts import LinkUse, PoolUse
from prfaas_plan.reports.document import Cell, Column, Document, Table, columns, flatten, rows, without_blanks
from prfaas_plan.units import show

__all__ = ["report_fleet", "role_gain_line", "worth_tables"]

_NAMES = {"throughput": "rate", "cost": "cost", "power": "power", "gpus": "number of GPUs", "bandwidth": "bandwidth"}


def report_fleet(plan: FleetPlan, *, explain: bool = False) -> Document:
    """Lay out the plan of a fleet; with `explain`, also what every request needs of every pool and link."""
    tables = [_fleet(plan), _pools(plan), *_links(plan), _routing(plan), *_latency(plan), *_alternatives(plan)]
    if explain:
        tables.append(_explanation(plan))
    return Document(
        title=f"{plan.scenario}: fleet",
        headline=tuple(_headline(plan)),
        tables=tuple(without_blanks(table) for table in tables),
        notes=plan.notes,
        rows=(_flat(plan),),
    )


def _headline(plan: FleetPlan) -> list[str]:
    busiest = f" in {plan.busiest.name}" if plan.busiest.name else ""
    tokens_in = show(plan.rate_rps * plan.mean_input_tokens, "tokens/s")
    tokens_out = show(plan.rate_rps * plan.output_tokens, "tokens/s")
    verb = "Serves up to" if plan.target_rps is None else "Serves"
    lines = [f"{verb} {show(plan.rate_rps, 'req/s')}{busiest} ({tokens_in} in, {tokens_out} out)."]
    value, bound = (_amount(x, plan.objective) for x in (plan.objective_value, plan.bound))
    better = "more than" if plan.target_rps is None else "less than"
    lines.append(
        f"The {_NAMES[plan.objective]} is {value}; no plan has {better} {bound} (gap {plan.gap_fraction:.1e})."
    )
    if plan.threshold_tokens is not None:
        lines.append(
            f"Offload prompts longer than {plan.threshold_tokens:,} uncached tokens: "
            f"{plan.offloaded_fraction:.1%} of the requests{busiest}."
        )
    if plan.bottleneck:
        lines.append(f"Limited by {plan.bottleneck}.")
    if plan.role_changes:
        lines.append(f"{plan.role_changes} instances take another role in the course of a day.")
    lines += [*_money(plan), str(plan.per_gpu)]
    return lines


def _amount(value: float, objective: str) -> str:
    return f"{value:,.0f}" if objective == "gpus" else show(value, UNITS_OF[objective], 6)


def _money(plan: FleetPlan) -> list[str]:
    lines = []
    if plan.cost_usd_per_hour is not None:
        lines.append(
            f"Costs {show(plan.cost_usd_per_hour, 'USD/h')}, {show(plan.usd_per_million_output_tokens, 'USD')} per "
            f"million output tokens (all {plan.gpus} GPUs)."
        )
    if plan.power_w is not None:
        unknown = [s.name for s in plan.outcome.model.case.stations if s.watts <= 0.0]
        without = f" without {', '.join(unknown)}, whose power is not known" if unknown else ""
        lines.append(f"Draws {show(plan.power_w / 1e3, 'kW')}{without}.")
    return lines


def _fleet(plan: FleetPlan) -> Table:
    return Table(
        "Fleet (instances × GPUs each = GPUs)",
        columns("cluster", "site", "accelerator", Column("size"), Column("cost", "USD/h")),
        rows(
            [
                p.cluster,
                p.site,
                p.accelerator,
                f"{p.instances} × {p.gpus_per_instance} = {p.instances * p.gpus_per_instance}",
                p.usd_per_hour,
            ]
            for p in plan.purchases
        ),
    )


def _states(plan: FleetPlan) -> list[PeriodPlan]:
    return [*plan.periods, *plan.failures]


def _pools(plan: FleetPlan) -> Table:
    found: list[tuple[PeriodPlan, PoolUse]] = [(state, pool) for state in _states(plan) for pool in state.pools]
    return Table(
        "Pools",
        columns(
            "period", "role", "cluster", Column("instances"), Column("capacity", "req/s"), Column("load", percent=True)
        ),
        rows([s.name, p.role, p.cluster, p.instances, p.capacity_rps, p.load_fraction] for s, p in found),
        frozenset(i for i, (_, p) in enumerate(found) if p.load_fraction > 1.0 - 1e-3),
    )


def _links(plan: FleetPlan) -> list[Table]:
    found: list[tuple[PeriodPlan, LinkUse]] = [(state, link) for state in _states(plan) for link in state.links]
    if not found:
        return []
    return [
        Table(
            "Links",
            columns(
                "period",
                "from",
                "to",
                Column("nominal", "Gbit/s"),
                Column("usable", "Gbit/s"),
                Column("used", "Gbit/s"),
                Column("load", percent=True),
            ),
            rows(
                [s.name, x.origin, x.destination, x.capacity_gbps, x.usable_gbps, x.used_gbps, x.load_fraction]
                for s, x in found
            ),
            frozenset(i for i, (_, x) in enumerate(found) if x.load_fraction > 1.0 - 1e-3),
        )
    ]


def _routing(plan: FleetPlan) -> Table:
    return Table(
        "Who prefills which lengths",
        columns(
            "period",
            "origin",
            "prefill at",
            Column("share", percent=True),
            "takes",
            Column("threshold", "token"),
            Column("shortest", "token"),
            Column("longest", "token"),
        ),
        rows(
            [
                r.period,
                r.origin,
                r.cluster,
                r.share_fraction,
                r.pattern,
                r.threshold_tokens,
                r.shortest_tokens,
                r.longest_tokens,
            ]
            for r in plan.routing
        ),
    )


def _latency(plan: FleetPlan) -> list[Table]:
    idle = [(p.name, p.ttft_s) for p in plan.periods if p.ttft_s is not None]
    found: list[list[Cell]] = [[name, t.mean, t.p50, t.p90, t.p99] for name, t in idle]
    if plan.loaded_ttft_s is not None:
        t = plan.loaded_ttft_s
        found.append([f"{plan.busiest.name} with queues".strip(), t.mean, t.p50, t.p90, t.p99])
    heads = ("period", Column("TTFT mean", "s"), Column("p50", "s"), Column("p90", "s"), Column("p99", "s"))
    return [Table("Latency of idle machines (no queueing)", columns(*heads), rows(found))] if found else []


def _alternatives(plan: FleetPlan) -> list[Table]:
    if not plan.alternatives:
        return []
    unit = UNITS_OF[plan.objective]
    return [
        Table(
            "Other fleets that were looked at",
            columns("instances", Column(_NAMES[plan.objective], unit)),
            rows([", ".join(f"{name} {n}" for name, n in a.instances if n), a.value] for a in plan.alternatives),
        )
    ]


def _explanation(plan: FleetPlan) -> Table:
    return Table(
        "How each number came about",
        columns("number", "from"),
        rows([f"{x.symbol} = {show(x.value, x.unit, 4)}", f"{x.equation} ({x.source})"] for x in plan.explain),
    )


def _flat(plan: FleetPlan) -> dict[str, Any]:
    flat = flatten(plan.to_dict())
    for purchase in plan.purchases:
        flat[f"{purchase.cluster}_instances"] = purchase.instances
    return flat


def role_gain_line(gain: RoleGain) -> str:
    """Say what changing roles between periods gains against roles that stay."""
    if gain.gain_fraction is None or gain.fixed_value is None:
        return "No fleet whose roles stay the same serves these rates."
    objective = gain.plan.objective
    verb = "gain" if gain.plan.target_rps is None else "save"
    return (
        f"Role changes {verb} {gain.gain_fraction:.1%} against roles that stay "
        f"({_NAMES[objective]} {_amount(gain.fixed_value, objective)})."
    )


def worth_tables(found: Worth) -> list[Table]:
    """Lay out shadow prices and the prices below which accelerators pay."""
    unit = found.objective_unit
    prices = Table(
        "What a little more of each thing is worth",
        columns("more of", Column("shadow price", unit, 4), Column("planned anew", unit, 4), "per"),
        rows([line.what, line.shadow, line.up, line.unit] for line in found.lines),
    )
    pays = Table(
        "Price below which each accelerator pays",
        columns("cluster", "accelerator", Column("instances"), Column("price", "USD/h"), Column("pays below", "USD/h")),
        rows(
            [b.cluster, b.accelerator, b.instances, b.price_usd_per_gpu_hour, b.pays_below_usd_per_gpu_hour]
            for b in found.break_even
        ),
    )
    return [table for table in (prices, pays) if table.rows]

"""Plans and comparisons as documents."""

from __future__ import annotations

from typing import Any

from prfaas_plan.explanation import Line
from prfaas_plan.plan_parts import PoolUse
from prfaas_plan.plan_record import Comparison, Plan
from prfaas_plan.reports.document import Cell, Column, Document, Table, columns, flatten, rows
from prfaas_plan.units import show

__all__ = ["report_comparison", "report_plan"]

_READING = {"mean": "mean service time", "at-mean-length": "service time at the mean length (as the paper)"}


def report_plan(plan: Plan, *, explain: bool = False) -> Document:
    """Lay out one plan; with `explain`, also the chain of equations behind it."""
    tables = [_pools(plan), *_links(plan), _latency([plan]), *_alternatives(plan)]
    if explain:
        tables.append(_explanation(plan))
    return Document(
        title=f"{plan.scenario}: {plan.deployment}",
        headline=tuple(_headline(plan)),
        tables=tuple(tables),
        notes=plan.notes,
        rows=(_flat(plan),),
    )


def _headline(plan: Plan) -> list[str]:
    tokens_in = show(plan.lambda_max_rps * plan.mean_input_tokens, "tokens/s")
    tokens_out = show(plan.lambda_max_rps * plan.output_tokens, "tokens/s")
    lines = [f"Serves up to {show(plan.lambda_max_rps, 'req/s')} ({tokens_in} in, {tokens_out} out)."]
    if plan.lambda_interval_rps is not None:
        low, high = plan.lambda_interval_rps
        lines.append(
            f"Estimated times put it between {show(low, 'req/s')} and {show(high, 'req/s')} (all of them at one end "
            "of their 80 % intervals)."
            if high > low * (1.0 + 1e-3)
            else "No estimated time limits it within its 80 % interval."
        )
    if plan.within_ttft is not None:
        lines.append(
            f"Within the promised TTFT (p90 {show(plan.within_ttft.ttft_s.p90, 's')}) it serves up to "
            f"{show(plan.within_ttft.rate_rps, 'req/s')}, {plan.within_ttft.load_fraction:.0%} of that."
        )
    if plan.threshold_tokens is not None:
        lines.append(
            f"Offload prompts longer than {plan.threshold_tokens:,} uncached tokens: "
            f"{plan.offloaded_fraction:.1%} of the requests."
        )
    lines.append(f"Limited by {plan.bottleneck}.")
    other = plan.other_reading
    threshold = f", threshold {other.threshold_tokens:,} tokens" if other.threshold_tokens is not None else ""
    lines.append(
        f"Capacity from the {_READING[plan.service_time]}. With the {_READING[other.service_time]}: "
        f"{show(other.lambda_max_rps, 'req/s')}, split {other.prefill_instances}/{other.decode_instances}{threshold}."
    )
    if plan.cost_usd_per_hour is not None:
        lines.append(
            f"Costs {show(plan.cost_usd_per_hour, 'USD/h')}, "
            f"{show(plan.usd_per_million_output_tokens, 'USD')} per million output tokens (all {plan.gpus} GPUs)."
        )
    lines.append(str(plan.per_gpu))
    return lines


def _size(pool: PoolUse) -> str:
    return f"{pool.instances} × {pool.gpus_per_instance} = {pool.gpus}"


def _pools(plan: Plan) -> Table:
    binding = {i for i, p in enumerate(plan.pools) if f"{p.role} at {p.cluster}" in plan.bottlenecks}
    return Table(
        "Pools (instances × GPUs each = GPUs)",
        columns(
            "role",
            "cluster",
            "accelerator",
            Column("size"),
            Column("capacity", "req/s"),
            Column("load", percent=True),
            Column("idle", percent=True),
        ),
        rows(
            [p.role, p.cluster, p.accelerator, _size(p), p.capacity_rps, p.load_fraction, 1.0 - p.load_fraction]
            for p in plan.pools
        ),
        frozenset(binding),
    )


def _links(plan: Plan) -> list[Table]:
    if not plan.links:
        return []
    binding = {0} if "link" in plan.bottlenecks else set[int]()
    table = Table(
        "Links",
        columns(
            "from",
            "to",
            Column("nominal", "Gbit/s"),
            Column("usable", "Gbit/s"),
            Column("used", "Gbit/s"),
            Column("load", percent=True),
        ),
        rows(
            [x.origin, x.destination, x.capacity_gbps, x.usable_gbps, x.used_gbps, x.load_fraction] for x in plan.links
        ),
        frozenset(binding),
    )
    return [table]


def _latency(plans: list[Plan]) -> Table:
    idle: list[list[Cell]] = [
        [p.deployment, p.ttft_s.mean, p.ttft_s.p50, p.ttft_s.p90, p.ttft_s.p99, p.tpot_s * 1e3] for p in plans
    ]
    loaded = [(p, x) for p in plans for x in (p.loaded, p.within_ttft) if x is not None]
    busy: list[list[Cell]] = [
        [f"{p.deployment} at {x.load_fraction:.0%} load", t.mean, t.p50, t.p90, t.p99, p.tpot_s * 1e3]
        for p, x in loaded
        for t in [x.ttft_s]
    ]
    return Table(
        "Latency of idle machines, and with queues" if busy else "Latency of idle machines (no queueing)",
        columns(
            "deployment",
            Column("TTFT mean", "s"),
            Column("p50", "s"),
            Column("p90", "s"),
            Column("p99", "s"),
            Column("TPOT", "ms"),
        ),
        rows([*idle, *busy]),
    )


def _alternatives(plan: Plan) -> list[Table]:
    if not plan.alternatives:
        return []
    table = Table(
        "Next best splits of the local cluster",
        columns(
            Column("prefill", "inst."),
            Column("decode", "inst."),
            Column("threshold", "token"),
            Column("rate", "req/s"),
            Column("loss", percent=True),
            "limited by",
        ),
        rows(
            [
                a.prefill_instances,
                a.decode_instances,
                a.threshold_tokens,
                a.lambda_max_rps,
                a.loss_fraction,
                a.bottleneck,
            ]
            for a in plan.alternatives
        ),
    )
    return [table]


def _explanation(plan: Plan) -> Table:
    def number(line: Line) -> str:
        return f"{line.symbol} = {show(line.value, '' if line.unit == '1' else line.unit, 4)}"

    return Table(
        "How each number came about",
        columns("number", "from"),
        rows([number(x), f"{x.equation} ({x.source})" if x.source else x.equation] for x in plan.explain),
    )


def _flat(plan: Plan) -> dict[str, Any]:
    flat = flatten(plan.to_dict())
    for pool in plan.pools:
        flat[f"{pool.cluster}_{pool.role}_instances"] = pool.instances
        flat[f"{pool.cluster}_{pool.role}_load_fraction"] = pool.load_fraction
    return flat


def report_comparison(comparison: Comparison) -> Document:
    """Lay out deployments side by side."""
    plans = list(comparison.deployments)
    flat = [{**_flat(p), "ratio_to_homogeneous": comparison.ratio(p)} for p in plans]
    keys = list(dict.fromkeys(key for row in flat for key in row))
    return Document(
        title=f"{plans[0].scenario}: deployments side by side",
        headline=tuple(_comparison_headline(comparison)),
        tables=(_side_by_side(comparison), _sizes(plans), _latency(plans)),
        notes=tuple(_comparison_notes(comparison)),
        rows=tuple({key: row.get(key) for key in keys} for row in flat),
    )


def _comparison_headline(comparison: Comparison) -> list[str]:
    best = comparison.deployments[0]
    ratio = comparison.ratio(best)
    against = f", {ratio:.2f} times the homogeneous fleet of as many GPUs" if ratio is not None else ""
    lines = [f"{best.deployment} serves {show(best.lambda_max_rps, 'req/s')}{against}."]
    equal = comparison.equal_cost
    if equal is not None:
        over = equal.left_over_usd_per_hour
        rest = f" ({show(over, 'USD/h')} are left over)" if over > 0.005 * (best.cost_usd_per_hour or 1.0) else ""
        lines.append(
            f"A homogeneous fleet of equal cost (price ratio {equal.price_ratio:.2f}) has {equal.instances} "
            f"instances{rest} and serves {show(equal.lambda_max_rps, 'req/s')}: "
            f"the plan gains {equal.gain_fraction:+.1%}."
        )
    return lines


def _comparison_notes(comparison: Comparison) -> list[str]:
    plans = comparison.deployments
    common = [note for note in plans[0].notes if all(note in p.notes for p in plans)]
    own = [f"{p.deployment}: {note}" for p in plans for note in p.notes if note not in common]
    notes = [*common, *own, *(f"{name} is left out: {why}." for name, why in comparison.left_out.items())]
    if comparison.left_over_gpus:
        notes.append(f"{comparison.left_over_gpus} GPUs do not make a whole instance of the homogeneous fleet.")
    if comparison.equal_cost is None and plans[0].cost_usd_per_hour is None:
        notes.append("Give the prices of both clusters to see the homogeneous fleet of equal cost.")
    return notes


def _side_by_side(comparison: Comparison) -> Table:
    return Table(
        "Throughput",
        columns(
            "deployment",
            Column("Λ_max", "req/s"),
            Column("ratio"),
            Column("threshold", "token"),
            Column("Θ_prfaas", "req/s"),
            Column("Θ_pd-p", "req/s"),
            Column("Θ_pd-d", "req/s"),
        ),
        rows(
            [
                p.deployment,
                p.lambda_max_rps,
                comparison.ratio(p),
                p.threshold_tokens,
                p.stages.prfaas_rps,
                p.stages.pd_prefill_rps,
                p.stages.pd_decode_rps,
            ]
            for p in comparison.deployments
        ),
    )


def _sizes(plans: list[Plan]) -> Table:
    return Table(
        "Fleets (instances × GPUs each = GPUs)",
        columns("deployment", "role", "cluster", "accelerator", Column("size"), Column("load", percent=True)),
        rows(
            [p.deployment, pool.role, pool.cluster, pool.accelerator, _size(pool), pool.load_fraction]
            for p in plans
            for pool in p.pools
        ),
    )

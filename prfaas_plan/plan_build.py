"""From an operating point to a plan: pools, links, cost, alternatives, explanation."""

from __future__ import annotations

import math
from collections.abc import Sequence

from prfaas_plan.explanation import Provenance, explain, notes
from prfaas_plan.latency import unloaded_ttft
from prfaas_plan.plan_parts import Alternative, LinkUse, OtherReading, PoolUse, Stages
from prfaas_plan.plan_record import Plan
from prfaas_plan.scenario import AT_MEAN_LENGTH, MEAN_SERVICE_TIME, Scenario
from prfaas_plan.throughput import OperatingPoint
from prfaas_plan.units import GBPS

__all__ = ["build_plan", "cost_per_hour"]


def build_plan(
    scenario: Scenario,
    deployment: str,
    points: Sequence[OperatingPoint],
    other: OperatingPoint,
    provenance: Provenance,
    interval: tuple[float, float] | None = None,
) -> Plan:
    """Turn operating points, best first, into a plan."""
    best = points[0]
    system = best.system
    return Plan(
        scenario=scenario.name,
        deployment=deployment,
        service_time=scenario.service_time,
        lambda_max_rps=best.max_rate,
        lambda_interval_rps=interval,
        threshold_tokens=best.threshold,
        offloaded_fraction=best.long_share,
        mean_long_tokens=best.mean_long,
        mean_short_tokens=best.mean_short,
        stages=Stages(best.prfaas_rate, best.local_prefill_rate, best.decode_rate),
        pools=_pools(best),
        links=_links(best, provenance),
        ttft_s=unloaded_ttft(best),
        tpot_s=system.decode.step_seconds,
        bottlenecks=best.bottlenecks,
        mean_input_tokens=system.law.mean,
        output_tokens=system.output_tokens,
        cost_usd_per_hour=cost_per_hour(scenario, best),
        other_reading=_other(other),
        alternatives=tuple(_alternative(p, best) for p in points[1:4]),
        explain=explain(best, provenance),
        notes=notes(best, provenance, deployment),
    )


def _pools(point: OperatingPoint) -> tuple[PoolUse, ...]:
    system, rate = point.system, point.max_rate
    pools = []
    if system.remote is not None:
        load = rate * point.long_share / point.prfaas_compute_rate if point.prfaas_compute_rate else 0.0
        pools.append((system.remote, "prefill", point.prfaas_compute_rate, load))
    if system.local is not None and system.local.instances > 0:
        load = rate * (1.0 - point.long_share) / point.local_prefill_rate if point.local_prefill_rate else 0.0
        pools.append((system.local, "prefill", point.local_prefill_rate, load))
    decode_load = 0.0 if math.isinf(point.decode_rate) else rate / point.decode_rate
    rows = [
        PoolUse(p.cluster, role, p.accelerator, p.instances, p.gpus_per_instance, capacity, load)
        for p, role, capacity, load in pools
    ]
    d = system.decode
    return (
        *rows,
        PoolUse(d.cluster, "decode", d.accelerator, d.instances, d.gpus_per_instance, point.decode_rate, decode_load),
    )


def _links(point: OperatingPoint, provenance: Provenance) -> tuple[LinkUse, ...]:
    link = provenance.link
    if link is None or point.system.remote is None:
        return ()
    used = point.link_used_bytes_per_s / GBPS
    usable = point.system.link_bytes_per_s / GBPS
    return (LinkUse(link.origin, link.destination, link.bandwidth_gbps, usable, used),)


def cost_per_hour(scenario: Scenario, point: OperatingPoint) -> float | None:
    """Give the cost of an hour at the largest rate [USD/h]: every instance, and the link with what it carries.

    ``None`` where a cluster has no price.
    """
    total = 0.0
    for pool in (point.system.remote, point.system.local, point.system.decode):
        if pool is None:
            continue
        price = scenario.cluster_named(pool.cluster).usd_per_instance_hour
        if price is None:
            return None
        total += pool.instances * price
    remote = point.system.remote
    link = scenario.link_between(remote.cluster, point.system.decode.cluster) if remote else None
    if link is not None:
        gb_per_hour = point.link_used_bytes_per_s * 3600.0 / 1e9
        total += link.usd_per_port_hour + gb_per_hour * (link.usd_per_gb or 0.0)
        total += link.usd_per_gbps_hour * (link.bandwidth_gbps if math.isfinite(link.bandwidth_gbps) else 0.0)
    return total


def _alternative(point: OperatingPoint, best: OperatingPoint) -> Alternative:
    system = point.system
    return Alternative(
        prefill_instances=system.local.instances if system.local else 0,
        decode_instances=system.decode.instances,
        threshold_tokens=point.threshold,
        lambda_max_rps=point.max_rate,
        loss_fraction=1.0 - point.max_rate / best.max_rate,
        bottleneck=" and ".join(point.bottlenecks),
    )


def _other(point: OperatingPoint) -> OtherReading:
    system = point.system
    return OtherReading(
        service_time=AT_MEAN_LENGTH if system.at_mean_length else MEAN_SERVICE_TIME,
        prefill_instances=system.local.instances if system.local else 0,
        decode_instances=system.decode.instances,
        threshold_tokens=point.threshold,
        lambda_max_rps=point.max_rate,
    )

"""What a plan says: pools, links, rates, latency, cost, the next best plans, and how each number came about."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prfaas_plan.explanation import Line, Provenance, explain, notes
from prfaas_plan.latency import FirstToken, unloaded_ttft
from prfaas_plan.scenario import AT_MEAN_LENGTH, MEAN_SERVICE_TIME, Scenario
from prfaas_plan.tabular import Tabular
from prfaas_plan.throughput import OperatingPoint
from prfaas_plan.units import GBPS, show

if TYPE_CHECKING:
    from prfaas_plan.loaded import Loaded

__all__ = [
    "Alternative",
    "Comparison",
    "EqualCost",
    "LinkUse",
    "Plan",
    "PoolUse",
    "Stages",
    "build_plan",
    "cost_per_hour",
]


@dataclass(frozen=True, slots=True)
class PoolUse:
    """Instances of one cluster in one role, what they can serve and how much of it is used."""

    cluster: str
    role: str
    accelerator: str
    instances: int
    gpus_per_instance: int
    capacity_rps: float | None
    """Rate of the pool's own class of requests; ``None`` where it has none."""
    load_fraction: float

    @property
    def gpus(self) -> int:
        """Accelerators of the pool."""
        return self.instances * self.gpus_per_instance

    def to_dict(self) -> dict[str, Any]:
        """Give the pool under the keys of the interface."""
        return {
            "cluster": self.cluster,
            "role": self.role,
            "accelerator": self.accelerator,
            "instances": self.instances,
            "gpus_per_instance": self.gpus_per_instance,
            "gpus": self.gpus,
            "capacity_rps": None if self.capacity_rps is None else _number(self.capacity_rps),
            "load_fraction": self.load_fraction,
            "idle_fraction": 1.0 - self.load_fraction,
        }


@dataclass(frozen=True, slots=True)
class LinkUse:
    """A link, what of it is usable and what the plan uses."""

    origin: str
    destination: str
    capacity_gbps: float
    usable_gbps: float
    used_gbps: float

    @property
    def load_fraction(self) -> float:
        """Share of the usable rate in use."""
        return self.used_gbps / self.usable_gbps if self.usable_gbps > 0 and self.used_gbps else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Give the link under the keys of the interface; an unlimited rate is ``None``."""
        return {
            "from": self.origin,
            "to": self.destination,
            "capacity_gbps": _number(self.capacity_gbps),
            "usable_gbps": _number(self.usable_gbps),
            "used_gbps": self.used_gbps,
            "load_fraction": self.load_fraction,
        }


@dataclass(frozen=True, slots=True)
class Stages:
    """Rate of each stage for its own class of requests [req/s]; ``None`` where it does not exist."""

    prfaas_rps: float | None
    pd_prefill_rps: float | None
    pd_decode_rps: float

    def to_dict(self) -> dict[str, Any]:
        """Give the rates by name."""
        return {
            "prfaas_rps": self.prfaas_rps,
            "pd_prefill_rps": self.pd_prefill_rps,
            "pd_decode_rps": _number(self.pd_decode_rps),
        }


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another split of the instances, and what it would serve."""

    prefill_instances: int
    decode_instances: int
    threshold_tokens: int | None
    lambda_max_rps: float
    loss_fraction: float
    bottleneck: str

    def to_dict(self) -> dict[str, Any]:
        """Give the alternative by name."""
        return {
            "local_prefill_instances": self.prefill_instances,
            "local_decode_instances": self.decode_instances,
            "threshold_tokens": self.threshold_tokens,
            "lambda_max_rps": self.lambda_max_rps,
            "loss_fraction": self.loss_fraction,
            "bottleneck": self.bottleneck,
        }


@dataclass(frozen=True, slots=True)
class OtherReading:
    """The best plan when capacity is computed the other way (mean service time, or at the mean length)."""

    service_time: str
    prefill_instances: int
    decode_instances: int
    threshold_tokens: int | None
    lambda_max_rps: float

    def to_dict(self) -> dict[str, Any]:
        """Give the reading by name."""
        return {
            "service_time": self.service_time,
            "local_prefill_instances": self.prefill_instances,
            "local_decode_instances": self.decode_instances,
            "threshold_tokens": self.threshold_tokens,
            "lambda_max_rps": self.lambda_max_rps,
        }


@dataclass(frozen=True, slots=True, repr=False)
class Plan(Tabular):
    """The best plan for a deployment, with everything needed to check it."""

    scenario: str
    deployment: str
    service_time: str
    lambda_max_rps: float
    lambda_interval_rps: tuple[float, float] | None
    """Rate of the same plan with every estimated time at the slow, and at the fast end of its 80 % interval;
    ``None`` where every time was measured."""
    threshold_tokens: int | None
    offloaded_fraction: float
    mean_long_tokens: float | None
    mean_short_tokens: float | None
    stages: Stages
    pools: tuple[PoolUse, ...]
    links: tuple[LinkUse, ...]
    ttft_s: FirstToken
    tpot_s: float
    bottlenecks: tuple[str, ...]
    """Everything that is used up at the largest rate."""
    mean_input_tokens: float
    output_tokens: float
    cost_usd_per_hour: float | None
    other_reading: OtherReading
    alternatives: tuple[Alternative, ...]
    explain: tuple[Line, ...]
    notes: tuple[str, ...]
    loaded: Loaded | None = None
    """Time to first token when requests queue, at the load or rate the scenario states."""
    within_ttft: Loaded | None = None
    """The same at the largest rate that keeps the scenario's ``slo.ttft_p90_s``."""

    def __repr__(self) -> str:
        threshold = "" if self.threshold_tokens is None else f", threshold {show(self.threshold_tokens, 'token')}"
        pools = " + ".join(f"{p.instances}×{p.gpus_per_instance} {p.accelerator} {p.role}" for p in self.pools)
        rate = show(self.lambda_max_rps, "req/s", 4)
        return f"<Plan {self.scenario} ({self.deployment}): {rate}{threshold}; {pools}; limited by {self.bottleneck}>"

    @property
    def bottleneck(self) -> str:
        """What limits the rate, in words."""
        return " and ".join(self.bottlenecks)

    @property
    def gpus(self) -> int:
        """Accelerators of all pools."""
        return sum(pool.gpus for pool in self.pools)

    @property
    def usd_per_million_output_tokens(self) -> float | None:
        """Cost of a million output tokens at the largest rate, all pools counted."""
        if self.cost_usd_per_hour is None:
            return None
        tokens_per_hour = self.lambda_max_rps * self.output_tokens * 3600.0
        return self.cost_usd_per_hour / (tokens_per_hour / 1e6)

    def to_dict(self) -> dict[str, Any]:
        """Give the plan under the keys of the interface."""
        return {
            "scenario": self.scenario,
            "deployment": self.deployment,
            "service_time": self.service_time,
            "lambda_max_rps": self.lambda_max_rps,
            "lambda_low_rps": self.lambda_interval_rps[0] if self.lambda_interval_rps else None,
            "lambda_high_rps": self.lambda_interval_rps[1] if self.lambda_interval_rps else None,
            "threshold_tokens": self.threshold_tokens,
            "offloaded_fraction": self.offloaded_fraction,
            "mean_input_tokens": self.mean_input_tokens,
            "mean_long_tokens": self.mean_long_tokens,
            "mean_short_tokens": self.mean_short_tokens,
            "output_tokens": self.output_tokens,
            "stages": self.stages.to_dict(),
            "pools": [pool.to_dict() for pool in self.pools],
            "links": [link.to_dict() for link in self.links],
            "gpus": self.gpus,
            "ttft_s": self.ttft_s.to_dict(),
            "loaded": self.loaded.to_dict() if self.loaded else None,
            "within_ttft": self.within_ttft.to_dict() if self.within_ttft else None,
            "tpot_s": self.tpot_s,
            "bottleneck": self.bottleneck,
            "cost_usd_per_hour": self.cost_usd_per_hour,
            "usd_per_million_output_tokens": self.usd_per_million_output_tokens,
            "input_tokens_per_second": self.lambda_max_rps * self.mean_input_tokens,
            "output_tokens_per_second": self.lambda_max_rps * self.output_tokens,
            "other_reading": self.other_reading.to_dict(),
            "alternatives": [alternative.to_dict() for alternative in self.alternatives],
            "explain": [line.to_dict() for line in self.explain],
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class EqualCost:
    """The homogeneous fleet that costs what the plan costs."""

    price_ratio: float
    instances: int
    lambda_max_rps: float
    gain_fraction: float
    left_over_usd_per_hour: float
    """Money that does not make a whole instance."""
    fleet: Plan

    def to_dict(self) -> dict[str, Any]:
        """Give the comparison under the keys of the interface."""
        return {
            "price_ratio": self.price_ratio,
            "instances": self.instances,
            "lambda_max_rps": self.lambda_max_rps,
            "gain_fraction": self.gain_fraction,
            "left_over_usd_per_hour": self.left_over_usd_per_hour,
            "pools": [pool.to_dict() for pool in self.fleet.pools],
            "cost_usd_per_hour": self.fleet.cost_usd_per_hour,
        }


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Tabular):
    """Deployments side by side; ratios are to the homogeneous one."""

    deployments: tuple[Plan, ...]
    homogeneous: Plan | None
    equal_cost: EqualCost | None
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Deployments that can serve nothing, and why."""
    left_over_gpus: int = 0
    """GPUs of the plan that do not make a whole instance of the homogeneous fleet."""

    def __repr__(self) -> str:
        rates = ", ".join(f"{p.deployment} {show(p.lambda_max_rps, 'req/s', 4)}" for p in self.deployments)
        return f"<Comparison {self.deployments[0].scenario}: {rates}>"

    def ratio(self, plan: Plan) -> float | None:
        """Throughput of a deployment over that of the homogeneous one; ``None`` where that can serve nothing."""
        return plan.lambda_max_rps / self.homogeneous.lambda_max_rps if self.homogeneous else None

    def to_dict(self) -> dict[str, Any]:
        """Give the comparison under the keys of the interface."""
        return {
            "scenario": self.deployments[0].scenario,
            "deployments": [
                {"name": p.deployment, **p.to_dict(), "ratio_to_homogeneous": self.ratio(p)} for p in self.deployments
            ],
            "equal_cost": self.equal_cost.to_dict() if self.equal_cost else None,
            "left_out": dict(self.left_out),
            "left_over_gpus": self.left_over_gpus,
        }


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


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None

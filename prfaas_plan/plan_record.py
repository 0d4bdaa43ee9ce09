"""What a plan says: pools, links, rates, latency, cost, the next best plans, and how each number came about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prfaas_plan.explanation import Line
from prfaas_plan.latency import FirstToken
from prfaas_plan.plan_parts import Alternative, LinkUse, OtherReading, PerGpu, PoolUse, Stages
from prfaas_plan.tabular import Tabular
from prfaas_plan.units import show

if TYPE_CHECKING:
    from prfaas_plan.loaded import Loaded

__all__ = ["Comparison", "EqualCost", "Plan"]


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

    @property
    def per_gpu(self) -> PerGpu:
        """Tokens a second and GPU, by role and of all."""
        tokens_in, tokens_out = self.lambda_max_rps * self.mean_input_tokens, self.lambda_max_rps * self.output_tokens
        return PerGpu.of(self.pools, self.gpus, tokens_in, tokens_out)

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
            "per_gpu": self.per_gpu.to_dict(),
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

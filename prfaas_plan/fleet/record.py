"""What the plan of a fleet says: pools, links, thresholds and rates by period, cost, delays and bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from prfaas_plan.explanation import Line
from prfaas_plan.fleet.routes import SiteRouting
from prfaas_plan.fleet.search import Outcome
from prfaas_plan.latency import FirstToken
from prfaas_plan.plan_parts import LinkUse, PerGpu, PoolUse
from prfaas_plan.queueing import Response
from prfaas_plan.tabular import Tabular

__all__ = ["FleetAlternative", "FleetPlan", "PeriodPlan", "Purchase"]


UNITS_OF = {"throughput": "req/s", "cost": "USD/h", "power": "kW", "gpus": "GPU", "bandwidth": "Gbit/s"}
"""Unit of the value that a plan is best in."""


@dataclass(frozen=True, slots=True)
class PeriodPlan:
    """What happens in one period."""

    name: str
    hours: float
    rate_rps: float
    offloaded_fraction: float
    threshold_tokens: int | None
    pools: tuple[PoolUse, ...]
    links: tuple[LinkUse, ...]
    ttft_s: FirstToken | None

    def to_dict(self) -> dict[str, Any]:
        """Give the period by name."""
        return {
            "name": self.name,
            "hours": self.hours,
            "rate_rps": self.rate_rps,
            "offloaded_fraction": self.offloaded_fraction,
            "threshold_tokens": self.threshold_tokens,
            "pools": [pool.to_dict() for pool in self.pools],
            "links": [link.to_dict() for link in self.links],
            "ttft_s": None if self.ttft_s is None else self.ttft_s.to_dict(),
        }


@dataclass(frozen=True, slots=True)
class Purchase:
    """Instances of a cluster that the plan pays for."""

    cluster: str
    site: str
    accelerator: str
    instances: int
    gpus_per_instance: int
    usd_per_hour: float | None

    def to_dict(self) -> dict[str, Any]:
        """Give the purchase by name: so many instances of so many accelerators each."""
        return {
            "cluster": self.cluster,
            "site": self.site,
            "accelerator": self.accelerator,
            "instances": self.instances,
            "gpus_per_instance": self.gpus_per_instance,
            "gpus": self.instances * self.gpus_per_instance,
            "cost_usd_per_hour": self.usd_per_hour,
        }


@dataclass(frozen=True, slots=True)
class FleetAlternative:
    """Another fleet that was looked at, and what it reaches."""

    instances: tuple[tuple[str, int], ...]
    value: float

    def to_dict(self) -> dict[str, Any]:
        """Give the alternative by name."""
        return {"instances": dict(self.instances), "value": self.value}


@dataclass(frozen=True, slots=True, repr=False)
class FleetPlan(Tabular):
    """The best plan of a fleet."""

    scenario: str
    objective: str
    objective_value: float
    bound: float
    gap_fraction: float
    lambda_max_rps: float
    """Largest rate of the busiest period [req/s]; for a target, what the fleet could serve with the routing shown."""
    target_rps: float | None
    threshold_tokens: int | None
    offloaded_fraction: float
    mean_long_tokens: float | None
    mean_short_tokens: float | None
    periods: tuple[PeriodPlan, ...]
    failures: tuple[PeriodPlan, ...]
    purchases: tuple[Purchase, ...]
    routing: tuple[SiteRouting, ...]
    role_changes: int
    ttft_s: FirstToken | None
    loaded_ttft_s: Response | None
    """Time to first token with waits, in the busiest period, where a promise includes them."""
    tpot_s: float
    bottleneck: str
    mean_input_tokens: float
    output_tokens: float
    cost_usd_per_hour: float | None
    power_w: float | None
    alternatives: tuple[FleetAlternative, ...]
    explain: tuple[Line, ...]
    notes: tuple[str, ...]
    outcome: Outcome
    """The solved programme, for questions about the plan."""

    @property
    def rate_rps(self) -> float:
        """The planned rate of the busiest period [req/s]: the target, or the largest."""
        return self.lambda_max_rps if self.target_rps is None else self.target_rps

    @property
    def busiest(self) -> PeriodPlan:
        """The period with the largest rate."""
        return max(self.periods, key=lambda p: p.rate_rps)

    @property
    def gpus(self) -> int:
        """Accelerators of the whole fleet."""
        return sum(p.instances * p.gpus_per_instance for p in self.purchases)

    @property
    def usd_per_million_output_tokens(self) -> float | None:
        """Cost of a million output tokens at the planned rates of all periods."""
        if self.cost_usd_per_hour is None:
            return None
        hours = sum(p.hours for p in self.periods)
        mean_rate = sum(p.rate_rps * p.hours for p in self.periods) / hours
        return self.cost_usd_per_hour / (mean_rate * self.output_tokens * 3600.0 / 1e6)

    @property
    def per_gpu(self) -> PerGpu:
        """Tokens a second and GPU, by role and of all."""
        tokens_in, tokens_out = self.rate_rps * self.mean_input_tokens, self.rate_rps * self.output_tokens
        return PerGpu.of(self.busiest.pools, self.gpus, tokens_in, tokens_out)

    def to_dict(self) -> dict[str, Any]:
        """Give the plan under the keys of the interface."""
        busiest = self.busiest
        target = {} if self.target_rps is None else {"target_rps": self.target_rps}
        return {
            "scenario": self.scenario,
            "deployment": "fleet",
            "service_time": "mean",
            "objective": self.objective,
            "objective_value": self.objective_value,
            "objective_unit": UNITS_OF[self.objective],
            "bound": self.bound,
            "gap_fraction": self.gap_fraction,
            "lambda_max_rps": self.lambda_max_rps,
            **target,
            "threshold_tokens": self.threshold_tokens,
            "offloaded_fraction": self.offloaded_fraction,
            "mean_input_tokens": self.mean_input_tokens,
            "mean_long_tokens": self.mean_long_tokens,
            "mean_short_tokens": self.mean_short_tokens,
            "output_tokens": self.output_tokens,
            "stages": {"prfaas_rps": None, "pd_prefill_rps": None, "pd_decode_rps": None},
            "pools": [pool.to_dict() for pool in busiest.pools],
            "links": [link.to_dict() for link in busiest.links],
            "gpus": self.gpus,
            "purchases": [purchase.to_dict() for purchase in self.purchases],
            "periods": [period.to_dict() for period in self.periods],
            "failures": [state.to_dict() for state in self.failures],
            "routing": [routing.to_dict() for routing in self.routing],
            "role_changes_per_cycle": self.role_changes,
            "ttft_s": None if self.ttft_s is None else self.ttft_s.to_dict(),
            "loaded_ttft_s": None if self.loaded_ttft_s is None else self.loaded_ttft_s.to_dict(),
            "tpot_s": self.tpot_s,
            "bottleneck": self.bottleneck,
            "cost_usd_per_hour": self.cost_usd_per_hour,
            "usd_per_million_output_tokens": self.usd_per_million_output_tokens,
            "power_w": self.power_w,
            "input_tokens_per_second": self.rate_rps * self.mean_input_tokens,
            "output_tokens_per_second": self.rate_rps * self.output_tokens,
            "per_gpu": self.per_gpu.to_dict(),
            "alternatives": [alternative.to_dict() for alternative in self.alternatives],
            "explain": [line.to_dict() for line in self.explain],
            "notes": list(self.notes),
        }

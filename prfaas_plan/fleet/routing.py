"""Everything a router needs to know about a fleet: who prefills which lengths, and what bandwidth changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prfaas_plan.fleet.bandwidth import (
    BandwidthNeed,
    RoutingTable,
    check_bandwidths,
    check_shares,
    needs_of_plan,
    table_of_plan,
)
from prfaas_plan.fleet.evaluate import evaluate
from prfaas_plan.fleet.planner import fleet_plan
from prfaas_plan.fleet.search import Settings
from prfaas_plan.fleet.thresholds import Step, ThresholdLoss, ladders, threshold_loss
from prfaas_plan.scenario import Scenario

__all__ = ["Routing", "routing"]


@dataclass(frozen=True, slots=True)
class Routing:
    """Who prefills which lengths, what single thresholds lose, and thresholds by available bandwidth."""

    scenario: str
    steps: tuple[Step, ...]
    loss: ThresholdLoss
    table: RoutingTable
    needs: tuple[BandwidthNeed, ...]

    def to_dict(self) -> dict[str, Any]:
        """Give everything by name, for a router to load."""
        return {
            **self.table.to_dict(),
            "steps": [step.to_dict() for step in self.steps],
            "single_threshold": self.loss.to_dict(),
            "bandwidth_needed": [need.to_dict() for need in self.needs],
        }


def routing(
    scenario: Scenario,
    bandwidths_gbps: Sequence[float] = (),
    keep: Sequence[float] = (0.95, 0.99, 1.0),
    *,
    profiles: Sequence[str | Path] = (),
    settings: Settings | None = None,
) -> Routing:
    """Plan a fleet and describe its routing, also for the bandwidths [Gbit/s] and shares of the rate asked for.

    Raises as `fleet_plan` does, and `InputError` for a bandwidth that is not above 0 or a share outside (0, 1].
    """
    check_bandwidths(bandwidths_gbps)
    check_shares(keep)
    settings = settings or Settings()
    plan = fleet_plan(scenario, profiles=profiles, settings=settings)
    return Routing(
        scenario=scenario.name,
        steps=ladders(evaluate(plan.outcome)),
        loss=threshold_loss(plan, settings),
        table=table_of_plan(plan, bandwidths_gbps, settings),
        needs=needs_of_plan(plan, keep, settings),
    )

"""Roles over the day: what changing them gains against a split that stays, and the rule of the paper for one split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from prfaas_plan.errors import Fault, InputError
from prfaas_plan.fleet.planner import fleet_plan
from prfaas_plan.fleet.record import FleetPlan
from prfaas_plan.fleet.search import Settings
from prfaas_plan.fleet.solve import solve_fleet
from prfaas_plan.routing import best_point
from prfaas_plan.scenario import Scenario
from prfaas_plan.throughput import OperatingPoint, System

__all__ = ["RoleGain", "fixed_roles", "long_term_rule", "role_gain"]

Folders = Sequence[str | Path]


@dataclass(frozen=True, slots=True)
class RoleGain:
    """What changing roles between periods gains: rate for a fleet of given size, or cost for given rates."""

    plan: FleetPlan
    fixed_value: float | None
    """The same objective with roles that stay; ``None`` where no such fleet serves the rates."""

    @property
    def gain_fraction(self) -> float | None:
        """Share of the rate that is gained, or of the objective that is saved, against roles that stay."""
        if self.fixed_value is None or self.fixed_value <= 0.0:
            return None
        change = self.plan.objective_value / self.fixed_value - 1.0
        return change if self.plan.target_rps is None else -change

    def to_dict(self) -> dict[str, Any]:
        """Give the gain by name."""
        return {
            "objective": self.plan.objective,
            "value": self.plan.objective_value,
            "fixed_roles_value": self.fixed_value,
            "gain_fraction": self.gain_fraction,
            "role_changes_per_cycle": self.plan.role_changes,
            "periods": [period.to_dict() for period in self.plan.periods],
        }


def role_gain(scenario: Scenario, *, profiles: Folders = (), settings: Settings | None = None) -> RoleGain:
    """Compare a plan whose instances change roles between periods with one whose roles stay.

    Raises as `fleet_plan` does, and `InputError` for a scenario with fewer than two periods.
    """
    if len(scenario.period) < 2:
        where = scenario.where or "scenario"
        raise InputError(Fault(where, "period", "expected two or more tables [[period]] to change roles between"))
    settings = settings or Settings()
    return fixed_roles(fleet_plan(scenario, profiles=profiles, settings=settings), settings)


def fixed_roles(plan: FleetPlan, settings: Settings) -> RoleGain:
    """Compare a plan for several periods with one whose roles stay."""
    stays = plan.outcome.model.case.with_limits(roles_stay=True)
    quiet = replace(settings, progress=None)
    fixed = solve_fleet(replace(stays, objective=plan.objective), plan.target_rps, quiet, plan.outcome.model)
    return RoleGain(plan, None if fixed is None else fixed.value)


def long_term_rule(system: System, instances: int, prefill_instances: int) -> list[OperatingPoint]:
    """Follow the paper's rule from a split: convert one instance towards the side that binds, until neither helps.

    Where Θ_prfaas + Θ_pd-p is below Θ_pd-d prefill binds and a decode instance is converted, otherwise the other way
    (arXiv 2604.15039, section 3.4.3, equations 7 and 8); the threshold is optimised after each conversion. Gives the
    path, its last point being where the rule stops: the better of the two splits between which it would swing.

    Raises `ValueError` unless at least one instance decodes.
    """
    if not 0 <= prefill_instances < instances:
        raise ValueError(f"of {instances} instances at least one must decode, not {prefill_instances} prefill")
    path = [best_point(system.split(prefill_instances, instances - prefill_instances))]
    while True:
        here = path[-1]
        split = here.system.local.instances if here.system.local else 0
        following = split + (1 if _prefill_binds(here) else -1)
        if not 0 <= following < instances or (following == 0 and not system.has_remote):
            return path
        point = best_point(system.split(following, instances - following))
        if point.max_rate <= here.max_rate:
            return path
        path.append(point)


def _prefill_binds(point: OperatingPoint) -> bool:
    prefill = (point.prfaas_rate or 0.0) + (point.local_prefill_rate or 0.0)
    return prefill < point.decode_rate

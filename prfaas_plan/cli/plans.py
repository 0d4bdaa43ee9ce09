"""Commands about a scenario: plan, compare."""

from __future__ import annotations

from typing import Annotated

import typer

from prfaas_plan.cli.fleet import GapOption, QuietOption, Shown, TimeOption, WorthOption, plan_fleet, searching
from prfaas_plan.cli.options import (
    FormatOption,
    ModelOption,
    OutputOption,
    ProfilesOption,
    ScenarioArgument,
    SetOption,
    with_model,
)
from prfaas_plan.cli.output import Output, emit

__all__ = ["compare", "plan"]


def plan(
    scenario: ScenarioArgument = "case-study",
    override: SetOption = None,
    model: ModelOption = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show the equations with their numbers.")] = False,
    priced: WorthOption = False,
    gap: GapOption = 1e-4,
    time_limit: TimeOption = 60.0,
    quiet: QuietOption = False,
    form: FormatOption = None,
    output: OutputOption = None,
    profiles: ProfilesOption = None,
) -> None:
    """Size the pools, choose the length above which to offload, and show the rate, latency and cost that follow.

    Example: prfaas-plan plan case-study --set link.0.bandwidth_gbps=10
    """
    from prfaas_plan.planner import plan as find_plan
    from prfaas_plan.reports.plan import report_plan
    from prfaas_plan.scenario import load_scenario

    base, wanted = load_scenario(scenario, with_model(override, model)), Output(form, output)
    if base.is_fleet or priced:
        with searching(gap, time_limit, quiet=quiet) as settings:
            plan_fleet(base, Shown(explain, priced), settings, profiles or [], wanted)
        return
    result = find_plan(base, profiles=profiles or ())
    emit("plan", result.to_dict(), report_plan(result, explain=explain), wanted)


def compare(
    scenario: ScenarioArgument = "case-study",
    override: SetOption = None,
    model: ModelOption = None,
    form: FormatOption = None,
    output: OutputOption = None,
    profiles: ProfilesOption = None,
) -> None:
    """Set the plan beside a homogeneous fleet, naive remote prefill and, given prices, a fleet of equal cost.

    Example: prfaas-plan compare case-study --set cluster.prfaas.price_usd_per_gpu_hour=2
    --set cluster.local.price_usd_per_gpu_hour=1
    """
    from prfaas_plan.planner import compare as compare_deployments
    from prfaas_plan.reports.plan import report_comparison
    from prfaas_plan.scenario import load_scenario

    result = compare_deployments(load_scenario(scenario, with_model(override, model)), profiles=profiles or ())
    emit("compare", result.to_dict(), report_comparison(result), Output(form, output))

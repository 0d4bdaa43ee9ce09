"""Commands about fleets: size, routing; and what `plan` does with the scenario of a fleet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prfaas_plan.cli.options import FormatOption, OutputOption, ProfilesOption, ScenarioArgument, SetOption
from prfaas_plan.cli.output import Output, emit

if TYPE_CHECKING:
    from prfaas_plan.fleet.planner import Settings
    from prfaas_plan.fleet.record import FleetPlan
    from prfaas_plan.fleet.search import Progress
    from prfaas_plan.scenario import Scenario

__all__ = [
    "GapOption",
    "QuietOption",
    "Shown",
    "TimeOption",
    "WorthOption",
    "plan_fleet",
    "routing",
    "searching",
    "show_fleet",
    "size",
]

GapOption = Annotated[
    float, typer.Option("--gap", help="Fleets: how close, relatively, the plan must be to the bound on all plans.")
]
TimeOption = Annotated[
    float, typer.Option("--time-limit", metavar="SECONDS", help="Fleets: then take the best plan found; the gap says.")
]
WorthOption = Annotated[
    bool, typer.Option("--worth", help="Also say what a little more of everything is worth (shadow prices).")
]
QuietOption = Annotated[bool, typer.Option("--quiet", help="No progress bar.")]


class Minimize(StrEnum):
    """What a fleet of given rate should have least of."""

    cost = "cost"
    gpus = "gpus"
    power = "power"


@dataclass(frozen=True, slots=True)
class Shown:
    """What to say about a fleet beside the plan itself."""

    explain: bool = False
    worth: bool = False


def size(
    scenario: ScenarioArgument = "case-study",
    target_rps: Annotated[
        float | None, typer.Option("--target-rps", metavar="X", help="Rate of the busiest period [req/s].")
    ] = None,
    minimize: Annotated[Minimize, typer.Option("--minimize", help="What to have least of.")] = Minimize.cost,
    spare: Annotated[
        int, typer.Option("--spare", help="Instances of every pool that may be lost (1 is N+1).", min=0)
    ] = 0,
    headroom: Annotated[
        float, typer.Option("--headroom", help="Share of every pool and link that stays free, e.g. 0.2.")
    ] = 0.0,
    link_loss: Annotated[
        float, typer.Option("--link-loss", help="Share of the rate still served after the loss of any one link.")
    ] = 0.0,
    override: SetOption = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show the equations with their numbers.")] = False,
    priced: WorthOption = False,
    gap: GapOption = 1e-4,
    time_limit: TimeOption = 60.0,
    quiet: QuietOption = False,
    form: FormatOption = None,
    output: OutputOption = None,
    profiles: ProfilesOption = None,
) -> None:
    """Find the cheapest fleet (or that of fewest GPUs, or least power) that serves a rate.

    Example: prfaas-plan size case-study --target-rps 10 --minimize gpus --headroom 0.2 --spare 1
    """
    from prfaas_plan.errors import Fault, InputError
    from prfaas_plan.fleet.planner import size as find
    from prfaas_plan.scenario import load_scenario

    if target_rps is None:
        raise InputError(Fault("--target-rps", "", "missing; expected the rate to serve [req/s], e.g. 10"))
    wanted = load_scenario(scenario, override or ())
    with searching(gap, time_limit, quiet=quiet) as settings:
        plan = find(
            wanted,
            target_rps,
            minimize=minimize.value,
            spare=spare,
            headroom=headroom,
            link_loss_fraction=link_loss,
            profiles=profiles or (),
            settings=settings,
        )
        show_fleet("size", plan, Shown(explain, priced), settings, Output(form, output))


def routing(
    scenario: ScenarioArgument = "case-study",
    bandwidth: Annotated[
        str, typer.Option("--bandwidth", metavar="A,B,…", help="Bandwidths available on a link [Gbit/s].")
    ] = "",
    keep: Annotated[
        str, typer.Option("--keep", help="Shares of the rate for which the least bandwidth is found.")
    ] = "0.95,0.99,1",
    override: SetOption = None,
    gap: GapOption = 1e-4,
    time_limit: TimeOption = 60.0,
    quiet: QuietOption = False,
    form: FormatOption = None,
    output: OutputOption = None,
    profiles: ProfilesOption = None,
) -> None:
    """Say which site prefills which lengths, the threshold by available bandwidth, and how much bandwidth is needed.

    The JSON is made for a router to load.

    Example: prfaas-plan routing case-study --bandwidth 5,10,20
    """
    from prfaas_plan.fleet.routing import routing as find
    from prfaas_plan.reports.routing import report_routing
    from prfaas_plan.scenario import load_scenario

    base = load_scenario(scenario, override or ())
    rates, shares = _numbers(bandwidth, "--bandwidth"), _numbers(keep, "--keep")
    with searching(gap, time_limit, quiet=quiet) as settings:
        found = find(base, rates, shares, profiles=profiles or (), settings=settings)
    emit("routing", found.to_dict(), report_routing(found), Output(form, output))


def plan_fleet(scenario: Scenario, shown: Shown, settings: Settings, profiles: list[Path], output: Output) -> None:
    """Plan the scenario of a fleet and show it."""
    from prfaas_plan.fleet.planner import fleet_plan

    plan = fleet_plan(scenario, profiles=profiles, settings=settings)
    show_fleet("plan", plan, shown, settings, output)


def show_fleet(command: str, plan: FleetPlan, shown: Shown, settings: Settings, output: Output) -> None:
    """Write the plan of a fleet; on request with what more of everything is worth."""
    from prfaas_plan.reports.fleet import report_fleet

    data, document = plan.to_dict(), report_fleet(plan, explain=shown.explain)
    if shown.worth:
        from prfaas_plan.fleet.periods import fixed_roles
        from prfaas_plan.fleet.worth import worth
        from prfaas_plan.reports.fleet import role_gain_line, worth_tables

        found = worth(plan, settings=settings)
        data["worth"] = found.to_dict()
        document = replace(document, tables=(*document.tables, *worth_tables(found)))
        if len(plan.periods) > 1:
            gain = fixed_roles(plan, settings)
            data["fixed_roles_value"], data["role_gain_fraction"] = gain.fixed_value, gain.gain_fraction
            document = replace(document, headline=(*document.headline, role_gain_line(gain)))
    emit(command, data, document, output)


@contextmanager
def searching(gap: float, time_limit_s: float, *, quiet: bool) -> Iterator[Settings]:
    """Give the settings of a search whose time shows as a bar on a terminal."""
    from prfaas_plan.cli.progress import progress_bar
    from prfaas_plan.errors import Fault, InputError
    from prfaas_plan.fleet.planner import Settings

    faults = []
    if not 0.0 < gap < 1.0:
        faults.append(Fault("--gap", "", "expected a number above 0 and below 1", gap))
    if not 0.0 < time_limit_s < float("inf"):
        faults.append(Fault("--time-limit", "", "expected a number above 0 [s]", time_limit_s))
    if faults:
        raise InputError(faults)
    with progress_bar("searching (of the time limit)", quiet=quiet) as shown:

        def report(progress: Progress) -> None:
            if shown is not None:
                shown(min(progress.elapsed_s, time_limit_s), time_limit_s)

        yield Settings(gap=gap, time_limit_s=time_limit_s, progress=report if shown is not None else None)


def _numbers(text: str, option: str) -> list[float]:
    """Read numbers separated by commas."""
    from prfaas_plan.errors import Fault, InputError

    found, faults = [], []
    for part in filter(None, (p.strip() for p in text.split(","))):
        try:
            found.append(float(part))
        except ValueError:
            faults.append(Fault(option, "", "expected numbers separated by commas", part))
    if faults:
        raise InputError(faults)
    return found

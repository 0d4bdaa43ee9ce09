"""The program ``prfaas-plan``: each command reads its options, calls one public function and prints the result."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from prfaas_plan.cli_output import Format, Output, emit

__all__ = ["app", "main"]

app = typer.Typer(
    name="prfaas-plan",
    help="Size LLM serving across datacenters: instances, offload threshold, bandwidth, throughput, latency, cost.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ScenarioArgument = Annotated[str, typer.Argument(help="A scenario file (TOML) or the name of a shipped scenario.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Override a key, e.g. link.0.bandwidth_gbps=10. Repeatable."),
]
FormatOption = Annotated[Format, typer.Option("--format", help="How to write the result.")]
OutputOption = Annotated[Path | None, typer.Option("--output", "-o", help="Write to a file instead of the terminal.")]
ProfilesOption = Annotated[
    list[Path] | None, typer.Option("--profiles", help="A folder with profiles of your own. Repeatable.")
]


def main() -> None:
    """Run the program; an expected error is one message a fault and an exit code, a bug keeps its traceback."""
    from prfaas_plan.errors import InputError, PlanError

    try:
        app()
    except InputError as error:
        for fault in error.faults:
            _complain(f"error: {fault}")
        sys.exit(error.exit_code)
    except PlanError as error:
        _complain(f"error: {error}")
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)


def _complain(message: str) -> None:
    from prfaas_plan.writers.cells import printable

    sys.stderr.write(printable(message) + "\n")


def _version(wanted: bool) -> None:
    if wanted:
        from prfaas_plan import __version__

        typer.echo(f"prfaas-plan {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Size LLM serving across datacenters."""


@app.command()
def plan(
    scenario: ScenarioArgument = "case-study",
    override: SetOption = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show the equations with their numbers.")] = False,
    form: FormatOption = Format.table,
    output: OutputOption = None,
    profiles: ProfilesOption = None,
) -> None:
    """Find the best plan: instances per pool, length threshold, link use, throughput, latency, cost.

    Example: prfaas-plan plan case-study --set link.0.bandwidth_gbps=10
    """
    from prfaas_plan.plan_report import report_plan
    from prfaas_plan.planner import plan as find_plan
    from prfaas_plan.scenario import load_scenario

    result = find_plan(load_scenario(scenario, override or ()), profiles=profiles or ())
    emit("plan", result.to_dict(), report_plan(result, explain=explain), Output(form, output))


@app.command()
def compare(
    scenario: ScenarioArgument = "case-study",
    override: SetOption = None,
    form: FormatOption = Format.table,
    output: OutputOption = None,
    profiles: ProfilesOption = None,
) -> None:
    """Set the plan beside a homogeneous fleet, naive remote prefill and, given prices, a fleet of equal cost.

    Example: prfaas-plan compare case-study --set cluster.prfaas.price_usd_per_gpu_hour=2
    --set cluster.local.price_usd_per_gpu_hour=1
    """
    from prfaas_plan.plan_report import report_comparison
    from prfaas_plan.planner import compare as compare_deployments
    from prfaas_plan.scenario import load_scenario

    result = compare_deployments(load_scenario(scenario, override or ()), profiles=profiles or ())
    emit("compare", result.to_dict(), report_comparison(result), Output(form, output))

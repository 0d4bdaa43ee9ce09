"""The program ``prfaas-plan``: each command reads its options, calls one public function and prints the result."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from prfaas_plan import cli_estimates, cli_parts, cli_plans, cli_traffic, cli_whatif

__all__ = ["app", "main"]

app = typer.Typer(
    name="prfaas-plan",
    help="Size LLM serving across datacenters: instances, offload threshold, bandwidth, throughput, latency, cost.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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


COMMANDS = (
    cli_plans.plan,
    cli_plans.compare,
    cli_whatif.sweep,
    cli_whatif.report,
    cli_parts.kv,
    cli_estimates.roofline,
    cli_estimates.estimate,
    cli_traffic.trace,
    cli_traffic.link,
    cli_traffic.simulate,
    cli_estimates.calibrate,
    cli_parts.verify,
    cli_whatif.schema,
)
for command in COMMANDS:
    app.command()(command)
app.add_typer(cli_parts.profile_commands, name="profiles")

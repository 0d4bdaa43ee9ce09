"""The program ``prfaas-plan``: each command reads its options, calls one public function and prints the result."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Annotated

import typer

__all__ = ["COMMANDS", "build_app", "main"]

COMMANDS = {
    "plan": "plans",
    "compare": "plans",
    "size": "fleet",
    "routing": "fleet",
    "sweep": "whatif",
    "report": "whatif",
    "kv": "parts",
    "roofline": "estimates",
    "estimate": "estimates",
    "trace": "traffic",
    "link": "traffic",
    "simulate": "traffic",
    "calibrate": "estimates",
    "profiles": "parts",
    "verify": "parts",
    "schema": "whatif",
}
"""Every command and the module it is in."""


def _version(wanted: bool) -> None:
    if wanted:
        from prfaas_plan import __version__

        typer.echo(f"prfaas-plan {__version__}")
        raise typer.Exit


def build_app(commands: Iterable[str] = COMMANDS) -> typer.Typer:
    """Make the program with some of its commands, by default all."""
    app = typer.Typer(
        name="prfaas-plan",
        help="Size LLM serving across datacenters: instances, offload threshold, bandwidth, throughput, latency, cost.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(about)
    for name in commands:
        found = getattr(import_module(f"prfaas_plan.cli.{COMMANDS[name]}"), name)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    return app


def about(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Size LLM serving across datacenters."""


def main() -> None:
    """Run the program; an expected error is one message a fault and an exit code, a bug keeps its traceback."""
    from prfaas_plan.errors import InputError, PlanError

    asked = sys.argv[1:2]
    try:
        build_app(asked if asked and asked[0] in COMMANDS else COMMANDS)()
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

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


@app.command()
def kv(
    models: Annotated[list[str], typer.Argument(metavar="MODEL...", help="Profile names, or paths to config.json.")],
    lengths: Annotated[str, typer.Option("--lengths", help="Request lengths, e.g. 1k,8k,32Ki.")] = "1Ki,8Ki,32Ki,128Ki",
    kv_dtype: Annotated[str | None, typer.Option("--kv-dtype", help="bf16, fp8, …; default: the model's.")] = None,
    engine: Annotated[str, typer.Option("--engine", help="sglang or vllm: whose state data type applies.")] = "sglang",
    state_dtype: Annotated[str | None, typer.Option("--state-dtype", help="fp32 or bf16 recurrent state.")] = None,
    tp: Annotated[int, typer.Option("--tp", help="Tensor parallel width, which may replicate heads.")] = 1,
    accelerator: Annotated[str | None, typer.Option("--accelerator", help="Where prefill times are of.")] = None,
    gpus: Annotated[int, typer.Option("--gpus", help="Accelerators of one instance.")] = 8,
    memory: Annotated[
        str | None, typer.Option("--memory", help="KV memory of an instance, e.g. '300 GB': how much fits.")
    ] = None,
    form: FormatOption = Format.table,
    output: OutputOption = None,
    profiles: ProfilesOption = None,
) -> None:
    """Show KV-cache bytes, prefill seconds and KV throughput by request length.

    Example: prfaas-plan kv kimi-linear-48b-a3b qwen3-235b-a22b --lengths 8k,128k --tp 8
    """
    from prfaas_plan.kv_cache import KvOptions
    from prfaas_plan.kv_report import report_kv
    from prfaas_plan.kv_table import kv as tabulate
    from prfaas_plan.units import parse, parse_tokens

    wanted = [parse_tokens(text, where="--lengths") for text in lengths.split(",")]
    options = KvOptions(kv_dtype, engine, state_dtype)
    tables = [
        tabulate(
            model,
            wanted,
            options=options,
            tensor_parallel=tp,
            accelerator=accelerator,
            gpus=gpus,
            memory_bytes=None if memory is None else parse(memory, "B", where="--memory"),
            profiles=profiles or (),
        )
        for model in models
    ]
    data = tables[0].to_dict()
    if len(tables) > 1:
        data["models"] = [table.to_dict() for table in tables]
    emit("kv", data, report_kv(tables), Output(form, output))


@app.command()
def verify(form: FormatOption = Format.table, output: OutputOption = None, profiles: ProfilesOption = None) -> None:
    """Recompute published tables and print published, computed and difference; exit 1 if one is off.

    Example: prfaas-plan verify --format csv
    """
    from prfaas_plan.verify import verify as recompute
    from prfaas_plan.verify_report import report_verification

    result = recompute(profiles or ())
    emit("verify", result.to_dict(), report_verification(result), Output(form, output))
    if not result.ok:
        raise typer.Exit(1)


profile_commands = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Hardware and model profiles.")
app.add_typer(profile_commands, name="profiles")


@profile_commands.command("list")
def profiles_list(
    kind: Annotated[str | None, typer.Argument(help="hardware, model or measured; default: all.")] = None,
    form: FormatOption = Format.table,
    output: OutputOption = None,
    profiles: ProfilesOption = None,
) -> None:
    """List the profiles that can be named.

    Example: prfaas-plan profiles list model
    """
    from prfaas_plan.profile_report import report_profiles
    from prfaas_plan.profile_table import list_all, read_kind

    result = list_all(read_kind(kind), profiles or ())
    emit("profiles", result.to_dict(), report_profiles(result), Output(form, output))


@profile_commands.command("show")
def profiles_show(
    name: Annotated[str, typer.Argument(help="A profile by name, alias or path.")],
    form: FormatOption = Format.table,
    output: OutputOption = None,
    profiles: ProfilesOption = None,
) -> None:
    """Show one profile, value by value, with sources.

    Example: prfaas-plan profiles show h200-sxm
    """
    from prfaas_plan.profile_report import report_profile
    from prfaas_plan.profile_table import show_profile

    result = show_profile(name, profiles or ())
    emit("profiles", result.to_dict(), report_profile(result), Output(form, output))


@profile_commands.command("check")
def profiles_check(
    file: Annotated[Path, typer.Argument(help="A profile file of your own.")],
    form: FormatOption = Format.table,
    output: OutputOption = None,
    profiles: ProfilesOption = None,
) -> None:
    """Check a profile file: every fault at once, or the profile as it was understood.

    Example: prfaas-plan profiles check my-chip.toml
    """
    from prfaas_plan.profile_report import report_profile
    from prfaas_plan.profile_table import check_profile

    result = check_profile(file, profiles or ())
    emit("profiles", result.to_dict(), report_profile(result), Output(form, output))


@profile_commands.command("import")
def profiles_import(
    config: Annotated[Path, typer.Argument(help="A Hugging Face config.json.")],
    output: OutputOption = None,
) -> None:
    """Turn a Hugging Face config.json into a model profile (TOML).

    Example: prfaas-plan profiles import config.json --output my-model.toml
    """
    from prfaas_plan.files import write_atomically
    from prfaas_plan.hf_config import import_config
    from prfaas_plan.profile_writer import to_toml

    written = to_toml(import_config(config))
    if output is None:
        sys.stdout.write(written)
    else:
        write_atomically(output, written)

"""Commands about models, accelerators and published numbers: kv, profiles, verify."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from prfaas_plan.cli.completion import accelerators
from prfaas_plan.cli.completion import models as models_of
from prfaas_plan.cli.completion import profiles as profiles_of
from prfaas_plan.cli.options import FormatOption, OutputOption, ProfilesOption, read_counts
from prfaas_plan.cli.output import Output, emit, emit_text

__all__ = ["kv", "profiles", "verify"]


def kv(
    models: Annotated[
        list[str],
        typer.Argument(metavar="MODEL...", help="Profile names, or paths to config.json.", autocompletion=models_of),
    ],
    lengths: Annotated[str, typer.Option("--lengths", help="Request lengths, e.g. 1k,8k,32Ki.")] = "1Ki,8Ki,32Ki,128Ki",
    kv_dtype: Annotated[str | None, typer.Option("--kv-dtype", help="bf16, fp8, …; default: the model's.")] = None,
    engine: Annotated[str, typer.Option("--engine", help="sglang or vllm: whose state data type applies.")] = "sglang",
    state_dtype: Annotated[str | None, typer.Option("--state-dtype", help="fp32 or bf16 recurrent state.")] = None,
    tp: Annotated[int, typer.Option("--tp", help="Tensor parallel width, which may replicate heads.")] = 1,
    accelerator: Annotated[
        str | None,
        typer.Option(
            "--accelerator",
            help="Accelerator the prefill times are for; default: where measured.",
            autocompletion=accelerators,
        ),
    ] = None,
    gpus: Annotated[int, typer.Option("--gpus", help="Accelerators of one instance.")] = 8,
    memory: Annotated[
        str | None, typer.Option("--memory", help="KV memory of an instance, e.g. '300 GB': how much fits.")
    ] = None,
    form: FormatOption = None,
    output: OutputOption = None,
    profiles: ProfilesOption = None,
) -> None:
    """Show how large the KV cache is, how long prefill takes and what KV throughput follows, for several lengths.

    Example: prfaas-plan kv kimi-linear-48b-a3b qwen3-235b-a22b --lengths 8k,128k --tp 8
    """
    from prfaas_plan.kv_cache import KvOptions
    from prfaas_plan.kv_table import kv as tabulate
    from prfaas_plan.reports.kv import report_kv
    from prfaas_plan.units import parse

    wanted = read_counts(lengths, "--lengths")
    options = KvOptions(kv_dtype, engine, state_dtype)
    tables = [
        tabulate(
            model,
            wanted,
            options=options,
            tensor_parallel=tp,
            on=(accelerator, gpus) if accelerator is not None else None,
            memory_bytes=None if memory is None else parse(memory, "B", where="--memory"),
            profiles=profiles or (),
        )
        for model in models
    ]
    data = tables[0].to_dict()
    if len(tables) > 1:
        data["models"] = [table.to_dict() for table in tables]
    emit("kv", data, report_kv(tables), Output(form, output))


def verify(form: FormatOption = None, output: OutputOption = None, profiles: ProfilesOption = None) -> None:
    """Recompute published tables and print published, computed and difference; exit 1 if one is off.

    Example: prfaas-plan verify --format csv
    """
    from prfaas_plan.reports.verify import report_verification
    from prfaas_plan.verify import verify as recompute

    result = recompute(profiles or ())
    emit("verify", result.to_dict(), report_verification(result), Output(form, output))
    if not result.ok:
        raise typer.Exit(1)


profiles = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Hardware and model profiles.")


@profiles.command("list")
def profiles_list(
    kind: Annotated[str | None, typer.Argument(help="hardware, model or measured; default: all.")] = None,
    form: FormatOption = None,
    output: OutputOption = None,
    profiles: ProfilesOption = None,
) -> None:
    """List the profiles that can be named.

    Example: prfaas-plan profiles list model
    """
    from prfaas_plan.profile_table import list_all, read_kind
    from prfaas_plan.reports.profile import report_profiles

    result = list_all(read_kind(kind), profiles or ())
    emit("profiles", result.to_dict(), report_profiles(result), Output(form, output))


@profiles.command("show")
def profiles_show(
    name: Annotated[str, typer.Argument(help="A profile by name, alias or path.", autocompletion=profiles_of)],
    form: FormatOption = None,
    output: OutputOption = None,
    profiles: ProfilesOption = None,
) -> None:
    """Show one profile, value by value, with sources.

    Example: prfaas-plan profiles show h200-sxm
    """
    from prfaas_plan.profile_table import show_profile
    from prfaas_plan.reports.profile import report_profile

    result = show_profile(name, profiles or ())
    emit("profiles", result.to_dict(), report_profile(result), Output(form, output))


@profiles.command("check")
def profiles_check(
    file: Annotated[Path, typer.Argument(help="A profile file of your own.")],
    form: FormatOption = None,
    output: OutputOption = None,
    profiles: ProfilesOption = None,
) -> None:
    """Check a profile file: every fault at once, or the profile as it was understood.

    Example: prfaas-plan profiles check my-chip.toml
    """
    from prfaas_plan.profile_table import check_profile
    from prfaas_plan.reports.profile import report_profile

    result = check_profile(file, profiles or ())
    emit("profiles", result.to_dict(), report_profile(result), Output(form, output))


@profiles.command("import")
def profiles_import(
    config: Annotated[Path, typer.Argument(help="A Hugging Face config.json.")],
    output: OutputOption = None,
) -> None:
    """Turn a Hugging Face config.json into a model profile (TOML).

    Example: prfaas-plan profiles import config.json --output my-model.toml
    """
    from prfaas_plan.hf.config import import_config
    from prfaas_plan.profile_writer import to_toml

    emit_text(to_toml(import_config(config)), output)

"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from prfaas_plan.cli import completion
from prfaas_plan.cli.output import Format

__all__ = [
    "FormatOption",
    "ModelOption",
    "OutputOption",
    "ProfilesOption",
    "ScenarioArgument",
    "SetOption",
    "read_counts",
    "with_model",
]

ScenarioArgument = Annotated[
    str,
    typer.Argument(
        help="A scenario file (TOML) or the name of a shipped scenario.", autocompletion=completion.scenarios
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Override a key, e.g. link.0.bandwidth_gbps=10. Repeatable."),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="Plan for this model instead: a profile, or a path to config.json.",
        autocompletion=completion.models,
    ),
]
FormatOption = Annotated[
    Format | None, typer.Option("--format", help="How to write the result; default: by the file's ending, or a table.")
]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write to a file; .json, .csv, .md, .xlsx and .html say how.")
]
ProfilesOption = Annotated[
    list[Path] | None, typer.Option("--profiles", help="A folder with profiles of your own. Repeatable.")
]


def with_model(overrides: list[str] | None, model: str | None) -> list[str]:
    """Add the model of the command line to the overrides of a scenario.

    >>> with_model(["load=0.8"], "qwen3-8b")
    ['load=0.8', 'model="qwen3-8b"']
    """
    import json

    return [*(overrides or ()), *([f"model={json.dumps(model)}"] if model is not None else ())]


def read_counts(text: str, option: str) -> list[int]:
    """Read token counts or batches separated by commas.

    Raises `InputError` with every part that is none.

    >>> read_counts("1k,8Ki", "--lengths")
    [1000, 8192]
    """
    from prfaas_plan.errors import Fault, InputError, UnitError
    from prfaas_plan.units import parse_tokens

    found: list[int] = []
    faults: list[Fault] = []
    for part in text.split(","):
        try:
            found.append(parse_tokens(part, where=option))
        except UnitError as error:
            faults += error.faults
    if faults:
        raise InputError(faults)
    return found

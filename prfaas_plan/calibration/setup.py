"""What was measured: from the files where they say it, from the caller where they do not, never guessed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from prfaas_plan.calibration.benchmark_records import Run
from prfaas_plan.calibration.rules import Flag
from prfaas_plan.catalog import load_model
from prfaas_plan.errors import Fault, InputError, ProfileNotFoundError, nearest
from prfaas_plan.profiles import find_profile, list_profiles

__all__ = ["Instance", "Setup", "complete", "instance_of"]

Folders = Sequence[str | Path]


@dataclass(frozen=True, slots=True)
class Setup:
    """What a caller knows of the measurement; a fact of one run is used where the file lacks it."""

    model: str | None = None
    accelerator: str | None = None
    gpus_per_instance: int | None = None
    parallelism: str | None = None
    """Such as ``TP8`` or ``TP4 EP8``."""
    precision: str | None = None
    """Such as ``fp8 weights, bf16 KV``."""
    engine: str | None = None
    date: str | None = None
    """When it was measured, as YYYY-MM-DD."""
    input_tokens: float | None = None
    output_tokens: float | None = None
    concurrency: float | None = None
    context_tokens: float | None = None
    """Mean context of the decode steps to keep, where the files hold several."""
    accept: tuple[str, ...] = ()
    """Rules that only flag a run instead of refusing it."""


@dataclass(frozen=True, slots=True)
class Instance:
    """The machine that was measured, and doubts about what the files say of it."""

    model: str
    accelerator: str
    gpus_per_instance: int
    engine: str
    parallelism: str
    precision: str
    flags: tuple[Flag, ...] = ()


def complete(runs: Sequence[Run], setup: Setup) -> tuple[list[Run], list[Fault]]:
    """Fill what the files leave out from the setup, and list what is still missing by the option that gives it."""
    checked = _wrong_options(setup)
    filled = [
        replace(
            run,
            input_tokens=setup.input_tokens if run.input_tokens is None else run.input_tokens,
            output_tokens=setup.output_tokens if run.output_tokens is None else run.output_tokens,
            concurrency=setup.concurrency if run.concurrency is None else run.concurrency,
            date=setup.date or run.date,
        )
        if run.method == "served"
        else replace(run, date=setup.date or run.date)
        for run in runs
    ]
    served = [run for run in filled if run.method == "served" and run.requests != 0]
    needs: tuple[tuple[str, str, Callable[[Run], bool]], ...] = (
        ("--input-tokens", "the length of the prompts", lambda r: r.input_tokens is None),
        ("--output-tokens", "the length of the answers", lambda r: r.output_tokens is None),
        ("--concurrency", "how many requests were in flight", _concurrency_unknown),
    )
    faults = [_ask(option, what, [r for r in served if lacks(r)]) for option, what, lacks in needs]
    return filled, [*checked, *(fault for fault in faults if fault is not None)]


def _wrong_options(setup: Setup) -> list[Fault]:
    bounds = {
        "--gpus": setup.gpus_per_instance,
        "--input-tokens": setup.input_tokens,
        "--output-tokens": setup.output_tokens,
        "--concurrency": setup.concurrency,
        "--context": setup.context_tokens,
    }
    return [
        Fault(option, "", "expected a number of at least 1", value)
        for option, value in bounds.items()
        if value is not None and not 1 <= value < 1e12
    ]


def _concurrency_unknown(run: Run) -> bool:
    open_loop = run.request_rate is not None and math.isfinite(run.request_rate)
    return run.concurrency is None and not open_loop


def _ask(option: str, what: str, runs: Sequence[Run]) -> Fault | None:
    if not runs:
        return None
    files = list(dict.fromkeys(run.file for run in runs))
    shown = ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
    return Fault(option, "", f"missing; expected {what}: {shown} does not say it")


def instance_of(runs: Sequence[Run], setup: Setup, faults: Sequence[Fault], profiles: Folders = ()) -> Instance:
    """Say what was measured, from the setup or else from the files.

    Raises `InputError` with `faults` and every fact that is missing, unknown or differs between the files.
    """
    found = list(faults)
    said = {name: _only(runs, name, found) for name in _FACTS}
    model = _identify(
        "--model", setup.model, said["model"], lambda n: load_model(n, profiles, where="--model").id, found
    )
    accelerator = _identify(
        "--accelerator",
        setup.accelerator,
        said["accelerator"],
        lambda n: find_profile("hardware", n, profiles, "--accelerator").stem,
        found,
    )
    gpus = setup.gpus_per_instance
    if gpus is None:
        problem = "missing; expected the accelerators of the measured instance, which no file says"
        found.append(Fault("--gpus", "", problem))
    parallelism = setup.parallelism or said["parallelism"] or ("TP1" if gpus == 1 else "")
    precision = setup.precision or said["precision"]
    found += _untold("--parallelism", parallelism, "TP8") + _untold("--precision", precision, "fp8 weights, bf16 KV")
    if found or gpus is None:
        raise InputError(found)
    engine = setup.engine or ", ".join(dict.fromkeys(run.engine for run in runs if run.engine))
    return Instance(model, accelerator, gpus, engine, parallelism, precision, tuple(_contradictions(setup, said)))


_FACTS = ("model", "accelerator", "parallelism", "precision")


def _untold(option: str, value: str, example: str) -> list[Fault]:
    problem = f"missing; expected text such as {example!r}, which no file says"
    return [] if value else [Fault(option, "", problem)]


def _contradictions(setup: Setup, said: Mapping[str, str]) -> Iterator[Flag]:
    """Flag what is given otherwise than a file says; what is given counts."""
    for name in _FACTS:
        given = getattr(setup, name)
        if given and said[name] and not _agree(given.lower(), said[name].lower()):
            yield Flag("files", f"the {name} is given as {given}, the files say {said[name]}")


def _agree(given: str, said: str) -> bool:
    return said in given or given == said.rsplit("/", 1)[-1]


def _only(runs: Sequence[Run], name: str, faults: list[Fault]) -> str:
    """Give what the runs say of a fact; two different values cannot be one profile."""
    said: dict[str, Run] = {}
    for run in runs:
        value = getattr(run, name)
        if value:
            said.setdefault(value, run)
    for value, run in list(said.items())[1:]:
        first = next(iter(said))
        faults.append(
            Fault(run.where, name, f"differs from {first!r} in {said[first].file}; calibrate them apart", value)
        )
    return next(iter(said), "")


def _identify(option: str, given: str | None, said: str, find: Callable[[str], str], faults: list[Fault]) -> str:
    """Find the profile that is given, or else the one the files name."""
    if given:
        try:
            return find(given)
        except InputError as error:
            faults.extend(error.faults)
            return ""
    for name in dict.fromkeys((said, said.rsplit("/", 1)[-1])):
        if name and not name.endswith((".json", ".toml")):
            try:
                return find(name)
            except ProfileNotFoundError:
                continue
    kind = option.removeprefix("--")
    reason = f"the files say {said!r}, which is no {kind} profile" if said else "no file says it"
    faults.append(
        Fault(option, "", f"missing; expected the name of a {kind} profile: {reason}", suggestion=_near(kind, said))
    )
    return ""


def _near(kind: str, said: str) -> str:
    known = list_profiles("model" if kind == "model" else "hardware")
    return nearest(said.rsplit("/", 1)[-1], known) if said else ""

"""The traffic of a scenario: how long requests are, how much they generate, how often they come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prfaas_plan.errors import InputError, nearest
from prfaas_plan.laws import Constant, Empirical, Histogram, LengthLaw, LogNormal, Mixture
from prfaas_plan.records import Reader, part, quantity, read_record, text
from prfaas_plan.trace.records import Columns, Trace

__all__ = [
    "Constant",
    "Empirical",
    "Histogram",
    "LengthLaw",
    "LogNormal",
    "Mixture",
    "MixturePart",
    "TraceInput",
    "Workload",
    "WorkloadTable",
    "read_law",
    "read_workload",
]

_LAWS: dict[str, type[LengthLaw]] = {law.law: law for law in (Constant, LogNormal, Histogram)}
_DEEPEST = 8


@dataclass(frozen=True, slots=True)
class Workload:
    """What the requests of a scenario look like."""

    law: LengthLaw
    """Distribution of the uncached input length [token]."""
    output_tokens: float
    """Mean output length L_out [token]."""
    rate_rps: float | None = None
    """Request rate Λ [1/s], where the scenario states one."""
    description: str = ""
    notes: tuple[str, ...] = ()
    """What a reader of the plan should know: rows of a trace that were dropped, how its lengths were taken."""
    arrival_cv: float = 1.0
    """Coefficient of variation of the gaps between requests [1]; 1 is Poisson."""


@dataclass(frozen=True, slots=True)
class WorkloadTable:
    """The keys of ``[workload]`` beside ``input_tokens``."""

    output_tokens: float | None = quantity("token", "mean output length", symbol="L_out", at_least=1, default=None)
    rate_rps: float | None = quantity("req/s", "request rate", symbol="Λ", above=0, default=None)
    arrival_cv: float = quantity(
        "1", "variation of the gaps between requests; 1 is Poisson", at_least=0, at_most=20, default=1.0
    )
    description: str = text("where the workload comes from", default="")


@dataclass(frozen=True, slots=True)
class MixturePart:
    """The share of one law in a mixture; the keys of the law stand beside it."""

    weight: float = quantity("1", "share of the requests; shares need not add up to 1", above=0)


@dataclass(frozen=True, slots=True)
class TraceInput:
    """Input lengths taken from a request trace."""

    trace: str = text("path of the trace, relative to the scenario's folder")
    columns: Columns | None = part("which column holds what, where the format is not a known one", default=None)
    prefix_cache: str = text(
        "'none' plans with full input lengths, 'infinite' with what a cache without limit leaves to compute",
        choices=("none", "infinite"),
        default="none",
    )


def read_workload(data: object, reader: Reader, path: str, folder: Path) -> Workload | None:
    """Read the ``[workload]`` table of a scenario; faults go to the reader, and a faulty table comes back as ``None``.

    ``output_tokens`` may be left out where a trace gives them: then it is the mean of the trace. The path of a
    trace is relative to `folder`.

    >>> table = {"input_tokens": {"law": "lognormal", "mu": 9.9, "sigma": 1.0}, "output_tokens": "1Ki"}
    >>> read_workload(table, Reader("scenario.toml"), "workload", Path()).output_tokens
    1024.0
    """
    if not isinstance(data, Mapping):
        reader.fault(path, "expected a table with input_tokens and output_tokens", data)
        return None
    before = len(reader.faults)
    known = ("input_tokens", *WorkloadTable.__dataclass_fields__)
    for name in data:
        if name not in known:
            reader.fault(f"{path}.{name}", "unknown key", suggestion=nearest(str(name), known))
    table = read_record(WorkloadTable, {k: v for k, v in data.items() if k in known[1:]}, reader, path)
    law, output_tokens, notes = _read_lengths(data, reader, f"{path}.input_tokens", folder)
    if table is None or law is None or len(reader.faults) > before:
        return None
    mean_output = table.output_tokens if table.output_tokens is not None else output_tokens
    if mean_output is None:
        problem = "missing; expected a number of at least 1 [token]: mean output length"
        reader.fault(f"{path}.output_tokens", problem)
        return None
    return Workload(law, mean_output, table.rate_rps, table.description, notes, table.arrival_cv)


def _read_lengths(
    data: Mapping[str, Any], reader: Reader, key: str, folder: Path
) -> tuple[LengthLaw | None, float | None, tuple[str, ...]]:
    if "input_tokens" not in data:
        reader.fault(key, "missing; expected a number of tokens, a law or a trace")
        return None, None, ()
    value = data["input_tokens"]
    if isinstance(value, Mapping) and "trace" in value:
        source = read_record(TraceInput, value, reader, key)
        return _from_trace(source, reader, key, folder) if source is not None else (None, None, ())
    return read_law(value, reader, key), None, ()


def read_law(value: object, reader: Reader, key: str, depth: int = 0) -> LengthLaw | None:
    """Read a law of lengths: a number of tokens, or a table ``{ law = "lognormal", ... }``; faults go to the reader.

    >>> read_law("8k", Reader("scenario.toml"), "input_tokens")
    Constant(tokens=8000.0)
    """
    if isinstance(value, LengthLaw):
        return value
    if not isinstance(value, Mapping):
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            return read_record(Constant, {"tokens": value}, reader, key)
        reader.fault(key, "expected a number of tokens, a law or a trace", value)
        return None
    name = value.get("law")
    names = (*_LAWS, "mixture")
    if not isinstance(name, str) or name not in names:
        hint = nearest(name, names) if isinstance(name, str) else ""
        reader.fault(f"{key}.law", "expected one of " + ", ".join(names), name, hint)
        return None
    body = {k: v for k, v in value.items() if k != "law"}
    if name == "mixture":
        return _read_mixture(body, reader, key, depth)
    return read_record(_LAWS[name], body, reader, key)


def _read_mixture(body: Mapping[str, Any], reader: Reader, key: str, depth: int) -> Mixture | None:
    parts = body.get("parts")
    for name in body:
        if name != "parts":
            reader.fault(f"{key}.{name}", "unknown key", suggestion=nearest(str(name), ("parts",)))
    if not isinstance(parts, (list, tuple)) or not parts or depth >= _DEEPEST:
        reader.fault(f"{key}.parts", "expected a list of { weight, law, ... }", parts)
        return None
    weights: list[float] = []
    laws: list[LengthLaw] = []
    for i, item in enumerate(parts):
        place = f"{key}.parts.{i}"
        if not isinstance(item, Mapping):
            reader.fault(place, "expected a table { weight, law, ... }", item)
            continue
        share = read_record(MixturePart, {k: v for k, v in item.items() if k == "weight"}, reader, place)
        law = read_law({k: v for k, v in item.items() if k != "weight"}, reader, place, depth + 1)
        if share is not None and law is not None:
            weights.append(share.weight)
            laws.append(law)
    return Mixture(tuple(weights), tuple(laws)) if len(laws) == len(parts) else None


def _from_trace(
    source: TraceInput, reader: Reader, key: str, folder: Path
) -> tuple[LengthLaw | None, float | None, tuple[str, ...]]:
    from prfaas_plan.trace.files import read_trace

    try:
        trace = read_trace(folder / source.trace, source.columns)
        lengths = trace.input_tokens
        if source.prefix_cache == "infinite":
            from prfaas_plan.trace.prefix import infinite_pool

            lengths = infinite_pool(trace).uncached_tokens
    except InputError as error:
        for fault in error.faults:
            reader.fault(f"{key}.trace", f"{fault.where}: {fault.problem}", fault.value, fault.suggestion)
        return None, None, ()
    outputs = trace.output_tokens
    mean_output = sum(outputs) / len(outputs) if len(outputs) else None
    return Empirical.of(lengths), mean_output, _notes(trace, source)


def _notes(trace: Trace, source: TraceInput) -> tuple[str, ...]:
    name = Path(source.trace).name
    what = "full input lengths" if source.prefix_cache == "none" else "lengths left by a prefix cache without limit"
    notes = [f"{name} ({trace.format}): {trace.requests:,} requests, {what}"]
    if trace.dropped:
        notes.append(f"{name}: rows dropped: " + ", ".join(f"{n:,} {why}" for why, n in trace.dropped.items()))
    return (*notes, *(f"{name}: {note}" for note in trace.notes))

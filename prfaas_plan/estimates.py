"""Prefill and decode times for a table of cases: one deployment and one phase a row."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from prfaas_plan.catalog import load_hardware, load_model
from prfaas_plan.decode import decode_step
from prfaas_plan.deployment import Deployment
from prfaas_plan.errors import Fault, InputError, PlanError, UnitError, nearest
from prfaas_plan.footprint import footprint
from prfaas_plan.hardware import HardwareProfile
from prfaas_plan.model import ModelProfile
from prfaas_plan.prefill import prefill_time
from prfaas_plan.records import MOST_TOKENS
from prfaas_plan.roofline import PhaseTime
from prfaas_plan.units import parse, parse_tokens, show_bytes

__all__ = ["INPUT_COLUMNS", "OUTPUT_COLUMNS", "Estimator", "estimate_csv", "estimate_rows", "read_answers"]

_DEPLOYMENT: Final = (
    *("model", "accelerator", "gpus", "tp", "ep", "dp", "pp", "cp"),
    *("weights_dtype", "kv_dtype", "engine", "request_overhead_s"),
)
INPUT_COLUMNS: Final = ("id", *_DEPLOYMENT, "phase", "batch", "input_tokens", "cached_tokens", "chunk_tokens")
OUTPUT_COLUMNS: Final = ("seconds", "low_s", "high_s", "bound", "error")
_SAME_AS: Final = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "fp8_e4m3": "fp8",
    "fp8_block": "fp8",
    "w8a8": "int8",
    "fp4": "nvfp4",
    "w4a16": "int4",
    "awq": "int4",
    "gptq": "int4",
}
_CHUNK = 8192.0
_FAR_BEYOND = 1.1
"""Engines spread and trim what they hold, so a row is refused only where it is beyond the memory by more than this."""


@dataclass(frozen=True, slots=True)
class _Instance:
    """A deployment, and how many copies of it the GPUs of a row make."""

    deployment: Deployment
    copies: int


class Estimator:
    """Estimates rows one after another; profiles and deployments are built once."""

    def __init__(self, extra: Sequence[str | Path] = ()) -> None:
        self._extra = extra
        self._instances: dict[tuple[str, ...], _Instance | PlanError] = {}
        self._models: dict[str, ModelProfile] = {}
        self._accelerators: dict[str, HardwareProfile] = {}

    def time_of(self, row: Mapping[str, str | None]) -> PhaseTime:
        """Estimate one row.

        Raises `InputError` (or another `PlanError`) saying what is wrong with it.
        """
        cells = {key: (row.get(key) or "").strip() for key in INPUT_COLUMNS}
        instance = self._instance(cells)
        phase = cells["phase"].lower()
        if phase not in ("prefill", "decode"):
            problem = "expected prefill or decode"
            raise InputError(Fault("row", "phase", problem, cells["phase"], nearest(phase, ("prefill", "decode"))))
        batch = max(1.0, _batch(cells) / instance.copies)
        tokens, cached = _tokens(cells, "input_tokens", None), _tokens(cells, "cached_tokens", 0.0)
        _check_room(instance.deployment, batch, tokens + cached)
        if phase == "decode":
            return decode_step(instance.deployment, batch, tokens + cached)
        return prefill_time(
            instance.deployment, tokens, math.ceil(batch), cached, _tokens(cells, "chunk_tokens", _CHUNK)
        )

    def _instance(self, cells: Mapping[str, str]) -> _Instance:
        key = tuple([cells[name] for name in _DEPLOYMENT])
        if key not in self._instances:
            try:
                self._instances[key] = self._build(cells)
            except PlanError as problem:
                self._instances[key] = problem
        found = self._instances[key]
        if isinstance(found, PlanError):
            raise found
        return found

    def _build(self, cells: Mapping[str, str]) -> _Instance:
        for key in ("model", "accelerator", "input_tokens"):
            if not cells[key]:
                raise InputError(Fault("row", key, "missing; expected a value"))
        name, chip = cells["model"], cells["accelerator"]
        if name not in self._models:
            self._models[name] = load_model(name, self._extra, where="row", key="model")
        if chip not in self._accelerators:
            self._accelerators[chip] = load_hardware(chip, self._extra, where="row", key="accelerator")
        sizes, copies = _division({k: _count(cells, k) for k in ("gpus", "tp", "ep", "dp", "pp", "cp")})
        overhead = cells["request_overhead_s"]
        deployment = Deployment(
            self._models[name],
            self._accelerators[chip],
            **sizes,
            weights_dtype=_dtype(cells["weights_dtype"]),
            kv_dtype=_dtype(cells["kv_dtype"]),
            engine=cells["engine"] or "sglang",
            request_overhead_s=_number(cells, "request_overhead_s", 0.0) if overhead else None,
        )
        _check_weights(deployment)
        return _Instance(deployment, copies)


def _dtype(name: str) -> str | None:
    plain = name.lower()
    return None if plain in ("", "auto", "default", "native") else _SAME_AS.get(plain, plain)


def _division(sizes: dict[str, int | None]) -> tuple[dict[str, int], int]:
    """Complete the division of the GPUs, and count copies where it leaves GPUs over.

    Engines state DP attention in two ways: as groups of `tp` ranks, or as `dp` groups within `tp` ranks.
    """
    dp, pp, cp, ep = (sizes[k] or 1 for k in ("dp", "pp", "cp", "ep"))
    tp, gpus = sizes["tp"], sizes["gpus"]
    if tp is None:
        tp = max(1, (gpus or 1) // (dp * pp * cp))
    used = tp * dp * pp * cp
    gpus = gpus or used
    if dp > 1 and used > gpus and tp % dp == 0 and tp * pp * cp == gpus:
        tp //= dp
        used = gpus
    copies = gpus // used if gpus % used == 0 and ep <= used // pp else 1
    return {"gpus": gpus // copies, "tp": tp, "ep": ep, "dp": dp, "pp": pp, "cp": cp}, copies


def _check_room(deployment: Deployment, batch: float, context: float) -> None:
    """Refuse sequences whose weights and caches alone are far beyond the memory of the GPUs."""
    memory = deployment.hardware.memory_bytes
    if memory is None:
        return
    held = footprint(deployment, batch, max(1.0, context))
    if held.weights_bytes + held.cache_bytes > _FAR_BEYOND * memory:
        problem = (
            f"{batch:g} sequences of {context:,.0f} tokens do not fit: each GPU would hold "
            f"{show_bytes(held.weights_bytes + held.cache_bytes)} of weights and caches in {show_bytes(memory)}"
        )
        raise InputError(Fault("row", "batch", problem))


def _check_weights(deployment: Deployment) -> None:
    held = deployment.layout.weight_bytes(deployment.stage_gpus) / deployment.pp
    memory = deployment.hardware.memory_bytes
    if memory is not None and held > memory:
        problem = (
            f"the weights do not fit: {show_bytes(held)} on each of {deployment.gpus} GPUs "
            f"with {show_bytes(memory)} of memory"
        )
        raise InputError(Fault("row", "gpus", problem))


def _count(cells: Mapping[str, str], key: str) -> int | None:
    text = cells[key]
    if not text:
        return None
    value = _number(cells, key, 0.0)
    if value != round(value) or not 1 <= value <= 100_000:
        raise InputError(Fault("row", key, "expected a whole number of at least 1", text))
    return round(value)


def _batch(cells: Mapping[str, str]) -> float:
    value = _number(cells, "batch", 1.0)
    if not 0.0 < value <= 1e6:
        raise InputError(Fault("row", "batch", "expected a number of sequences above 0, at most 1e6", cells["batch"]))
    return value


def _number(cells: Mapping[str, str], key: str, default: float) -> float:
    text = cells[key]
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        try:
            value = parse(text, "s" if key.endswith("_s") else "1", where="row", key=key)
        except UnitError:
            raise InputError(Fault("row", key, "expected a finite number", text)) from None
    return value


def _tokens(cells: Mapping[str, str], key: str, default: float | None) -> float:
    text = cells[key]
    if not text:
        if default is None:
            raise InputError(Fault("row", key, "missing; expected a number of tokens"))
        return default
    try:
        value = float(text)
    except ValueError:
        value = float(parse_tokens(text, where="row", key=key))
    least = 1.0 if key == "input_tokens" else 0.0
    if not least <= value <= MOST_TOKENS:
        problem = f"expected a number of {least:.0f} to {MOST_TOKENS:,.0f} tokens"
        raise InputError(Fault("row", key, problem, text))
    return value


def estimate_rows(rows: Iterable[Mapping[str, str | None]], extra: Sequence[str | Path] = ()) -> list[dict[str, str]]:
    """Estimate a table of cases, row by row in order.

    Columns are `INPUT_COLUMNS`, others pass through; an empty cell takes the default. `OUTPUT_COLUMNS` are added;
    where a row fails, ``error`` says why and its numbers are empty.

    >>> case = {"model": "llama-3.1-8b", "accelerator": "h100", "gpus": "1", "phase": "decode"}
    >>> [row["error"] for row in estimate_rows([{**case, "input_tokens": "1024"}, {**case, "input_tokens": "x"}])]
    ['', "input_tokens = 'x': expected a whole number of tokens, such as 32000, 32k or 32Ki"]
    """
    estimator = Estimator(extra)
    return [_answered(row, estimator) for row in rows]


def _answered(row: Mapping[str, str | None], estimator: Estimator) -> dict[str, str]:
    answer = {str(key): value or "" for key, value in row.items() if key is not None}
    try:
        time = estimator.time_of(row)
    except InputError as problem:
        error = "; ".join(_short(fault) for fault in problem.faults)
        return {**answer, "seconds": "", "low_s": "", "high_s": "", "bound": "", "error": error}
    return {
        **answer,
        "seconds": f"{time.seconds:.6g}",
        "low_s": f"{time.low_s:.6g}",
        "high_s": f"{time.high_s:.6g}",
        "bound": time.bound,
        "error": "",
    }


def _short(fault: Fault) -> str:
    return str(fault).removeprefix(f"{fault.where}: ")


def estimate_csv(text: str, where: str = "input", extra: Sequence[str | Path] = ()) -> str:
    """Estimate the rows of a CSV text and return the CSV text with the answers.

    Raises `InputError` for a table without rows or without the columns that name a case.
    """
    reader = csv.DictReader(io.StringIO(text.removeprefix("\ufeff")), restkey=None)
    header = [name.strip() for name in reader.fieldnames or []]
    reader.fieldnames = header
    needed = ("model", "accelerator", "phase", "input_tokens")
    twice = sorted({name for name in header if header.count(name) > 1})
    faults = [Fault(where, name, "two columns have this name") for name in twice]
    faults += [
        Fault(where, name, "missing column", suggestion=nearest(name, header)) for name in needed if name not in header
    ]
    if faults:
        raise InputError(faults)
    answers = estimate_rows(reader, extra)
    columns = [*(name for name in header if name not in OUTPUT_COLUMNS), *OUTPUT_COLUMNS]
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(answers)
    return out.getvalue()


def read_answers(answered: str) -> list[dict[str, Any]]:
    r"""Read back the rows of `estimate_csv`, the answers as numbers and what is missing as ``None``.

    >>> read_answers("id,seconds,low_s,high_s,bound,error\n7,0.5,,,,too long\n")[0]["seconds"]
    0.5
    """
    rows: list[dict[str, Any]] = []
    for row in csv.DictReader(io.StringIO(answered)):
        numbers = {key: float(row[key]) if row[key] else None for key in ("seconds", "low_s", "high_s")}
        rows.append({**row, **numbers, "bound": row["bound"] or None, "error": row["error"] or None})
    return rows

"""Turns benchmark outputs into a measured profile, with the law behind it and how sure it is."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from prfaas_plan.calibration.benchmark_files import read_benchmark
from prfaas_plan.calibration.benchmark_records import BenchmarkFile
from prfaas_plan.calibration.fit import LawFit, fit_law
from prfaas_plan.calibration.points import Point, decode_points, prefill_points
from prfaas_plan.calibration.rules import ACCEPTABLE, Flag, Refusal, judge
from prfaas_plan.calibration.setup import Instance, Setup, complete, instance_of
from prfaas_plan.errors import Fault, InputError, nearest
from prfaas_plan.measured import DecodePoint, MeasuredProfile, PrefillPoint, measured_from_mapping
from prfaas_plan.plausible import refuse_impossible
from prfaas_plan.profile_writer import to_toml
from prfaas_plan.profiles import Source

__all__ = ["Calibration", "calibrate"]


@dataclass(frozen=True, slots=True)
class Calibration:
    """A measured profile, the laws through its points, and what was not used and why."""

    profile: MeasuredProfile
    files: tuple[BenchmarkFile, ...]
    prefill: tuple[Point, ...]
    decode: tuple[Point, ...]
    prefill_fit: LawFit | None
    decode_fit: LawFit | None
    decode_context_tokens: float | None
    refusals: tuple[Refusal, ...]
    flags: tuple[Flag, ...]

    def to_toml(self) -> str:
        """Write the measured profile as the TOML file a scenario names with ``measured``."""
        return to_toml(self.profile)

    def to_dict(self) -> dict[str, Any]:
        """Give the result as plain data with units in the keys."""
        profile = self.profile
        return {
            "model": profile.model,
            "accelerator": profile.accelerator,
            "gpus_per_instance": profile.gpus_per_instance,
            "engine": profile.engine,
            "note": profile.note,
            "files": [_file_dict(file) for file in self.files],
            "prefill": [{"length_tokens": p.x, **_point_dict(p)} for p in self.prefill],
            "decode": [{"batch": p.x, **_point_dict(p)} for p in self.decode],
            "decode_context_tokens": self.decode_context_tokens,
            "prefill_law": _fit_dict(self.prefill_fit, ("floor_s", "slope_s_per_token", "curvature_s_per_token2")),
            "decode_law": _fit_dict(self.decode_fit, ("floor_s", "slope_s_per_sequence")),
            "refused": [
                {"where": r.where, "phase": r.phase, "rule": r.rule, "reason": r.reason} for r in self.refusals
            ],
            "flags": [{"where": f.where, "doubt": f.doubt} for f in self.flags],
        }


def _file_dict(file: BenchmarkFile) -> dict[str, Any]:
    return {
        "file": file.where,
        "tool": file.tool,
        "unit": "; ".join(dict.fromkeys(run.unit for run in file.runs)),
        "runs": len(file.runs),
        "rows_read": file.rows_read,
        "rows_kept": file.rows_kept,
        "dropped": dict(file.dropped),
    }


def _point_dict(point: Point) -> dict[str, Any]:
    return {
        "seconds": point.seconds,
        "law_s": point.law_s,
        "difference_fraction": point.difference_fraction,
        "requests": point.requests,
        "basis": point.basis,
        "files": list(point.files),
    }


def _fit_dict(fit: LawFit | None, names: Sequence[str]) -> dict[str, Any] | None:
    if fit is None:
        return None
    terms = {
        name: {"value": t.value, "standard_error": t.standard_error, "low": t.low, "high": t.high}
        for name, t in zip(names, fit.terms, strict=True)
    }
    return {
        **terms,
        "highest_term": fit.highest_term,
        "degrees_of_freedom": fit.degrees_of_freedom,
        "rms_residual_fraction": fit.rms_residual_fraction,
    }


def calibrate(
    paths: Sequence[str | Path], setup: Setup | None = None, *, profiles: Sequence[str | Path] = ()
) -> Calibration:
    """Read benchmark outputs and make the measured profile of one instance from them.

    `setup` says what the files do not: model, accelerator, GPUs of the instance, parallelism, precision, and where
    a tool leaves them out the lengths and the concurrency. Prefill times by length [token] are fitted with
    ``a + b·l + c·l²`` [s], decode steps by batch with ``a + b·B`` [s], all coefficients >= 0, by relative least
    squares with 80 % intervals. Lengths outside the measured ones are an extrapolation.

    Raises `InputError` for files that cannot be read, facts that are missing (naming the option that gives them),
    files of different models or machines, and where no run is a measurement of service time (with every reason).
    """
    known = setup or Setup()
    _check_accept(known.accept)
    files = _read(paths)
    runs, missing = complete([run for file in files for run in file.runs], known)
    instance = instance_of(runs, known, missing, profiles)
    evidence = judge(runs, known.accept)
    prefill, refused = prefill_points(evidence.readings)
    decode, context, doubts = decode_points(evidence.readings, known.context_tokens)
    refusals = (*evidence.refusals, *refused)
    if not prefill and not decode:
        raise _nothing_left(refusals)
    prefill_fit, decode_fit = _fit("prefill", prefill, 2), _fit("decode", decode, 1)
    flags = (*evidence.flags, *instance.flags, *doubts, *_flat(prefill_fit, prefill))
    profile = _profile(instance, prefill, decode, _note(instance, context, flags))
    _check_usable(profile)
    refuse_impossible(profile, "BENCHMARK", "", profiles)
    lengths, batches = _with_law(prefill, prefill_fit), _with_law(decode, decode_fit)
    return Calibration(
        profile, tuple(files), lengths, batches, prefill_fit, decode_fit, context, refusals, tuple(flags)
    )


def _check_usable(profile: MeasuredProfile) -> None:
    """Refuse what a plan would refuse, such as times that fall as prompts get longer.

    Raises `InputError` with every fault.
    """
    measured_from_mapping(tomllib.loads(to_toml(profile)), "BENCHMARK", "calibrated")


def _fit(phase: str, points: Sequence[Point], degree: int) -> LawFit | None:
    """Fit a law; points too far apart for the arithmetic are refused."""
    if len(points) < 2:
        return None
    try:
        return fit_law([p.x for p in points], [p.seconds for p in points], degree)
    except ValueError as error:
        shown = ", ".join(f"{p.seconds:.3g} s at {p.x:,}" for p in points)
        files = ", ".join(dict.fromkeys(file for p in points for file in p.files))
        raise InputError(Fault(files, phase, f"no law can be fitted through {shown}: {error}")) from None


def _check_accept(accept: Sequence[str]) -> None:
    faults = [
        Fault("--accept", "", "expected one of " + ", ".join(ACCEPTABLE), name, nearest(name, ACCEPTABLE))
        for name in accept
        if name not in ACCEPTABLE
    ]
    if faults:
        raise InputError(faults)


def _read(paths: Sequence[str | Path]) -> list[BenchmarkFile]:
    """Read every file, so that the faults of all of them come out at once; runs get the shortest distinct name."""
    if not paths:
        raise InputError(Fault("BENCHMARK", "", "missing; expected one or more benchmark outputs"))
    names = distinct_names([str(path) for path in paths])
    files: list[BenchmarkFile] = []
    faults: list[Fault] = []
    for path, name in names.items():
        try:
            file = read_benchmark(path)
        except InputError as error:
            faults.extend(error.faults)
            continue
        files.append(replace(file, runs=tuple(replace(run, file=name) for run in file.runs)))
    if faults:
        raise InputError(faults)
    return files


def distinct_names(paths: Sequence[str]) -> dict[str, str]:
    """Name each path by as many of its last parts as tell them all apart.

    >>> distinct_names(["/a/one/r.json", "/a/two/r.json"])
    {'/a/one/r.json': 'one/r.json', '/a/two/r.json': 'two/r.json'}
    """
    parts = {path: Path(path).parts for path in paths}
    depth = 1
    while depth < max(map(len, parts.values())) and len({p[-depth:] for p in parts.values()}) < len(parts):
        depth += 1
    return {path: "/".join(p[-depth:]) for path, p in parts.items()}


def _flat(fit: LawFit | None, points: Sequence[Point]) -> list[Flag]:
    """Flag prefill times that do not grow with length, as those of cached prompts do not."""
    if fit is None or any(term.value > 0.0 for term in fit.terms[1:]):
        return []
    return [Flag(points[0].files[0], "prefill times do not grow with length: were the prompts served from a cache")]


def _nothing_left(refusals: Sequence[Refusal]) -> InputError:
    faults = [Fault(r.where, "", f"gives no {r.phase} time: {r.reason}") for r in refusals]
    return InputError(faults or Fault("BENCHMARK", "", "no run holds a prefill or decode time"))


def _with_law(points: Sequence[Point], fit: LawFit | None) -> tuple[Point, ...]:
    if fit is None:
        return tuple(points)
    return tuple(replace(p, law_s=fit(p.x), difference_fraction=p.seconds / fit(p.x) - 1.0) for p in points)


def _note(instance: Instance, context: float | None, flags: Sequence[Flag]) -> str:
    parts = [f"Precision: {instance.precision}. Parallelism: {instance.parallelism}."]
    if context is not None:
        parts.append(f"Decode at a mean context of {context:,.0f} tokens.")
    doubts = dict.fromkeys(flag.doubt for flag in flags)
    parts += [f"{doubt[0].upper()}{doubt[1:]}." for doubt in doubts]
    return " ".join(parts)


def _profile(instance: Instance, prefill: Sequence[Point], decode: Sequence[Point], note: str) -> MeasuredProfile:
    sources: dict[tuple[str, ...], Source] = {}
    cited: dict[str, str] = {}
    for phase, points in (("prefill", prefill), ("decode", decode)):
        for index, point in enumerate(points):
            if point.files not in sources:
                sources[point.files] = _source(point, f"run{len(sources) + 1}")
            cited[f"{phase}.{index}"] = sources[point.files].id
    return MeasuredProfile(
        model=instance.model,
        accelerator=instance.accelerator,
        gpus_per_instance=instance.gpus_per_instance,
        engine=instance.engine,
        note=note,
        prefill=tuple(PrefillPoint(p.x, p.seconds) for p in prefill),
        decode=tuple(DecodePoint(p.x, p.seconds) for p in decode),
        sources=tuple(sources.values()),
        cited=tuple(sorted(cited.items())),
    )


def _source(point: Point, source_id: str) -> Source:
    dates = sorted({run.date for run in point.runs if run.date})
    tools = " and ".join(dict.fromkeys(run.tool for run in point.runs))
    return Source(source_id, f"Benchmark run ({tools})", ", ".join(point.files), " and ".join(dates), "measured")

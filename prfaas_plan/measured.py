"""Measured profiles: how long an instance takes to prefill, and how it decodes, as a benchmark or a paper has it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from prfaas_plan.errors import Fault, ProfileError, nearest
from prfaas_plan.numerics import Curve, fit_polynomial
from prfaas_plan.profiles import Source, read_sources
from prfaas_plan.records import Reader, part, quantity, read_record, text

_NOISE = 0.8

__all__ = ["DecodePoint", "MeasuredProfile", "PrefillPoint", "measured_from_mapping", "prefill_law"]


@dataclass(frozen=True, slots=True)
class PrefillPoint:
    """The prefill time of one request of a length."""

    length_tokens: int = quantity("token", "uncached prompt length", symbol="l", at_least=1)
    seconds: float = quantity(
        "s", "prefill time of one request on one instance", symbol="T_prefill", at_least=1e-9, at_most=1e9
    )


@dataclass(frozen=True, slots=True)
class DecodePoint:
    """The time of one decode step at a batch."""

    batch: int = quantity("1", "sequences decoded together on one instance", symbol="BS", at_least=1)
    step_seconds: float = quantity("s", "time of one decode step", symbol="T_decode", at_least=1e-9, at_most=1e9)


@dataclass(frozen=True, slots=True)
class MeasuredProfile:
    """What was measured of one model on one instance of one accelerator."""

    model: str = text("model profile id")
    accelerator: str = text("hardware profile id")
    gpus_per_instance: int = quantity("1", "accelerators of the measured instance", at_least=1)
    engine: str = text("serving engine and version", default="")
    basis: str = text("how the numbers came about", choices=("measured", "derived"), default="measured")
    fit: str = text(
        "whether the law through the prefill points weighs relative errors or seconds",
        choices=("relative", "seconds"),
        default="relative",
    )
    note: str = text("derivation, limits, doubts", default="")
    prefill: tuple[PrefillPoint, ...] = part("prefill times by length", default=())
    decode: tuple[DecodePoint, ...] = part("decode step times by batch", default=())
    id: str = ""
    where: str = ""
    sources: tuple[Source, ...] = ()
    cited: tuple[tuple[str, str], ...] = ()


def measured_from_mapping(data: Mapping[str, Any], where: str, profile_id: str, path: str = "") -> MeasuredProfile:
    """Check and build a measured profile from the keys of its TOML file (or of a scenario's ``[[measured]]``).

    Raises `ProfileError` with every fault in it.
    """
    sources = read_sources(data, where)
    reader = Reader(where)
    body = {key: value for key, value in data.items() if key not in ("sources", "id", "schema")}
    profile = read_record(MeasuredProfile, body, reader, path)
    for place, source in reader.sources.items():
        if source not in sources:
            reader.fault(f"{place}.source", "no such source in [sources]", source, nearest(source, sources))
    if profile is not None:
        _check_points(profile, reader, path)
    reader.finish()
    if profile is None:
        raise ProfileError(Fault(where, path, "cannot be read as a measured profile"))
    cited = tuple(sorted(reader.sources.items()))
    return replace(profile, id=profile_id, where=where, sources=tuple(sources.values()), cited=cited)


def _check_points(profile: MeasuredProfile, reader: Reader, path: str) -> None:
    prefix = f"{path}." if path else ""
    if not profile.prefill and not profile.decode:
        reader.fault(path, "has neither prefill nor decode points")
    lengths = [p.length_tokens for p in profile.prefill]
    if lengths and (len(lengths) < 2 or sorted(set(lengths)) != lengths):
        reader.fault(f"{prefix}prefill", "expected two or more points of rising length", lengths)
    times = [p.seconds for p in profile.prefill]
    if falls(times):
        reader.fault(f"{prefix}prefill", "prefill times must not fall as prompts get longer", times)
    batches = [p.batch for p in profile.decode]
    if sorted(set(batches)) != batches:
        reader.fault(f"{prefix}decode", "expected points of rising batch", batches)
    steps = [p.step_seconds for p in profile.decode]
    if sorted(steps) != steps:
        reader.fault(f"{prefix}decode", "step times must not fall as the batch grows", steps)


def falls(times: Sequence[float]) -> bool:
    """Say whether a time is more than 20 % below an earlier one, which noise does not explain.

    >>> falls([1.0, 0.95, 2.0]), falls([1.0, 0.5])
    (False, True)
    """
    highest = itertools.accumulate(times, max)
    return any(t < _NOISE * most for t, most in zip(times, highest, strict=True))


def prefill_law(profile: MeasuredProfile) -> Curve:
    """Fit ``T(l) = a + b·l + c·l²`` [s] through the measured prefill points by least squares, a, b, c >= 0.

    The quadratic has a physical reading (fixed cost, linear layers, attention) and meets every published
    curve of arXiv 2604.15039 within 5 %. Errors are weighed relative to the measured time, or in seconds where
    the profile says so. Below the shortest and above the longest point it is an extrapolation.
    Raises `ProfileError` if the profile has no prefill points.

    >>> points = (PrefillPoint(1000, 0.5), PrefillPoint(8000, 0.8), PrefillPoint(32000, 2.0))
    >>> round(prefill_law(MeasuredProfile("m", "a", 8, prefill=points))(8000.0), 6)
    0.8
    """
    if not profile.prefill:
        raise ProfileError(Fault(profile.where, "prefill", "no prefill points were measured"))
    lengths = [float(p.length_tokens) for p in profile.prefill]
    seconds = [p.seconds for p in profile.prefill]
    weights = [1.0 / t**2 for t in seconds] if profile.fit == "relative" else None
    try:
        c0, c1, c2 = fit_polynomial(lengths, seconds, 2, weights)
    except ValueError as error:
        raise ProfileError(Fault(profile.where, "prefill", f"no law fits the points: {error}", lengths)) from None
    return Curve.polynomial(c0, c1, c2)

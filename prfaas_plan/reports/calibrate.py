"""A calibration as a document: files, points beside the law, coefficients, and what was refused and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prfaas_plan.calibration.calibrate import Calibration
from prfaas_plan.calibration.fit import LawFit, Term
from prfaas_plan.calibration.points import Point
from prfaas_plan.reports.document import Cell, Column, Document, Table, columns, rows
from prfaas_plan.units import show

__all__ = ["report_calibration"]

_PREFILL = (("floor", "ms", 1e3), ("slope", "µs/token", 1e6), ("curvature", "ns/token²", 1e9))
_DECODE = (("floor", "ms", 1e3), ("slope", "µs/sequence", 1e6))
_CURVATURE = {
    "supported": "The points support the quadratic term of prefill.",
    "not supported": "The points do not support a quadratic term of prefill: a straight line does as well.",
    "undetermined": "Too few lengths to tell whether prefill has a quadratic term; measure four or more.",
}


def report_calibration(result: Calibration) -> Document:
    """Lay out a calibration."""
    points = [*(("prefill", p) for p in result.prefill), *(("decode", p) for p in result.decode)]
    return Document(
        title=f"{result.profile.model} on {result.profile.gpus_per_instance} × {result.profile.accelerator}, measured",
        headline=tuple(_headline(result)),
        tables=tuple(_tables(result)),
        notes=tuple(_notes(result)),
        rows=tuple(_row(phase, point) for phase, point in points),
    )


def _headline(result: Calibration) -> list[str]:
    lines = []
    if result.prefill and result.prefill_fit is not None:
        lengths = f"{result.prefill[0].x:,} to {result.prefill[-1].x:,} tokens"
        lines.append(f"Prefill: {len(result.prefill)} lengths from {lengths}; {_scatter(result.prefill_fit)}.")
        lines.append(_CURVATURE[result.prefill_fit.highest_term])
    if result.decode:
        smallest, largest = result.decode[0].x, result.decode[-1].x
        batches = f"batches from {smallest} to {largest}" if largest > smallest else f"a batch of {smallest}"
        scatter = f"; {_scatter(result.decode_fit)}" if result.decode_fit is not None else ""
        context = f"a mean context of {show(result.decode_context_tokens, 'token')}"
        lines.append(f"Decode: {batches} at {context}{scatter}.")
    missing = [name for name, found in (("prefill", result.prefill), ("decode", result.decode)) if not found]
    lines += [f"No {name} time: the profile leaves it to another source." for name in missing]
    return lines


def _scatter(fit: LawFit) -> str:
    if fit.degrees_of_freedom < 1:
        return "the law has as many terms as there are points, so its error is not known"
    return f"the law misses them by {fit.rms_residual_fraction:.1%} (root mean square)"


def _tables(result: Calibration) -> list[Table]:
    tables = [_files(result)]
    if result.prefill:
        tables.append(_points("Prefill", "length", "token", result.prefill))
    if result.decode:
        tables.append(_points("Decode step", "batch", "", result.decode))
    laws = [("prefill", result.prefill_fit, _PREFILL), ("decode", result.decode_fit, _DECODE)]
    terms = [row for name, fit, units in laws if fit is not None for row in _terms(name, fit, units)]
    if terms:
        heads = columns("law", "term", "unit", Column("value"), Column("std. error"), Column("80 % from"), Column("to"))
        tables.append(Table("Laws", heads, rows(terms)))
    if result.refusals:
        tables.append(Table("Not used", columns("run", "for", "because"), rows(_refused(result))))
    return tables


def _files(result: Calibration) -> Table:
    return Table(
        "Files",
        columns("file", "tool", "unit of times", Column("rows"), Column("kept"), "dropped"),
        rows(
            [
                file.where,
                file.tool,
                "; ".join(dict.fromkeys(run.unit for run in file.runs)),
                file.rows_read,
                file.rows_kept,
                ", ".join(f"{count:,} {reason}" for reason, count in file.dropped.items()),
            ]
            for file in result.files
        ),
    )


def _points(title: str, heading: str, unit: str, points: Sequence[Point]) -> Table:
    return Table(
        title,
        columns(
            Column(heading, unit),
            Column("measured", "ms", 4),
            Column("law", "ms", 4),
            Column("difference", percent=True),
            Column("requests"),
            "read as",
        ),
        rows(
            [
                p.x,
                p.seconds * 1e3,
                None if p.law_s is None else p.law_s * 1e3,
                p.difference_fraction,
                p.requests,
                p.basis,
            ]
            for p in points
        ),
    )


def _terms(name: str, fit: LawFit, units: Sequence[tuple[str, str, float]]) -> list[list[Cell]]:
    return [
        [
            name,
            word,
            unit,
            *(_scaled(term, attribute, factor) for attribute in ("value", "standard_error", "low", "high")),
        ]
        for term, (word, unit, factor) in zip(fit.terms, units, strict=True)
    ]


def _scaled(term: Term, attribute: str, factor: float) -> float | None:
    value: float | None = getattr(term, attribute)
    return None if value is None else value * factor


def _refused(result: Calibration) -> list[list[Cell]]:
    """Join the refusals of one reason: runs with how many more, phases, reason."""
    found: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for r in result.refusals:
        places, phases = found.setdefault(r.reason, ({}, {}))
        places[_place(result, r.where)] = None
        phases[r.phase] = None
    return [[_some(list(places)), ", ".join(phases), reason] for reason, (places, phases) in found.items()]


def _some(places: Sequence[str]) -> str:
    more = f" and {len(places) - 2} more" if len(places) > 2 else ""
    return "; ".join(places[:2]) + more


def _place(result: Calibration, where: str) -> str:
    """Shorten a place to the name its file goes by."""
    for file in result.files:
        if file.runs and where.startswith(file.where):
            return file.runs[0].file + where.removeprefix(file.where)
    return where


def _notes(result: Calibration) -> list[str]:
    by_doubt: dict[str, list[str]] = {}
    for flag in result.flags:
        by_doubt.setdefault(flag.doubt, []).append(_place(result, flag.where))
    notes = [f"{_some(places)}: {doubt}." for doubt, places in by_doubt.items()]
    return [*notes, "Between points the planner uses the law; outside them it is an extrapolation."]


def _row(phase: str, point: Point) -> dict[str, Any]:
    return {
        "phase": phase,
        "length_tokens": point.x if phase == "prefill" else None,
        "batch": point.x if phase == "decode" else None,
        "seconds": point.seconds,
        "law_s": point.law_s,
        "difference_fraction": point.difference_fraction,
        "requests": point.requests,
        "basis": point.basis,
        "files": ", ".join(point.files),
    }

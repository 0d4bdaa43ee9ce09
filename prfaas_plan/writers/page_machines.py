"""The plots of what the machines do: KV throughput by prompt length, and the roofline of each accelerator."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from prfaas_plan.reports.document import Table
from prfaas_plan.reports.what_if import roof_tables
from prfaas_plan.units import show
from prfaas_plan.whatif.roofs import RoofPoint
from prfaas_plan.whatif.tables import WhatIf
from prfaas_plan.writers.svg import Axis, Line, line_chart
from prfaas_plan.writers.svg_labels import arranged

__all__ = ["Plot", "kv_plot", "roof_plot"]

_TERA = 1e12


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot: its heading, what it says in a sentence, the drawing, and the numbers behind it."""

    title: str
    says: str
    drawing: str
    tables: tuple[Table, ...]


def kv_plot(found: WhatIf, table: Table) -> Plot:
    """Draw Φ_kv of the scenario's instances by prompt length, and of well-known models beside them."""
    lines = [*_own_rates(found), *_other_rates(found)]
    values = [b for line in lines for _, b in line.points]
    rows = found.kv_rates
    x = Axis("prompt length [tokens]", float(rows[0].length_tokens), float(rows[-1].length_tokens), log=True)
    axes = (x, _log_axis("Gbit/s per instance", values or [1.0]))
    title = "KV throughput by prompt length"
    drawing = line_chart("kv", title, says := _kv_words(found), axes, arranged(axes, lines))
    return Plot(title, says, drawing, (table,))


def _own_rates(found: WhatIf) -> Iterator[Line]:
    case = found.case
    for field, cluster, style in (("remote_gbps", case.remote, "main"), ("local_gbps", case.local, "b")):
        points = [(float(r.length_tokens), float(v)) for r in found.kv_rates if (v := getattr(r, field)) is not None]
        if points and cluster is not None:
            yield Line(f"{cluster.name}, {cluster.gpus_per_instance}×{cluster.accelerator}", tuple(points), style)


def _other_rates(found: WhatIf) -> Iterator[Line]:
    lengths = [float(r.length_tokens) for r in found.kv_rates]
    for other in found.compared:
        points = tuple((x, y) for x, y in zip(lengths, other.gbps, strict=True) if y is not None)
        if len(points) > 1:
            yield Line(f"{other.model.split(' / ')[0]}, {other.gpus}×{other.accelerator}", points, "c")


def _kv_words(found: WhatIf) -> str:
    model = found.case.model
    says = (
        "KV cache that one instance produces each second while it prefills, Φ_kv: what a link must carry per instance. "
        f"The pools of this scenario run {model.name or model.id}."
    )
    if found.compared:
        sources = "; ".join(dict.fromkeys(other.source for other in found.compared))
        says += f" Dash-dotted lines are other models, for comparison ({sources})."
    return says


def roof_plot(found: WhatIf) -> Plot:
    """Draw the roof of each accelerator, and the phases of the plan that can be counted."""
    axes = _roof_axes(found)
    styles: dict[str, str] = {}
    for roof in found.roofs.roofs:
        styles.setdefault(roof.accelerator, ("main", "b")[min(1, len(styles))])
    lines = [*_roof_lines(found, axes[0], styles), *(_marker(p, styles) for p in found.roofs.points)]
    title = "Roofline of the accelerators"
    drawing = line_chart("roofline", title, says := _roof_words(found), axes, arranged(axes, lines))
    return Plot(title, says, drawing, tuple(t for t in roof_tables(found) if t.rows))


def _roof_axes(found: WhatIf) -> tuple[Axis, Axis]:
    roofs, points = found.roofs.roofs, found.roofs.points
    ridges = [r.ridge for r in roofs]
    wide = [min(ridges) / 6.0, 6.0 * max(ridges), *(x for p in points for x in (p.intensity / 2.0, p.intensity))]
    x = _log_axis("arithmetic intensity [FLOP/B]", wide)
    heights = [value for r in roofs for value in (r.attainable(x.low) / _TERA, 1.4 * r.flops / _TERA)]
    return x, _log_axis("TFLOP/s", [*heights, *(p.flops / _TERA for p in points)])


def _roof_lines(found: WhatIf, x: Axis, styles: Mapping[str, str]) -> Iterator[Line]:
    """Draw the slope of each accelerator's memory once, and the flat top of each data type with its name."""
    for accelerator, style in styles.items():
        roofs = [r for r in found.roofs.roofs if r.accelerator == accelerator]
        highest = max(roofs, key=lambda r: r.flops)
        slope = (x.low, max(x.low, highest.ridge))
        yield Line("", tuple((a, highest.attainable(a) / _TERA) for a in slope), style)
        for roof in roofs:
            top = tuple((a, roof.flops / _TERA) for a in (max(x.low, roof.ridge), x.high))
            yield Line(f"{accelerator} {roof.dtype.upper()}", top, style)


def _marker(point: RoofPoint, styles: Mapping[str, str]) -> Line:
    where = ((point.intensity, point.flops / _TERA),)
    return Line(f"{point.phase} at {point.cluster}", where, styles.get(point.accelerator, "main"))


def _roof_words(found: WhatIf) -> str:
    says = (
        "The most that one accelerator can compute at so many FLOP for each byte of memory traffic, by its data sheet: "
        "the slope is its memory bandwidth, the top its dense peak."
    )
    if found.roofs.points:
        each = "; ".join(
            f"{p.phase} at {p.cluster} ({_amount(p)}) reaches {show(p.flops / _TERA, 'TFLOP/s')}, "
            f"{p.flops / p.attainable:.0%} of its roof"
            for p in found.roofs.points
        )
        says += f" Counted from the model's layers, unfused passes over memory included, over the planned time: {each}."
    return " ".join([says, *found.roofs.notes])


def _amount(point: RoofPoint) -> str:
    if point.phase == "decode":
        return f"batch of {point.batch}, mean context {show(point.tokens, 'token')}"
    return f"prompt of the mean length {show(point.tokens, 'token')}"


def _log_axis(title: str, values: Sequence[float]) -> Axis:
    """Choose ends of 1, 2 or 5 in a decade, around the values."""
    return Axis(title, _round(min(values), up=False), _round(1.1 * max(values), up=True), log=True)


def _round(value: float, *, up: bool) -> float:
    decade = 10.0 ** math.floor(math.log10(value))
    steps = [m * decade for m in (1.0, 2.0, 5.0, 10.0)]
    return next(s for s in steps if s >= value) if up else max(s for s in steps if s <= value)

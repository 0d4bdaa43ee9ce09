"""The numbers a report page ships for its what-if panel: cumulative needs by threshold, service curves, decode."""

from __future__ import annotations

import json
import math
from typing import Any

from prfaas_plan.errors import PlanError
from prfaas_plan.numerics import Curve
from prfaas_plan.services import Services
from prfaas_plan.whatif.tables import WhatIf

__all__ = ["OUTPUT_STEP", "output_ends", "page_data"]

_LENGTHS = 600
OUTPUT_STEP = 10
"""Places of the slider of output lengths are this many thousandths of its length apart."""
_NEVER = 1e12


def page_data(found: WhatIf) -> str:
    """Give the data of the panel as JSON that cannot end the element it stands in."""
    return json.dumps(_data(found), ensure_ascii=True, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _data(found: WhatIf) -> dict[str, Any]:
    case, best = found.case, found.best
    curves = _curves(found)
    lengths = _lengths(found, curves)
    link = case.link
    bandwidth = 1e9 if link is None or math.isinf(link.bandwidth_gbps) else link.bandwidth_gbps
    remote, local = case.remote, case.local
    return {
        "far": remote.name if remote else "",
        "home": local.name,
        "atMean": best.system.at_mean_length,
        "remote": remote.instances if remote else 0,
        "prefill": best.system.local.instances if best.system.local else 0,
        "decode": best.system.decode.instances,
        "threshold": best.threshold,
        "gbps": bandwidth,
        "usable": link.usable_fraction if link else 1.0,
        "delay": link.rtt_ms / 2e3 if link else 0.0,
        "output": case.workload.output_tokens,
        "decodes": _decodes(found),
        "rate": best.max_rate,
        "lengths": [_rounded(x) for x in lengths],
        "below": _columns(found, curves, lengths),
        "curves": [[[_rounded(b) for b in c.breaks], [list(p) for p in c.pieces]] for c in curves],
        "loads": [[x.load_fraction, _rounded(x.mean_s), _rounded(x.p90_s)] for x in found.loads],
        "prices": [_hourly(remote), _hourly(local)],
    }


def _decodes(found: WhatIf) -> list[list[float]]:
    """Give output length, batch and step time of decode; at every place of the slider where they are estimated."""
    case, output = found.case, found.case.workload.output_tokens
    decode = case.decode
    if decode.basis != "roofline":
        return [[output, decode.batch, decode.step_seconds]]
    low, high = output_ends(output)
    places = range(0, 1001, OUTPUT_STEP)
    outputs = sorted({output, *(float(round(low * (high / low) ** (p / 1000.0))) for p in places)})
    finder = Services(found.scenario, case.model, found.profiles)
    rows = []
    for tokens in outputs:
        try:
            service = finder.decode(case.local, case.workload.law.mean + tokens / 2.0)
        except PlanError:
            continue
        rows.append([tokens, service.batch, service.step_seconds])
    return rows


def output_ends(output: float) -> tuple[float, float]:
    """Give the ends of the slider of output lengths [token]."""
    return min(32.0, output / 4.0), max(16_384.0, 4.0 * output)


def _hourly(cluster: Any) -> float | None:
    price: float | None = cluster.usd_per_instance_hour if cluster is not None else 0.0
    return price


def _curves(found: WhatIf) -> tuple[Curve, Curve, Curve]:
    case = found.case
    far, near = case.remote_prefill, case.local_prefill
    return (
        far.seconds if far else Curve.polynomial(1.0),
        case.kv_bytes,
        near.seconds if near else Curve.polynomial(_NEVER),
    )


def _lengths(found: WhatIf, curves: tuple[Curve, Curve, Curve]) -> list[float]:
    """Choose lengths: quantiles, evenly spread ones, the breaks of the curves and the planned threshold."""
    law = found.case.workload.law
    first, last = law.finite_support
    chosen = {first - 1.0, last}
    chosen |= {law.quantile(i / _LENGTHS) for i in range(1, _LENGTHS)}
    chosen |= {law.quantile(1.0 - 10.0 ** (-1.0 - i / 8.0)) for i in range(1, 33)}
    chosen |= {first + (last - first) * i / 200.0 for i in range(200)}
    chosen |= {b for curve in curves for b in curve.breaks}
    if found.best.threshold is not None:
        chosen.add(float(found.best.threshold))
    return sorted(x for x in chosen if first - 1.0 <= x <= last)


def _columns(found: WhatIf, curves: tuple[Curve, Curve, Curve], lengths: list[float]) -> list[list[float]]:
    """Tabulate P(L <= x), E[L; L <= x] and the integral of each curve up to x."""
    law = found.case.workload.law
    share, first = [], []
    for x in lengths:
        m0, m1, _ = law.moments(-math.inf, x)
        share.append(_rounded(m0))
        first.append(_rounded(m1))
    integrals = [[_rounded(law.expect(curve, -math.inf, x)) for x in lengths] for curve in curves]
    return [share, first, *integrals]


def _rounded(value: float) -> float:
    return float(f"{value:.12g}")

"""How each number of a plan came about: symbol, value, unit, equation and source, and what was assumed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from prfaas_plan.link_use import rule_of
from prfaas_plan.model import ModelProfile
from prfaas_plan.numerics import finite_or_none
from prfaas_plan.scenario import Link
from prfaas_plan.service_records import DecodeService, PrefillService
from prfaas_plan.throughput import OperatingPoint
from prfaas_plan.units import GBPS
from prfaas_plan.workload import Workload

__all__ = ["Line", "Provenance", "explain", "notes"]

_PAPER = "arXiv 2604.15039"


@dataclass(frozen=True, slots=True)
class Line:
    """One number of the explanation."""

    symbol: str
    value: float | None
    unit: str
    equation: str
    source: str

    def to_dict(self) -> dict[str, Any]:
        """Give the line by name."""
        value = finite_or_none(self.value)
        return {
            "symbol": self.symbol,
            "value": value,
            "unit": self.unit,
            "equation": self.equation,
            "source": self.source,
        }


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where the inputs of a plan came from."""

    model: ModelProfile
    kv_notes: tuple[str, ...]
    workload: Workload
    remote_prefill: PrefillService | None
    local_prefill: PrefillService | None
    decode: DecodeService
    link: Link | None


def explain(point: OperatingPoint, provenance: Provenance) -> tuple[Line, ...]:
    """List the numbers a plan rests on, in the order they are computed."""
    return (
        *_traffic(point, provenance),
        *_remote(point, provenance),
        *_local(point, provenance),
        *_decode(point, provenance),
        Line("Λ_max", point.max_rate, "req/s", _max_rate_equation(point), f"{_PAPER}, equation 6"),
    )


def _traffic(point: OperatingPoint, provenance: Provenance) -> list[Line]:
    law = provenance.workload.description or provenance.workload.law.describe()
    cut = point.threshold
    lines = [Line("E[L]", point.system.law.mean, "token", "mean of the length law", law)]
    if cut is not None:
        how = "Θ_prfaas/p = Θ_pd-p/(1 − p), by bisection"
        lines.append(Line("t", float(cut), "token", how, f"{_PAPER}, equation 7"))
    lines.append(Line("p", point.long_share, "1", "P(L > t)" if cut is not None else "all or none", law))
    if point.mean_long is not None:
        lines.append(Line("l_long", point.mean_long, "token", "E[L | L > t]" if cut is not None else "E[L]", law))
    if point.mean_short is not None:
        lines.append(Line("l_short", point.mean_short, "token", "E[L | L ≤ t]" if cut is not None else "E[L]", law))
    return lines


def _service(point: OperatingPoint, where: str) -> str:
    if point.system.at_mean_length:
        return f"T at the mean length of the {where} requests"
    return f"mean T of the {where} requests"


def _remote(point: OperatingPoint, provenance: Provenance) -> list[Line]:
    remote, service = point.system.remote, provenance.remote_prefill
    if remote is None or service is None or not point.prfaas_compute_rate:
        return []
    n = remote.instances
    lines = [
        Line("T_prefill,prfaas", n / point.prfaas_compute_rate, "s", _service(point, "offloaded"), service.source),
        Line("Θ_prfaas,compute", point.prfaas_compute_rate, "req/s", f"{n} / T_prefill,prfaas", f"{_PAPER}, eq. 3"),
    ]
    rate = point.system.link_bytes_per_s
    if point.prfaas_link_rate and provenance.link is not None:
        size = rate / point.prfaas_link_rate
        kv = "; ".join(provenance.kv_notes)
        lines += [
            Line("S_kv", size / 1e6, "MB", "KV cache and state of an offloaded request", kv),
            Line(
                "B_out", rate / GBPS, "Gbit/s", rule_of(provenance.link).equation if provenance.link else "", "scenario"
            ),
            Line("Θ_prfaas,link", point.prfaas_link_rate, "req/s", "B_out / S_kv", f"{_PAPER}, eq. 3"),
        ]
    equation = "min(compute, link)" if point.prfaas_link_rate else "compute alone"
    lines.append(Line("Θ_prfaas", point.prfaas_rate, "req/s", equation, f"{_PAPER}, eq. 3"))
    used = point.link_used_bytes_per_s / GBPS
    lines.append(Line("egress", used, "Gbit/s", "Λ_max · p · mean S_kv of the offloaded requests", "computed"))
    return lines


def _local(point: OperatingPoint, provenance: Provenance) -> list[Line]:
    local, service = point.system.local, provenance.local_prefill
    if local is None or service is None or not point.local_prefill_rate:
        return []
    n, rate = local.instances, point.local_prefill_rate
    return [
        Line("T_prefill,pd", n / rate, "s", _service(point, "local"), service.source),
        Line("Θ_pd-p", rate, "req/s", f"{n} / T_prefill,pd", f"{_PAPER}, equation 4"),
    ]


def _decode(point: OperatingPoint, provenance: Provenance) -> list[Line]:
    d = point.system.decode
    batch = "largest batch within the promised step time"
    equation = f"{d.instances} · BS_max / (T_decode · L_out)"
    return [
        Line("BS_max", float(d.batch), "1", batch, provenance.decode.source),
        Line("T_decode", d.step_seconds, "s", "step time at that batch", provenance.decode.source),
        Line("L_out", point.system.output_tokens, "token", "mean output length", "workload"),
        Line("Θ_pd-d", point.decode_rate, "req/s", equation, f"{_PAPER}, equation 5"),
    ]


def _max_rate_equation(point: OperatingPoint) -> str:
    terms = []
    if point.prfaas_rate:
        terms.append("Θ_prfaas/p")
    if point.local_prefill_rate:
        terms.append("Θ_pd-p/(1 − p)")
    return f"min({', '.join([*terms, 'Θ_pd-d'])})"


def notes(point: OperatingPoint, provenance: Provenance, deployment: str) -> tuple[str, ...]:
    """Say in sentences what was assumed, extrapolated or left out."""
    found = list(provenance.workload.notes)
    system = point.system
    longest = provenance.model.max_context_tokens
    beyond = 0.0 if longest is None else system.law.share(longest, math.inf)
    if longest is not None and beyond > 0.0:
        found.append(f"{beyond:.1%} of the requests are longer than the model's context of {longest:,} tokens.")
    if point.long_share > 0.0:
        found += [f"KV cache: {note}" for note in provenance.kv_notes]
    how = "the service time at the mean length of a class" if system.at_mean_length else "the mean service time"
    found.append(f"Capacity is computed from {how}; the other reading is shown beside it.")
    found.append(
        "TTFT is prefill and, for what is offloaded, a transfer alone on the link: the latency of idle machines."
    )
    for pool, service in ((system.remote, provenance.remote_prefill), (system.local, provenance.local_prefill)):
        if pool is not None and pool.instances and service is not None:
            found += _extrapolation(point, pool.cluster, service, remote=pool is system.remote)
    found += _decode_notes(system.decode.cluster, provenance.decode)
    link = provenance.link
    if link is not None and system.remote is not None:
        found += rule_of(link).notes
    if deployment == "homogeneous-pd" and system.remote is None:
        found.append("Inside a cluster the network is taken as never binding.")
    return tuple(dict.fromkeys(found))


def _decode_notes(cluster: str, service: DecodeService) -> list[str]:
    if service.basis == "derived":
        return [f"Decode at {cluster} is derived, not measured."]
    if service.basis == "roofline":
        low, high = service.interval or (service.step_seconds, service.step_seconds)
        spread = f"{low * 1e3:.1f} to {high * 1e3:.1f} ms"
        return [
            f"Decode steps at {cluster} are estimated ({service.source}; 80 % interval {spread}).",
            *(f"At {cluster}: {note}." for note in service.notes),
        ]
    return [f"Decode steps at {cluster} are as measured, at the contexts of that measurement and no others."]


def _extrapolation(point: OperatingPoint, cluster: str, service: PrefillService, *, remote: bool) -> list[str]:
    law = point.system.law
    cut = point.system.cut(point.threshold)
    low, high = (cut, math.inf) if remote else (-math.inf, cut)
    share = law.share(low, high)
    below = law.share(low, max(low, min(high, service.shortest - 1)))
    above = law.share(max(low, service.longest), max(high, service.longest))
    outside = (below + above) / share if share > 0.0 else 0.0
    found = []
    if service.basis == "roofline":
        found.append(f"Prefill times at {cluster} are estimated ({service.source}).")
        found += [f"At {cluster}: {note}." for note in service.notes]
        return found
    if service.basis == "derived":
        found.append(f"Prefill times at {cluster} are derived, not measured ({service.source}).")
    if outside > 0.0005:
        found.append(
            f"{outside:.1%} of the requests prefilled at {cluster} are outside the measured lengths "
            f"({service.shortest:,} to {service.longest:,} tokens): extrapolated by the fitted law."
        )
    return found

"""A scenario turned back into the keys of its file, so that one of them can be changed and all checked again."""

from __future__ import annotations

from typing import Any

from prfaas_plan.laws import Constant, Histogram, LengthLaw, LogNormal, Mixture
from prfaas_plan.records import specs
from prfaas_plan.workload import Workload

__all__ = ["law_mapping", "mapping_of", "record_mapping", "workload_mapping"]


def record_mapping(record: Any) -> dict[str, Any]:
    """Give the declared fields of a record under their keys, nested records as tables; an absent value has no key.

    >>> record_mapping(LogNormal(mu=9.9, sigma=1.0))["mu"]
    9.9
    """
    found = {}
    for key, (declaration, spec, _) in specs(record.__class__).items():
        value = getattr(record, declaration.name)
        if value is not None:
            found[key] = _plain(value) if spec.kind == "part" else value
    kind = getattr(record, "kind", None)
    return {"kind": kind, **found} if isinstance(kind, str) and "kind" not in found else found


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return record_mapping(value)


def law_mapping(law: LengthLaw) -> Any:
    """Give the table a law is written with; the lengths of a trace have none and stay the law they are.

    >>> law_mapping(Constant(8000.0))
    {'law': 'constant', 'tokens': 8000.0}
    """
    if isinstance(law, Mixture):
        parts = [law_mapping(part) for part in law.laws]
        if any(isinstance(part, LengthLaw) for part in parts):
            return law
        weighted = zip(law.weights, parts, strict=True)
        return {"law": "mixture", "parts": [{"weight": weight, **part} for weight, part in weighted]}
    if isinstance(law, (Constant, Histogram, LogNormal)):
        return {"law": law.law, **record_mapping(law)}
    return law


def workload_mapping(workload: Workload) -> dict[str, Any]:
    """Give the table ``[workload]`` of a workload."""
    table: dict[str, Any] = {"input_tokens": law_mapping(workload.law), "output_tokens": workload.output_tokens}
    if workload.rate_rps is not None:
        table["rate_rps"] = workload.rate_rps
    return {**table, "arrival_cv": workload.arrival_cv, "description": workload.description}


def mapping_of(scenario: Any) -> dict[str, Any]:
    """Give the keys of a scenario's file; what its file took from others (traces, profiles) stays as it was read."""
    data = record_mapping(scenario)
    for table in data["cluster"]:
        if "max" in table:
            table.pop("instances", None)
    for table in data["link"]:
        if "bandwidth_gbps_max" in table:
            table.pop("bandwidth_gbps", None)
        else:
            table.pop("bandwidth_gbps_min", None)
    if scenario.workload is not None:
        data["workload"] = workload_mapping(scenario.workload)
    data["demand"] = [_demand(demand) for demand in scenario.demand]
    data["period"] = [_period(period) for period in scenario.period]
    return data


def _demand(demand: Any) -> dict[str, Any]:
    table = record_mapping(demand.table)
    if demand.workload is not None:
        own = workload_mapping(demand.workload)
        table |= {key: own[key] for key in ("input_tokens", "output_tokens")}
    return table


def _period(period: Any) -> dict[str, Any]:
    table = record_mapping(period)
    return table if period.rates is None else {**table, "rates": dict(period.rates)}

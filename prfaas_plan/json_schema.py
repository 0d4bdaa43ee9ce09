"""JSON Schema (draft 2020-12) of the files this package reads and of what its commands print.

The schemas of files come from the declarations their readers use, so that they cannot drift apart. A schema is
versioned: a change that makes a valid document invalid raises the number at the end of its ``$id``.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING
from typing import Any, Union, get_args, get_origin

from prfaas_plan.errors import Fault, InputError, nearest
from prfaas_plan.hardware import HardwareProfile
from prfaas_plan.inventory import DemandTable, Period
from prfaas_plan.laws import Constant, Histogram, LogNormal
from prfaas_plan.measured import MeasuredProfile
from prfaas_plan.model import ModelProfile
from prfaas_plan.plan_schema import plan_schema
from prfaas_plan.profiles import SOURCE_KINDS
from prfaas_plan.records import Spec, specs
from prfaas_plan.scenario import Scenario
from prfaas_plan.units import is_token_unit
from prfaas_plan.workload import MixturePart, TraceInput, WorkloadTable

__all__ = ["NAMES", "schema"]

Schema = dict[str, Any]

_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def schema(name: str) -> Schema:
    """Give the JSON Schema of ``scenario``, ``hardware``, ``model`` or ``measured`` files, or of the ``plan`` output.

    Raises `InputError` for another name.

    >>> schema("hardware")["properties"]["memory_bytes"]["x-unit"]
    'B'
    """
    if name not in NAMES:
        problem = "expected one of " + ", ".join(NAMES)
        raise InputError(Fault("schema", "", problem, name, nearest(name, NAMES)))
    body = NAMES[name]()
    return {"$schema": _DRAFT, "$id": f"urn:prfaas-plan:{name}:1", **body}


def _scenario() -> Schema:
    body = _record(Scenario)
    properties = body["properties"]
    properties["cluster"]["items"]["anyOf"] = [{"required": ["instances"]}, {"required": ["max"]}]
    properties["cluster"]["minItems"] = 1
    properties["link"]["items"]["anyOf"] = [{"required": [f"bandwidth_gbps{end}"]} for end in ("", "_max")]
    properties["workload"] = _with_lengths(_record(WorkloadTable))
    demand = _with_lengths(_record(DemandTable))
    demand["properties"]["output_tokens"] = properties["workload"]["properties"]["output_tokens"]
    properties["demand"] = {"type": "array", "items": demand}
    period = _record(Period)
    period["properties"]["rates"] = {"type": "object", "additionalProperties": {"type": "number", "minimum": 0}}
    properties["period"] = {"type": "array", "items": period}
    measured = _record(MeasuredProfile)
    measured["properties"]["sources"] = _sources()
    properties["measured"] = {"type": "array", "items": measured}
    body["title"] = "Scenario of prfaas-plan"
    body["required"] = [*body["required"], "cluster"]
    body["anyOf"] = [{"required": ["workload"]}, {"required": ["demand"]}]
    body["$defs"] = {"law": _law()}
    return body


def _with_lengths(table: Schema) -> Schema:
    table["properties"]["input_tokens"] = {
        "description": "uncached input length of a request [token]: a number, a law, or a trace",
        "anyOf": [{"$ref": "#/$defs/law"}, _record(TraceInput)],
    }
    return table


def _law() -> Schema:
    laws: list[Schema] = [{"type": ["number", "string"], "description": "every request has this length [token]"}]
    for law in (Constant, LogNormal, Histogram):
        body = _record(law)
        body["properties"]["law"] = {"const": law.law}
        laws.append({**body, "required": ["law", *body["required"]]})
    part = _record(MixturePart)["properties"]["weight"]
    item = {"allOf": [{"type": "object", "properties": {"weight": part}, "required": ["weight"]}]}
    mixture = {"law": {"const": "mixture"}, "parts": {"type": "array", "minItems": 1, "items": item}}
    laws.append({"type": "object", "properties": mixture, "required": ["law", "parts"], "additionalProperties": False})
    return {"anyOf": laws}


def _profile(record: type, title: str) -> Schema:
    body = _record(record)
    body["properties"] |= {
        "sources": _sources(),
        "id": {"type": "string", "description": "name of the profile; the name of its file where absent"},
        "schema": {"type": "string", "description": "version of this format"},
    }
    return {**body, "title": title}


def _sources() -> Schema:
    texts: Schema = {name: {"type": "string"} for name in ("title", "locator", "date")}
    body = {
        "type": "object",
        "properties": {**texts, "kind": {"enum": list(SOURCE_KINDS)}},
        "required": ["title", "locator", "date", "kind"],
    }
    return {"type": "object", "description": "where the numbers come from, by id", "additionalProperties": body}


def _record(record: Any) -> Schema:
    """Describe a record: one property a declared field, and which of them must be there."""
    properties: Schema = {}
    required = []
    for key, (declared, spec, hint) in specs(record).items():
        properties[key] = _field(spec, hint)
        if declared.default is MISSING and declared.default_factory is MISSING:
            required.append(key)
        elif isinstance(declared.default, (bool, int, float, str)) and declared.default != "":
            default = declared.default
            properties[key]["default"] = default if default != float("inf") else "inf"
    properties["source"] = {"type": "string", "description": "id of the source of this table's numbers"}
    if isinstance(getattr(record, "kind", None), str):
        properties["kind"] = {"const": record.kind}
        required.append("kind")
    return {
        "type": "object",
        "description": (record.__doc__ or "").split("\n", maxsplit=1)[0],
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _field(spec: Spec, hint: Any) -> Schema:
    kinds = [kind for kind in _members(hint) if kind is not type(None)]
    if spec.kind == "part":
        return {**_part(kinds), "description": spec.doc}
    if get_origin(kinds[0]) is tuple:
        return {"type": "array", "items": _scalar(spec, get_args(kinds[0])[0]), "description": spec.doc}
    return _scalar(spec, kinds[0])


def _members(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _part(kinds: list[Any]) -> Schema:
    origin = get_origin(kinds[0])
    if origin is tuple:
        return {"type": "array", "items": _part(list(_members(get_args(kinds[0])[0])))}
    if origin is dict:
        return {"type": "object", "additionalProperties": _part(list(_members(get_args(kinds[0])[1])))}
    bodies = [_record(kind) for kind in kinds if kind is not type(None)]
    return bodies[0] if len(bodies) == 1 else {"oneOf": bodies}


def _scalar(spec: Spec, hint: Any) -> Schema:
    if spec.kind == "flag":
        return {"type": "boolean", "description": spec.doc}
    if spec.kind == "text":
        body: Schema = {"type": "string", "description": spec.doc}
        return {**body, "enum": list(spec.choices)} if spec.choices else body
    return _number(spec, hint)


def _number(spec: Spec, hint: Any) -> Schema:
    number: Schema = {"type": "integer" if hint is int else "number"}
    limits = (("minimum", spec.at_least), ("exclusiveMinimum", spec.above), ("maximum", spec.at_most))
    number |= {key: limit for key, limit in limits if limit is not None}
    example = "32k or 32Ki" if is_token_unit(spec.unit) else f"100 {spec.unit}"
    sourced = {
        "type": "object",
        "properties": {
            "value": {"type": ["number", "string"]},
            "unit": {"type": "string"},
            "source": {"type": "string", "description": "id in [sources]"},
            "note": {"type": "string"},
        },
        "required": ["value"],
        "additionalProperties": False,
    }
    body: Schema = {
        "description": f"{spec.doc} [{spec.unit}]",
        "anyOf": [number, {"type": "string", "description": f"with a unit, such as {example}"}, sourced],
        "x-unit": spec.unit,
    }
    return {**body, "x-symbol": spec.symbol} if spec.symbol else body


NAMES: Mapping[str, Callable[[], Schema]] = {
    "scenario": _scenario,
    "hardware": lambda: _profile(HardwareProfile, "Hardware profile of prfaas-plan"),
    "model": lambda: _profile(ModelProfile, "Model profile of prfaas-plan"),
    "measured": lambda: _profile(MeasuredProfile, "Measured profile of prfaas-plan"),
    "plan": plan_schema,
}
"""The schemas there are, by name."""

"""JSON Schema of what the command ``plan`` prints as JSON, with the unit of every number in words."""

from __future__ import annotations

from typing import Any

__all__ = ["plan_schema"]

Schema = dict[str, Any]


def _number(doc: str, *, least: float | None = 0, may_be_null: bool = False) -> Schema:
    body: Schema = {"type": ["number", "null"] if may_be_null else "number", "description": doc}
    return body if least is None else {**body, "minimum": least}


def _count(doc: str, *, may_be_null: bool = False) -> Schema:
    return {"type": ["integer", "null"] if may_be_null else "integer", "minimum": 0, "description": doc}


def _share(doc: str) -> Schema:
    return {"type": "number", "minimum": 0, "description": doc}


def _text(doc: str) -> Schema:
    return {"type": "string", "description": doc}


def _object(doc: str, properties: Schema, required: tuple[str, ...] = ()) -> Schema:
    return {
        "type": "object",
        "description": doc,
        "properties": properties,
        "required": list(required or properties),
    }


def _list(doc: str, items: Schema) -> Schema:
    return {"type": "array", "description": doc, "items": items}


_STAGES = {
    "prfaas_rps": _number("rate of the remote prefill stage for its own requests [req/s]", may_be_null=True),
    "pd_prefill_rps": _number("rate of local prefill for its own requests [req/s]", may_be_null=True),
    "pd_decode_rps": _number("rate of decode [req/s]", may_be_null=True),
}
_POOL = {
    "cluster": _text("name of the cluster"),
    "role": {"enum": ["prefill", "decode"], "description": "what these instances do"},
    "accelerator": _text("hardware profile"),
    "instances": _count("instances of the pool"),
    "gpus": _count("accelerators of the pool"),
    "capacity_rps": _number("what the pool can serve of its own requests [req/s]", may_be_null=True),
    "load_fraction": _share("share of the capacity in use at lambda_max_rps"),
}
_LINK = {
    "from": _text("cluster that prefills"),
    "to": _text("cluster that decodes"),
    "capacity_gbps": _number("nominal rate [Gbit/s]; null where unlimited", may_be_null=True),
    "usable_gbps": _number("what transfers reach [Gbit/s]; null where unlimited", may_be_null=True),
    "used_gbps": _number("KV caches carried at lambda_max_rps [Gbit/s]"),
    "load_fraction": _share("share of the usable rate in use"),
}
_PER_GPU = {
    f"{what}_tokens_per_second_of_{whom}": _number(f"{what} tokens a second and GPU of {words}", may_be_null=True)
    for what, whom, words in (
        ("input", "prefill", "those that prefill"),
        ("output", "decode", "those that decode"),
        ("input", "all", "all"),
        ("output", "all", "all"),
    )
}
_LINE = {
    "symbol": _text("symbol of the number"),
    "value": _number("the number", least=None, may_be_null=True),
    "unit": _text("its unit"),
    "equation": _text("how it is computed"),
    "source": _text("where it comes from"),
}


def plan_schema() -> Schema:
    """Describe the JSON of ``plan``; further keys may be there, these stay.

    >>> plan_schema()["properties"]["schema"]
    {'const': 'prfaas-plan/plan/1'}
    """
    properties: Schema = {
        "schema": {"const": "prfaas-plan/plan/1"},
        "scenario": _text("name of the scenario"),
        "lambda_max_rps": _number("largest rate the deployment serves [req/s]"),
        "lambda_low_rps": _number("the same with every estimated time at the slow end [req/s]", may_be_null=True),
        "lambda_high_rps": _number("the same with every estimated time at the fast end [req/s]", may_be_null=True),
        "threshold_tokens": _count("longer prompts prefill remotely [token]; null without routing", may_be_null=True),
        "offloaded_fraction": _share("share of the requests that prefill remotely"),
        "mean_long_tokens": _number("mean length of the offloaded requests [token]", may_be_null=True),
        "mean_short_tokens": _number("mean length of the others [token]", may_be_null=True),
        "stages": _object("rates of the stages; null where a stage does not exist", _STAGES),
        "pools": _list("instances by cluster and role", _object("one pool", _POOL)),
        "links": _list("links and their use", _object("one link", _LINK)),
        "ttft_s": _object(
            "time to first token [s]",
            {name: _number(f"{name} [s]", may_be_null=True) for name in ("mean", "p50", "p90", "p99")},
        ),
        "loaded": {"description": "time to first token at the stated load or rate", "type": ["object", "null"]},
        "within_ttft": {"description": "the same at the largest rate within the promise", "type": ["object", "null"]},
        "tpot_s": _number("time per output token [s]"),
        "bottleneck": _text("what limits the rate"),
        "cost_usd_per_hour": _number("price of all instances [USD/h]; null without prices", may_be_null=True),
        "usd_per_million_output_tokens": _number("price of a million output tokens [USD]", may_be_null=True),
        "per_gpu": _object("tokens a second and GPU", _PER_GPU),
        "alternatives": _list("the next best plans", {"type": "object"}),
        "explain": _list("how each number came about", _object("one number", _LINE)),
    }
    return {"title": "Output of prfaas-plan plan", **_object("A plan", properties)}

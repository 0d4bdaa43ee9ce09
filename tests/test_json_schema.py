"""Every shipped file is valid under its schema, what readers refuse is not, and the plan's JSON keeps its form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import prfaas_plan as pp
from prfaas_plan.errors import InputError
from prfaas_plan.json_schema import NAMES, schema
from prfaas_plan.profiles import list_profiles, list_toml, load_toml, shipped_folder
from prfaas_plan.writers.plain import write_json

SHIPPED = [
    *(("hardware", path) for path in list_profiles("hardware").values()),
    *(("model", path) for path in list_profiles("model").values()),
    *(("measured", path) for path in list_profiles("measured").values()),
    *(("scenario", path) for path in list_toml(shipped_folder("scenarios")).values()),
]
VALIDATORS = {name: jsonschema.Draft202012Validator(schema(name)) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_a_valid_schema_with_a_version(name: str) -> None:
    body = schema(name)
    jsonschema.Draft202012Validator.check_schema(body)
    assert body["$id"] == f"urn:prfaas-plan:{name}:1"
    assert json.loads(json.dumps(body, allow_nan=False)) == body


@pytest.mark.parametrize(("name", "path"), SHIPPED, ids=lambda x: x.stem if isinstance(x, Path) else x)
def test_shipped_files_are_valid(name: str, path: Path) -> None:
    VALIDATORS[name].validate(load_toml(path))


def changed(path: str, value: Any) -> dict[str, Any]:
    from prfaas_plan.overrides import set_path

    data = load_toml(shipped_folder("scenarios") / "case-study.toml")
    set_path(data, path, value)
    return data


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("cluster.local.instances", -1),
        ("cluster.local.rol", "pd"),
        ("cluster.local.role", "decoder"),
        ("link.0.efficiency", 1.5),
        ("workload.output_tokens", 0),
        ("workload.input_tokens", {"law": "lognormal", "mu": 9}),
        ("slo.tokens_per_second", [1]),
        ("cluster", []),
    ],
)
def test_what_the_reader_refuses_is_invalid(path: str, value: Any) -> None:
    data = changed(path, value)
    assert not VALIDATORS["scenario"].is_valid(data)
    with pytest.raises(InputError):
        pp.load_scenario.__globals__["scenario_from_mapping"](data)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("workload.input_tokens", "8k"),
        ("workload.input_tokens", {"law": "histogram", "edges": [1, 100, 5000], "weights": [1, 2]}),
        ("link.0.bandwidth_gbps", "10 Gbit/s"),
        ("workload.output_tokens", {"value": 1024}),
        ("slo", {"tpot_s": 0.03}),
    ],
)
def test_what_the_reader_takes_is_valid(path: str, value: Any) -> None:
    data = changed(path, value)
    VALIDATORS["scenario"].validate(data)
    assert pp.load_scenario.__globals__["scenario_from_mapping"](data)


def test_the_printed_plan_is_valid() -> None:
    found = pp.plan(pp.load_scenario())
    VALIDATORS["plan"].validate(json.loads(write_json("plan", found.to_dict())))
    without_link = pp.plan(pp.load_scenario().replace("link.0.bandwidth_gbps", float("inf")))
    VALIDATORS["plan"].validate(json.loads(write_json("plan", without_link.to_dict())))


def test_an_unknown_schema_names_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'scenario'"):
        schema("scenarios")

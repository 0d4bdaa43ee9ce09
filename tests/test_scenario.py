"""Scenarios from files: overrides, every fault at once, and files that are no scenario."""

from __future__ import annotations

import copy
import math
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prfaas_plan.errors import InputError, PlanError, ScenarioError
from prfaas_plan.overrides import apply_overrides, parse_value
from prfaas_plan.planner import compare, plan
from prfaas_plan.scenario import load_scenario, scenario_from_mapping, shipped_scenarios

CASE: dict[str, Any] = tomllib.loads(shipped_scenarios()["case-study"].read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", sorted(shipped_scenarios()))
def test_shipped_scenarios_load(name: str) -> None:
    assert load_scenario(name).name == name


@pytest.mark.parametrize(
    ("written", "value"),
    [("10", 10), ("1.5", 1.5), ("true", True), ("h200-sxm", "h200-sxm"), ("32Ki", "32Ki"), ('"x"', "x"), ("", "")],
)
def test_override_values(written: str, value: object) -> None:
    assert parse_value(written) == value


def test_overrides_by_index_and_by_name() -> None:
    data = copy.deepcopy(CASE)
    set_ = ["cluster.1.instances=9", "cluster.prfaas.instances=2", "kv.dtype=fp8", "workload.input_tokens.max=64Ki"]
    paths = apply_overrides(data, set_)
    assert paths == ["cluster.1.instances", "cluster.0.instances", "kv.dtype", "workload.input_tokens.max"]
    assert [c["instances"] for c in data["cluster"]] == [2, 9]
    assert data["workload"]["input_tokens"]["max"] == "64Ki"


@pytest.mark.parametrize("bad", ["x", "=1", "name.a.b=1", "cluster.9.instances=1", "cluster.nobody.instances=1"])
def test_overrides_that_lead_nowhere(bad: str) -> None:
    with pytest.raises(ScenarioError, match="--set"):
        apply_overrides(copy.deepcopy(CASE), [bad])


def test_a_fault_in_an_override_names_the_option() -> None:
    with pytest.raises(ScenarioError) as caught:
        load_scenario("case-study", ["link.0.bandwidth_gbps=fast"])
    assert caught.value.faults[0].where == "--set"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "missing"),
        (b"\xff\xfe\x00", "UTF-8"),
        (b"name = ", "TOML"),
        (b"a = " + b"[" * 5000, "deeply|TOML"),
        (b"<html>not found</html>", "TOML"),
        (b'name = "x"\nmodel = 3\n', "model"),
        (b"cluster = 5\n", "cluster"),
        (b"[[workload]]\n", "workload"),
    ],
)
def test_files_that_are_no_scenario(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises(ScenarioError, match=said):
        load_scenario(path)


def test_a_byte_order_mark_is_read_over(tmp_path: Path) -> None:
    path = tmp_path / "bom.toml"
    path.write_bytes(b"\xef\xbb\xbf" + shipped_scenarios()["case-study"].read_bytes())
    assert load_scenario(path).name == "case-study"


def leaves(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [path, *(leaf for k, v in value.items() for leaf in leaves(v, (*path, k)))]
    if isinstance(value, list):
        return [path, *(leaf for i, v in enumerate(value) for leaf in leaves(v, (*path, i)))]
    return [path]


NASTY = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.sampled_from([0, -1, 1, 1e-300, 1e300, math.nan, math.inf, -math.inf, "", "x", "32k", "10 GB", "1e9"]),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.sampled_from(["value", "unit", "source", "law"]), st.text(max_size=3), max_size=2),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from([p for p in leaves(CASE) if p]), NASTY, st.booleans())
def test_any_value_anywhere_gives_a_plan_or_a_clear_error(path: tuple[Any, ...], value: object, drop: bool) -> None:
    data = copy.deepcopy(CASE)
    here: Any = data
    for step in path[:-1]:
        here = here[step]
    if drop:
        del here[path[-1]]
    else:
        here[path[-1]] = value
    try:
        scenario = scenario_from_mapping(data, "case.toml")
        plans = [plan(scenario), *compare(scenario).deployments]
    except PlanError as error:
        assert str(error)
        if isinstance(error, InputError):
            assert all(fault.where and fault.problem for fault in error.faults)
        return
    for found in plans:
        assert math.isfinite(found.lambda_max_rps)
        assert found.lambda_max_rps > 0
        assert 0.0 <= found.offloaded_fraction <= 1.0
        assert found.ttft_s.mean >= 0

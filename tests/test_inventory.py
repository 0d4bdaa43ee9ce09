"""Ranges, demands, periods and limits in a scenario file: what is read, and every fault by its key."""

from __future__ import annotations

import copy
import tomllib
from typing import Any

import pytest

from prfaas_plan.errors import ScenarioError
from prfaas_plan.fleet.inputs import fleet_case
from prfaas_plan.scenario import Scenario, load_scenario, scenario_from_mapping, shipped_scenarios

CASE_STUDY = tomllib.loads(shipped_scenarios()["case-study"].read_text(encoding="utf-8"))
SHORT = {"input_tokens": 2000, "output_tokens": 100}


def faults(**changes: Any) -> list[str]:
    with pytest.raises(ScenarioError) as error:
        build(**changes)
    return [fault.key for fault in error.value.faults]


def build(**changes: Any) -> Scenario:
    data = copy.deepcopy(CASE_STUDY)
    for table, index, keys in changes.pop("edit", ()):
        for key, value in keys.items():
            if value is None:
                data[table][index].pop(key, None)
            else:
                data[table][index][key] = value
    return scenario_from_mapping(data | changes)


def test_two_cluster_form_is_no_fleet() -> None:
    assert not load_scenario("case-study").is_fleet
    assert not build(edit=[("cluster", 1, {"price_usd_per_gpu_hour": 1.0})]).is_fleet


@pytest.mark.parametrize(
    "changes",
    [
        {"demand": [{"origin": "eu", "share": 1}]},
        {"period": [{"name": "all", "hours": 24}]},
        {"edit": [("cluster", 1, {"instances": None, "max": 4})]},
        {"edit": [("cluster", 1, {"role": "free"})]},
        {"edit": [("link", 0, {"bandwidth_gbps": None, "bandwidth_gbps_max": 50})]},
        {"budget_usd_per_hour": 100},
        {"power_cap_w": 1e5},
        {"objective": "cost"},
        {"slo": {"tokens_per_second": 40, "ttft_s": 3}},
    ],
)
def test_more_than_two_fixed_clusters_is_a_fleet(changes: dict[str, Any]) -> None:
    assert build(**changes).is_fleet


def test_range_and_number_exclude_each_other() -> None:
    assert faults(edit=[("cluster", 1, {"max": 9})]) == ["cluster.1.instances"]
    assert faults(edit=[("cluster", 1, {"instances": None})]) == ["cluster.1.instances"]
    assert faults(edit=[("cluster", 1, {"instances": None, "min": 5, "max": 4})]) == ["cluster.1.min"]
    assert faults(edit=[("link", 0, {"bandwidth_gbps_max": 9})]) == ["link.0.bandwidth_gbps"]
    assert faults(edit=[("link", 0, {"bandwidth_gbps": None})]) == ["link.0.bandwidth_gbps"]


def test_purchase_needs_its_years_and_is_paid_off_by_the_hour() -> None:
    assert faults(edit=[("cluster", 1, {"capital_usd_per_gpu": 12_500})]) == ["cluster.1"]
    cluster = build(
        edit=[("cluster", 1, {"capital_usd_per_gpu": 12_500, "amortisation_years": 5, "price_usd_per_gpu_hour": 0.1})]
    ).cluster[1]
    assert cluster.usd_per_instance_hour == pytest.approx(8 * (0.1 + 12_500 / (5 * 8760)))
    assert load_scenario("case-study").cluster[1].usd_per_instance_hour is None


def test_every_fault_of_a_fleet_is_reported_at_once() -> None:
    found = faults(
        demand=[
            {"origin": "eu", "rate_rps": 1, "decode_at": ["locall"]},
            {"origin": "eu", "share": 1, "input_tokens": -4, "output_tokens": 10},
        ],
        period=[{"name": "day", "hours": 0}, {"name": "night", "hours": 8, "rates": {"us": 1, "eu": -1}}],
        objective="speed",
    )
    assert {"demand.1.input_tokens.tokens", "period.0.hours", "period.1.rates.eu", "objective"} <= set(found)
    found = faults(
        demand=[{"origin": "eu", "rate_rps": 1, "decode_at": ["locall"]}, {"origin": "eu", "share": 1}],
        period=[{"name": "night", "hours": 8, "rates": {"us": 1}}],
    )
    assert {"demand.0.decode_at", "demand.1.name", "demand.1", "period.0.rates.us"} <= set(found)


def test_workload_may_be_left_out_where_every_demand_has_its_own() -> None:
    data = copy.deepcopy(CASE_STUDY)
    del data["workload"]
    own = {"origin": "eu", "share": 1, **SHORT}
    assert scenario_from_mapping(data | {"demand": [own]}).workload is None
    with pytest.raises(ScenarioError, match="workload"):
        scenario_from_mapping(data | {"demand": [own, {"origin": "us", "share": 1}]})


def test_alike_demands_become_one_kind_of_traffic() -> None:
    same = [{"origin": name, "rate_rps": rate} for name, rate in (("eu", 1), ("us", 3))]
    case = fleet_case(build(demand=[*same, {"origin": "asia", "rate_rps": 4, **SHORT}]))
    assert [t.origins for t in case.traffic] == [("eu", "us"), ("asia",)]
    assert case.states[0].rates == pytest.approx((0.5, 0.5))


def test_rates_are_relative_to_the_busiest_period() -> None:
    periods = [{"name": "day", "hours": 16}, {"name": "night", "hours": 8, "rate_multiplier": 0.25}]
    case = fleet_case(build(period=periods))
    assert [s.rates for s in case.states] == [(1.0,), (0.25,)]
    assert (case.periods, case.hours) == (2, 24.0)


def test_link_loses_what_is_sent_again_and_ends_at_sites() -> None:
    data = [("cluster", 0, {"site": "A"}), ("cluster", 1, {"site": "B"})]
    link = {"from": "A", "to": "B", "bandwidth_gbps": 100, "efficiency": 0.9, "loss": 0.01, "rtt_ms": 40}
    case = fleet_case(build(edit=data, link=[link]))
    assert case.wires[0].usable == pytest.approx(0.9 * 0.99)
    assert [r.wire for r in case.routes] == [0, None]
    extra = case.first_token(case.traffic[0], case.routes[0])(8000) - case.stations[0].seconds(8000)  # type: ignore[misc]
    assert extra == pytest.approx(case.traffic[0].kv_gbit(8000) / 89.1 + 0.02)


def test_overrides_reach_the_new_keys() -> None:
    found = load_scenario("multi-region", ["demand.eu.rate_rps=5", "cluster.us-h20.max=9", "objective=gpus"])
    assert found.demand[1].weight == 5.0
    assert found.cluster_named("us-h20").most == 9
    assert found.objective == "gpus"


def test_a_changed_fleet_is_checked_as_its_file_would_be() -> None:
    changed = load_scenario("multi-region").replace("cluster.us-h20.max", 7)
    assert changed.cluster_named("us-h20").most == 7
    assert [d.name for d in changed.demand] == ["us", "eu", "asia"]
    assert load_scenario("day-night").replace("switching_cost", 5).period[1].rates == {"office": 0.3, "batch": 1.0}

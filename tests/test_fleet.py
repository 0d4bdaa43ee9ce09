"""Fleets from scenarios: the case study through the fleet's programme, sizing, promises, periods, bandwidth, worth."""

from __future__ import annotations

import copy
import json
import math
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from prfaas_plan.errors import InfeasibleError, InputError, ScenarioError
from prfaas_plan.fleet.bandwidth import bandwidth_needed, routing_table
from prfaas_plan.fleet.evaluate import evaluate
from prfaas_plan.fleet.inputs import fleet_case
from prfaas_plan.fleet.periods import long_term_rule, role_gain
from prfaas_plan.fleet.planner import Settings, fleet_plan, size
from prfaas_plan.fleet.record import FleetPlan
from prfaas_plan.fleet.search import Progress
from prfaas_plan.fleet.solve import solve_fleet
from prfaas_plan.fleet.thresholds import ladders, threshold_loss
from prfaas_plan.fleet.worth import worth
from prfaas_plan.planner import look_up, prfaas_system
from prfaas_plan.routing import best_split
from prfaas_plan.scenario import Scenario, load_scenario, scenario_from_mapping, shipped_scenarios

CASE_STUDY = tomllib.loads(shipped_scenarios()["case-study"].read_text(encoding="utf-8"))
PRICES = ("cluster.prfaas.price_usd_per_gpu_hour=2.0", "cluster.local.price_usd_per_gpu_hour=1.0")
PLAN_KEYS = {
    "scenario", "lambda_max_rps", "threshold_tokens", "offloaded_fraction", "mean_long_tokens", "mean_short_tokens",
    "stages", "pools", "links", "ttft_s", "tpot_s", "bottleneck", "cost_usd_per_hour",
    "usd_per_million_output_tokens", "alternatives", "explain",
}  # fmt: skip


def scenario(**changes: Any) -> Scenario:
    data = copy.deepcopy(CASE_STUDY) | {"service_time": "mean"} | changes
    return scenario_from_mapping(data)


def toml(text: str) -> Scenario:
    return scenario_from_mapping(tomllib.loads(text))


def promise(**slo: float) -> dict[str, float]:
    return {"tokens_per_second": 40, **slo}


@pytest.mark.parametrize("gbps", [4, 9, 12.5, 100])
@pytest.mark.parametrize("local", [6, 8, 13])
def test_case_study_is_that_of_the_exact_optimiser(gbps: float, local: int) -> None:
    changed = load_scenario(
        "case-study", [f"link.0.bandwidth_gbps={gbps}", f"cluster.local.instances={local}", "service_time=mean"]
    )
    exact = best_split(*prfaas_system(look_up(changed)))[0]
    plan = fleet_plan(changed)
    assert plan.lambda_max_rps == pytest.approx(exact.max_rate, rel=1e-4)
    assert plan.gap_fraction <= 1e-4
    if exact.system.has_local and exact.max_rate < exact.decode_rate:
        assert plan.threshold_tokens == pytest.approx(exact.threshold, rel=2e-3)
        assert plan.offloaded_fraction == pytest.approx(exact.long_share, rel=2e-3)


def test_plan_has_the_keys_of_the_interface_and_no_nan() -> None:
    plan = fleet_plan(scenario())
    data = plan.to_dict()
    assert data.keys() >= PLAN_KEYS
    json.dumps(data, allow_nan=False)
    assert size(scenario(), 2.0, minimize="gpus").to_dict()["target_rps"] == 2.0


def test_instances_times_gpus_is_the_total_on_every_row() -> None:
    plan = fleet_plan(scenario())
    for pool in plan.to_dict()["pools"]:
        assert pool["instances"] * pool["gpus_per_instance"] == pool["gpus"]
    assert sum(pool.gpus for pool in plan.busiest.pools) == plan.gpus == 96
    assert plan.gpus == sum(p.instances * p.gpus_per_instance for p in plan.purchases)


def test_time_to_first_token_is_that_of_the_plan_of_two_clusters() -> None:
    from prfaas_plan.planner import plan as two_clusters

    fleet, exact = fleet_plan(scenario()), two_clusters(scenario())
    assert fleet.ttft_s is not None
    for name in ("mean", "p50", "p90", "p99"):
        assert getattr(fleet.ttft_s, name) == pytest.approx(getattr(exact.ttft_s, name), rel=1e-3)


def test_solutions_are_the_same_every_time_and_progress_is_told() -> None:
    told: list[Progress] = []
    first = fleet_plan(scenario(), settings=Settings(progress=told.append))
    assert first.to_dict() == fleet_plan(scenario()).to_dict()
    assert told[0].best is None
    assert told[-1].gap_fraction is not None
    assert told[-1].gap_fraction <= 1e-4


# Sizing


def priced(*overrides: str) -> Scenario:
    return load_scenario("case-study", ["service_time=mean", *PRICES, *overrides])


def test_size_is_the_cheapest_of_all_fleets_by_enumeration() -> None:
    changed, target = priced(), 5.0
    plan = size(changed, target)
    best = math.inf
    for far in range(12):
        for near in range(1, 28):
            cost = 16.0 * far + 8.0 * near
            if cost < best:
                trial = load_scenario(
                    "case-study",
                    ["service_time=mean", f"cluster.prfaas.instances={far}", f"cluster.local.instances={near}"],
                )
                points = best_split(*prfaas_system(look_up(trial)))
                if points and points[0].max_rate >= target:
                    best = cost
    assert plan.cost_usd_per_hour == pytest.approx(best)
    assert plan.lambda_max_rps >= target * (1 - 1e-6)


def test_size_is_least_in_what_it_minimises() -> None:
    overrides = ("cluster.local.power_w_per_gpu=800", "cluster.prfaas.power_w_per_gpu=1730")
    plans = {m: size(priced(*overrides), 6.0, minimize=m) for m in ("cost", "gpus", "power")}
    assert plans["gpus"].gpus == min(p.gpus for p in plans.values())
    assert plans["cost"].cost_usd_per_hour == min(p.cost_usd_per_hour or 0.0 for p in plans.values())
    assert plans["power"].power_w == min(p.power_w or 0.0 for p in plans.values())


def test_any_one_instance_of_a_pool_may_be_lost() -> None:
    plan = size(priced(), 6.0, spare=1)
    assert plan.cost_usd_per_hour is not None
    cheaper = size(priced(), 6.0).cost_usd_per_hour
    assert cheaper is not None
    assert plan.cost_usd_per_hour > cheaper
    done = evaluate(plan.outcome)
    for key, need in done.needs.items():
        if key[0] != "wire":
            assert 6.0 * need <= (done.capacity[key] - 1) * (1 + 1e-6)


def test_head_room_stays_free() -> None:
    plan = size(priced(), 6.0, headroom=0.2)
    assert all(pool.load_fraction <= 0.8 * (1 + 1e-6) for pool in plan.busiest.pools)
    assert all(link.load_fraction <= 0.8 * (1 + 1e-6) for link in plan.busiest.links)


def test_fleet_survives_without_its_link() -> None:
    plan = size(priced(), 6.0, link_loss_fraction=0.5)
    (alone,) = plan.failures
    assert alone.rate_rps == pytest.approx(3.0)
    assert {pool.cluster for pool in alone.pools if pool.load_fraction > 0} == {"local"}
    roles = {(pool.cluster, pool.role): pool.instances for pool in plan.busiest.pools}
    assert all(roles[pool.cluster, pool.role] == pool.instances for pool in alone.pools)


@pytest.mark.parametrize(
    ("name", "value"), [("target_rps", -1.0), ("minimize", "co2"), ("headroom", 1.0), ("spare", -1)]
)
def test_size_names_a_wrong_argument(name: str, value: Any) -> None:
    arguments = {"target_rps": 1.0, "minimize": "gpus"} | {name: value}
    with pytest.raises(InputError) as error:
        size(scenario(), **arguments)
    assert error.value.faults[0].key == name


def test_missing_prices_are_named_cluster_by_cluster() -> None:
    with pytest.raises(ScenarioError) as error:
        size(scenario(), 1.0, minimize="cost")
    assert [f.key for f in error.value.faults] == [
        "cluster.prfaas.price_usd_per_gpu_hour", "cluster.local.price_usd_per_gpu_hour",
    ]  # fmt: skip


# What cannot be had


def ranged(**limits: Any) -> Scenario:
    data = copy.deepcopy(CASE_STUDY) | {"service_time": "mean", **limits}
    for cluster, price, power, most in zip(data["cluster"], (2.0, 1.0), (1730, 800), (4, 8), strict=True):
        del cluster["instances"]
        cluster |= {"min": 0, "max": most, "price_usd_per_gpu_hour": price, "power_w_per_gpu": power}
    return scenario_from_mapping(data)


def refusal(changed: Scenario, target: float) -> InfeasibleError:
    with pytest.raises(InfeasibleError) as error:
        size(changed, target)
    return error.value


def number_before(unit: str, text: str) -> float:
    return float(text.split(unit, maxsplit=1)[0].rsplit(maxsplit=1)[-1])


def test_budget_in_the_way_and_the_budget_that_would_do() -> None:
    error = refusal(ranged(budget_usd_per_hour=80), 3.0)
    assert "the budget of 80 USD/h is in the way" in error.binding
    enough = number_before(" USD/h", error.relaxation)
    assert size(ranged(budget_usd_per_hour=enough), 3.0).lambda_max_rps >= 3.0 * (1 - 1e-6)
    refusal(ranged(budget_usd_per_hour=enough - 0.5), 3.0)


def test_power_cap_in_the_way_and_the_cap_that_would_do() -> None:
    error = refusal(ranged(power_cap_w=60e3), 3.0)
    assert "the power cap of 60 kW is in the way" in error.binding
    enough = number_before(" kW", error.relaxation) * 1e3
    assert size(ranged(power_cap_w=enough * 1.00001), 3.0).lambda_max_rps >= 3.0 * (1 - 1e-6)
    refusal(ranged(power_cap_w=enough * 0.999), 3.0)


def test_link_in_the_way_and_the_rate_that_would_do() -> None:
    narrow = CASE_STUDY["link"][0] | {"bandwidth_gbps": 5}
    error = refusal(ranged(link=[narrow]), 3.0)
    assert "the links are" in error.binding
    enough = number_before(" Gbit/s on", error.relaxation.split(" or ")[-1])
    assert size(ranged(link=[narrow | {"bandwidth_gbps": enough * 1.001}]), 3.0).gap_fraction <= 1e-4
    refusal(ranged(link=[narrow | {"bandwidth_gbps": enough * 0.99}]), 3.0)


def test_instances_in_the_way_and_how_many_more_would_do() -> None:
    error = refusal(ranged(), 3.5)
    assert "at most 3.18" in error.binding
    assert "the instances are in the way" in error.binding
    assert error.relaxation.startswith("1 more instance (1 at ")
    where = error.relaxation.split(" at ")[1].split(")")[0]
    data = copy.deepcopy(CASE_STUDY)
    next(c for c in data["cluster"] if c["name"] == where)["instances"] += 1
    assert fleet_plan(scenario_from_mapping(data)).lambda_max_rps >= 3.5


def test_a_first_token_faster_than_the_service_time_is_refused_for_any_number_of_replicas() -> None:
    """Public report dynamo#11624: the target lies below the prefill time of one prompt."""
    error = refusal(ranged(slo=promise(ttft_s=2.0)), 1.0)
    assert "on however many instances" in error.binding
    assert "131,072 tokens" in error.binding
    enough = float(error.relaxation.split("a target of ")[1].split(" s")[0])
    data = ranged(slo=promise(ttft_s=enough * 1.001))
    assert size(data, 1.0).ttft_s is not None
    assert all(word in error.relaxation for word in ("ttft_percentile", "shorter prompts", "more GPUs"))


def test_no_route_is_refused_by_name() -> None:
    data = copy.deepcopy(CASE_STUDY)
    data["cluster"][1]["role"] = "decode"
    data["link"] = []
    with pytest.raises(InfeasibleError, match="no route leads prompts"):
        fleet_plan(scenario_from_mapping(data))


# Promises


def test_time_to_first_token_is_kept_by_the_promised_share() -> None:
    strict = fleet_plan(scenario(slo=promise(ttft_s=1.9, ttft_percentile=50)))
    assert strict.ttft_s is not None
    assert strict.ttft_s.p50 <= 1.9 * (1 + 1e-6)
    free = fleet_plan(scenario())
    assert strict.lambda_max_rps < free.lambda_max_rps
    loose = fleet_plan(scenario(slo=promise(ttft_s=30.0)))
    assert loose.lambda_max_rps == pytest.approx(free.lambda_max_rps, rel=1e-4)


def test_a_promise_that_includes_waiting_is_kept_by_the_queues_of_the_plan_of_two_clusters() -> None:
    from prfaas_plan.loaded import loaded_ttft
    from prfaas_plan.throughput import operate

    changed = scenario(slo=promise(ttft_s=6.0, ttft_percentile=90, ttft_load="loaded"))
    plan = fleet_plan(changed)
    assert plan.loaded_ttft_s is not None
    assert 5.8 < plan.loaded_ttft_s.p90 <= 6.0 * (1 + 1e-6)
    split = {pool.role: pool.instances for pool in plan.busiest.pools if pool.cluster == "local"}
    system, _ = prfaas_system(look_up(scenario()))
    point = operate(system.split(split["prefill"], split["decode"]), plan.threshold_tokens)
    assert loaded_ttft(point, plan.lambda_max_rps).ttft_s.p90 == pytest.approx(plan.loaded_ttft_s.p90, rel=0.02)
    assert plan.lambda_max_rps < fleet_plan(scenario()).lambda_max_rps * 0.9


def test_a_promised_p90_means_the_same_to_a_fleet_as_to_two_clusters() -> None:
    from prfaas_plan.planner import plan as two_clusters

    changed = scenario(slo=promise(ttft_p90_s=6.0))
    exact = two_clusters(changed).within_ttft
    assert exact is not None
    assert fleet_plan(changed).lambda_max_rps == pytest.approx(exact.rate_rps, rel=0.03)
    with pytest.raises(ScenarioError, match="not both"):
        fleet_plan(scenario(slo=promise(ttft_p90_s=6.0, ttft_s=3.0)))


def test_a_transport_that_cannot_fill_the_link_limits_the_fleet() -> None:
    lossy = {"efficiency": 1.0, "congestion": "cubic", "connections": 8, "rtt_ms": 30, "loss": 1e-5}
    from prfaas_plan.planner import plan as two_clusters

    changed = scenario(link=[CASE_STUDY["link"][0] | lossy])
    found, exact = fleet_plan(changed), two_clusters(changed)
    assert found.lambda_max_rps == pytest.approx(exact.lambda_max_rps, rel=1e-4)
    assert found.busiest.links[0].usable_gbps == pytest.approx(1.32, abs=0.01)


def test_a_promise_to_everybody_cannot_include_waiting() -> None:
    with pytest.raises(ScenarioError, match="some request always waits longer"):
        fleet_plan(scenario(slo=promise(ttft_s=6.0, ttft_load="loaded")))


def test_tighter_output_speed_cannot_be_had_from_what_was_measured() -> None:
    with pytest.raises((InfeasibleError, ScenarioError)):
        fleet_plan(scenario(slo={"tokens_per_second": 80}))


def test_cache_memory_limits_the_decode_batch() -> None:
    data = copy.deepcopy(CASE_STUDY) | {"service_time": "mean"}
    data["cluster"][1]["kv_memory_gb"] = 5.0
    plan = fleet_plan(scenario_from_mapping(data))
    case = fleet_case(scenario_from_mapping(data))
    per_request = case.traffic[0].decode_seconds[1]
    assert per_request is not None
    assert per_request > 1.28
    assert plan.lambda_max_rps < fleet_plan(scenario()).lambda_max_rps


# Public reports of right answers


QWEN = """
name = "qwen"
model = "qwen3-32b"
kv = { dtype = "fp8" }
[workload]
input_tokens = 4000
output_tokens = 100
[[cluster]]
name = "prefill"
role = "prefill"
accelerator = "h100-sxm5"
gpus_per_instance = 8
instances = 100
[[cluster]]
name = "decode"
role = "decode"
accelerator = "h100-sxm5"
gpus_per_instance = 8
instances = 100
[[cluster]]
name = "decode-2"
site = "decode"
role = "decode"
accelerator = "h100-sxm5"
gpus_per_instance = 8
instances = 1
[[link]]
from = "prefill"
to = "decode"
bandwidth_gbps = 100
efficiency = 1.0
"""


def test_a_link_of_100_gbit_carries_23_8_requests_of_qwen3_32b() -> None:
    """131,072 B a token at 4,000 tokens: 61.04 req/s would need 256 Gbit/s, 100 Gbit/s carry 23.8 req/s."""
    plan = fleet_plan(toml(QWEN))
    assert plan.lambda_max_rps == pytest.approx(100e9 / 8 / (131_072 * 4000), rel=1e-6)
    assert plan.bottleneck == "link prefill-decode"
    wide = fleet_plan(toml(QWEN.replace("bandwidth_gbps = 100", "bandwidth_gbps = 256.1")))
    assert wide.lambda_max_rps == pytest.approx(61.04, rel=1e-3)


def test_an_infinite_link_is_no_link_and_the_bottleneck_turns_to_a_narrow_one() -> None:
    """Public report dynamo#10863."""
    infinite = fleet_plan(toml(QWEN.replace("bandwidth_gbps = 100", "bandwidth_gbps = inf")))
    one_site = QWEN.split("[[link]]", maxsplit=1)[0].replace('role = "prefill"', 'role = "prefill"\nsite = "decode"')
    assert infinite.lambda_max_rps == pytest.approx(fleet_plan(toml(one_site)).lambda_max_rps, rel=1e-9)
    narrow = fleet_plan(toml(QWEN.replace("bandwidth_gbps = 100", "bandwidth_gbps = 10")))
    assert "link" not in infinite.bottleneck
    assert narrow.bottleneck == "link prefill-decode"


def test_a_plan_never_uses_more_than_the_inventory() -> None:
    """Public report aibrix#637."""
    for most in range(1, 4):
        data = copy.deepcopy(CASE_STUDY)
        del data["cluster"][1]["instances"]
        data["cluster"][1] |= {"min": 0, "max": 1 + most}
        data["cluster"][0]["instances"] = most
        plan = fleet_plan(scenario_from_mapping(data))
        used: dict[str, int] = {}
        for pool in plan.busiest.pools:
            used[pool.cluster] = used.get(pool.cluster, 0) + pool.instances
        assert used.get("local", 0) <= 1 + most
        assert used.get("prfaas", 0) <= most


# Thresholds


def test_one_threshold_loses_nothing_between_two_clusters() -> None:
    loss = threshold_loss(fleet_plan(scenario()))
    assert loss.loss_fraction <= 2e-5
    assert loss.not_optimal_for == ()
    assert loss.thresholds[0][1] == pytest.approx(19_640, rel=5e-3)


def test_three_sites_want_more_than_one_threshold() -> None:
    plan = fleet_plan(toml(THREE_SITES))
    loss = threshold_loss(plan)
    assert loss.not_optimal_for == ("here",)
    assert 0.01 < loss.loss_fraction < 0.5
    sites = [s.site for s in ladders(evaluate(plan.outcome)) if s.fraction > 0.98]
    assert sites == ["near", "middle", "far"]


def measured(accelerator: str, short: float, long: float) -> str:
    return f"""
[[measured]]
model = "kimi-linear-1t-paper"
accelerator = "{accelerator}"
gpus_per_instance = 8
prefill = [ {{ length_tokens = 1000, seconds = {short} }}, {{ length_tokens = 100000, seconds = {long} }} ]
decode = [ {{ batch = 20, step_seconds = 0.025 }} ]
"""


THREE_SITES = (
    """
name = "three-sites"
model = "kimi-linear-1t-paper"
[workload]
input_tokens = { law = "lognormal", mu = 9.9, sigma = 1.0, min = 128, max = 131072 }
output_tokens = 256
[[demand]]
origin = "here"
share = 1
decode_at = ["near"]
[[cluster]]
name = "near"
role = "pd"
accelerator = "l40s"
gpus_per_instance = 8
instances = 9
[[cluster]]
name = "middle"
role = "prefill"
accelerator = "h100-sxm5"
gpus_per_instance = 8
instances = 3
[[cluster]]
name = "far"
role = "prefill"
accelerator = "b200-sxm"
gpus_per_instance = 8
instances = 3
[[link]]
from = "middle"
to = "near"
bandwidth_gbps = 100
[[link]]
from = "far"
to = "near"
bandwidth_gbps = 100
"""
    + measured("l40s", 0.2, 40.0)
    + measured("h100-sxm5", 0.5, 10.0)
    + measured("b200-sxm", 1.5, 3.0)
)


# Worth


def test_shadow_prices_are_what_whole_steps_give_on_the_case_study() -> None:
    plan = fleet_plan(load_scenario("case-study", ["service_time=mean", "link.0.bandwidth_gbps=8"]))
    report = worth(plan, steps=True)
    assert report.binding == "link prfaas-local and prefill at local"
    link = next(line for line in report.lines if line.unit == "Gbit/s")
    assert link.shadow is not None
    assert link.step is not None
    assert not link.degenerate
    assert link.up == pytest.approx(link.shadow, rel=1e-2)
    assert link.down == pytest.approx(link.shadow, rel=1e-2)
    assert link.step == pytest.approx(link.shadow, rel=5e-2)
    idle = next(line for line in report.lines if "decodes" in line.what)
    assert idle.shadow == pytest.approx(0.0, abs=1e-9)
    json.dumps(report.to_dict(), allow_nan=False)


def test_break_even_price_is_where_the_plan_changes() -> None:
    plan = size(priced("cluster.prfaas.price_usd_per_gpu_hour=6.0"), 8.0)
    (far,) = [b for b in worth(plan).break_even if b.cluster == "prfaas"]
    assert far.instances == 0
    below = far.pays_below_usd_per_gpu_hour
    assert below is not None
    assert 1.5 < below < 6.0
    cheaper = size(priced(f"cluster.prfaas.price_usd_per_gpu_hour={below * 0.9}"), 8.0)
    assert next(p.instances for p in cheaper.purchases if p.cluster == "prfaas") > 0
    dearer = size(priced(f"cluster.prfaas.price_usd_per_gpu_hour={below * 1.1}"), 8.0)
    assert next(p.instances for p in dearer.purchases if p.cluster == "prfaas") == 0


def test_a_kilowatt_and_a_dollar_have_a_price_where_they_limit() -> None:
    by_power = worth(fleet_plan(ranged(power_cap_w=80e3)))
    assert next(line.relaxed or 0.0 for line in by_power.lines if line.unit == "kW") > 0.0
    by_money = worth(fleet_plan(ranged(budget_usd_per_hour=90)))
    assert next(line.relaxed or 0.0 for line in by_money.lines if line.unit == "USD/h") > 0.0


# Periods


def test_changing_roles_gains_over_the_day() -> None:
    gain = role_gain(load_scenario("day-night"))
    assert gain.gain_fraction is not None
    assert gain.gain_fraction > 0.05
    day, night = gain.plan.periods
    assert gain.plan.role_changes > 0
    decoding = [next(p.instances for p in period.pools if p.role == "decode") for period in (day, night)]
    assert decoding[0] < decoding[1]
    for period in (day, night):
        assert sum(p.instances for p in period.pools if p.cluster == "local") <= 12


def test_equal_periods_gain_nothing_and_change_no_roles() -> None:
    data = copy.deepcopy(CASE_STUDY) | {"service_time": "mean"}
    data["period"] = [{"name": "a", "hours": 8}, {"name": "b", "hours": 16, "rate_multiplier": 0.5}]
    gain = role_gain(scenario_from_mapping(data))
    assert gain.gain_fraction == pytest.approx(0.0, abs=1e-4)
    assert gain.plan.role_changes == 0
    assert gain.plan.lambda_max_rps == pytest.approx(fleet_plan(scenario()).lambda_max_rps, rel=1e-4)


@pytest.mark.parametrize("service_time", ["mean", "at-mean-length"])
def test_the_long_term_rule_of_the_paper_ends_at_the_optimum_of_its_case(service_time: str) -> None:
    system, instances = prfaas_system(look_up(load_scenario("case-study", [f"service_time={service_time}"])))
    best = best_split(system, instances)[0]
    for first in range(instances):
        last = long_term_rule(system, instances, first)[-1]
        assert last.max_rate == pytest.approx(best.max_rate, rel=1e-9)
        assert last.system.decode.instances == best.system.decode.instances


# Bandwidth


def test_least_bandwidth_keeps_the_rate_and_less_does_not() -> None:
    full = fleet_plan(scenario()).lambda_max_rps
    needs = bandwidth_needed(scenario())
    assert [n.keep_fraction for n in needs] == [0.95, 0.99, 1.0]
    for need in needs:
        (_, gbps), wanted = need.links[0], min(need.keep_fraction, 1 - 1e-5) * full
        assert fleet_plan(
            load_scenario("case-study", ["service_time=mean", f"link.0.bandwidth_gbps={gbps * 1.0005}"])
        ).lambda_max_rps >= wanted * (1 - 1e-4)
        assert (
            fleet_plan(
                load_scenario("case-study", ["service_time=mean", f"link.0.bandwidth_gbps={gbps * 0.98}"])
            ).lambda_max_rps
            < wanted
        )
    assert needs[2].total_gbps == pytest.approx(12.2, rel=2e-2)


def test_routing_table_raises_the_threshold_as_bandwidth_falls() -> None:
    table = routing_table(scenario())
    thresholds = [row.threshold_tokens or math.inf for row in table.rows]
    assert thresholds == sorted(thresholds, reverse=True)
    rates = [row.lambda_max_rps for row in table.rows]
    assert rates == pytest.approx(sorted(rates))
    assert table.rows[0].bandwidth == "scarce"
    assert table.rows[-1].bandwidth == "abundant"
    data = table.to_dict()
    json.dumps(data, allow_nan=False)
    assert data["prefix_rules"]["scarce"]["moves_cache"] is False
    assert data["prefix_rules"]["abundant"]["moves_cache"] is True


# Shipped fleets


def residents(plan: FleetPlan) -> set[tuple[str, str]]:
    done = evaluate(plan.outcome)
    case = done.case
    return {(case.traffic[p.traffic].name, case.stations[p.decoder].place) for p in done.parts}


def test_requests_of_every_region_are_decoded_at_home() -> None:
    plan = fleet_plan(load_scenario("multi-region"))
    assert residents(plan) == {("us", "us"), ("eu", "eu"), ("asia", "asia")}
    prefill = {(r.origin, r.site) for r in plan.routing if r.share_fraction > 0}
    assert {site for origin, site in prefill if origin == "eu"} == {"eu"}
    assert ("asia", "us") in prefill
    assert plan.cost_usd_per_hour == pytest.approx(plan.objective_value)
    assert plan.gap_fraction <= 1e-4


def test_the_hall_keeps_its_power_cap_and_its_promise() -> None:
    plan = fleet_plan(load_scenario("mixed-generations"))
    assert plan.power_w is not None
    assert plan.power_w <= 400e3
    assert "the power cap" in plan.bottleneck
    assert plan.ttft_s is not None
    assert plan.ttft_s.p99 <= 4.0
    assert sum(p.instances * p.gpus_per_instance for p in plan.purchases) == plan.gpus


def test_time_limit_returns_the_best_plan_with_its_gap() -> None:
    case = fleet_case(load_scenario("multi-region"))
    found = solve_fleet(replace(case, objective="cost"), 13.0, Settings(gap=1e-12, time_limit_s=0.5))
    assert found is not None
    assert 0.0 <= found.gap_fraction < 0.5


def test_loading_a_shipped_fleet_needs_no_solver(tmp_path: Path) -> None:
    for name in ("multi-region", "mixed-generations", "day-night"):
        assert load_scenario(name).is_fleet
    assert not load_scenario("case-study").is_fleet


def test_document_of_a_fleet_names_every_pool_threshold_and_limit() -> None:
    from prfaas_plan.reports.fleet import report_fleet
    from prfaas_plan.writers.terminal import write_terminal

    plan = fleet_plan(load_scenario("day-night"))
    text = write_terminal(report_fleet(plan, explain=True), width=100)
    for words in (
        "4 × 8 = 32",
        "12 × 8 = 96",
        "16 instances take another role",
        "33,8",
        "Limited by prefill at prfaas",
    ):
        assert words in text
    assert report_fleet(plan).rows[0]["local_instances"] == 12


def test_a_lost_link_is_named_without_an_empty_period() -> None:
    plan = size(load_scenario("case-study"), 5.0, minimize="gpus", link_loss_fraction=1.0)
    assert plan.bottleneck == "prefill at local and prefill at local without prfaas-local"


def test_a_period_without_requests_limits_nothing() -> None:
    quiet = fleet_plan(load_scenario("day-night", ["period.night.rates={office=0,batch=0}"]))
    assert quiet.lambda_max_rps >= fleet_plan(load_scenario("day-night")).lambda_max_rps * (1.0 - 2e-4)


@pytest.mark.parametrize("target", [0.0, 1e-9, 1e9, math.nan, -1.0])
def test_a_rate_beyond_what_the_solver_resolves_is_refused(target: float) -> None:
    with pytest.raises(InputError, match="target_rps"):
        size(scenario(), target, minimize="gpus")


def test_the_rarest_request_still_needs_an_instance_of_each_kind() -> None:
    found = size(scenario(), 1e-3, minimize="gpus")
    assert {pool.role for pool in found.busiest.pools} == {"prefill", "decode"}
    assert found.lambda_max_rps >= 1e-3

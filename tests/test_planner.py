"""Plans: the paper's case study, what binds, what is refused, and reports of people who size such fleets."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from prfaas_plan.errors import InfeasibleError, InputError, ScenarioError
from prfaas_plan.planner import compare, plan
from prfaas_plan.scenario import load_scenario, scenario_from_mapping

QWEN: dict[str, Any] = {
    "name": "qwen3-32b prefill and decode",
    "model": "qwen3-32b",
    "kv": {"dtype": "fp8"},
    "workload": {"input_tokens": 4000, "output_tokens": 500},
    "slo": {"tpot_s": 0.05},
    "cluster": [
        {"name": "pre", "role": "prefill", "accelerator": "h100-sxm5", "gpus_per_instance": 8, "instances": 8},
        {"name": "dec", "role": "decode", "accelerator": "h100-sxm5", "gpus_per_instance": 8, "instances": 20},
    ],
    "link": [{"from": "pre", "to": "dec", "bandwidth_gbps": 100, "efficiency": 1.0}],
    "measured": [
        {
            "model": "qwen3-32b",
            "accelerator": "h100-sxm5",
            "gpus_per_instance": 8,
            # 8 instances at 4,000 tokens serve the 61.04 req/s of the reported plan
            "prefill": [{"length_tokens": 4000, "seconds": 8 / 61.04}, {"length_tokens": 8000, "seconds": 16 / 61.04}],
            "decode": [{"batch": 256, "step_seconds": 0.04}],
        }
    ],
}


def variant(**changes: Any) -> dict[str, Any]:
    data = json.loads(json.dumps(QWEN))
    data.update(changes)
    return data


def test_case_study_reproduces_table_6() -> None:
    """arXiv 2604.15039, Table 6, each value within 1 %."""
    found = plan(load_scenario())
    assert found.threshold_tokens == pytest.approx(19_400, abs=100)
    assert [pool.instances for pool in found.pools] == [4, 3, 5]
    assert found.stages.prfaas_rps == pytest.approx(1.61, rel=0.01)
    assert found.stages.pd_prefill_rps == pytest.approx(1.64, rel=0.01)
    assert found.stages.pd_decode_rps == pytest.approx(3.91, rel=0.01)
    assert found.lambda_max_rps == pytest.approx(3.24, rel=0.01)
    assert found.offloaded_fraction == pytest.approx(0.496, rel=0.01)
    assert found.ttft_s.mean == pytest.approx(2.22, rel=0.01)
    assert found.ttft_s.p90 == pytest.approx(3.51, rel=0.01)


def test_mean_service_time_is_two_to_four_percent_below_the_paper() -> None:
    found = plan(load_scenario())
    default = plan(load_scenario("case-study", ["service_time=mean"]))
    assert found.other_reading.lambda_max_rps == pytest.approx(default.lambda_max_rps, rel=1e-12)
    assert default.other_reading.lambda_max_rps == pytest.approx(found.lambda_max_rps, rel=1e-12)
    assert 0.96 < default.lambda_max_rps / found.lambda_max_rps < 0.985


def test_equal_cost_gain_at_two_to_one() -> None:
    """arXiv 2604.15039: about 15 %; the price ratio is the one this implies."""
    prices = ["cluster.prfaas.price_usd_per_gpu_hour=2", "cluster.local.price_usd_per_gpu_hour=1"]
    equal = compare(load_scenario("case-study", prices)).equal_cost
    assert equal is not None
    assert equal.instances == 16
    assert equal.gain_fraction == pytest.approx(0.15, abs=0.006)
    assert compare(load_scenario()).equal_cost is None


def test_cost_counts_every_pool_once() -> None:
    prices = ["cluster.prfaas.price_usd_per_gpu_hour=2", "cluster.local.price_usd_per_gpu_hour=1"]
    found = plan(load_scenario("case-study", prices))
    assert found.cost_usd_per_hour == pytest.approx(32 * 2 + 64 * 1)
    millions_an_hour = found.lambda_max_rps * 1024 * 3600 / 1e6
    assert found.usd_per_million_output_tokens == pytest.approx(128 / millions_an_hour)


@pytest.mark.parametrize("deployment", [0, 1, 2])
def test_gpus_of_the_pools_add_up_to_the_fleet(deployment: int) -> None:
    """An 8-GPU worker counts as 8 GPUs, so the pools of a row add up to its fleet (aiconfigurator#1476)."""
    found = compare(load_scenario()).deployments[deployment].to_dict()
    assert sum(pool["instances"] * pool["gpus_per_instance"] for pool in found["pools"]) == found["gpus"] == 96
    assert all(pool["gpus"] == 8 * pool["instances"] for pool in found["pools"])


@pytest.mark.parametrize("instances", [1, 2, 5, 9])
def test_a_plan_never_uses_more_than_the_inventory(instances: int) -> None:
    """A GPU of which one exists is not planned twice (aibrix#637)."""
    found = plan(load_scenario("case-study", [f"cluster.local.instances={instances}", "cluster.prfaas.instances=1"]))
    used = {"prfaas": 0, "local": 0}
    for pool in found.pools:
        used[pool.cluster] += pool.instances
    assert used == {"prfaas": 1, "local": instances}
    for other in found.alternatives:
        assert other.prefill_instances + other.decode_instances == instances


def test_link_binds_where_a_peer_planned_two_and_a_half_times_its_rate() -> None:
    """Qwen3-32B at FP8: 61.04 req/s need 256 Gbit/s; 100 Gbit/s carry 23.8 req/s."""
    free = plan(scenario_from_mapping(variant(link=[{**QWEN["link"][0], "bandwidth_gbps": math.inf}])))
    assert free.lambda_max_rps == pytest.approx(61.04, rel=1e-6)
    assert free.links[0].used_gbps == pytest.approx(256, rel=0.001)
    bound = plan(scenario_from_mapping(QWEN))
    assert bound.lambda_max_rps == pytest.approx(23.8, rel=0.002)
    assert bound.bottleneck == "link"
    assert bound.links[0].load_fraction == pytest.approx(1.0)


def test_a_measurement_beyond_the_peak_of_the_chip_is_refused() -> None:
    """Llama-70B at 207 req/s of 1,450 tokens on 8×H100 would be 42 PFLOP/s, against a peak of 7.9 in BF16."""
    point = [{"length_tokens": 1450, "seconds": 1 / 207}, {"length_tokens": 2900, "seconds": 2 / 207}]
    measured = [{"model": "llama-3.1-70b", "accelerator": "h100-sxm5", "gpus_per_instance": 8, "prefill": point}]
    with pytest.raises(InputError, match="impossible: 8×h100-sxm5"):
        plan(scenario_from_mapping(variant(model="llama-3.1-70b", kv={}, measured=measured)))
    most = plan(scenario_from_mapping(variant(model="llama-3.1-70b", kv={}, measured=[], link=[QWEN["link"][0]])))
    assert most.stages.prfaas_rps is not None
    assert most.stages.prfaas_rps < 8 * 38.6 * 1450 / 4000 * 1.01  # 38.6 req/s is full peak at 1,450 tokens


def test_unlimited_link_equals_no_link() -> None:
    """A link that is never full changes nothing, and a narrow one is named as the limit (dynamo#10863)."""
    unlimited = plan(load_scenario("case-study", ["link.0.bandwidth_gbps=inf"]))
    sites = ["link=[]", 'cluster.prfaas.site="one"', 'cluster.local.site="one"']
    none = plan(load_scenario("case-study", sites))
    assert unlimited.lambda_max_rps == none.lambda_max_rps
    assert unlimited.threshold_tokens == none.threshold_tokens
    assert unlimited.ttft_s == none.ttft_s
    assert unlimited.to_dict()["links"][0]["capacity_gbps"] is None
    wide, narrow = (plan(load_scenario("case-study", [f"link.0.bandwidth_gbps={g}"])) for g in (100, 10))
    assert "link" not in wide.bottleneck
    assert "link" in narrow.bottleneck.split(" and ")
    assert narrow.lambda_max_rps < wide.lambda_max_rps


def test_link_efficiency_is_below_one_by_default_and_said() -> None:
    """A 100 Gbit/s fabric was measured at 87 (Mooncake#434)."""
    data = variant(link=[{"from": "pre", "to": "dec", "bandwidth_gbps": 100}])
    found = plan(scenario_from_mapping(data))
    assert found.links[0].usable_gbps == pytest.approx(87.0)
    assert any("87 of 100" in note for note in found.notes)


def test_no_bandwidth_at_all_is_infeasible_for_a_fleet_that_must_ship() -> None:
    data = variant(link=[{"from": "pre", "to": "dec", "bandwidth_gbps": 0}])
    with pytest.raises(InfeasibleError, match="link"):
        plan(scenario_from_mapping(data))


def test_no_bandwidth_leaves_the_local_cluster_to_itself() -> None:
    found = plan(load_scenario("case-study", ["link.0.bandwidth_gbps=0"]))
    alone = plan(load_scenario("case-study", ["link.0.bandwidth_gbps=0", "cluster.prfaas.instances=0"]))
    assert found.lambda_max_rps == pytest.approx(alone.lambda_max_rps)
    assert found.offloaded_fraction == 0.0


def test_an_empty_local_cluster_is_infeasible() -> None:
    with pytest.raises(InfeasibleError, match="local"):
        plan(load_scenario("case-study", ["cluster.local.instances=0"]))


def test_a_faster_promise_than_was_measured_is_said_not_guessed() -> None:
    with pytest.raises(InputError, match="smaller batch was not measured"):
        plan(load_scenario("case-study", ["slo.tokens_per_second=80"]))


def test_a_promise_no_batch_can_keep_is_infeasible() -> None:
    measured = [{**QWEN["measured"][0], "decode": [{"batch": 1, "step_seconds": 0.06}]}]
    with pytest.raises(InfeasibleError, match="60 ms"):
        plan(scenario_from_mapping(variant(measured=measured)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cluster": [QWEN["cluster"][1]], "link": []}, "no cluster prefills"),
        ({"link": []}, "no link from 'pre' to 'dec'"),
        ({"measured": [{**QWEN["measured"][0], "model": "qwen3-8b"}]}, "no cluster has this model"),
        ({"model": "kimi-linear-1t-paper", "kv": {}, "measured": []}, "no profile has"),
        ({"model": "qwen3-32"}, "qwen3-32b"),
        ({"cluster": [QWEN["cluster"][0], QWEN["cluster"][0]]}, "two clusters have this name"),
    ],
)
def test_what_cannot_be_planned_is_said(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan(scenario_from_mapping(variant(**changes)))


def test_only_the_local_cluster_is_a_homogeneous_fleet() -> None:
    overrides = ["cluster.local.instances=12", "link=[]"]
    data = load_scenario("case-study", overrides)
    from dataclasses import replace

    alone = replace(data, cluster=tuple(c for c in data.cluster if c.name == "local"))
    found = compare(alone)
    assert [d.deployment for d in found.deployments] == ["homogeneous-pd"]
    assert found.homogeneous.lambda_max_rps == pytest.approx(2.11, rel=0.01)


def write_trace(folder: Path) -> Path:
    lines = [
        json.dumps({"timestamp": 1000 * i, "input_length": 500 + 1731 * (i % 61), "output_length": 1 + i % 800})
        for i in range(600)
    ]
    path = folder / "requests.jsonl"
    path.write_text("\n".join(lines) + "\nnot json\n", encoding="utf-8")
    return path


def test_a_trace_gives_the_lengths(tmp_path: Path) -> None:
    trace = write_trace(tmp_path)
    scenario = load_scenario("case-study", [f'workload={{ input_tokens = {{ trace = "{trace}" }} }}'])
    found = plan(scenario)
    lengths = [500 + 1731 * (i % 61) for i in range(600)]
    outputs = [1 + i % 800 for i in range(600)]
    assert found.mean_input_tokens == pytest.approx(sum(lengths) / 600, rel=1e-12)
    assert found.output_tokens == pytest.approx(sum(outputs) / 600, rel=1e-12)
    longer = [x for x in lengths if x > (found.threshold_tokens or 0)]
    assert found.offloaded_fraction == pytest.approx(len(longer) / 600, rel=1e-12)
    assert found.mean_long_tokens == pytest.approx(sum(longer) / len(longer), rel=1e-12)
    assert any("1" in note and "drop" in note for note in found.notes)


def test_every_number_is_explained() -> None:
    found = plan(load_scenario())
    lines = {line.symbol: line for line in found.explain}
    for symbol in ("t", "p", "l_long", "l_short", "Θ_prfaas", "Θ_pd-p", "Θ_pd-d", "Λ_max", "S_kv", "B_out", "BS_max"):
        assert lines[symbol].equation
        assert lines[symbol].source
    assert lines["Λ_max"].value == found.lambda_max_rps


def test_scenario_must_be_about_known_roles() -> None:
    three = scenario_from_mapping(variant(cluster=[*QWEN["cluster"], {**QWEN["cluster"][1], "name": "more"}]))
    with pytest.raises(ScenarioError, match="expected one cluster of role"):
        plan(three)


def test_tokens_per_gpu_name_the_pool_or_the_total_they_are_of() -> None:
    """InferenceX#131: tokens a second divided by all GPUs hide which pool does the work."""
    found = plan(load_scenario("case-study"))
    shares, each = found.per_gpu.to_dict(), {(p.cluster, p.role): p.gpus for p in found.pools}
    prefill = each["prfaas", "prefill"] + each["local", "prefill"]
    tokens_in, tokens_out = found.lambda_max_rps * found.mean_input_tokens, found.lambda_max_rps * 1024
    assert shares["input_tokens_per_second_of_prefill"] == pytest.approx(tokens_in / prefill)
    assert shares["output_tokens_per_second_of_decode"] == pytest.approx(tokens_out / each["local", "decode"])
    assert shares["input_tokens_per_second_of_all"] == pytest.approx(tokens_in / 96)
    assert shares["output_tokens_per_second_of_all"] == pytest.approx(tokens_out / 96)
    assert "of the 56 that prefill" in str(found.per_gpu)

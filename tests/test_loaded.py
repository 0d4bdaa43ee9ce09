"""Time to first token under load, as part of a plan."""

from __future__ import annotations

import pytest

from prfaas_plan.case import look_up, operating_points, planned_system
from prfaas_plan.errors import InfeasibleError
from prfaas_plan.latency import unloaded_ttft
from prfaas_plan.loaded import Target, best_for_target, largest_rate_within, loaded_ttft, steady
from prfaas_plan.plan_record import Plan
from prfaas_plan.planner import plan
from prfaas_plan.scenario import load_scenario
from prfaas_plan.throughput import OperatingPoint, operate


@pytest.fixture(scope="module")
def points() -> list[OperatingPoint]:
    return operating_points(look_up(load_scenario("case-study", ["service_time=mean"])))


def test_a_nearly_idle_fleet_has_the_latency_of_idle_machines(points: list[OperatingPoint]) -> None:
    idle, busy = unloaded_ttft(points[0]), loaded_ttft(points[0], 0.001 * points[0].max_rate).ttft_s
    assert busy.mean == pytest.approx(idle.mean, rel=2e-3)
    assert busy.p90 == pytest.approx(idle.p90, rel=0.02)


def test_latency_rises_with_load_and_with_burstiness(points: list[OperatingPoint]) -> None:
    rate = points[0].max_rate
    by_load = [loaded_ttft(points[0], load * rate).ttft_s.p90 for load in (0.3, 0.6, 0.8, 0.9, 0.97)]
    assert by_load == sorted(set(by_load))
    by_burst = [loaded_ttft(points[0], 0.8 * rate, cv).ttft_s.mean for cv in (0.5, 1.0, 2.0, 3.0)]
    assert by_burst == sorted(set(by_burst))


def test_a_rate_that_cannot_be_served_has_no_latency(points: list[OperatingPoint]) -> None:
    with pytest.raises(InfeasibleError, match="no steady state"):
        loaded_ttft(points[0], points[0].max_rate)


def test_the_largest_rate_just_meets_the_target(points: list[OperatingPoint]) -> None:
    point = points[0]
    rate = largest_rate_within(point, Target(6.0))
    assert loaded_ttft(point, rate).ttft_s.p90 == pytest.approx(6.0, rel=1e-3)
    assert largest_rate_within(point, Target(3.0)) == 0.0
    rates = [largest_rate_within(point, Target(seconds)) for seconds in (4.0, 5.0, 8.0, 20.0)]
    assert rates == sorted(rates)


def test_the_best_point_for_a_target_beats_every_other_split(points: list[OperatingPoint]) -> None:
    best, rate = best_for_target(points, Target(6.0))
    assert rate == pytest.approx(largest_rate_within(best, Target(6.0)))
    assert all(rate >= largest_rate_within(point, Target(6.0)) - 1e-9 for point in points)


def test_a_target_below_one_prompts_service_time_is_infeasible_whatever_the_fleet() -> None:
    """No number of replicas meets a TTFT below the service time; what would help is said (dynamo#11624)."""
    for instances in (8, 800):
        with pytest.raises(InfeasibleError, match="no number of instances") as caught:
            plan(load_scenario("case-study", ["slo.ttft_p90_s=1", f"cluster.local.instances={instances}"]))
        for help_ in ("tensor parallelism", "shorter prompts", "a target of at least"):
            assert help_ in caught.value.relaxation


def test_a_plan_states_latency_at_the_load_and_the_rate_within_the_promise() -> None:
    found = plan(load_scenario("case-study", ["service_time=mean", "load=0.8", "slo.ttft_p90_s=6"]))
    assert found.loaded is not None
    assert found.within_ttft is not None
    assert found.loaded.rate_rps == pytest.approx(0.8 * found.lambda_max_rps)
    assert found.within_ttft.ttft_s.p90 == pytest.approx(6.0, rel=1e-3)
    assert found.within_ttft.rate_rps < found.lambda_max_rps
    assert plan(load_scenario("case-study")).loaded is None


def test_a_stated_rate_beyond_the_capacity_is_said() -> None:
    found = plan(load_scenario("case-study", ["workload.rate_rps=50"]))
    assert found.loaded is None
    assert any("50 req/s is more than" in note for note in found.notes)


@pytest.mark.parametrize("override", ["slo.ttft_p90_s=6", "load=0.99", "workload.rate_rps=3.2"])
def test_queues_take_the_mean_service_time_where_the_plan_takes_that_of_the_mean_length(override: str) -> None:
    """The paper's reading promises 3.25 req/s, at which the prefill pools would be loaded to more than 100 %."""
    found = plan(load_scenario("case-study", [override]))
    for latency in (found.loaded, found.within_ttft):
        if latency is not None:
            assert latency.load_fraction < 1.0
            assert steady(best_point(found)).max_rate == pytest.approx(latency.rate_rps / latency.load_fraction)
    if override.startswith("workload"):
        assert any("more than this deployment can serve" in note for note in found.notes)


def best_point(found: Plan) -> OperatingPoint:
    case = look_up(load_scenario("case-study"))
    system, instances = planned_system(case)
    prefill = next(p.instances for p in found.pools if (p.cluster, p.role) == ("local", "prefill"))
    return operate(system.split(prefill, instances - prefill), found.threshold_tokens)

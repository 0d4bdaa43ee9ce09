"""Simulated plans: the case study against its plan, policies side by side, and every setting."""

from __future__ import annotations

import csv
import io
import json
import math
from array import array
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prfaas_plan.errors import InputError
from prfaas_plan.latency import unloaded_ttft
from prfaas_plan.laws import Constant, LogNormal
from prfaas_plan.numerics import Curve
from prfaas_plan.queueing import Arrivals, Response, ServiceTimes, mixed_response, wait_in_pool
from prfaas_plan.routing import best_threshold
from prfaas_plan.scenario import load_scenario
from prfaas_plan.simulation.policies import BandwidthAware, Caches, Places, law_needs, sample_needs
from prfaas_plan.simulation.requests import Draw
from prfaas_plan.simulation.sampling import evaluate, lengths_at
from prfaas_plan.simulation.settings import (
    POLICIES,
    Failure,
    LinkEpisode,
    LoadStep,
    PrefixHits,
    RoleChange,
    Settings,
    settings_from,
)
from prfaas_plan.simulation.simulate import compare_policies, planned_point, simulate, simulate_point
from prfaas_plan.simulation.stations import Events, SharedLink, Station
from prfaas_plan.throughput import DecodePool, OperatingPoint, PrefillPool, System, operate
from prfaas_plan.trace.records import Trace
from prfaas_plan.units import GBPS

CASE = load_scenario("case-study", ["service_time=mean"])
POINT = planned_point(CASE)
LARGEST = POINT.max_rate


def small(threshold: int | None = 1000, **changes: Any) -> OperatingPoint:
    """A far pool twice as fast as the near one; 1000 tokens are 1 s near, and 1 s on the link."""
    system = System(
        law=Constant(1000.0),
        output_tokens=10.0,
        kv_bytes=Curve.polynomial(0.0, 1.0),
        link_bytes_per_s=1000.0,
        remote=PrefillPool("far", "a", 8, 1, Curve.polynomial(0.0, 5e-4)),
        local=PrefillPool("near", "b", 8, 1, Curve.polynomial(0.0, 1e-3)),
        decode=DecodePool("near", "b", 8, 2, 4, 0.1),
    )
    return operate(replace(system, **changes), threshold)


class TestCaseStudy:
    def test_an_idle_deployment_meets_the_predicted_time_to_first_token(self) -> None:
        result = simulate(CASE, 0.05 * LARGEST, requests=20_000, replications=8, confidence=0.99)
        predicted = unloaded_ttft(POINT).to_dict()
        assert result.stable
        assert {key: result.ttft_s[key].covers(value) for key, value in predicted.items()} == dict.fromkeys(
            predicted, True
        )
        assert result.offloaded_fraction.covers(POINT.long_share)

    def test_at_ninety_percent_it_is_stable_and_as_loaded_as_planned(self) -> None:
        result = simulate(CASE, 0.9 * LARGEST, requests=20_000, replications=5)
        assert result.stable
        assert result.served_rps.covers(0.9 * LARGEST)
        for pool, capacity in zip(result.pools, (LARGEST, LARGEST, POINT.decode_rate), strict=True):
            assert pool.load_fraction.value == pytest.approx(0.9 * LARGEST / capacity, rel=0.02)
        used = 0.9 * POINT.link_used_bytes_per_s / GBPS
        assert result.links[0].used_gbps.value == pytest.approx(used, rel=0.02)

    @pytest.mark.parametrize(("load", "requests"), [(0.5, 10_000), (0.9, 40_000)])
    def test_the_predicted_time_to_first_token_under_load_is_met(self, load: float, requests: int) -> None:
        """Within 10 % (mean) and 15 % (p90) of the interval, the accuracy stated for the approximation."""
        result = simulate(CASE, load * LARGEST, requests=requests, replications=5)
        predicted = self.loaded(load * LARGEST)
        assert result.ttft_s["mean"].covers(predicted.mean, slack=0.10)
        assert result.ttft_s["p90"].covers(predicted.p90, slack=0.15)

    @staticmethod
    def loaded(rate: float) -> Response:
        system, cut, share = POINT.system, float(POINT.threshold or 0), POINT.long_share
        assert system.remote is not None
        assert system.local is not None
        sending = system.kv_bytes.scaled(1.0 / system.link_bytes_per_s)
        far = ServiceTimes.of(system.law, system.remote.seconds, low=cut)
        near = ServiceTimes.of(system.law, system.local.seconds, high=cut)
        far_wait = wait_in_pool(Arrivals(rate * share), far, system.remote.instances)
        near_wait = wait_in_pool(Arrivals(rate * (1.0 - share)), near, system.local.instances)
        first_token = ServiceTimes.of(system.law, system.remote.seconds + sending, low=cut)
        return mixed_response([(share, far_wait, first_token), (1.0 - share, near_wait, near)])

    def test_at_a_hundred_and_ten_percent_it_is_not_stable(self) -> None:
        result = simulate(CASE, 1.1 * LARGEST, requests=10_000, replications=3)
        assert not result.stable
        assert result.growth_fraction.value == pytest.approx(1.0 - 1.0 / 1.1, abs=0.02)

    def test_throughput_at_saturation_is_the_largest_rate(self) -> None:
        result = simulate(CASE, 1.3 * LARGEST, requests=40_000, replications=3)
        assert result.served_rps.value == pytest.approx(LARGEST, rel=0.01)
        assert result.lambda_max_rps == LARGEST

    def test_naive_and_homogeneous_fleets_saturate_at_their_largest_rate_too(self) -> None:
        system = POINT.system
        for point in (
            operate(replace(system, local=None).split(0, 8), None),
            operate(replace(system, remote=None).split(9, 3), None),
        ):
            result = simulate_point(point, 1.3 * point.max_rate, Settings(requests=20_000, replications=3))
            assert result.served_rps.value == pytest.approx(point.max_rate, rel=0.01)
            assert not result.stable

    def test_a_link_drop_costs_a_bandwidth_aware_router_less(self) -> None:
        rate = 0.6 * LARGEST
        found = compare_policies(
            CASE,
            rate,
            ["static", "bandwidth-aware"],
            requests=int(3000 * rate),
            replications=6,
            episodes=[LinkEpisode(1000, 1600, 5)],
        )
        saved = found.savings[0]
        assert saved.affected_ttft_mean_s is not None
        assert saved.affected_ttft_mean_s.low is not None
        assert saved.affected_ttft_mean_s.low > 0.0
        static, aware = (r.affected_ttft_s for r in found.results)
        assert static is not None
        assert aware is not None
        assert aware["mean"].value < 0.75 * static["mean"].value

    def test_few_events_a_request(self) -> None:
        """Time is linear because each request is a bounded number of events."""
        from prfaas_plan.simulation.engine import Deployment, Engine
        from prfaas_plan.simulation.policies import Fixed

        made = []
        for count in (2_000, 20_000):
            requests, _ = Draw(POINT.system, Settings(requests=count), 0.9 * LARGEST).requests(0)
            engine = Engine(Deployment(3, 5, 4, 20, POINT.system.link_bytes_per_s), requests)
            engine.run(Fixed(engine.places, 19640.0))
            made.append(engine.events.made / count)
        assert made == pytest.approx([2.5, 2.5], abs=0.05)


class TestReproducible:
    def test_the_seed_gives_the_result(self) -> None:
        one, same, other = (simulate(CASE, 2.0, requests=2000, replications=2, seed=s).to_dict() for s in (7, 7, 8))
        assert one == same
        assert one["ttft_s"] != other["ttft_s"]

    def test_replications_are_different_and_policies_see_the_same_requests(self) -> None:
        found = compare_policies(CASE, 2.0, ["static", "least-loaded"], requests=500, replications=2, keep_times=True)
        (a, _), (b, _) = found.results[0].times
        assert not np.array_equal(a, b)
        assert np.array_equal(a, found.results[1].times[0][0])

    def test_progress_reaches_the_end(self) -> None:
        seen: list[tuple[int, int]] = []
        simulate(CASE, 2.0, requests=250, replications=2, progress=lambda done, total: seen.append((done, total)))
        assert seen[-1] == (500, 500)
        assert seen == sorted(seen)
        seen.clear()
        compare_policies(
            CASE, 2.0, ["static", "all-remote"], requests=250, replications=1, progress=lambda *a: seen.append(a)
        )
        assert seen[-1] == (500, 500)


class TestResult:
    def test_the_keys_of_the_interface(self) -> None:
        found = simulate(CASE, 2.0, requests=1000, replications=2).to_dict()
        assert {"requests", "served_rps", "stable", "ttft_s", "pools", "links"} <= found.keys()
        assert found["ttft_s"].keys() == {"mean", "p50", "p90", "p99"} == found["ttft_interval_s"].keys()
        assert [(p["cluster"], p["role"]) for p in found["pools"]] == [
            ("prfaas", "prefill"),
            ("local", "prefill"),
            ("local", "decode"),
        ]
        assert {"cluster", "role", "accelerator", "instances", "gpus", "load_fraction"} <= found["pools"][0].keys()
        assert {"from", "to", "usable_gbps", "used_gbps", "load_fraction"} <= found["links"][0].keys()
        json.dumps(found, allow_nan=False)

    def test_the_parts_add_up(self) -> None:
        found = simulate(CASE, 2.5, requests=3000, replications=2)
        assert sum(part.value for part in found.parts_s.values()) == pytest.approx(found.ttft_s["mean"].value)

    def test_the_time_line_counts_every_request(self) -> None:
        found = simulate(CASE, 2.0, requests=1000, replications=1, interval_s=30.0)
        rows = list(csv.DictReader(io.StringIO(found.time_line_csv())))
        assert sum(int(row["arrivals"]) for row in rows) == 1000
        assert [float(row["start_s"]) for row in rows] == [30.0 * k for k in range(len(rows))]
        assert all(0.0 <= float(row["link_load_fraction"]) <= 1.0 + 1e-9 for row in rows)
        assert {row["threshold_tokens"] for row in rows} == {str(float(POINT.threshold or 0))}

    @pytest.mark.parametrize("rate", [0.001, 0.3, 2.0])
    def test_the_time_line_has_round_intervals(self, rate: float) -> None:
        rows = simulate(CASE, rate, requests=300, replications=1).time_line
        assert 20 <= len(rows) <= 101
        assert rows[1].start_s in {2.0, 10.0, 15.0, 3600.0}
        assert sum(row.arrivals for row in rows) == 300

    def test_the_link_efficiency_is_shown(self) -> None:
        """Of a 100 Gbit/s fabric 87 were measured (kvcache-ai/Mooncake#434): an input, and in the result."""
        scenario = load_scenario("case-study", ["link.0.efficiency=0.87"])
        assert simulate(scenario, 1.0, requests=200, replications=1).links[0].usable_gbps == pytest.approx(87.0)

    def test_one_replication_has_no_interval(self) -> None:
        found = simulate(CASE, 1.0, requests=300, replications=1)
        assert found.to_dict()["ttft_interval_s"]["mean"] is None
        assert any("no confidence interval" in note for note in found.notes)


class TestPolicies:
    @pytest.mark.parametrize("policy", POLICIES)
    def test_every_policy_serves_every_request(self, policy: str) -> None:
        found = simulate(CASE, 0.8, requests=800, replications=2, policy=policy)
        assert found.unfinished.value == 0.0
        shares = {"all-remote": 1.0, "all-local": 0.0}
        assert found.offloaded_fraction.value == pytest.approx(shares.get(policy, found.offloaded_fraction.value))

    def test_without_trouble_the_bandwidth_aware_threshold_is_the_planned_one(self) -> None:
        found = simulate(CASE, 0.3, requests=400, replications=1, policy="bandwidth-aware")
        thresholds = [row.threshold_tokens for row in found.time_line if row.threshold_tokens is not None]
        assert np.median(thresholds) == pytest.approx(POINT.threshold or 0, rel=0.02)

    @pytest.mark.parametrize("gbps", [100.0, 10.0, 5.0, 2.0])
    def test_the_search_finds_the_best_threshold_of_the_rate_there_is(self, gbps: float) -> None:
        system = replace(POINT.system, link_bytes_per_s=gbps * GBPS)
        router = self.router(system, Settings(local_limit=math.inf))
        router.choose(0.0, 0)
        assert router.threshold == pytest.approx(best_threshold(system), rel=0.02)

    def test_the_search_keeps_the_local_pool_within_its_limit(self) -> None:
        system = replace(POINT.system, link_bytes_per_s=1.0 * GBPS)
        router = self.router(system, Settings(local_limit=0.9), rate=LARGEST)
        router.choose(0.0, 0)
        assert system.local is not None
        load = LARGEST * system.law.expect(system.local.seconds, high=router.threshold) / system.local.instances
        assert 0.88 < load <= 0.9
        assert not router.abundant

    @staticmethod
    def router(system: System, chosen: Settings, rate: float = 1.0) -> BandwidthAware:
        assert system.remote is not None
        assert system.local is not None
        events = Events()
        remote, local = (Station(events, [1.0], pool.instances) for pool in (system.remote, system.local))
        places = Places(remote, local, SharedLink(events, system.link_bytes_per_s), [1000.0], [1.0])
        return BandwidthAware(places, law_needs(system), rate, chosen)

    def test_needs_of_a_sample_are_those_of_its_law(self) -> None:
        system = POINT.system
        assert system.remote is not None
        assert system.local is not None
        lengths = lengths_at(system.law, (np.arange(100_000) + 0.5) / 100_000)
        curves = (system.remote.seconds, system.local.seconds, system.kv_bytes)
        sample, law = sample_needs(lengths, *(evaluate(c, lengths) for c in curves)), law_needs(system)
        for mine, exact in ((sample.remote_s, law.remote_s), (sample.local_s, law.local_s)):
            at = np.interp(law.thresholds, sample.thresholds, mine)
            assert at == pytest.approx(exact, abs=2e-3)
        assert sample.link_bytes[0] == pytest.approx(law.link_bytes[0], rel=1e-3)
        assert (sample.remote_s[-1], sample.local_s[0], law.local_s[0]) == (0.0, 0.0, 0.0)

    def test_a_cluster_without_instances_is_left_out(self) -> None:
        found = simulate(load_scenario("case-study", ["cluster.prfaas.instances=0"]), 0.8, requests=300, replications=2)
        assert found.offloaded_fraction.value == 0.0
        assert found.stable

    def test_a_missing_pool_leaves_no_choice(self) -> None:
        point = operate(replace(POINT.system, local=None).split(0, 8), None)
        found = simulate_point(point, 1.0, Settings(requests=100, replications=1, policy="least-loaded"))
        assert found.offloaded_fraction.value == 1.0
        with pytest.raises(InputError, match="no local prefill pool"):
            simulate_point(point, 1.0, Settings(requests=100, policy="all-local"))


class TestTraffic:
    def test_bursts_wait_longer(self) -> None:
        calm = simulate(CASE, 2.2, requests=5000, replications=3)
        for kind in ("gamma", "hyperexponential"):
            bursty = simulate(CASE, 2.2, requests=5000, replications=3, arrivals=kind, arrival_cv=3.0)
            assert bursty.ttft_s["mean"].value > calm.ttft_s["mean"].value + 1.0

    def test_a_rate_that_changes(self) -> None:
        chosen = Settings(requests=20_000, replications=1, interval_s=1000.0)
        steps = (LoadStep(2000.0, 3.0), LoadStep(4000.0, 0.5))
        rows = simulate_point(POINT, 1.0, replace(chosen, load_steps=steps)).time_line
        for row, expected in zip(rows, [1000, 1000, 3000, 3000, 500, 500], strict=False):
            assert row.arrivals == pytest.approx(expected, abs=5.0 * math.sqrt(expected))

    def test_geometric_outputs_keep_their_mean(self) -> None:
        found = simulate(CASE, 1.0, requests=4000, replications=4, output="geometric")
        ttft, answer = found.ttft_s["mean"].value, 1024 * 0.025
        assert found.response_s.covers(ttft + answer, slack=0.01)

    def test_users_in_a_closed_loop(self) -> None:
        """With no queue a user asks every think + first token + answer seconds."""
        point = small()
        chosen = Settings(requests=3000, replications=3, arrivals="closed", users=1, think_s=5.0)
        found = simulate_point(point, None, chosen)
        assert found.rps is None
        assert found.served_rps.value == pytest.approx(1.0 / (5.0 + 1.0 + 1.0), rel=0.03)

    def test_a_trace_is_replayed_at_the_asked_rate(self) -> None:
        trace = Trace(
            "t", "own", array("i", [1000] * 4), array("i", [10, 20, 30, 40]), array("d", [0.0, 1.0, 2.0, 9.0])
        )
        chosen = Settings(arrivals="trace", trace=trace, output="trace", keep_times=True, warmup_fraction=0.0)
        found = simulate_point(small(), None, chosen)
        assert (found.requests, found.replications, found.rps) == (4, 1, pytest.approx(1 / 3))
        arrived, first = found.times[0]
        assert arrived.tolist() == [0.0, 1.0, 2.0, 9.0]
        assert (first - arrived).tolist() == pytest.approx([1.0, 1.0, 1.0, 1.0])
        assert found.response_s.value == pytest.approx(1.0 + 0.1 * 25)
        faster = simulate_point(small(), 1.0, chosen)
        assert faster.times[0][0].tolist() == pytest.approx([0.0, 1 / 3, 2 / 3, 3.0])


class TestTrouble:
    def test_a_failure_is_felt_and_passes(self) -> None:
        calm = simulate(CASE, 2.0, requests=4000, replications=2)
        failed = simulate(
            CASE, 2.0, requests=4000, replications=2, failures=[Failure("prfaas", "prefill", 2, 500.0, 900.0)]
        )
        assert failed.affected_ttft_s is not None
        assert failed.affected_ttft_s["mean"].value > 2.0 * calm.ttft_s["mean"].value
        assert failed.unfinished.value == 0.0

    def test_decode_instances_that_fail_have_their_requests_prefilled_again(self) -> None:
        found = simulate(CASE, 2.0, requests=3000, replications=2, failures=[Failure("local", "decode", 4, 500, 700)])
        assert found.unfinished.value == 0.0
        assert found.parts_s["decode_wait"].value > 0.0

    def test_a_link_that_never_comes_back_is_not_stable(self) -> None:
        found = simulate(CASE, 1.0, requests=1000, replications=2, episodes=[LinkEpisode(500.0, math.inf, 0.0)])
        assert not found.stable
        assert found.unfinished.value > 100
        plain = found.to_dict()
        assert plain["ttft_s"]["mean"] is None
        json.dumps(plain, allow_nan=False)

    def test_a_role_change_moves_load(self) -> None:
        """All prompts prefill locally: two of five decode instances are worth more as prefill instances."""
        point = operate(replace(POINT.system, remote=None).split(3, 5), None)
        chosen = Settings(requests=4000, replications=2, warmup_fraction=0.3)
        before = simulate_point(point, 0.95, chosen)
        after = simulate_point(point, 0.95, replace(chosen, role_changes=(RoleChange(100.0, "prefill", 2, 30.0),)))
        assert not before.stable
        assert after.stable
        assert after.pools[0].load_fraction.value == pytest.approx(0.95 * 4.447 / 5, rel=0.05)

    def test_layerwise_transfer_hides_most_of_it(self) -> None:
        with pytest.raises(InputError, match="layers of kimi-linear-1t-paper are not published"):
            simulate(CASE, 1.0, transfer="overlapped")
        with pytest.raises(InputError, match="layers: missing"):
            simulate_point(POINT, 1.0, Settings(transfer="overlapped"))
        serial = simulate(CASE, 0.5, requests=2000, replications=2)
        layered = simulate(CASE, 0.5, requests=2000, replications=2, transfer="overlapped", layers=15)
        assert layered.parts_s["transfer"].value == pytest.approx(serial.parts_s["transfer"].value / 15, rel=0.1)


class TestPrefixCaches:
    def test_hits_spare_work(self) -> None:
        chosen = Settings(requests=3000, replications=2, policy="bandwidth-aware")
        none = simulate(CASE, 2.0, chosen)
        some = simulate(CASE, 2.0, chosen, prefix=PrefixHits(0.5, 0.5))
        assert some.ttft_s["mean"].value < 0.7 * none.ttft_s["mean"].value
        assert some.links[0].used_gbps.value < none.links[0].used_gbps.value

    def test_no_hits_change_nothing(self) -> None:
        plain = simulate(CASE, 2.0, requests=1000, replications=2).runs
        assert simulate(CASE, 2.0, requests=1000, replications=2, prefix=PrefixHits()).runs == plain

    @pytest.mark.parametrize(
        ("near", "far", "remote", "move", "expected"),
        [
            (30.0, 60.0, True, False, (40.0, 70.0, 0.0)),  # bandwidth scarce: each cluster alone
            (60.0, 30.0, True, False, (70.0, 40.0, 0.0)),
            (30.0, 60.0, False, False, (70.0, 0.0, 0.0)),
            (60.0, 30.0, True, True, (40.0, 40.0, 0.0)),  # abundant: the longer cache comes along
            (30.0, 60.0, False, True, (40.0, 0.0, 30.0)),
            (60.0, 30.0, False, True, (40.0, 0.0, 0.0)),
        ],
    )
    def test_the_scarce_and_the_abundant_rule(
        self, near: float, far: float, remote: bool, move: bool, expected: tuple[float, float, float]
    ) -> None:
        """Of a prompt of 100 tokens: what is computed, sent after prefill, and sent before it."""
        caches = Caches(PrefixHits(), [100.0], ([near], [far]))
        assert caches.settle(0, remote, move) == expected
        assert caches.left_locally(0) == 100.0 - near
        assert caches.left_anywhere(0) == 100.0 - max(near, far)

    def test_a_moved_prefix_crosses_the_link_before_prefill(self) -> None:
        """600 of 1000 tokens come over the link in 0.6 s, the other 400 prefill in 0.4 s."""
        chosen = Settings(requests=1, replications=1, warmup_fraction=0.0, keep_times=True, policy="bandwidth-aware")
        far = replace(chosen, prefix=PrefixHits(0.0, 0.6))
        point = small(link_bytes_per_s=1000.0)
        found = simulate_point(point, 0.001, far)
        arrived, first = found.times[0]
        assert (first - arrived).tolist() == pytest.approx([1.0])
        assert found.offloaded_fraction.value == 0.0

    def test_blocks_of_a_trace(self) -> None:
        """Three requests of 1000 tokens in blocks of 250, all local: the second shares two blocks, the third all."""
        ids = array("q", [1, 2, 3, 4, 1, 2, 5, 6, 1, 2, 5, 6])
        trace = Trace(
            "t",
            "own",
            array("i", [1000] * 3),
            array("i", [10] * 3),
            array("d", [0.0, 10.0, 20.0]),
            block_tokens=250,
            block_ids=ids,
            block_ends=array("q", [4, 8, 12]),
        )
        chosen = Settings(
            arrivals="trace",
            trace=trace,
            keep_times=True,
            warmup_fraction=0.0,
            policy="all-local",
            prefix=PrefixHits(from_blocks=True),
        )
        arrived, first = simulate_point(small(), None, chosen).times[0]
        assert (first - arrived).tolist() == pytest.approx([1.0, 0.5, 0.001])
        limited = replace(chosen, prefix=PrefixHits(from_blocks=True, pool_blocks=1))
        arrived, first = simulate_point(small(), None, limited).times[0]
        assert (first - arrived).tolist() == pytest.approx([1.0, 0.75, 0.75])


class TestFaults:
    def test_all_faults_at_once(self) -> None:
        with pytest.raises(InputError) as caught:
            settings_from(
                None,
                {
                    "policy": "statik",
                    "requests": 0,
                    "arrivals": "poisson",
                    "arrival_cv": 2.0,
                    "episodes": [LinkEpisode(5.0, 1.0, -1.0)],
                    "failures": [Failure("local", "prefil", 0, 0.0, 1.0)],
                    "role_changes": [RoleChange(-1.0, "decode", 1)],
                    "load_steps": [LoadStep(5.0, 1.0), LoadStep(5.0, 0.0)],
                    "prefix": PrefixHits(1.5),
                    "warmup_fraction": 1.0,
                    "output": "trace",
                },
            )
        keys = {fault.key for fault in caught.value.faults}
        assert keys == {
            "policy",
            "requests",
            "arrival_cv",
            "episodes.0.end_s",
            "episodes.0.usable_gbps",
            "failures.0.role",
            "failures.0.instances",
            "role_changes.0.at_s",
            "load_steps.1.start_s",
            "load_steps.1.factor",
            "prefix.local_fraction",
            "warmup_fraction",
            "trace",
        }
        assert next(f for f in caught.value.faults if f.key == "policy").suggestion == "static"

    def test_unknown_settings_are_named(self) -> None:
        with pytest.raises(InputError, match="did you mean 'requests'"):
            simulate(CASE, 1.0, request=100)

    @pytest.mark.parametrize("rate", [None, 0.0, -1.0, math.inf, math.nan])
    def test_a_rate_is_needed(self, rate: float | None) -> None:
        with pytest.raises(InputError, match="rps"):
            simulate(CASE, rate, requests=10)

    def test_a_failure_needs_a_pool_of_the_plan(self) -> None:
        with pytest.raises(InputError, match=r"prefill at local.*did you mean 'prfaas'"):
            simulate(CASE, 1.0, requests=10, failures=[Failure("prfas", "prefill", 1, 0.0, 1.0)])

    def test_more_instances_than_there_are(self) -> None:
        failure, change = Failure("prfaas", "prefill", 5, 0.0, 1.0), RoleChange(0.0, "decode", 9)
        with pytest.raises(InputError, match="the plan has 4 instances there"):
            simulate(CASE, 1.0, requests=10, failures=[failure])
        with pytest.raises(InputError, match="the local cluster has 8 instances"):
            simulate(CASE, 1.0, requests=10, role_changes=[change])

    def test_a_trace_without_what_is_asked(self) -> None:
        trace = Trace("t.csv", "own", array("i", [10]), array("i"))
        with pytest.raises(InputError) as caught:
            settings_from(
                None,
                {"arrivals": "trace", "trace": trace, "output": "trace", "prefix": PrefixHits(from_blocks=True)},
            )
        assert len(caught.value.faults) == 3

    def test_the_smallest_run(self) -> None:
        found = simulate(CASE, 1.0, requests=1, replications=1)
        assert found.ttft_s["mean"].value > 0.0
        json.dumps(found.to_dict(), allow_nan=False)


def test_a_heavy_tail_is_simulated_as_it_is() -> None:
    point = small(law=LogNormal(mu=6.0, sigma=1.5), threshold=10_000_000)
    found = simulate_point(point, 0.05, Settings(requests=2000, replications=3))
    assert found.stable


spans = st.tuples(st.floats(0.0, 300.0), st.floats(1.0, 200.0)).map(lambda s: (s[0], s[0] + s[1]))
episodes = st.builds(lambda s, rate: LinkEpisode(*s, rate), spans, st.sampled_from([0.0, 1.0, 20.0, 1000.0]))
failures = st.builds(
    lambda where, count, s: Failure(*where, count, *s),
    st.sampled_from([("prfaas", "prefill"), ("local", "prefill"), ("local", "decode")]),
    st.integers(1, 3),
    spans,
)
changes = st.builds(RoleChange, st.floats(0.0, 300.0), st.sampled_from(["prefill", "decode"]), st.integers(1, 2))
combinations = st.builds(
    Settings,
    requests=st.just(150),
    replications=st.just(1),
    seed=st.integers(0, 99),
    policy=st.sampled_from(POLICIES),
    arrivals=st.sampled_from(["poisson", "gamma", "hyperexponential", "closed"]),
    users=st.just(20),
    think_s=st.just(10.0),
    output=st.sampled_from(["constant", "geometric"]),
    transfer=st.sampled_from(["serial", "overlapped"]),
    layers=st.just(4),
    sharing=st.sampled_from(["fifo", "fair"]),
    episodes=st.lists(episodes, max_size=2).map(tuple),
    failures=st.lists(failures, max_size=3).map(tuple),
    role_changes=st.lists(changes, max_size=2).map(tuple),
    prefix=st.none() | st.builds(PrefixHits, st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(0.0, 1.0)),
    warmup_fraction=st.sampled_from([0.0, 0.1, 0.9]),
)


@settings(max_examples=80, deadline=None)
@given(combinations, st.floats(0.1, 5.0))
def test_everything_together(chosen: Settings, rate: float) -> None:
    """Requests are served unless a pool is gone for good, in times that make sense, and the result can be written."""
    found = simulate_point(POINT, rate, chosen)
    plain = found.to_dict()
    json.dumps(plain, allow_nan=False)
    assert sum(row.arrivals for row in found.time_line) == (150 if chosen.arrivals != "closed" else found.requests)
    assert 0.0 <= found.offloaded_fraction.value <= 1.0
    for pool in found.pools:
        assert math.isnan(pool.load_fraction.value) or pool.load_fraction.value >= 0.0
    if not chosen.role_changes:
        assert found.unfinished.value == 0.0
        shortest = POINT.system.remote.seconds(1.0) if POINT.system.remote else 0.0
        assert found.ttft_s["mean"].value >= shortest - 1e-9
        assert found.response_s.value >= found.ttft_s["mean"].value - 1e-9
    if not (chosen.failures or chosen.role_changes):
        assert all(part.value >= -1e-9 for part in found.parts_s.values())
        assert sum(part.value for part in found.parts_s.values()) == pytest.approx(found.ttft_s["mean"].value)
        assert all(-1e-9 <= pool.load_fraction.value <= 1.0 + 1e-9 for pool in found.pools if found.requests > 1)

"""Sweeps equal single plans, however they are computed; draws and fronts are what they say."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import random
import re
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prfaas_plan.errors import InfeasibleError, InputError, PlanError, ProfileNotFoundError
from prfaas_plan.fleet.planner import fleet_plan
from prfaas_plan.planner import plan
from prfaas_plan.reports.sweeps import report_monte_carlo, report_sweep, report_tornado
from prfaas_plan.scenario import Scenario, load_scenario
from prfaas_plan.whatif.cases import METRICS, row_of_plan
from prfaas_plan.whatif.record import SweepResult
from prfaas_plan.whatif.sweeps import monte_carlo, pareto, sweep, tornado
from prfaas_plan.whatif.vary import read_axes, read_axis, read_distribution
from prfaas_plan.writers.plain import write_csv, write_json, write_markdown
from prfaas_plan.writers.terminal import write_terminal

PRICES = ["cluster.local.price_usd_per_gpu_hour=1,1.5", "cluster.prfaas.price_usd_per_gpu_hour=2:3:2"]


@pytest.fixture(scope="module")
def base() -> Scenario:
    return load_scenario("case-study")


def alone(base: Scenario, result: SweepResult, row: dict[str, Any]) -> tuple[Any, ...]:
    scenario = base
    for path in result.varied:
        scenario = scenario.replace(path, row[path])
    try:
        return row_of_plan(plan(scenario))
    except PlanError as error:
        return (*(None for _ in METRICS[:-1]), str(error))


def assert_rows_equal_plans(base: Scenario, result: SweepResult, count: int = 25) -> None:
    rows = result.to_rows()
    for row in random.Random(1).sample(rows, min(count, len(rows))):
        assert tuple(row[name] for name in METRICS) == alone(base, result, row)


@pytest.mark.parametrize(
    "vary",
    [
        ["link.0.bandwidth_gbps=0.01:1000:6:log", "cluster.local.instances=1:12:4", "cluster.prfaas.instances=0:8:3"],
        ["workload.input_tokens.mu=8:11:7", "workload.input_tokens.sigma=0.3,1,2", "service_time=mean,at-mean-length"],
        ["workload.input_tokens.min=1,128", "workload.input_tokens.max=32Ki,1M", "link.0.bandwidth_gbps=2:20:5"],
        ["slo.tokens_per_second=10:40:4", "workload.output_tokens=64,1024,8192", "link.0.efficiency=0.1,0.9", *PRICES],
        ["workload.input_tokens=1000,8k,{law='histogram',edges=[100,5000,90000],weights=[2,1]}",
         "link.0.loss=0,0.1", "cluster.prfaas.instances=1,2,3,4"],
        ["model=mimo-v2-flash", "workload.output_tokens=256,4096", "workload.input_tokens.mu=9,10.5",
         "cluster.prfaas.instances=2,4,6", "slo.tokens_per_second=30,40"],
        ["model=kimi-linear-1t-paper,kimi-linear-48b-a3b", "cluster.local.role=pd,decode", "link.0.bandwidth_gbps=1,9"],
    ],
)  # fmt: skip
def test_rows_equal_single_plans_exactly(base: Scenario, vary: list[str]) -> None:
    assert_rows_equal_plans(base, sweep(base, vary))


@settings(max_examples=8, deadline=None)
@given(
    gbps=st.lists(st.floats(0.05, 2000), min_size=9, max_size=12, unique=True),
    mu=st.floats(7.5, 11),
    sigma=st.floats(0.2, 2.0),
    remote=st.integers(1, 9),
    local=st.integers(1, 11),
)
def test_rows_equal_single_plans_anywhere(
    base: Scenario, gbps: list[float], mu: float, sigma: float, remote: int, local: int
) -> None:
    vary = [
        "link.0.bandwidth_gbps=" + ",".join(map(repr, gbps)),
        f"workload.input_tokens.mu={mu!r}",
        f"workload.input_tokens.sigma={sigma!r}",
        f"cluster.prfaas.instances={remote}",
        f"cluster.local.instances={local}",
    ]
    assert_rows_equal_plans(base, sweep(base, vary), 4)


def test_a_process_pool_gives_the_same_bytes(base: Scenario) -> None:
    vary = ["link.0.bandwidth_gbps=1:100:30:log", "cluster.local.instances=4:13:10"]
    one = write_json("sweep", sweep(base, vary).to_dict())
    with ProcessPoolExecutor(2) as pool:
        assert write_json("sweep", sweep(base, vary, executor=pool).to_dict()) == one
    with ThreadPoolExecutor(3) as pool:
        assert write_json("sweep", sweep(base, vary, executor=pool).to_dict()) == one


def test_ten_thousand_cases_take_less_than_three_seconds_of_cpu(base: Scenario) -> None:
    started = time.process_time()
    result = sweep(base, ["link.0.bandwidth_gbps=1:100:25:log", "cluster.local.instances=4:13:10",
                          "cluster.prfaas.instances=1:8:8", "workload.output_tokens=512:4096:5"])  # fmt: skip
    assert time.process_time() - started < 3.0
    assert len(result) == 10_000
    assert_rows_equal_plans(base, result, 10)


def assert_close(fast: SweepResult, exact: SweepResult) -> None:
    for name in METRICS:
        for a, b in zip(fast.column(name), exact.column(name), strict=True):
            assert type(a) is type(b), name
            assert a == pytest.approx(b, rel=1e-12) if isinstance(b, float) else a == b, name


@pytest.mark.parametrize(
    "vary",
    [
        ["link.0.bandwidth_gbps=0.01:1000:40:log", "cluster.local.instances=1:12:6", "cluster.prfaas.instances=0:8:5"],
        ["service_time=mean,at-mean-length", "link.0.bandwidth_gbps=1:200:300:log", "workload.output_tokens=512,2048",
         "cluster.local.price_usd_per_gpu_hour=1,1.5", "cluster.prfaas.price_usd_per_gpu_hour=2,3"],
        ["workload.input_tokens.mu=9,9.9", "link.0.efficiency=0.001:1:600"],
        ["model=mimo-v2-flash", "link.0.bandwidth_gbps=1:100:400:log", "workload.output_tokens=256,4096"],
    ],
)  # fmt: skip
def test_the_fast_way_agrees_to_the_twelfth_digit(base: Scenario, vary: list[str]) -> None:
    assert_close(sweep(base, vary, fast=True), sweep(base, vary))


def test_the_fast_way_gives_the_same_in_parts(base: Scenario) -> None:
    vary = ["link.0.bandwidth_gbps=1:200:2500:log", "workload.output_tokens=512,2048"]
    with ThreadPoolExecutor(2) as pool:
        assert_close(sweep(base, vary, fast=True, executor=pool), sweep(base, vary, fast=True))


def test_two_hundred_thousand_cases_at_once(base: Scenario) -> None:
    vary = ["link.0.bandwidth_gbps=1:100:100:log", "cluster.local.instances=4:13:10",
            "cluster.prfaas.instances=1:10:10", "workload.output_tokens=100:10000:20:log"]  # fmt: skip
    started = time.process_time()
    result = sweep(base, vary, fast=True)
    assert time.process_time() - started < 6.0  # a fifth of a million in a fifth of 30 s
    assert len(result) == 200_000
    rows = [dict(zip(result.columns, (result.columns[n][i] for n in result.columns), strict=True)) for i in (7, 12345)]
    for row in rows:
        expected = alone(base, result, {k: v.item() if hasattr(v, "item") else v for k, v in row.items()})
        assert row["lambda_max_rps"] == pytest.approx(expected[0], rel=1e-12)
        assert row["threshold_tokens"] == expected[1]


def test_zip_takes_one_value_of_each(base: Scenario) -> None:
    result = sweep(base, ["cluster.local.instances=6,8,10", "cluster.prfaas.instances=2,4,6"], mode="zip")
    assert [(r["cluster.local.instances"], r["cluster.prfaas.instances"]) for r in result.rows()] == [
        (6, 2), (8, 4), (10, 6)]  # fmt: skip
    assert_rows_equal_plans(base, result)


def test_fleets_and_promised_first_tokens_are_planned_whole(base: Scenario) -> None:
    result = sweep(base, ["objective=throughput,gpus", "workload.rate_rps=2", "cluster.prfaas.instances=3,4"])
    for row in result.rows():
        scenario = base
        for path in result.varied:
            scenario = scenario.replace(path, row[path])
        own = fleet_plan(scenario) if scenario.is_fleet else plan(scenario)
        assert tuple(row[name] for name in METRICS) == row_of_plan(own)
    assert_rows_equal_plans(base, sweep(base, ["slo.ttft_p90_s=6,12", "link.0.bandwidth_gbps=10,100"]), 4)


def test_progress_reaches_the_end(base: Scenario) -> None:
    seen: list[tuple[int, int]] = []
    sweep(base, ["link.0.bandwidth_gbps=1:9:9"], progress=lambda done, all_: seen.append((done, all_)))
    assert seen[-1] == (9, 9)


def test_a_case_without_a_plan_says_why(base: Scenario) -> None:
    rows = sweep(base, ["cluster.prfaas.accelerator=h200-sxm,b200-sxm"]).to_rows()
    assert rows[0]["error"] is None
    assert rows[1]["lambda_max_rps"] is None
    assert "b200-sxm" in rows[1]["error"]
    nothing = sweep(base, ["cluster.local.instances=0,8"]).to_rows()
    assert "0 instances" in nothing[0]["error"]


@pytest.mark.parametrize(
    ("vary", "words"),
    [
        (["link.0.bandwidth_gbps"], "expected PATH="),
        (["link.0.bandwidth_gbps="], "expected PATH="),
        (["link.0.bandwidth_gbps=1,,2"], "empty value"),
        (["link.0.bandwidth_gbps=1:2:0"], "count of at least 1"),
        (["link.0.bandwidth_gbps=0:2:3:log"], "above 0"),
        (["link.0.bandwidth_gbps=-1,2"], "at least 0"),
        (["cluster.locl.instances=1,2"], "did you mean 'local'"),
        (["cluster.local.instanecs=1,2"], "did you mean 'instances'"),
        (["workload.input_tokens.mean=1,2"], "workload.input_tokens.mean"),
        (["link.0.efficiency=1,2", "cluster.local.instances=1.5,x"], "link.0.efficiency = 2"),
        (["link.0.loss=0,0.1", "link.0.loss=0"], "varied twice"),
        (["link.0.loss=0:0.4:5000", "link.0.efficiency=0.1:1:9999"], "are more than"),
    ],
)
def test_what_cannot_be_varied_is_said_before_anything_is_computed(base: Scenario, vary: list[str], words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        sweep(base, vary)


def test_a_misspelt_profile_is_an_error_with_the_nearest_name(base: Scenario) -> None:
    with pytest.raises(ProfileNotFoundError, match="h200-sxm"):
        sweep(base, ["cluster.prfaas.accelerator=h200-sxm,h200-sxn"])


def test_a_zip_of_unequal_lengths_is_refused(base: Scenario) -> None:
    with pytest.raises(InputError, match="as many values"):
        sweep(base, ["link.0.loss=0,0.1", "link.0.efficiency=1"], mode="zip")


@given(st.floats(0.01, 100), st.floats(0.01, 100), st.integers(2, 50), st.booleans())
def test_ranges_are_those_of_numpy(start: float, stop: float, count: int, log: bool) -> None:
    values = read_axis(f"a={start!r}:{stop!r}:{count}" + (":log" if log else "")).values
    expected = np.geomspace(start, stop, count) if log else np.linspace(start, stop, count)
    assert values == pytest.approx(expected, rel=1e-9)
    assert (values[0], values[-1]) == (start, stop)


def test_specs_may_hold_tables_tokens_and_texts() -> None:
    assert read_axis("workload.input_tokens={law='constant', tokens=8000},32k").values == (
        {"law": "constant", "tokens": 8000}, "32k")  # fmt: skip
    assert read_axis("workload.output_tokens=1k:2k:3").values == (1000.0, 1500.0, 2000.0)
    assert len(read_axes(["a=1,2,3", "b=x,y"])) == 6


def test_tornado_puts_the_widest_first_and_holds_all_else(base: Scenario) -> None:
    result = tornado(base)
    swings = [bar["swing"] for bar in result.bars]
    assert swings == sorted(swings, reverse=True)
    assert result.base == plan(base).lambda_max_rps
    bar = next(b for b in result.bars if b["input"] == "cluster.prfaas.instances")
    assert bar["high"] == plan(base.replace("cluster.prfaas.instances", 5)).lambda_max_rps


def test_draws_follow_their_law_and_their_seed(base: Scenario) -> None:
    beliefs = ["workload.output_tokens=uniform(1000, 2000)", "link.0.bandwidth_gbps=lognormal(20, 0.5)"]
    first, again = (monte_carlo(base, beliefs, samples=400, seed=7) for _ in range(2))
    assert first.to_dict() == again.to_dict()
    drawn = np.array(first.result.column("workload.output_tokens"))
    assert np.median(np.log(first.result.column("link.0.bandwidth_gbps"))) == pytest.approx(math.log(20), abs=0.1)
    assert (drawn.min() >= 1000, drawn.max() <= 2000) == (True, True)
    rates = first.result.column("lambda_max_rps")
    for name, level in (("p10", 10), ("p50", 50), ("p90", 90)):
        assert first.percentiles["lambda_max_rps"][name] == pytest.approx(np.percentile(rates, level), rel=1e-12)
    assert_rows_equal_plans(base, first.result, 5)


@pytest.mark.parametrize("written", ["a", "a=gamma(1,2)", "a=uniform(1)", "a=uniform(2,1)", "a=normal(x,1)"])
def test_a_distribution_that_cannot_be_read(written: str) -> None:
    with pytest.raises(InputError, match="expected"):
        read_distribution(written)


def test_no_case_beats_one_of_the_front(base: Scenario) -> None:
    result = sweep(base, ["cluster.prfaas.instances=1:8:8", "cluster.local.instances=4:12:9"])
    front = pareto(result, "gpus", "lambda_max_rps").to_rows()
    for row in result.rows():
        beaten = [f for f in front if f["gpus"] <= row["gpus"] and f["lambda_max_rps"] >= row["lambda_max_rps"]]
        assert beaten
    assert all(a["gpus"] < b["gpus"] and a["lambda_max_rps"] < b["lambda_max_rps"] for a, b in pairwise(front))


def test_results_show_themselves(base: Scenario) -> None:
    result = sweep(base, ["link.0.bandwidth_gbps=10,100"])
    assert repr(result).startswith("<SweepResult case-study: 2 cases of link.0.bandwidth_gbps")
    assert "<table>" in result._repr_html_()
    with pytest.raises(AttributeError):
        result.mode = "zip"  # type: ignore[misc]
    with pytest.raises(TypeError):
        result.columns["x"] = ()  # type: ignore[index]


def test_reports_fit_eighty_columns_and_name_what_was_varied(base: Scenario) -> None:
    result = sweep(base, ["link.0.bandwidth_gbps=1:100:100:log", "cluster.local.instances=6,8"])
    drawn = monte_carlo(base, ["workload.output_tokens=choice(512, 1024)"], samples=20)
    for document in (report_sweep(result), report_tornado(tornado(base)), report_monte_carlo(drawn)):
        shown = write_terminal(document)
        assert max(map(len, shown.splitlines())) <= 80
        assert write_markdown(document)
    assert "rate against link.0.bandwidth_gbps" in write_terminal(report_sweep(result))
    assert len(write_csv(report_sweep(result)).splitlines()) == 201
    assert json.loads(write_json("sweep", result.to_dict()))["rows"][0]["link.0.bandwidth_gbps"] == 1.0


def test_names_are_harmless_in_every_format(base: Scenario) -> None:
    evil = "=cmd|'/C calc'!A0 <script>alert(1)</script> \x1b[31m \u202e | `x`"
    clusters = (dataclasses.replace(base.cluster[0], name=evil), base.cluster[1])
    scenario = dataclasses.replace(
        base, name=evil, cluster=clusters, link=(dataclasses.replace(base.link[0], origin=evil),)
    )
    result = sweep(scenario, ["link.0.bandwidth_gbps=5,100", "cluster.0.accelerator=h200-sxm,b200-sxm"])
    for text in (write_terminal(report_sweep(result)), write_markdown(report_sweep(result)), result._repr_html_(),
                 write_csv(report_sweep(result)), write_terminal(report_tornado(tornado(scenario)))):  # fmt: skip
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "<script>" not in result._repr_html_()
    assert "<script>" not in write_markdown(report_sweep(result)).replace("\\<", "")
    rows = list(csv.reader(io.StringIO(write_csv(report_sweep(result)))))
    assert not [cell for row in rows for cell in row if cell.startswith(("=", "+", "@"))]
    assert json.loads(write_json("sweep", result.to_dict()))["scenario"] == evil


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("1:inf:4", "finite"),
        ("nan:10:4:log", "finite"),
        ("1:10:1000000000", "at most 20,000,000"),
        ("1:10:2.5", "count of at least 1"),
    ],
)
def test_a_range_has_finite_ends_and_a_bounded_count(spec: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        read_axis(f"link.0.bandwidth_gbps={spec}")


@pytest.mark.parametrize(
    ("inputs", "samples", "problem"),
    [
        (["link.0.bandwidth_gbps=uniform(1, 2)"], 10**11, "1,000,000 draws"),
        ([], 10, "missing"),
        (["link.0.bandwidth_gbps=uniform(1, 2)"] * 2, 10, "varied twice"),
        (["cluster.local.instances=choice(1, 10,)"], 10, "empty value"),
        (["cluster.local.instances=choice()"], 10, "empty value"),
    ],
)
def test_draws_that_cannot_be_are_refused(base: Scenario, inputs: list[str], samples: int, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        monte_carlo(base, inputs, samples=samples)


def test_words_are_no_result_to_compare_or_plot(base: Scenario) -> None:
    result = sweep(base, ["link.0.bandwidth_gbps=1,10"])
    for attempt in (
        lambda: pareto(result, "gpus", "bottleneck"),
        lambda: result.best("error"),
        lambda: report_sweep(result, y="bottleneck"),
        lambda: tornado(base, ["link.0.bandwidth_gbps=1,10"], metric="bottleneck"),
    ):
        with pytest.raises(InputError, match="holds words"):
            attempt()
    with pytest.raises(InputError, match="no case has both"):
        pareto(result, "cost_usd_per_hour", "lambda_max_rps")


def test_a_result_without_a_number_says_what_is_missing(base: Scenario) -> None:
    document = report_sweep(sweep(base, ["link.0.bandwidth_gbps=1,10"]), y="cost_usd_per_hour")
    assert "None" not in document.headline[1]
    assert any("prices" in note for note in document.notes)


def test_the_same_fault_is_said_once_and_many_are_counted(base: Scenario) -> None:
    with pytest.raises(InputError) as caught:
        sweep(base, ["link.0.bandwith=1,2,3"])
    assert len(caught.value.faults) == 1
    with pytest.raises(InputError) as caught:
        sweep(base, ["link.0.bandwidth_gbps=-1000:-1:1000"])
    assert "990 more" in str(caught.value.faults[-1])
    with pytest.raises(InputError, match="unknown key"):
        sweep(base, ["link.0.bandwith=1:2:5000"])


def test_one_input_at_a_time_needs_a_plan_and_a_number_to_start_from(base: Scenario) -> None:
    with pytest.raises(InfeasibleError, match="0 instances"):
        tornado(base.replace("cluster.local.instances", 0))
    with pytest.raises(InputError, match="prices"):
        tornado(base, metric="cost_usd_per_hour")


def test_one_text_may_be_given_without_a_list(base: Scenario) -> None:
    assert len(sweep(base, "link.0.bandwidth_gbps=1,10")) == 2
    assert len(monte_carlo(base, "link.0.bandwidth_gbps=uniform(1, 10)", samples=3).result) == 3


def test_an_input_that_moves_nothing_shows_both_ends(base: Scenario) -> None:
    bar = tornado(base, ["link.0.bandwidth_gbps=80,120"]).bars[0]
    assert (bar["at_low"], bar["at_high"], bar["swing"]) == (80, 120, 0.0)


def test_a_tornado_says_which_values_have_no_plan() -> None:
    found = tornado("case-study", ["cluster.local.instances=0,8"])
    assert len(found.left_out) == 1
    assert "cluster.local.instances = 0" in found.left_out[0]
    assert any("cluster.local.instances = 0" in note for note in report_tornado(found).notes)

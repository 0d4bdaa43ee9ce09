"""Calibration: the law is recovered, queueing is refused, the profile reads back equal and a plan uses it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from prfaas_plan.calibration.benchmark_records import Run, Sample
from prfaas_plan.calibration.calibrate import Calibration, calibrate, distinct_names
from prfaas_plan.calibration.fit import fit_law, student_quantile
from prfaas_plan.calibration.points import decode_points, prefill_points
from prfaas_plan.calibration.rules import Evidence, Reading, judge
from prfaas_plan.calibration.setup import Setup
from prfaas_plan.errors import InputError
from prfaas_plan.measured import MeasuredProfile, measured_from_mapping, prefill_law
from prfaas_plan.planner import plan
from prfaas_plan.reports.calibrate import report_calibration
from prfaas_plan.scenario import load_scenario
from prfaas_plan.writers.plain import write_csv, write_json, write_markdown
from prfaas_plan.writers.terminal import write_terminal

DATA = Path(__file__).resolve().parent / "data" / "benchmarks"
FLOOR, SLOPE, CURVATURE = 0.080, 4e-5, 2e-10
STEP_FLOOR, STEP_SLOPE = 0.012, 2e-4
SETUP = Setup("qwen3-8b", "h200", 8, "TP8", "bf16 weights, bf16 KV")
LAYOUTS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "vLLM": (["vllm_prefill.json", "vllm_decode.json"], {}),
    "vLLM detailed": (["vllm_detailed.json"], {}),
    "SGLang": (["sglang_0216_600_random.jsonl"], {}),
    "one_batch": (["sglang_one_batch.jsonl"], {"context_tokens": 4096}),
    "genai-perf and AIPerf": (
        ["genai_perf_1k.csv", "aiperf_4k.csv", "aiperf_16k.json", "genai_perf_64k.csv"],
        {"concurrency": 1},
    ),
    "AIPerf requests": (["profile_export.jsonl"], {}),
    "inference-perf and guidellm": (["stage_0_lifecycle_metrics.json", "guidellm.json"], {}),
    "seconds": (["table_seconds.csv"], {}),
    "milliseconds": (["table_ms.csv"], {}),
}
SERVED = Run(
    "bench.json",
    "bench.json",
    "vLLM bench serve",
    "served",
    "ms",
    input_tokens=2000.0,
    output_tokens=128.0,
    concurrency=1.0,
    request_rate=float("inf"),
    requests=100,
    failed=0,
    duration_s=100.0,
    ttft_s=0.2,
    itl_s=0.01,
)


def calibrated(files: Sequence[str], **changes: Any) -> Calibration:
    return calibrate([DATA / name for name in files], replace(SETUP, **changes))


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(InputError) as error:
        call()
    return str(error.value)


class TestLaw:
    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_every_layout_recovers_the_law_of_its_file(self, layout: str) -> None:
        files, changes = LAYOUTS[layout]
        fit = calibrated(files, **changes).prefill_fit
        assert fit is not None
        values = [term.value for term in fit.terms]
        assert values == pytest.approx([FLOOR, SLOPE, CURVATURE], rel=2e-3)
        assert max(map(abs, fit.residual_fractions)) < 1e-4

    @pytest.mark.parametrize("layout", ["vLLM", "one_batch", "seconds"])
    def test_and_the_decode_steps(self, layout: str) -> None:
        files, changes = LAYOUTS[layout]
        result = calibrated(files, **changes)
        assert result.decode_fit is not None
        assert [term.value for term in result.decode_fit.terms] == pytest.approx([STEP_FLOOR, STEP_SLOPE], rel=1e-6)

    def test_the_planner_fits_the_same_law(self) -> None:
        result = calibrated(["vllm_prefill.json"])
        assert result.prefill_fit is not None
        curve = prefill_law(result.profile)
        for length in (500.0, 5000.0, 100_000.0):
            assert curve(length) == pytest.approx(result.prefill_fit(length), rel=1e-9)

    def test_three_lengths_leave_the_error_undetermined(self) -> None:
        fit = fit_law([1.0, 2.0, 3.0], [1.0, 2.0, 3.5], 2)
        assert (fit.highest_term, fit.degrees_of_freedom) == ("undetermined", 0)
        assert {term.standard_error for term in fit.terms} == {None}

    @given(
        lengths=st.lists(st.integers(100, 200_000), min_size=4, max_size=12, unique=True),
        seed=st.integers(0, 2**32 - 1),
    )
    @settings(max_examples=60, deadline=None)
    def test_coefficients_and_errors_are_those_of_numpy(self, lengths: list[int], seed: int) -> None:
        xs = np.array(sorted(lengths), dtype=float)
        noise = np.random.default_rng(seed).normal(1.0, 0.02, len(xs))
        ys = (FLOOR + SLOPE * xs + CURVATURE * xs**2) * noise
        fit = fit_law(xs.tolist(), ys.tolist(), 2)
        kept = [term.power for term in fit.terms if term.value > 0.0]
        scaled = np.array([xs / xs.max()]).T ** kept / ys[:, None]
        assert_close(fit.terms, kept, scaled, xs.max())
        bounded = optimize.nnls((xs / xs.max())[:, None] ** [0, 1, 2] / ys[:, None], np.ones(len(xs)))[1]
        found = np.linalg.norm(1.0 - np.array([fit(x) for x in xs]) / ys)
        assert found >= bounded - 1e-12

    @pytest.mark.parametrize("freedom", [1, 2, 3, 7, 30, 399])
    @pytest.mark.parametrize("probability", [0.6, 0.9, 0.995])
    def test_student_quantiles_are_those_of_scipy(self, freedom: int, probability: float) -> None:
        assert student_quantile(probability, freedom) == pytest.approx(stats.t.ppf(probability, freedom), rel=1e-9)

    def test_intervals_hold_the_truth_80_percent_of_the_time(self) -> None:
        random = np.random.default_rng(3)
        xs = [1000.0, 4000.0, 8000.0, 16000.0, 32000.0, 64000.0, 128_000.0]
        held = np.zeros(3)
        for _ in range(400):
            ys = [(FLOOR + SLOPE * x + CURVATURE * x * x) * random.normal(1.0, 0.02) for x in xs]
            for term, truth in zip(fit_law(xs, ys, 2).terms, (FLOOR, SLOPE, CURVATURE), strict=True):
                held[term.power] += term.low is not None and term.high is not None and term.low <= truth <= term.high
        assert np.all(abs(held / 400 - 0.8) < 0.06)

    @pytest.mark.parametrize(("curvature", "verdict"), [(CURVATURE * 5, "supported"), (0.0, "not supported")])
    def test_the_quadratic_term_is_supported_where_it_is_there(self, curvature: float, verdict: str) -> None:
        xs = [1000.0 * 2**k for k in range(8)]
        wobble = (1.01, 0.99, 1.0, 1.01, 0.99, 1.01, 0.995, 1.0)
        ys = [(FLOOR + SLOPE * x + curvature * x * x) * w for x, w in zip(xs, wobble, strict=True)]
        assert fit_law(xs, ys, 2).highest_term == verdict


def assert_close(terms: Sequence[Any], kept: list[int], design: np.ndarray, largest: float) -> None:
    solution, residual, *_ = np.linalg.lstsq(design, np.ones(len(design)), rcond=None)
    freedom = len(design) - len(kept)
    for power, value in zip(kept, solution, strict=True):
        assert terms[power].value == pytest.approx(value / largest**power, rel=1e-5)
    if freedom > 0 and len(residual):
        covariance = np.linalg.inv(design.T @ design) * residual[0] / freedom
        reach = stats.t.ppf(0.9, freedom)
        for place, power in enumerate(kept):
            error = np.sqrt(covariance[place, place]) / largest**power
            assert terms[power].standard_error == pytest.approx(error, rel=1e-4)
            assert terms[power].high - terms[power].value == pytest.approx(reach * error, rel=1e-4)


class TestRules:
    @pytest.mark.parametrize(
        ("changes", "phase", "rule"),
        [
            ({"concurrency": 64.0, "requests": 640}, "prefill", "queueing"),
            ({"concurrency": float("inf")}, "prefill", "queueing"),
            ({"concurrency": None, "request_rate": 4.0}, "prefill", "queueing"),
            ({"concurrency": None, "request_rate": 4.0, "itl_s": None}, "prefill", "queueing"),
            ({"ttft_s": None}, "prefill", "no-time"),
            ({"cached_tokens": 500.0}, "prefill", "prefix-cache"),
            ({"failed": 1}, "prefill", "errors"),
            ({"failed": 1}, "decode", "errors"),
            ({"requests": 4}, "prefill", "few-requests"),
            ({"requests": 0}, "prefill", "no-request"),
            ({"input_tokens": 0.0}, "prefill", "no-length"),
            ({"concurrency": 64.0, "requests": 319}, "decode", "few-requests"),
            ({"duration_s": 59.9}, "prefill", "short-run"),
            ({"duration_s": 59.9}, "decode", "short-run"),
            ({"cancelled": True}, "decode", "cancelled"),
            ({"speculative": True}, "decode", "speculative"),
            ({"disaggregated": True}, "decode", "disaggregated"),
            ({"itl_s": None}, "decode", "no-time"),
            ({"concurrency": float("inf")}, "decode", "unknown-batch"),
            ({"concurrency": 8.0, "request_rate": 4.0}, "decode", "unknown-batch"),
        ],
    )
    def test_a_run_that_does_not_show_service_time_is_refused(
        self, changes: dict[str, Any], phase: str, rule: str
    ) -> None:
        evidence = judge([replace(SERVED, **changes)])
        assert (phase, rule) in {(r.phase, r.rule) for r in evidence.refusals}
        assert phase not in {r.phase for r in evidence.readings}

    def test_a_sound_run_gives_both_phases(self) -> None:
        evidence = judge([SERVED])
        assert [(r.phase, r.batch, r.tokens, r.seconds) for r in evidence.readings] == [
            ("prefill", 1, 2000.0, 0.2),
            ("decode", 1, 2064.0, 0.01),
        ]
        assert evidence.refusals == ()

    @pytest.mark.parametrize(
        ("changes", "rule"),
        [
            ({"failed": 2}, "errors"),
            ({"requests": 4}, "few-requests"),
            ({"duration_s": 5.0}, "short-run"),
            ({"speculative": True}, "speculative"),
        ],
    )
    def test_an_accepted_rule_only_flags(self, changes: dict[str, Any], rule: str) -> None:
        evidence = judge([replace(SERVED, **changes)], [rule])
        assert {r.phase for r in evidence.readings} == {"prefill", "decode"}
        assert evidence.flags
        assert evidence.flags[0].doubt.startswith("accepted although")

    def test_speculation_leaves_prefill_alone(self) -> None:
        assert {r.phase for r in judge([replace(SERVED, speculative=True)]).readings} == {"prefill"}

    def test_time_to_first_token_does_not_pass_as_service_under_load(self) -> None:
        loaded = replace(SERVED, concurrency=16.0, ttft_s=3.0)
        evidence = judge([loaded])
        assert [r.phase for r in evidence.readings] == ["decode"]
        assert "queueing" in evidence.refusals[0].reason

    def test_one_token_answers_at_saturation_are_read_from_the_duration(self) -> None:
        run = replace(
            SERVED, output_tokens=1.0, concurrency=32.0, requests=1000, duration_s=200.0, ttft_s=6.4, itl_s=None
        )
        reading = only_reading(judge([run]))
        assert (reading.phase, reading.batch, reading.seconds) == ("prefill", 32, 0.2)

    def test_a_rare_open_loop_is_flagged(self) -> None:
        evidence = judge([replace(SERVED, concurrency=None, request_rate=0.01, requests=60, duration_s=6000.0)])
        assert [r.phase for r in evidence.readings] == ["prefill"]
        assert "open loop" in evidence.flags[0].doubt

    def test_sequences_that_wait_are_not_in_the_batch(self) -> None:
        run = replace(SERVED, concurrency=64.0, requests=640, itl_s=0.02, mean_itl_s=0.02, output_rate=1600.0)
        evidence = judge([run])
        assert only_reading(evidence).batch == 32
        assert "32 of 64 requests decode at once" in evidence.flags[0].doubt

    def test_prefills_that_interrupt_decode_are_flagged(self) -> None:
        assert "interrupt decode" in judge([replace(SERVED, mean_itl_s=0.03)]).flags[0].doubt

    def test_requests_of_a_detailed_run_are_points_by_length(self) -> None:
        samples = tuple(Sample(length, length * 1e-4) for length in (1000.0, 1010.0, 1020.0, 5000.0))
        evidence = judge([replace(SERVED, samples=samples)])
        assert [(r.tokens, r.seconds, r.requests) for r in evidence.readings if r.phase == "prefill"] == [
            (1010.0, pytest.approx(0.101), 3),
            (5000.0, pytest.approx(0.5), 1),
        ]
        assert "1,000 to 5,000 tokens stand for their mean" in evidence.flags[0].doubt

    def test_one_batch_has_no_queue(self) -> None:
        run = Run(
            "b", "b", "t", "one batch", "s", input_tokens=1000.0, output_tokens=8.0, batch=4, prefill_s=0.4, step_s=0.02
        )
        assert [(r.phase, r.batch, r.tokens, r.seconds) for r in judge([run]).readings] == [
            ("prefill", 4, 1000.0, 0.1),
            ("decode", 4, 1004.0, 0.02),
        ]


def only_reading(evidence: Evidence) -> Reading:
    (reading,) = evidence.readings
    return reading


def step_reading(batch: int, seconds: float, context: float = 4000.0) -> Reading:
    return Reading("decode", context, batch, seconds, "", replace(SERVED, file=f"{batch}.json"))


class TestPoints:
    def test_one_length_is_no_law(self) -> None:
        points, refusals = prefill_points([Reading("prefill", 1000.0, 1, 0.1, "", SERVED)])
        assert points == []
        assert refusals[0].rule == "one-length"

    def test_the_smallest_batch_of_a_length_stands(self) -> None:
        readings = [
            Reading("prefill", n, b, s, "", SERVED) for n, b, s in ((1000, 1, 0.2), (1004, 8, 0.1), (9000, 1, 1.0))
        ]
        points, refusals = prefill_points(readings)
        assert [(p.x, p.seconds) for p in points] == [(1002, 0.2), (9000, 1.0)]
        assert refusals[0].rule == "larger-batch"

    def test_steps_that_fall_are_averaged(self) -> None:
        points, _, flags = decode_points(
            [step_reading(b, s) for b, s in ((1, 0.01), (2, 0.03), (4, 0.02), (8, 0.04))], None
        )
        assert [p.seconds for p in points] == pytest.approx([0.01, 0.025, 0.025, 0.04])
        assert flags[0].doubt == "steps fell from batch 2 to 4 and are averaged"

    @given(st.lists(st.floats(1e-4, 10.0), min_size=1, max_size=12))
    def test_averaged_steps_never_fall(self, seconds: list[float]) -> None:
        points, _, _ = decode_points([step_reading(i + 1, s) for i, s in enumerate(seconds)], None)
        steps = [p.seconds for p in points]
        assert all(a <= b * (1 + 1e-12) for a, b in pairwise(steps))
        regression = optimize.isotonic_regression([float(f"{s:.9g}") for s in seconds]).x
        assert steps == pytest.approx(list(regression), rel=1e-9)

    def test_contexts_are_kept_apart(self) -> None:
        readings = [step_reading(b, 0.01 * b, c) for b in (1, 2) for c in (1000.0, 9000.0)]
        assert "contexts of 1,000, 9,000 tokens: choose one" in refusal(lambda: decode_points(readings, None))
        points, context, flags = decode_points(readings, 9500.0)
        assert ([p.x for p in points], context) == ([1, 2], 9000.0)
        assert "2 decode times at other contexts" in flags[0].doubt
        assert "no decode step is near it" in refusal(lambda: decode_points(readings, 100.0))

    def test_the_only_context_with_several_batches_is_taken(self) -> None:
        readings = [step_reading(1, 0.01, 1000.0), step_reading(1, 0.02), step_reading(8, 0.03)]
        assert decode_points(readings, None)[1] == 4000.0

    def test_single_batches_at_several_contexts_are_left_out(self) -> None:
        points, context, flags = decode_points([step_reading(1, 0.01, c) for c in (1000.0, 9000.0)], None)
        assert (points, context) == ([], None)
        assert "choose one" in flags[0].doubt


class TestSetup:
    def test_everything_that_is_missing_is_asked_for_by_option(self) -> None:
        text = refusal(lambda: calibrate([DATA / "genai_perf_1k.csv"]))
        for option in ("--model", "--accelerator", "--gpus", "--parallelism", "--precision", "--concurrency"):
            assert f"{option}: missing; expected" in text
        assert "genai_perf_1k.csv does not say it" in text

    def test_what_a_file_says_need_not_be_given(self) -> None:
        result = calibrate([DATA / "inferencex.json"], Setup(gpus_per_instance=8))
        profile = result.profile
        assert (profile.model, profile.accelerator, profile.engine) == ("qwen3-8b", "h200-sxm", "vllm")
        assert profile.note.startswith("Precision: fp8. Parallelism: TP8.")

    def test_a_model_that_is_no_profile_is_asked_for(self, tmp_path: Path) -> None:
        path = tmp_path / "bench.csv"
        path.write_text(
            (DATA / "table_seconds.csv")
            .read_text()
            .replace("seconds\n", "seconds,model\n", 1)
            .replace("\nprefill,1024,1,0.121170\n", "\nprefill,1024,1,0.121170,acme/qwen3-9b\n")
        )
        text = refusal(lambda: calibrate([path], replace(SETUP, model=None)))
        assert "--model: missing; expected the name of a model profile: the files say 'acme/qwen3-9b'" in text

    def test_unknown_names_are_refused_with_the_nearest(self) -> None:
        text = refusal(lambda: calibrated(["vllm_prefill.json"], model="qwen3-8", accelerator="h20o"))
        assert "did you mean 'qwen3-8b'" in text
        assert "--accelerator = 'h20o'" in text

    def test_two_models_are_not_mixed(self, tmp_path: Path) -> None:
        other = tmp_path / "other.json"
        other.write_text((DATA / "vllm_decode.json").read_text().replace("Qwen/Qwen3-8B", "Qwen/Qwen3-32B"))
        text = refusal(lambda: calibrate([DATA / "vllm_prefill.json", other], SETUP))
        assert "differs from 'Qwen/Qwen3-8B' in vllm_prefill.json; calibrate them apart" in text

    def test_a_given_fact_that_differs_is_flagged(self) -> None:
        result = calibrated(["vllm_prefill.json"], model="qwen3-32b")
        assert "the model is given as qwen3-32b, the files say Qwen/Qwen3-8B" in [f.doubt for f in result.flags]

    @pytest.mark.parametrize(
        "option", ["gpus_per_instance", "input_tokens", "output_tokens", "concurrency", "context_tokens"]
    )
    @pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
    def test_options_have_bounds(self, option: str, value: float) -> None:
        assert "expected a number of at least 1" in refusal(
            lambda: calibrated(["genai_perf_1k.csv"], **{option: value})
        )

    def test_accept_names_a_rule(self) -> None:
        text = refusal(lambda: calibrated(["vllm_prefill.json"], accept=("queueing", "short")))
        assert "expected one of errors, few-requests, short-run, speculative" in text

    def test_no_file_at_all(self) -> None:
        assert "expected one or more benchmark outputs" in refusal(lambda: calibrate([], SETUP))

    def test_every_bad_file_is_named(self, tmp_path: Path) -> None:
        text = refusal(lambda: calibrate([tmp_path / "a.json", tmp_path / "b.json"], SETUP))
        assert "a.json" in text
        assert "b.json" in text

    def test_where_nothing_is_left_every_reason_is_given(self, tmp_path: Path) -> None:
        data = json.loads((DATA / "vllm_decode.json").read_text().splitlines()[3])
        path = tmp_path / "bench.json"
        path.write_text(json.dumps(data | {"completed": 100, "num_prompts": 100, "duration": 20.0}))
        text = refusal(lambda: calibrate([path], SETUP))
        assert "gives no decode time: 100 requests are fewer than 5 times 64 in flight" in text
        assert "gives no prefill time: it lasted 20 s, less than 60 s" in text

    def test_files_of_one_name_are_told_apart(self, tmp_path: Path) -> None:
        for folder, name in (("one", "vllm_prefill.json"), ("two", "vllm_decode.json")):
            (tmp_path / folder).mkdir()
            (tmp_path / folder / "r.json").write_text((DATA / name).read_text())
        result = calibrate([tmp_path / "one" / "r.json", tmp_path / "two" / "r.json"], SETUP)
        assert {s.locator for s in result.profile.sources} == {"one/r.json", "two/r.json", "one/r.json, two/r.json"}
        assert distinct_names(["a/r", "a/r"]) == {"a/r": "r"}


class TestProfile:
    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_it_reads_back_equal(self, layout: str) -> None:
        files, changes = LAYOUTS[layout]
        result = calibrated(files, **changes)
        assert read_back(result) == result.profile

    def test_sources_are_measured_with_date_and_file(self) -> None:
        sources = calibrated(["vllm_prefill.json"]).profile.sources
        assert [(s.kind, s.date, s.locator) for s in sources] == [("measured", "2026-02-16", "vllm_prefill.json")]

    def test_a_given_date_stands(self) -> None:
        assert calibrated(["table_seconds.csv"], date="2026-03-01").profile.sources[0].date == "2026-03-01"

    def test_doubts_go_into_the_note(self) -> None:
        note = calibrated(["profile_export.jsonl"]).profile.note
        assert "Precision: bf16 weights, bf16 KV. Parallelism: TP8." in note
        assert "tokens stand for their mean." in note

    def test_times_that_do_not_grow_are_flagged(self, tmp_path: Path) -> None:
        path = tmp_path / "t.csv"
        path.write_text("phase,input_tokens,batch,seconds\nprefill,1,1,0.1\nprefill,2048,1,0.1\nprefill,9000,1,0.09\n")
        result = calibrate([path], SETUP)
        assert any("do not grow with length" in f.doubt for f in result.flags)

    def test_points_too_far_apart_for_a_law_are_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "t.csv"
        rows = [(1, 0.01), (2, 0.01), (3_000_000_000, 0.02)]
        path.write_text("phase,input_tokens,batch,seconds\n" + "\n".join(f"prefill,{n},1,{s}" for n, s in rows))
        assert "no law can be fitted through 0.01 s at 1" in refusal(lambda: calibrate([path], SETUP))

    def test_the_case_study_plans_with_it(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.toml"
        result = calibrate(case_study_files(tmp_path), replace(SETUP, model="kimi-linear-1t-paper", accelerator="h20"))
        path.write_text(result.to_toml())
        named = plan(load_scenario("case-study", [f"cluster.local.measured={path}"]))
        paper = plan(load_scenario("case-study"))
        local = next(p for p in named.pools if p.cluster == "local" and p.role == "prefill")
        assert named.lambda_max_rps > paper.lambda_max_rps
        assert named.lambda_max_rps == pytest.approx(independent_rate(named, local.instances), rel=1e-3)


def read_back(result: Calibration) -> MeasuredProfile:
    back = measured_from_mapping(tomllib.loads(result.to_toml()), "", "")
    return replace(back, id=result.profile.id, where=result.profile.where)


def case_study_files(folder: Path) -> list[Path]:
    """A table twice as fast as the paper's H20: T = 0.2 + 6e-5·l + 2e-10·l² s, and 25 ms at a batch of 40."""
    path = folder / "h20.csv"
    rows = [f"prefill,{n},1,{0.2 + 6e-5 * n + 2e-10 * n * n:.9f}" for n in (1000, 8000, 32000, 128_000)]
    rows += [f"decode,27000,{b},{0.005 + 5e-4 * b:.6f}" for b in (10, 40, 80)]
    path.write_text("phase,input_tokens,batch,seconds\n" + "\n".join(rows) + "\n")
    return [path]


def independent_rate(found: Any, prefill_instances: int) -> float:
    """Equations 4 to 6 of arXiv 2604.15039 with the table's law: the smallest of the three stage rates."""
    decode = (8 - prefill_instances) * 40 / (0.025 * 1024)
    short = found.mean_short_tokens
    seconds = 0.2 + 6e-5 * short + 2e-10 * short * short
    prefill = prefill_instances / seconds / (1.0 - found.offloaded_fraction)
    return min(decode, prefill, found.stages.prfaas_rps / found.offloaded_fraction)


class TestReport:
    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_every_writer_takes_it(self, layout: str) -> None:
        files, changes = LAYOUTS[layout]
        result = calibrated(files, **changes)
        document = report_calibration(result)
        assert "qwen3-8b on 8 × h200-sxm" in write_terminal(document, width=80, colour=False)
        assert "| prefill" in write_markdown(document)
        assert len(write_csv(document).splitlines()) == 1 + len(result.prefill) + len(result.decode)
        data = json.loads(write_json("calibrate", result.to_dict()))
        assert data["schema"] == "prfaas-plan/calibrate/1"
        assert data["prefill_law"]["slope_s_per_token"]["value"] == pytest.approx(SLOPE, rel=2e-3)

    def test_the_documented_example_is_what_comes_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        documented = (DATA.parents[2] / "docs" / "calibrate.md").read_text(encoding="utf-8")
        monkeypatch.chdir(DATA)
        setup = Setup(None, "h200", 8, "TP8", "bf16 weights, bf16 KV")
        result = calibrate(["vllm_sweep.json"], setup)
        assert result.to_toml().split("\n\n[[prefill]]", 2)[0] in documented

    def test_refused_runs_and_units_are_shown(self) -> None:
        text = write_markdown(report_calibration(calibrated(["vllm_prefill.json", "vllm_decode.json"])))
        assert "mostly queueing" in text
        assert "by the suffix" in text
        assert "The points support the quadratic term" in text


@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_any_table_of_numbers_gives_a_readable_profile_or_a_reason(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    number = st.one_of(st.integers(0, 10**13), st.floats(0, 1e13, allow_nan=False))
    row = st.tuples(st.sampled_from(["prefill", "decode"]), number, st.integers(1, 10**9), number)
    rows = data.draw(st.lists(row, min_size=1, max_size=8))
    path = tmp_path_factory.mktemp("fuzz") / "t.csv"
    path.write_text("phase,input_tokens,batch,time_ms\n" + "\n".join(",".join(map(str, r)) for r in rows))
    try:
        result = calibrate([path], SETUP)
    except InputError:
        return
    assert read_back(result) == result.profile
    report_calibration(result)


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_any_number_in_a_result_gives_a_readable_profile_or_a_reason(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    name = data.draw(st.sampled_from(["vllm_sweep.json", "sglang_one_batch.jsonl", "vllm_detailed.json"]))
    rows = [json.loads(line) for line in (DATA / name).read_text().splitlines()]
    for _ in range(data.draw(st.integers(1, 4))):
        row = data.draw(st.sampled_from(rows))
        key = data.draw(st.sampled_from(sorted(k for k, v in row.items() if isinstance(v, (int, float)))))
        row[key] = data.draw(st.one_of(st.integers(0, 10**12), st.floats(0, 1e12)))
    path = tmp_path_factory.mktemp("fuzz") / "r.json"
    path.write_text("\n".join(map(json.dumps, rows)))
    try:
        result = calibrate([path], replace(SETUP, accept=("short-run", "few-requests", "errors", "speculative")))
    except InputError:
        return
    assert read_back(result) == result.profile
    report_calibration(result)

"""Reading benchmark outputs: each published layout on a small invented file, and whatever can be wrong with one."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prfaas_plan.calibration.benchmark_aiperf import most_at_once
from prfaas_plan.calibration.benchmark_fields import parse_date, unit_of_name
from prfaas_plan.calibration.benchmark_files import read_benchmark
from prfaas_plan.calibration.benchmark_records import BenchmarkFile, Run
from prfaas_plan.errors import InputError

DATA = Path(__file__).resolve().parent / "data" / "benchmarks"
FIXTURES = sorted(path.name for path in DATA.iterdir())
Write = Callable[[str | bytes], Path]


def law(tokens: float) -> float:
    """Prefill seconds that the invented files follow."""
    return 0.080 + 4e-5 * tokens + 2e-10 * tokens**2


def step(batch: int) -> float:
    """Decode step that the invented files follow."""
    return 0.012 + 2e-4 * batch


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def writer(content: str | bytes) -> Path:
        path = tmp_path / "bench.json"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return writer


def objects(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text().splitlines()]


def vllm(**changes: Any) -> str:
    return json.dumps(objects("vllm_prefill.json")[0] | changes)


def problem(path: Path) -> str:
    with pytest.raises(InputError) as error:
        read_benchmark(path)
    return str(error.value)


class TestLayouts:
    @pytest.mark.parametrize(
        ("name", "tool", "runs", "read", "dropped"),
        [
            ("vllm_prefill.json", "vLLM bench serve", 4, 4, {}),
            ("vllm_decode.json", "vLLM bench serve", 4, 4, {}),
            ("vllm_detailed.json", "vLLM bench serve", 1, 1, {}),
            ("inferencex.json", "InferenceX summary", 1, 1, {}),
            ("sglang_0216_600_random.jsonl", "SGLang bench_serving", 5, 5, {}),
            ("sglang_one_batch.jsonl", "SGLang one_batch", 6, 6, {}),
            ("genai_perf_1k.csv", "genai-perf", 1, 12, {"telemetry or other table": 2}),
            ("aiperf_4k.csv", "AIPerf", 1, 12, {"telemetry or other table": 2}),
            ("aiperf_16k.json", "AIPerf", 1, 1, {}),
            ("profile_export.jsonl", "AIPerf requests", 1, 120, {}),
            ("stage_0_lifecycle_metrics.json", "inference-perf", 1, 1, {}),
            ("guidellm.json", "guidellm", 3, 1, {}),
            ("table_seconds.csv", "table", 7, 7, {}),
            ("table_ms.csv", "table", 4, 5, {"no time": 1}),
        ],
    )
    def test_each_is_told_by_its_keys(
        self, name: str, tool: str, runs: int, read: int, dropped: dict[str, int]
    ) -> None:
        found = read_benchmark(DATA / name)
        assert (found.tool, len(found.runs), found.rows_read, found.dropped) == (tool, runs, read, dropped)
        assert found.rows_kept == read - sum(dropped.values())

    @pytest.mark.parametrize("name", FIXTURES)
    def test_times_of_one_request_at_a_time_follow_the_law(self, name: str) -> None:
        checked = 0
        for run in read_benchmark(DATA / name).runs:
            time = run.prefill_s if run.batch == 1 else run.ttft_s if run.concurrency in (1, None) else None
            if time is not None and not run.samples and run.input_tokens:
                assert time == pytest.approx(law(run.input_tokens), rel=0.05 if "sweep" in name else 1e-4)
                checked += 1
            for sample in run.samples:
                assert sample.ttft_s == pytest.approx(law(sample.input_tokens), rel=1e-6)
                checked += 1
        assert checked or name in ("vllm_decode.json", "inferencex.json")

    def test_time_between_tokens_is_the_median(self) -> None:
        runs = read_benchmark(DATA / "vllm_decode.json").runs
        assert [run.itl_s for run in runs] == pytest.approx([step(b) for b in (1, 8, 32, 64)])
        assert [run.mean_itl_s for run in runs] == pytest.approx([1.05 * step(b) for b in (1, 8, 32, 64)])

    def test_a_vllm_run_says_what_it_knows(self) -> None:
        run = read_benchmark(DATA / "vllm_prefill.json").runs[0]
        assert (run.model, run.engine, run.date) == ("Qwen/Qwen3-8B", "vllm", "2026-02-16")
        assert (run.input_tokens, run.output_tokens, run.concurrency, run.requests) == (1024, 1, 1, 600)
        assert run.request_rate == math.inf
        assert run.where.endswith("vllm_prefill.json, run 1")

    def test_an_sglang_run_knows_its_server(self) -> None:
        run = read_benchmark(DATA / "sglang_0216_600_random.jsonl").runs[-1]
        assert (run.model, run.engine, run.parallelism) == ("Qwen/Qwen3-8B", "sglang 0.5.3", "TP8")
        assert (run.precision, run.request_rate, run.speculative) == ("bfloat16 weights", math.inf, False)

    def test_a_summary_without_suffix_is_in_seconds_whatever_its_size(self, write: Write) -> None:
        data = objects("inferencex.json")[0]
        assert read_benchmark(DATA / "inferencex.json").runs[0].ttft_s == 19.79
        assert read_benchmark(write(json.dumps(data | {"median_ttft": 1979.0}))).runs[0].ttft_s == 1979.0

    def test_inferencex_says_accelerator_and_precision(self) -> None:
        run = read_benchmark(DATA / "inferencex.json").runs[0]
        assert (run.accelerator, run.precision, run.parallelism) == ("h200", "fp8", "TP8")

    def test_thousands_commas_and_missing_cells(self) -> None:
        run = read_benchmark(DATA / "genai_perf_64k.csv").runs[0]
        assert run.ttft_s == pytest.approx(3.56043)
        assert (run.input_tokens, run.requests, run.concurrency) == (65536, 40, None)
        assert run.duration_s == pytest.approx(40 * (law(65536) + 63 * step(1)), rel=0.03)

    def test_request_lines_give_concurrency_from_their_stamps(self) -> None:
        run = read_benchmark(DATA / "profile_export.jsonl").runs[0]
        assert (run.concurrency, run.requests, run.failed, run.date) == (1, 120, 0, "2026-02-16")
        assert len(run.samples) == 120

    def test_failed_and_warm_up_requests_are_dropped(self, write: Write) -> None:
        rows = objects("profile_export.jsonl")[:4]
        rows[0]["error"] = {"code": 500}
        rows[1]["metadata"]["benchmark_phase"] = "warmup"
        rows[2]["metrics"].pop("time_to_first_token")
        found = read_benchmark(write("\n".join(map(json.dumps, rows))))
        assert found.dropped == {
            "failed request": 1,
            "warm-up request": 1,
            "no prompt length or no time to first token": 1,
        }
        assert (found.rows_kept, found.runs[0].failed) == (1, 1)

    def test_guidellm_strategies(self) -> None:
        runs = read_benchmark(DATA / "guidellm.json").runs
        assert [run.concurrency for run in runs] == [1, 1, 16]
        assert [run.where.rsplit(", ", 1)[1] for run in runs] == [f"benchmark {i}" for i in (1, 2, 3)]

    def test_inference_perf_without_streaming_has_no_times(self, write: Write) -> None:
        data = json.loads((DATA / "stage_0_lifecycle_metrics.json").read_text())
        for name in ("time_to_first_token", "inter_token_latency", "time_per_output_token"):
            data["successes"]["latency"][name] = None
        run = read_benchmark(write(json.dumps(data))).runs[0]
        assert (run.ttft_s, run.itl_s) == (None, None)

    def test_failures_follow_from_the_prompts_sent(self, write: Write) -> None:
        data = objects("vllm_prefill.json")[0]
        del data["failed"]
        assert read_benchmark(write(json.dumps(data | {"num_prompts": 610}))).runs[0].failed == 10

    def test_no_limit_of_requests_in_flight_is_infinite(self, write: Write) -> None:
        assert read_benchmark(write(vllm(max_concurrency=None))).runs[0].concurrency == math.inf

    @pytest.mark.parametrize(
        "changes", [{"spec_decode_acceptance_rate": 0.7}, {"accept_length": 2.4}, {"spec_method": "mtp"}]
    )
    def test_speculative_decoding_is_seen(self, write: Write, changes: dict[str, object]) -> None:
        assert read_benchmark(write(vllm(**changes))).runs[0].speculative

    def test_a_summary_says_if_prefill_and_decode_are_apart(self, write: Write) -> None:
        data = objects("inferencex.json")[0]
        assert read_benchmark(write(json.dumps(data | {"disagg": True}))).runs[0].disaggregated

    def test_metadata_that_a_user_added_is_text(self, write: Write) -> None:
        run = read_benchmark(write(vllm(tp="8", ep="none", hw="h200", precision="fp8"))).runs[0]
        assert (run.parallelism, run.accelerator, run.precision) == ("TP8", "h200", "fp8")

    def test_cached_prompts_are_seen(self, write: Write) -> None:
        data = objects("sglang_0216_600_random.jsonl")[0]
        report = {"total_prompt_tokens": 614400, "total_cached_tokens": 6000}
        assert read_benchmark(write(json.dumps(data | {"cache_report": report}))).runs[0].cached_tokens == 10.0

    def test_a_failed_call_for_the_server_is_no_fault(self, write: Write) -> None:
        data = objects("sglang_0216_600_random.jsonl")[0]
        assert read_benchmark(write(json.dumps(data | {"server_info": None}))).runs[0].model == ""


class TestText:
    @pytest.mark.parametrize("name", FIXTURES)
    def test_gzip_bom_and_line_ends_change_nothing(self, name: str, tmp_path: Path) -> None:
        raw = (DATA / name).read_bytes().removeprefix(b"\xef\xbb\xbf")
        expected = without_place(read_benchmark(DATA / name))
        lines = raw.replace(b"\r\n", b"\n")
        for number, content in enumerate(
            (gzip.compress(raw), b"\xef\xbb\xbf" + raw, lines.replace(b"\n", b"\r\n"), lines.rstrip(b"\n"))
        ):
            path = tmp_path / f"{number}_{name}"
            path.write_bytes(content)
            assert without_place(read_benchmark(path)) == expected

    def test_objects_may_span_lines(self, write: Write) -> None:
        text = "\n".join(json.dumps(row, indent=2) for row in objects("vllm_prefill.json"))
        assert len(read_benchmark(write(text)).runs) == 4

    def test_a_broken_line_is_counted(self, write: Write) -> None:
        found = read_benchmark(write(vllm() + "\n{'single': 1}\n" + vllm()))
        assert (len(found.runs), found.dropped, found.rows_read) == (2, {"malformed JSON": 1}, 3)

    def test_the_date_may_stand_in_the_name_of_the_file(self, tmp_path: Path) -> None:
        path = tmp_path / "run-20260301.csv"
        path.write_bytes((DATA / "table_seconds.csv").read_bytes())
        assert read_benchmark(path).runs[0].date == "2026-03-01"


def without_place(found: BenchmarkFile) -> tuple[list[tuple[Any, ...]], int]:
    def facts(run: Run) -> tuple[Any, ...]:
        return tuple(getattr(run, f) for f in Run.__slots__ if f not in ("where", "file", "date"))

    return [facts(run) for run in found.runs], found.rows_read


class TestRefusals:
    @pytest.mark.parametrize(
        ("content", "words"),
        [
            ("", "is empty"),
            ("{", "is not valid JSON"),
            ("[1, 2]", "holds no JSON object"),
            ('{"a": 1}', "no known layout (its keys are a"),
            ('[{"benchmark": {"name": "x"}, "model": {}, "metric": {}}]', "no known layout"),
            ("a,b\n1,2\n", "is in no known layout"),
            ("┏━━┓\n┃ Statistic ┃\n", "copied from a terminal"),
            ("version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
            (b"\x00\x01\x02\x03" * 50, "is binary"),
            (b"\x1f\x8bnot gzip", "broken gzip"),
            ("[" * 100_000, "is not valid JSON"),
            ("phase,input_tokens,batch,time\nprefill,1,1,2\n", "seconds: missing; expected a column of times"),
            ("phase,input_tokens,batch,time_s,time_ms\nprefill,1,1,2,3\n", "several columns of times"),
            ("phase,input_tokens,seconds\nprefill,1,2\n", "batch: missing"),
            ("phase,batch,seconds\nprefill,1,2\n", "input_tokens: missing"),
            ("phase,input_tokens,batch,seconds\nsetup,1,1,2\n", "phase = 'setup': expected prefill or decode"),
            ("phase,input_tokens,batch,seconds\nprefill,1,1,fast\n", "seconds = 'fast'"),
            ("phase,input_tokens,batch,seconds\nprefill,1,1.5,2\n", "batch = 1.5: expected a whole number"),
            ("Metric,avg,p50\nTime To First Token,5,5\n", "time to first token: expected the unit of time in brackets"),
            ("Metric,avg,p50\nTime To First Token (ms),x,x\n", "Time To First Token (ms), p50 = 'x'"),
        ],
    )
    def test_the_message_names_what_is_wrong(self, write: Write, content: str | bytes, words: str) -> None:
        path = write(content)
        assert words in problem(path)
        assert str(path) in problem(path)

    @pytest.mark.parametrize("value", [-1, True, "fast", [1], {"a": 1}, 1e300, math.nan, math.inf])
    @pytest.mark.parametrize(
        "key", ["duration", "completed", "median_ttft_ms", "total_input_tokens", "max_concurrency"]
    )
    def test_a_wrong_value_names_its_key(self, write: Write, key: str, value: object) -> None:
        assert f"bench.json: {key} = " in problem(write(vllm(**{key: value})))

    @pytest.mark.parametrize("key", ["duration", "completed", "median_ttft_ms", "date", "max_concurrency", "model_id"])
    def test_null_is_absent(self, write: Write, key: str) -> None:
        assert read_benchmark(write(vllm(**{key: None}))).runs

    def test_all_faults_come_at_once(self, write: Write) -> None:
        text = problem(write(vllm(duration=-1, completed="x")))
        assert "duration = -1" in text
        assert "completed = 'x'" in text

    def test_seconds_and_milliseconds_in_one_run(self, write: Write) -> None:
        assert "must not mix units" in problem(write(vllm(median_tpot=0.02)))

    def test_lists_of_a_detailed_run_must_match(self, write: Write) -> None:
        assert "ttfts = 1: expected as many entries" in problem(write(vllm(input_lens=[1, 2], ttfts=[0.1])))

    def test_a_metric_without_a_unit_of_time(self, write: Write) -> None:
        data = json.loads((DATA / "aiperf_16k.json").read_text(encoding="utf-8-sig"))
        data["time_to_first_token"]["unit"] = "tokens"
        assert "time_to_first_token.unit = 'tokens': expected a unit of time" in problem(write(json.dumps(data)))

    def test_no_file_and_a_folder(self, tmp_path: Path) -> None:
        assert "No such file" in problem(tmp_path / "none.json")
        assert "directory" in problem(tmp_path)
        assert "NUL" in problem(Path("a\0b"))


@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_damaged_files_are_read_or_refused_in_words(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    raw = bytearray((DATA / data.draw(st.sampled_from(FIXTURES))).read_bytes()[:4000])
    for _ in range(data.draw(st.integers(1, 8))):
        place = data.draw(st.integers(0, len(raw) - 1))
        kind = data.draw(st.sampled_from(["flip", "cut", "insert"]))
        if kind == "flip":
            raw[place] = data.draw(st.integers(0, 255))
        elif kind == "insert":
            raw[place:place] = data.draw(st.sampled_from([b"NaN", b"null", b"-1", b'"', b"1e999", b"{}", b",", b"\n"]))
        else:
            del raw[place : place + data.draw(st.integers(1, 40))]
            raw = raw or bytearray(b" ")
    read_or_refuse(bytes(raw), tmp_path_factory)


@given(content=st.binary(max_size=400))
@settings(max_examples=150, deadline=None)
def test_any_bytes_are_read_or_refused_in_words(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    read_or_refuse(content, tmp_path_factory)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_any_value_at_any_key_is_read_or_refused_in_words(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    name = data.draw(st.sampled_from([f for f in FIXTURES if f.endswith("json")]))
    value = (
        json.loads((DATA / name).read_text(encoding="utf-8-sig").splitlines()[0])
        if "vllm" in name
        else json.loads((DATA / name).read_text(encoding="utf-8-sig"))
    )
    here: Any = value
    while True:
        key = data.draw(st.sampled_from(sorted(here)) if isinstance(here, dict) else st.integers(0, len(here) - 1))
        if isinstance(here[key], (dict, list)) and here[key] and data.draw(st.booleans()):
            here = here[key]
            continue
        here[key] = data.draw(JSON)
        break
    read_or_refuse(json.dumps(value).encode(), tmp_path_factory)


def read_or_refuse(content: bytes, folders: pytest.TempPathFactory) -> None:
    path = folders.mktemp("fuzz") / "f"
    path.write_bytes(content)
    try:
        found = read_benchmark(path)
    except InputError as error:
        assert all(str(path) in fault.where for fault in error.faults)
    else:
        assert found.rows_kept >= 0
        for run in found.runs:
            times = (run.ttft_s, run.itl_s, run.prefill_s, run.step_s, run.duration_s)
            assert all(t is None or 0 < t < math.inf for t in times)


def test_most_at_once_matches_a_count_at_every_start() -> None:
    spans = [(0.0, 4.0), (1.0, 2.0), (1.5, 3.0), (3.0, 5.0), (10.0, 11.0)]
    counts = [sum(a <= start < b for a, b in spans) for start, _ in spans]
    assert most_at_once(spans) == max(counts)


@pytest.mark.parametrize(
    ("text", "date"), [("20261301", ""), ("2026-02-30x", "2026-02-30"), ("v1 2025/12/05", "2025-12-05")]
)
def test_dates(text: str, date: str) -> None:
    assert parse_date(text) == date


@pytest.mark.parametrize(
    ("name", "unit"), [("ITL (ms)", "ms"), ("wall_us", "us"), ("tokens", ""), ("Milliseconds", "ms")]
)
def test_units_of_names(name: str, unit: str) -> None:
    assert unit_of_name(name) == unit

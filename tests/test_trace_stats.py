"""Statistics against NumPy and SciPy, prefix reuse against a naive cache, workload blocks that read back."""

from __future__ import annotations

import json
import math
import tomllib
from array import array
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from prfaas_plan.errors import TraceError
from prfaas_plan.records import Reader
from prfaas_plan.trace.arrivals import arrivals, peak_to_mean
from prfaas_plan.trace.files import read_trace
from prfaas_plan.trace.fits import Tally, fit_lognormal, fit_mixture
from prfaas_plan.trace.prefix import infinite_pool
from prfaas_plan.trace.records import Trace
from prfaas_plan.trace.stats import BlockLaw, trace_stats, workload_block
from prfaas_plan.workload import LengthLaw, read_workload

DATA = Path(__file__).resolve().parent / "data" / "traces"
lengths = st.lists(st.integers(1, 100_000), min_size=1, max_size=60)


def trace_of(inputs: list[int], times: list[float] | None = None, start: str = "") -> Trace:
    return Trace("made.csv", "test", array("i", inputs), array("i"), array("d", times or []), start=start)


def blocks_trace(requests: list[tuple[int, list[int]]], size: int) -> Trace:
    ids = array("q", [i for _, blocks in requests for i in blocks])
    ends = array("q", np.cumsum([len(blocks) for _, blocks in requests]).tolist())
    inputs = array("i", [length for length, _ in requests])
    return Trace("made", "test", inputs, array("i"), block_tokens=size, block_ids=ids, block_ends=ends)


class TestLengths:
    @given(lengths)
    def test_summary_is_numpys(self, values: list[int]) -> None:
        found = Tally(values).stats()
        assert found is not None
        assert found.mean == pytest.approx(np.mean(values))
        assert (found.p50, found.p90, found.p99) == pytest.approx(tuple(np.percentile(values, [50, 90, 99])))
        assert found.max == max(values)

    @given(lengths)
    def test_lognormal_fit_is_scipys(self, values: list[int]) -> None:
        fit = fit_lognormal(Tally(values))
        if len(set(values)) < 2:
            assert fit is None
            return
        assert fit is not None
        logs = np.log(values)
        assert (fit.mu, fit.sigma) == pytest.approx((logs.mean(), logs.std()))
        assert fit.ks == pytest.approx(stats.kstest(logs, "norm", args=(logs.mean(), logs.std())).statistic, abs=1e-9)
        implied = math.exp(logs.mean() + logs.var() / 2) / np.mean(values) - 1
        assert fit.mean_error_fraction == pytest.approx(implied, rel=1e-6, abs=1e-9)

    def test_zeros_have_no_logarithm(self) -> None:
        assert fit_lognormal(Tally([0, 0, 10, 100])) is not None
        assert fit_lognormal(Tally([0, 0, 7])) is None
        assert fit_mixture(Tally([0, 1, 2, 3])) is None

    def test_mixture_finds_two_laws(self) -> None:
        draw = np.random.default_rng(3)
        sample = np.concatenate([draw.lognormal(5.0, 0.5, 6000), draw.lognormal(9.0, 0.8, 4000)])
        tally = Tally(np.maximum(1, np.rint(sample)).astype(int).tolist())
        fit = fit_mixture(tally)
        assert fit is not None
        assert fit.weights[0] == pytest.approx(0.6, abs=0.02)
        assert fit.mu == pytest.approx((5.0, 9.0), abs=0.05)
        assert fit.sigma == pytest.approx((0.5, 0.8), abs=0.05)
        assert fit.ks < 0.02
        single = fit_lognormal(tally)
        assert single is not None
        assert single.ks > 3 * fit.ks

    @given(lengths)
    @settings(max_examples=40, deadline=None)
    def test_mixture_is_a_law(self, values: list[int]) -> None:
        fit = fit_mixture(Tally(values))
        if fit is not None:
            assert sum(fit.weights) == pytest.approx(1.0)
            assert fit.mu[0] <= fit.mu[1]
            assert min(fit.sigma) > 0
            assert 0 <= fit.ks <= 1


class TestArrivals:
    @given(st.lists(st.floats(0.001, 100.0), min_size=3, max_size=60))
    def test_rate_and_variation(self, gaps: list[float]) -> None:
        times = np.concatenate([[0.0], np.cumsum(gaps)])
        found = arrivals(trace_of([1] * len(times), times.tolist()))
        assert found is not None
        assert found.rate_rps == pytest.approx(1 / np.mean(np.diff(times)))
        assert found.interarrival_cv == pytest.approx(np.diff(times).std() / np.diff(times).mean(), abs=1e-9)

    def test_peak_counts_full_minutes(self) -> None:
        times = [0.0, 10.0, 70.0, 71.0, 72.0, 130.0, 179.9, 180.0, 181.0]
        trace = trace_of([1, 1, 1, 1, 10, 1, 1, 1, 1], times)
        found = arrivals(trace)
        assert found is not None
        assert found.peak_to_mean_1min == pytest.approx(3 / (7 / 3))
        assert found.peak_to_mean_1min_input_tokens == pytest.approx(12 / (16 / 3))
        assert (found.peak_to_mean_1h, found.peak_to_mean_1min_output_tokens) == (None, None)
        assert peak_to_mean(trace, trace.input_tokens, 90.0) == pytest.approx(14 / 8)

    def test_a_coarse_clock_is_spread(self) -> None:
        draw = np.random.default_rng(1)
        true = np.sort(draw.uniform(0.0, 3000.0, 9000))
        coarse = (np.floor(true / 3.0) * 3.0).tolist()
        found = arrivals(trace_of([1] * 9000, [t - coarse[0] for t in coarse]))
        assert found is not None
        assert found.quantised
        assert found.clock_step_s == 3.0
        assert found.interarrival_cv is not None
        assert found.interarrival_cv > 2.5
        assert found.interarrival_cv_spread == pytest.approx(1.0, abs=0.05)

    @pytest.mark.parametrize("times", [[0.0], [0.0, 0.0, 0.0], [0.0, 1.0]])
    def test_too_few_to_tell(self, times: list[float]) -> None:
        found = arrivals(trace_of([1] * len(times), times))
        assert found is not None
        assert found.interarrival_cv is None
        assert found.peak_to_mean_1min is None

    def test_no_times(self) -> None:
        assert arrivals(trace_of([1, 2])) is None

    def test_the_hour_of_the_peak(self) -> None:
        found = arrivals(read_trace(DATA / "azure_2024.csv"))
        assert found is not None
        assert (found.peak_hour, found.time_zone) == (14, "UTC")
        assert found.peak_minute_at is not None
        assert arrivals(read_trace(DATA / "azure_2023.csv")).time_zone == "not stated"  # type: ignore[union-attr]
        assert arrivals(read_trace(DATA / "mooncake.jsonl")).time_zone is None  # type: ignore[union-attr]


class TestPrefixReuse:
    @given(st.lists(st.tuples(st.lists(st.integers(0, 6), min_size=1, max_size=5), st.integers(1, 8)), min_size=1))
    def test_equals_a_naive_cache(self, requests: list[tuple[list[int], int]]) -> None:
        rows = [(8 * len(blocks) - 8 + last, blocks) for blocks, last in requests]
        found = infinite_pool(blocks_trace(rows, 8))
        cache: list[int] = []
        hits = []
        for length, blocks in rows:
            run = 0
            while run < len(blocks) and blocks[run] in cache:
                run += 1
            hits.append(min(8 * run, length))
            cache += blocks
        assert found.hit_tokens == sum(hits)
        assert list(found.uncached_tokens) == [max(1, n - h) for (n, _), h in zip(rows, hits, strict=True)]
        assert found.fully_cached_requests == sum(h == n for (n, _), h in zip(rows, hits, strict=True))
        assert found.mean_request_hit_fraction == pytest.approx(
            np.mean([h / n for (n, _), h in zip(rows, hits, strict=True)])
        )

    def test_a_mean_of_ratios_is_no_ratio_of_means(self) -> None:
        found = infinite_pool(blocks_trace([(8, [1]), (8, [1]), (80, list(range(2, 12)))], 8))
        assert found.hit_fraction == pytest.approx(8 / 96)
        assert found.mean_request_hit_fraction == pytest.approx(1 / 3)

    def test_conversations_of_new_tokens(self) -> None:
        """Later turns find the blocks that earlier inputs filled: 1024 + 1536 in one, 512 + 512 in the other."""
        found = infinite_pool(read_trace(DATA / "aiperf.jsonl"))
        assert found.hit_tokens == 1024 + 1536 + 512 + 512
        assert found.input_tokens == 1200 + 1600 + 2400 + 700 + 784 + 300 + 40

    def test_none_without_block_ids(self) -> None:
        with pytest.raises(TraceError, match="no block ids"):
            infinite_pool(trace_of([5]))


class TestSummary:
    @pytest.mark.parametrize(
        "name", ["mooncake.jsonl", "azure_2024.csv", "vidur_arxiv.csv", "kv_cache_tester", "burstgpt_3.csv"]
    )
    def test_is_json_with_the_expected_keys(self, name: str) -> None:
        found = trace_stats(read_trace(DATA / name)).to_dict()
        json.dumps(found, allow_nan=False)
        assert {"requests", "dropped", "input_tokens", "output_tokens", "arrivals", "prefix", "fit"} <= set(found)
        assert set(found["input_tokens"]) == {"mean", "p50", "p90", "p99", "max"}
        assert {"mu", "sigma", "ks"} <= set(found["fit"])
        if found["arrivals"] is not None:
            assert {"rate_rps", "interarrival_cv", "peak_to_mean_1min"} <= set(found["arrivals"])

    def test_prefix(self) -> None:
        prefix = trace_stats(read_trace(DATA / "mooncake.jsonl")).to_dict()["prefix"]
        assert {"hit_fraction", "mean_uncached_tokens", "by_pool"} <= set(prefix)
        assert trace_stats(read_trace(DATA / "vidur.csv")).to_dict()["prefix"] is None

    def test_conversations(self) -> None:
        found = trace_stats(read_trace(DATA / "kv_cache_tester")).conversations
        assert found is not None
        assert (found.conversations, found.mean_turns, found.max_turns) == (3, 8.0, 8)

    def test_warnings(self) -> None:
        walls = trace_of([50] * 300 + [4000] * 600 + [200_000], [float(i // 10 * 2) for i in range(901)])
        warnings = " ".join(trace_stats(walls).warnings)
        assert "mislead" in warnings
        assert "clock" in warnings
        smooth = np.rint(stats.lognorm.ppf((np.arange(500) + 0.5) / 500, 1.0, scale=2000.0)).astype(int).tolist()
        assert trace_stats(trace_of(smooth)).warnings == ()


def read_back(block: str) -> tuple[LengthLaw, float]:
    reader = Reader("scenario.toml")
    workload = read_workload(tomllib.loads(block)["workload"], reader, "workload", DATA)
    assert not reader.faults
    assert workload is not None
    return workload.law, workload.output_tokens


class TestWorkloadBlock:
    @pytest.mark.parametrize("law", ["histogram", "lognormal", "mixture", "trace"])
    @pytest.mark.parametrize("prefix_cache", ["none", "infinite"])
    def test_reads_back(self, law: BlockLaw, prefix_cache: str) -> None:
        trace = read_trace(DATA / "mooncake.jsonl")
        block = workload_block(trace, law, prefix_cache)  # type: ignore[arg-type]
        found, output = read_back(block)
        wanted = infinite_pool(trace).uncached_tokens if prefix_cache == "infinite" else trace.input_tokens
        assert output == pytest.approx(sum(trace.output_tokens) / trace.requests, rel=1e-5)
        assert min(wanted) - 1 <= found.support[0] < found.support[1] == max(wanted)
        if law in ("histogram", "trace"):
            assert found.mean == pytest.approx(sum(wanted) / trace.requests, rel=0.02)

    @given(lengths)
    def test_a_histogram_of_any_lengths(self, values: list[int]) -> None:
        law, _ = read_back(workload_block(trace_of(values)).replace("# output_tokens", "output_tokens = 1 #"))
        low, high = law.support
        assert low < min(values) <= max(values) == high
        assert law.share() == pytest.approx(1.0)

    def test_names_are_escaped(self) -> None:
        trace = Trace('a"b\\c\n\x7f😀.csv', "test", array("i", [5, 6]), array("i", [1, 1]))
        assert 'a"b\\c\n\x7f😀.csv' in tomllib.loads(workload_block(trace))["workload"]["description"]

    def test_too_few_lengths_for_a_fit(self) -> None:
        with pytest.raises(TraceError, match="too few distinct"):
            workload_block(trace_of([5, 5]), "lognormal")

    def test_a_poor_fit_says_so(self) -> None:
        walls = trace_of([50] * 300 + [4000] * 600 + [200_000])
        assert "# warning" in workload_block(walls, "lognormal")

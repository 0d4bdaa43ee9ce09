"""The ``[workload]`` table of a scenario: every law, traces, and faults that name their keys."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prfaas_plan.records import Reader
from prfaas_plan.trace.files import read_trace
from prfaas_plan.workload import Constant, Empirical, Histogram, LogNormal, Mixture, Workload, read_workload

TRACES = Path(__file__).resolve().parent / "data" / "traces"


def read(toml: str, folder: Path = TRACES) -> tuple[Workload | None, dict[str, str]]:
    reader = Reader("scenario.toml")
    workload = read_workload(tomllib.loads(toml), reader, "workload", folder)
    return workload, {fault.key.removeprefix("workload."): fault.problem for fault in reader.faults}


def good(toml: str) -> Workload:
    workload, faults = read(toml)
    assert not faults
    assert workload is not None
    return workload


def test_the_case_study() -> None:
    """The workload of arXiv 2604.15039, section 4."""
    workload = good(
        """
        input_tokens = { law = "lognormal", mu = 9.90, sigma = 1.00, min = 128, max = "128Ki" }
        output_tokens = 1024
        """
    )
    assert workload == Workload(LogNormal(9.9, 1.0, 128.0, 131072.0), 1024.0)


@pytest.mark.parametrize("value", ["8000", '"8k"', '{ law = "constant", tokens = "8k" }', "8000.0"])
def test_a_constant_length(value: str) -> None:
    assert good(f"input_tokens = {value}\noutput_tokens = '1k'").law == Constant(8000.0)


def test_a_histogram() -> None:
    law = good('input_tokens = { law = "histogram", edges = [0, "1k", 2000], weights = [3, 1] }\noutput_tokens = 1').law
    assert law == Histogram((0.0, 1000.0, 2000.0), (3.0, 1.0))


def test_a_mixture() -> None:
    law = good(
        """
        output_tokens = 100
        [input_tokens]
        law = "mixture"
        parts = [
          { weight = 0.7, law = "lognormal", mu = 7, sigma = 1 },
          { weight = 0.3, law = "mixture", parts = [{ weight = 1, law = "constant", tokens = "32Ki" }] },
        ]
        """
    ).law
    assert law == Mixture((0.7, 0.3), (LogNormal(7.0, 1.0), Mixture((1.0,), (Constant(32768.0),))))
    assert law.mean == pytest.approx(0.7 * math.exp(7.5) + 0.3 * 32768)


def test_rate_and_description() -> None:
    workload = good('input_tokens = 1000\noutput_tokens = 10\nrate_rps = "120 req/min"\ndescription = "chat"')
    assert (workload.rate_rps, workload.description) == (pytest.approx(2.0), "chat")


class TestTraces:
    def test_lengths_and_mean_output(self) -> None:
        trace = read_trace(TRACES / "mooncake.jsonl")
        workload = good('input_tokens = { trace = "mooncake.jsonl" }')
        assert workload.law == Empirical.of(trace.input_tokens)
        assert workload.output_tokens == pytest.approx(sum(trace.output_tokens) / trace.requests)
        assert workload.notes == ("mooncake.jsonl (Mooncake): 36 requests, full input lengths",)

    def test_uncached_lengths(self) -> None:
        full = good('input_tokens = { trace = "mooncake.jsonl" }')
        uncached = good('input_tokens = { trace = "mooncake.jsonl", prefix_cache = "infinite" }')
        assert uncached.law.mean < full.law.mean
        assert "without limit" in uncached.notes[0]

    def test_a_stated_output_wins(self) -> None:
        assert good('input_tokens = { trace = "mooncake.jsonl" }\noutput_tokens = 7').output_tokens == 7.0

    def test_dropped_rows_are_noted(self) -> None:
        notes = good('input_tokens = { trace = "burstgpt_1.csv" }').notes
        assert notes[1] == "burstgpt_1.csv: rows dropped: 2 input zero, 1 output zero (failed request)"

    def test_a_column_map(self) -> None:
        columns = '{ input = "prompt_len", output = "gen_len", timestamp = "when", timestamp_unit = "date" }'
        workload = good(f'input_tokens = {{ trace = "semicolons.csv", columns = {columns} }}')
        assert workload.law.support[1] > 1000

    def test_a_trace_without_outputs_needs_a_number(self) -> None:
        table = 'input_tokens = { trace = "semicolons.csv", columns = { input = "prompt_len" } }'
        _, faults = read(table)
        assert list(faults) == ["output_tokens"]
        assert good(table + "\noutput_tokens = 5").output_tokens == 5.0

    @pytest.mark.parametrize(
        ("table", "key", "said"),
        [
            ('{ trace = "nowhere.csv" }', "input_tokens.trace", "No such file"),
            ('{ trace = "lmcache_agent.jsonl" }', "input_tokens.trace", "tokenizer"),
            ('{ trace = "azure_2023.csv", prefix_cache = "infinite" }', "input_tokens.trace", "no block ids"),
            (
                '{ trace = "azure_2023.csv", prefix_cache = "lru" }',
                "input_tokens.prefix_cache",
                "one of none, infinite",
            ),
            ('{ trace = "semicolons.csv", columns = { input = "prompt" } }', "input_tokens.trace", "no such column"),
            ('{ trace = "semicolons.csv", columns = { inputs = "prompt" } }', "input_tokens.columns.inputs", "unknown"),
            ("{ trace = 5 }", "input_tokens.trace", "expected text"),
        ],
    )
    def test_faults(self, table: str, key: str, said: str) -> None:
        _, faults = read(f"input_tokens = {table}")
        assert said in faults[key]


class TestFaults:
    @pytest.mark.parametrize(
        ("toml", "keys"),
        [
            ("", {"input_tokens"}),
            ("input_tokens = 8000", {"output_tokens"}),
            ("input_tokens = 8000\noutput_tokens = 0", {"output_tokens"}),
            ("input_tokens = 0\noutput_tokens = 1", {"input_tokens.tokens"}),
            ("input_tokens = -5\noutput_tokens = -1", {"input_tokens.tokens", "output_tokens"}),
            ("input_tokens = nan\noutput_tokens = inf", {"input_tokens.tokens", "output_tokens"}),
            ("input_tokens = true\noutput_tokens = true", {"input_tokens", "output_tokens"}),
            ("input_tokens = []\noutput_tokens = 1", {"input_tokens"}),
            ("input_tokens = {}\noutput_tokens = 1", {"input_tokens.law"}),
            ('input_tokens = { law = "pareto" }\noutput_tokens = 1', {"input_tokens.law"}),
            ('input_tokens = { law = "lognormal", mu = 1 }\noutput_tokens = 1', {"input_tokens.sigma"}),
            ('input_tokens = { law = "lognormal", mu = 1, sigma = 0 }\noutput_tokens = 1', {"input_tokens.sigma"}),
            (
                'input_tokens = { law = "lognormal", mu = 1, sigma = 1, min = 9, max = 8 }\noutput_tokens = 1',
                {"input_tokens"},
            ),
            (
                'input_tokens = { law = "lognormal", mu = 1, sigma = 1, minimum = 9 }\noutput_tokens = 1',
                {"input_tokens.minimum"},
            ),
            ('input_tokens = { law = "histogram", edges = [1], weights = [] }\noutput_tokens = 1', {"input_tokens"}),
            ('input_tokens = { law = "histogram", edges = 1, weights = "x" }\noutput_tokens = 1', None),
            ('input_tokens = { law = "mixture", parts = [] }\noutput_tokens = 1', {"input_tokens.parts"}),
            ('input_tokens = { law = "mixture", parts = [4] }\noutput_tokens = 1', {"input_tokens.parts.0"}),
            (
                'input_tokens = { law = "mixture", parts = [{ law = "constant", tokens = 0 }] }\noutput_tokens = 1',
                {"input_tokens.parts.0.weight", "input_tokens.parts.0.tokens"},
            ),
            ("input_token = 8000\noutput_tokens = 1", {"input_token", "input_tokens"}),
        ],
    )
    def test_each_names_its_key(self, toml: str, keys: set[str] | None) -> None:
        workload, faults = read(toml)
        assert workload is None
        assert faults
        assert keys is None or {key.removeprefix("workload.") for key in faults} == keys

    @pytest.mark.parametrize("data", [None, 5, [], "8k"])
    def test_no_table(self, data: Any) -> None:
        reader = Reader("scenario.toml")
        assert read_workload(data, reader, "workload", TRACES) is None
        assert reader.faults[0].key == "workload"

    def test_mixtures_do_not_nest_without_end(self) -> None:
        table: Any = {"law": "constant", "tokens": 5}
        for _ in range(50):
            table = {"law": "mixture", "parts": [{"weight": 1, **table}]}
        reader = Reader("scenario.toml")
        assert read_workload({"input_tokens": table, "output_tokens": 1}, reader, "workload", TRACES) is None
        assert len(reader.faults) == 1

    junk = st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(
                st.sampled_from(["law", "mu", "sigma", "min", "max", "tokens", "edges", "weights", "parts", "weight"]),
                st.one_of(inner, st.sampled_from(["lognormal", "constant", "histogram", "mixture"])),
                max_size=5,
            ),
        ),
        max_leaves=12,
    )

    @given(input_tokens=junk, output_tokens=junk)
    def test_junk_is_a_fault_or_a_workload(self, input_tokens: Any, output_tokens: Any) -> None:
        reader = Reader("scenario.toml")
        data = {"input_tokens": input_tokens, "output_tokens": output_tokens}
        workload = read_workload(data, reader, "workload", TRACES)
        assert (workload is None) == bool(reader.faults)

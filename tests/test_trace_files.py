"""Reading traces: each published layout on a small invented file, and whatever can be wrong with a file."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prfaas_plan.errors import TraceError
from prfaas_plan.trace.collector import Clock, token_count
from prfaas_plan.trace.files import read_trace
from prfaas_plan.trace.formats import unit_in_name
from prfaas_plan.trace.records import Columns, Trace
from prfaas_plan.trace.stats import trace_stats

DATA = Path(__file__).resolve().parent / "data" / "traces"
Write = Callable[[str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def writer(content: str | bytes) -> Path:
        path = tmp_path / "trace"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return writer


def rows_of(name: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (DATA / name).read_text().splitlines() if line.strip()]


AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
MOONCAKE = '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}\n'


class TestFormats:
    @pytest.mark.parametrize(
        ("name", "known", "requests", "last_s"),
        [
            ("mooncake.jsonl", "Mooncake", 36, 24.001),
            ("azure_2023.csv", "Azure", 40, None),
            ("azure_2024.csv", "Azure", 53, 173380.0),
            ("vidur.csv", "vidur", 30, None),
            ("vidur_arxiv.csv", "vidur without times", 25, None),
            ("splitwise.csv", "splitwise", 25, None),
            ("burstgpt_1.csv", "BurstGPT", 27, 423.0),
            ("burstgpt_3.csv", "BurstGPT", 30, 474.0),
            ("bailian.jsonl", "Qwen-Bailian", 30, 10.202),
            ("ragpulse.jsonl", "RAGPulse", 24, 426.0),
            ("llmservingsim.jsonl", "LLMServingSim", 23, None),
            ("aiperf.jsonl", "AIPerf", 7, 9.0),
            ("kv_cache_tester", "kv-cache-tester", 24, None),
        ],
    )
    def test_recognised_by_content(self, name: str, known: str, requests: int, last_s: float | None) -> None:
        trace = read_trace(DATA / name)
        assert (trace.format, trace.requests) == (known, requests)
        assert len(trace.output_tokens) == requests
        if last_s is not None:
            assert trace.times_s[-1] == pytest.approx(last_s)

    @pytest.mark.parametrize("name", ["mooncake.jsonl", "azure_2023.csv", "burstgpt_3.csv", "ragpulse.jsonl"])
    def test_gzip_gives_the_same(self, name: str, tmp_path: Path) -> None:
        packed = tmp_path / "trace.bin"
        packed.write_bytes(gzip.compress((DATA / name).read_bytes()))
        plain, unpacked = read_trace(DATA / name), read_trace(packed)
        assert (plain.input_tokens, plain.times_s) == (unpacked.input_tokens, unpacked.times_s)

    def test_mooncake_values(self) -> None:
        rows = rows_of("mooncake.jsonl")
        trace = read_trace(DATA / "mooncake.jsonl")
        assert list(trace.input_tokens) == [row["input_length"] for row in rows]
        assert list(trace.output_tokens) == [row["output_length"] for row in rows]
        assert list(trace.times_s) == [row["timestamp"] / 1000 for row in rows]  # type: ignore[operator]
        assert list(trace.block_ids) == [i for row in rows for i in row["hash_ids"]]  # type: ignore[attr-defined]
        assert trace.block_tokens == 512

    def test_azure_keeps_100_ns(self, write: Write) -> None:
        trace = read_trace(write(AZURE + "2023-11-16 18:17:03.9799600,10,1\r\n2023-11-16 18:17:03.9799601,20,1"))
        assert list(trace.input_tokens) == [10, 20]
        assert trace.times_s[1] == pytest.approx(1e-7, rel=1e-3)
        assert trace.start == "2023-11-16 18:17:03.979960"

    def test_azure_2024_has_offsets_and_whole_seconds(self, write: Write) -> None:
        rows = "2024-05-10 00:00:00+00:00,5,1\n2024-05-10 02:00:00.500000+02:00,6,1\n2024-05-10 00:00:01Z,7,1\n"
        trace = read_trace(write(AZURE + rows))
        assert list(trace.times_s) == [0.0, 0.5, 1.0]
        assert trace.start == "2024-05-10 00:00:00+00:00"

    def test_burstgpt_rows_without_response_are_failures(self) -> None:
        trace = read_trace(DATA / "burstgpt_1.csv")
        assert trace.dropped == {"input zero": 2, "output zero (failed request)": 1}

    def test_burstgpt_3_is_read_by_name_and_has_conversations(self) -> None:
        trace = read_trace(DATA / "burstgpt_3.csv")
        assert trace.times_s[0] == 0.0
        assert min(trace.sessions) == -1
        assert max(trace.sessions) >= 3

    def test_bailian_conversations_follow_parents(self, write: Write) -> None:
        def row(chat: int, parent: int, seconds: float) -> str:
            values = {"chat_id": chat, "parent_chat_id": parent, "timestamp": seconds, "input_length": 20}
            return json.dumps(values | {"output_length": 3, "type": "text", "turn": 1, "hash_ids": [chat, 2]}) + "\n"

        trace = read_trace(write(row(7, -1, 0.0) + row(8, -1, 0.5) + row(9, 7, 1.25) + row(10, 9, 2.0)))
        assert list(trace.sessions) == [0, 1, 0, 0]
        assert list(trace.times_s) == [0.0, 0.5, 1.25, 2.0]
        assert trace.block_tokens == 16

    def test_ragpulse_times_are_text_and_out_of_order(self) -> None:
        trace = read_trace(DATA / "ragpulse.jsonl")
        assert trace.counts == {"out of time order, sorted": 1}
        assert list(trace.times_s) == sorted(trace.times_s)
        assert trace.block_tokens == 0

    def test_llmservingsim_sub_requests_follow_their_tools(self) -> None:
        trace = read_trace(DATA / "llmservingsim.jsonl")
        assert list(trace.input_tokens[-3:]) == [500, 900, 1200]
        gaps = [b - a for a, b in zip(trace.times_s[-3:], trace.times_s[-2:], strict=False)]
        assert gaps == pytest.approx([2.0, 1.0])

    def test_llmservingsim_token_ids_make_blocks(self, write: Write) -> None:
        rows = [list(range(40)), list(range(32)) + [7] * 20, [1, *range(1, 40)]]
        lines = [
            {"input_toks": len(r), "output_toks": 1, "arrival_time_ns": i, "input_tok_ids": r}
            for i, r in enumerate(rows)
        ]
        trace = read_trace(write("".join(json.dumps(line) + "\n" for line in lines)))
        assert (trace.block_tokens, list(trace.block_ends)) == (16, [2, 5, 7])
        assert trace.block_ids[:2] == trace.block_ids[2:4]
        assert not set(trace.block_ids[5:]) & set(trace.block_ids[:5])

    def test_aiperf_later_turns_hold_only_new_tokens(self) -> None:
        trace = read_trace(DATA / "aiperf.jsonl")
        by_time = dict(zip(trace.times_s, trace.input_tokens, strict=True))
        assert by_time == {0.0: 1200, 5.0: 1600, 7.5: 2400, 1.0: 700, 2.0: 784, 9.0: 300, 4.5: 40}
        assert trace.dropped == {"text without token counts": 1}

    def test_kv_cache_tester_ids_are_local_to_a_file(self) -> None:
        one = read_trace(DATA / "kv_cache_tester" / "conv-1.json")
        assert (one.requests, one.block_tokens, one.times_s[0]) == (8, 64, 0.0)
        folder = read_trace(DATA / "kv_cache_tester")
        assert len(folder.times_s) == 0
        assert len(set(folder.block_ids[: folder.block_ends[7]]) & set(folder.block_ids[folder.block_ends[7] :])) == 0
        assert folder.counts["conversations that repeat another, kept"] == 1
        assert folder.counts["zero output, kept"] == 3

    def test_plain_names(self, write: Write) -> None:
        trace = read_trace(write("timestamp_ms,input_tokens,output_tokens\n0,10,1\n1500,20,2\n"))
        assert (trace.format, list(trace.times_s)) == ("plain", [0.0, 1.5])

    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("lmcache_agent.jsonl", "tokenizer"),
            ("servegen_chunk-0-trace.csv", "ServeGen"),
            ("servegen_chunk-0-dataset.json", "ServeGen"),
            ("splitwise_perf_model.csv", "not a request trace"),
            ("semicolons.csv", "'when', 'prompt_len', 'gen_len'"),
            ("gateway.jsonl", "columns = "),
            ("nowhere.csv", "No such file"),
            ("", "is a folder"),
        ],
    )
    def test_refused_with_a_reason(self, name: str, said: str) -> None:
        with pytest.raises(TraceError, match=said):
            read_trace(DATA / name)


class TestColumnMaps:
    def test_csv_with_dates_needs_no_unit(self) -> None:
        trace = read_trace(DATA / "semicolons.csv", Columns("prompt_len", "gen_len", "when"))
        assert trace.times_s[:3].tolist() == [0.0, 60.0, 120.0]
        assert trace.start == "2026-03-02 06:00:30+00:00"

    def test_json_with_nested_keys_and_a_unit_in_the_name(self) -> None:
        columns = {
            "input": "usage.prompt_tokens",
            "output": "usage.completion_tokens",
            "timestamp": "created_ms",
            "session": "user",
        }
        trace = read_trace(DATA / "gateway.jsonl", columns)
        assert trace.times_s[:3].tolist() == [0.0, 1.5, 3.0]
        assert trace.sessions[:5].tolist() == [0, 1, 2, 3, 0]

    def test_numbers_need_a_unit(self, write: Write) -> None:
        path = write("t,n\n5,10\n6,20\n")
        with pytest.raises(TraceError, match="timestamp_unit: missing"):
            read_trace(path, Columns("n", None, "t"))
        trace = read_trace(path, Columns("n", None, "t", "us"))
        assert list(trace.times_s) == [0.0, 1e-6]
        assert len(trace.output_tokens) == 0

    def test_every_missing_column_is_named(self, write: Write) -> None:
        with pytest.raises(TraceError) as caught:
            read_trace(write("prompt_len,gen_len\n1,2\n"), Columns("prompt_lenght", "gen", "t", "s"))
        assert [fault.key for fault in caught.value.faults] == ["columns.input", "columns.output", "columns.timestamp"]
        assert caught.value.faults[0].suggestion == "prompt_len"

    @pytest.mark.parametrize(
        "columns", [{}, {"input": 3}, {"input": "n", "unit": "s"}, {"input": "n", "timestamp_unit": "h"}]
    )
    def test_a_faulty_map(self, write: Write, columns: dict[str, object]) -> None:
        with pytest.raises(TraceError, match="columns"):
            read_trace(write("n\n1\n"), columns)

    def test_blocks_of_a_custom_size(self, write: Write) -> None:
        path = write(MOONCAKE.replace("[1, 2]", '["a", "b", "c"]') * 2)
        columns = Columns("input_length", "output_length", "timestamp", "ms", "hash_ids", 256)
        trace = read_trace(path, columns)
        assert trace.block_tokens == 256
        assert list(trace.block_ends) == [3, 6]
        assert trace.block_ids[:3] == trace.block_ids[3:]

    def test_blocks_need_a_size_and_json(self, write: Write) -> None:
        with pytest.raises(TraceError, match="block_tokens"):
            read_trace(write(MOONCAKE), Columns("input_length", hash_ids="hash_ids"))
        with pytest.raises(TraceError, match="JSON lines only"):
            read_trace(write("n,h\n1,2\n"), Columns("n", hash_ids="h", block_tokens=16))


class TestFaultyFiles:
    @pytest.mark.parametrize(
        ("cells", "reason"),
        [
            (",5", "input missing"),
            ("x,5", "input not a number"),
            ("nan,5", "input not a number"),
            ("-3,5", "input negative"),
            ("0,5", "input zero"),
            ("1e12,5", "input huge"),
            pytest.param("9" * 5000 + ",5", "input huge", id="5000 digits"),
            ("1.5,5", "input not a whole number"),
            ("5", "output missing"),
            ("5,-1", "output negative"),
            ("5,inf", "output huge"),
        ],
    )
    def test_rows_are_dropped_by_reason(self, write: Write, cells: str, reason: str) -> None:
        good = "2023-11-16 18:17:03.9799600,10,1\r\n"
        trace = read_trace(write(AZURE + good + f"2023-11-16 18:17:04,{cells}\r\n"))
        assert (trace.requests, dict(trace.dropped)) == (1, {reason: 1})

    @pytest.mark.parametrize("time", ["yesterday", "2023-13-16 18:17:03", "2023-11-16", "2023-11-16 18:17:99", "5"])
    def test_a_date_that_is_none(self, write: Write, time: str) -> None:
        trace = read_trace(write(AZURE + f"2023-11-16 18:17:03,10,1\n{time},10,1\n"))
        assert dict(trace.dropped) == {"time not a date": 1}

    def test_mixed_units_of_dates_are_said(self, write: Write) -> None:
        trace = read_trace(write(AZURE + "2023-11-16 18:17:03,10,1\n2023-11-16 18:17:04+00:00,10,1\n"))
        assert "UTC" in trace.notes[0]

    def test_json_faults_are_counted(self, write: Write) -> None:
        bad = '{"timestamp": 1, "input_len\n[1]\nnull\n{"timestamp": "x", "input_length": 5, "output_length": 1}\n'
        trace = read_trace(write(MOONCAKE * 2 + bad))
        assert trace.requests == 2
        assert trace.dropped == {"malformed JSON": 2, "row that is no object": 1, "time not a number": 1}

    def test_unordered_rows_are_sorted_with_all_they_have(self, write: Write) -> None:
        rows = [(3000, 600, [5, 6]), (0, 100, [7]), (1000, 1500, [1, 2, 3])]
        lines = [
            json.dumps(dict(zip(("timestamp", "input_length", "hash_ids"), r, strict=True)) | {"output_length": 1})
            for r in rows
        ]
        trace = read_trace(write("\n".join(lines)))
        assert list(trace.times_s) == [0.0, 1.0, 3.0]
        assert list(trace.input_tokens) == [100, 1500, 600]
        assert (list(trace.block_ids), list(trace.block_ends)) == ([7, 1, 2, 3, 5, 6], [1, 4, 6])
        assert trace.counts == {"out of time order, sorted": 1}

    def test_times_count_from_the_first(self, write: Write) -> None:
        rows = "".join(MOONCAKE.replace('"timestamp": 0', f'"timestamp": {t}') for t in (10**14, 10**14 + 7))
        assert list(read_trace(write(rows)).times_s) == [0.0, 0.007]

    def test_blocks_of_the_wrong_size_are_not_used(self, write: Write) -> None:
        trace = read_trace(write(MOONCAKE.replace("[1, 2]", str(list(range(38)))) * 3))
        assert trace.block_tokens == 0
        assert "block_tokens" in trace.notes[0]

    def test_a_json_array(self, write: Write) -> None:
        rows = [json.loads(MOONCAKE)] * 3
        for text in (json.dumps(rows), json.dumps(rows, indent=1)):
            assert read_trace(write(text)).requests == 3

    def test_truncated_gzip_keeps_what_is_there(self, write: Write) -> None:
        rows = "".join(f"2023-11-16 18:{m:02d}:{s:02d},{10 + m * s},{s + 1}\n" for m in range(60) for s in range(60))
        packed = gzip.compress((AZURE + rows).encode())
        trace = read_trace(write(packed[: len(packed) // 2]))
        assert 100 < trace.requests < 3600
        assert trace.dropped["rest of the file lost: compressed data break off"] == 1

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"", "is empty"),
            (b"\n \n", "is empty"),
            (AZURE.encode(), "no usable request"),
            (AZURE.encode() + b"2023-11-16 18:17:03,0,0\n", "1 rows: input zero"),
            (b"\x00\x01\x02\x03" * 50, "binary"),
            (b"PK\x03\x04aaaa", "zip"),
            (b"\x28\xb5\x2f\xfdaaaa", "zstd"),
            (b"PAR1aaaa", "parquet"),
            (b"\x1f\x8b", "broken gzip"),
            (b"\x1f\x8b\x08\x00junkjunkjunk", "broken gzip"),
            (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS"),
            (b"1,2,3\n4,5,6\n", "no header row"),
            (b"{" * 100_000, "JSON|nested"),
            (b'{"a": 1', "not valid JSON"),
            (b"[]", "no known trace format"),
            (b"<html><body>Not found</body></html>", "no known trace format"),
        ],
    )
    def test_files_that_hold_no_trace(self, write: Write, content: bytes, said: str) -> None:
        with pytest.raises(TraceError, match=said):
            read_trace(write(content))

    def test_byte_order_marks(self, write: Write) -> None:
        text = AZURE + "2023-11-16 18:17:03,10,1\r\n"
        for encoding in ("utf-8-sig", "utf-16"):
            assert read_trace(write(text.encode(encoding))).requests == 1

    def test_a_path_with_a_nul(self) -> None:
        with pytest.raises(TraceError, match="NUL"):
            read_trace("a\0b")

    def test_a_folder_with_a_broken_conversation(self, tmp_path: Path) -> None:
        shutil.copy(DATA / "kv_cache_tester" / "conv-1.json", tmp_path)
        (tmp_path / "conv-9.json").write_text('{"id": ')
        trace = read_trace(tmp_path)
        assert (trace.requests, trace.dropped) == (8, {"file that is no JSON": 1})


class TestValues:
    @pytest.mark.parametrize(
        ("name", "unit"),
        [("t_s", "s"), ("arrival_time_ns", "ns"), ("Start [ms]", "ms"), ("time us", "us"), ("start_seconds", "s")],
    )
    def test_unit_in_a_name(self, name: str, unit: str) -> None:
        assert unit_in_name(name) == unit

    @pytest.mark.parametrize("name", ["timestamp", "t", "items", "tokens", "status"])
    def test_no_unit_in_a_name(self, name: str) -> None:
        assert unit_in_name(name) is None

    @pytest.mark.parametrize(("value", "count"), [(5, 5), ("5", 5), (" 5 ", 5), (5.0, 5), ("5e3", 5000), (0, 0)])
    def test_token_counts(self, value: object, count: int) -> None:
        assert token_count(value) == count

    @pytest.mark.parametrize("value", [True, [], {}, b"5", float("nan")])
    def test_what_is_no_count(self, value: object) -> None:
        with pytest.raises(ValueError, match="not a number"):
            token_count(value)

    @pytest.mark.parametrize("value", [True, [], "x", None, 1e300, float("nan"), 10**400])
    def test_what_is_no_time(self, value: object) -> None:
        with pytest.raises(ValueError, match=r"number|missing|huge"):
            Clock("s").seconds(value)


FIXTURES = sorted(p for p in DATA.rglob("*") if p.is_file())


JSON_FIXTURES = ("mooncake.jsonl", "bailian.jsonl", "llmservingsim.jsonl", "aiperf.jsonl", "lmcache_agent.jsonl")


def check_is_trace_or_error(path: Path) -> None:
    """Read a file and everything made of it: a trace that holds together, or a `TraceError`."""
    try:
        trace = read_trace(path)
    except TraceError:
        return
    assert isinstance(trace, Trace)
    assert trace.requests >= 1
    assert min(trace.input_tokens) >= 1
    for column in (trace.output_tokens, trace.times_s, trace.block_ends, trace.sessions):
        assert len(column) in (0, trace.requests)
    json.dumps(trace_stats(trace).to_dict(), allow_nan=False)


class TestFuzz:
    @settings(max_examples=150, deadline=None)
    @given(content=st.binary(max_size=400), prefix=st.sampled_from([b"", b"\x1f\x8b\x08", b"{", b"[", AZURE.encode()]))
    def test_random_bytes(self, tmp_path_factory: pytest.TempPathFactory, content: bytes, prefix: bytes) -> None:
        path = tmp_path_factory.getbasetemp() / "fuzz"
        path.write_bytes(prefix + content)
        check_is_trace_or_error(path)

    @settings(max_examples=250, deadline=None)
    @given(data=st.data())
    def test_mutated_files(self, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
        original = data.draw(st.sampled_from(FIXTURES)).read_bytes()
        content = bytearray(original[: data.draw(st.integers(1, len(original)))])
        for _ in range(data.draw(st.integers(0, 8))):
            place = data.draw(st.integers(0, len(content) - 1))
            junk = data.draw(
                st.sampled_from([b"", b"-", b"9" * 30, b"\x00", b"\n", b'"', b",", b"null", b"1e999", b"[{", b"\xff"])
            )
            content[place : place + data.draw(st.integers(0, 3))] = junk
            content = content or bytearray(b"0")
        path = tmp_path_factory.getbasetemp() / "mutated"
        path.write_bytes(gzip.compress(content) if data.draw(st.booleans()) else bytes(content))
        check_is_trace_or_error(path)

    values = st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4), st.lists(st.integers(), max_size=3)
    )
    keys = st.sampled_from(
        sorted({key for name in JSON_FIXTURES for row in rows_of(name) for key in row} | {"requests"})
    )

    @settings(max_examples=200, deadline=None)
    @given(rows=st.lists(st.dictionaries(keys, values, max_size=6), min_size=1, max_size=6))
    def test_rows_of_odd_values(self, tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, object]]) -> None:
        path = tmp_path_factory.getbasetemp() / "rows"
        path.write_text(MOONCAKE + "".join(json.dumps(row) + "\n" for row in rows))
        check_is_trace_or_error(path)

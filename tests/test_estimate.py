"""Tables of cases: the columns and rows that are promised, errors row by row, and public reports as cases."""

from __future__ import annotations

import csv
import io
import itertools
import time
from pathlib import Path

import pytest

from prfaas_plan.catalog import load_hardware, load_model
from prfaas_plan.errors import InputError
from prfaas_plan.estimates import INPUT_COLUMNS, OUTPUT_COLUMNS, estimate_csv, estimate_rows
from prfaas_plan.profiles import list_profiles

CASE = {
    "id": "1",
    "model": "llama-3.1-70b",
    "accelerator": "h100",
    "gpus": "8",
    "phase": "decode",
    "input_tokens": "4096",
}
MEASURED = Path(__file__).resolve().parent.parent / "benchmarks" / "data" / "single_phase.csv"


def one(**cells: str) -> dict[str, str]:
    return estimate_rows([{**CASE, **cells}])[0]


def seconds(**cells: str) -> float:
    row = one(**cells)
    assert row["error"] == ""
    return float(row["seconds"])


def test_rows_keep_their_order_and_columns() -> None:
    header = "id,model,accelerator,gpus,phase,input_tokens,mine"
    text = f"{header}\nb,llama-3.1-8b,h100,1,decode,100,x\na,nope,h100,1,decode,1,y\n"
    out = estimate_csv(text)
    first, *rows = out.splitlines()
    assert first == f"{header},seconds,low_s,high_s,bound,error"
    assert [r["id"] for r in csv.DictReader(io.StringIO(out))] == ["b", "a"]
    assert "x" in rows[0]


def test_a_bad_row_leaves_the_others_alone() -> None:
    rows = estimate_rows([CASE, {**CASE, "model": "llama-3.1-70"}, CASE])
    assert [bool(r["error"]) for r in rows] == [False, True, False]
    assert "llama-3.1-70b" in rows[1]["error"]
    assert rows[1]["seconds"] == rows[1]["low_s"] == rows[1]["high_s"] == rows[1]["bound"] == ""
    assert rows[0] == rows[2]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model", ""),
        ("accelerator", "h999"),
        ("accelerator", ""),
        ("gpus", "-1"),
        ("gpus", "1.5"),
        ("gpus", "many"),
        ("tp", "3"),
        ("ep", "5"),
        ("phase", "train"),
        ("phase", ""),
        ("batch", "-3"),
        ("batch", "nan"),
        ("batch", "inf"),
        ("input_tokens", ""),
        ("input_tokens", "0"),
        ("input_tokens", "-5"),
        ("input_tokens", "lots"),
        ("input_tokens", "nan"),
        ("weights_dtype", "fp7"),
        ("kv_dtype", "fp7"),
        ("cached_tokens", "-1"),
        ("request_overhead_s", "-1"),
        ("request_overhead_s", "soon"),
    ],
)
def test_a_bad_cell_is_named(key: str, value: str) -> None:
    row = one(phase="prefill") if key in ("cached_tokens", "request_overhead_s") else CASE
    row = estimate_rows([{**row, "phase": row["phase"], key: value}])[0]
    named = {
        "input_tokens": ("input_tokens", "tokens", "context"),
        "tp": ("tp", "gpus"),
        "cached_tokens": ("cached", "context"),
    }
    assert row["seconds"] == ""
    assert any(word in row["error"] for word in named.get(key, (key,)))


def test_missing_columns_are_named_together() -> None:
    with pytest.raises(InputError) as error:
        estimate_csv("id,modell,phase\n1,x,decode\n", "cases.csv")
    assert {f.key for f in error.value.faults} == {"model", "accelerator", "input_tokens"}


def test_defaults_fill_empty_cells() -> None:
    full = one(
        tp="8", ep="1", dp="1", pp="1", cp="1", batch="1", cached_tokens="0", engine="sglang", weights_dtype="bf16"
    )
    empty = one(**dict.fromkeys(set(INPUT_COLUMNS) - set(CASE), ""))
    assert full["seconds"] == empty["seconds"] == one()["seconds"]


def test_the_interval_holds_the_estimate() -> None:
    row = one()
    assert float(row["low_s"]) < float(row["seconds"]) < float(row["high_s"])
    assert row["bound"] in ("compute", "memory", "communication", "overhead")
    assert set(OUTPUT_COLUMNS) <= set(row)


def test_token_counts_may_have_units() -> None:
    assert seconds(input_tokens="4Ki") == seconds(input_tokens="4096")
    assert seconds(input_tokens="4k") == seconds(input_tokens="4000")


def test_groups_of_attention_stated_either_way() -> None:
    """Eight attention groups on eight GPUs: tp = 1 with dp = 8, or, as SGLang writes it, tp = 8 with dp = 8."""
    cells = {"model": "deepseek-v3", "accelerator": "h200", "batch": "256", "ep": "8", "dp": "8"}
    assert seconds(tp="1", **cells) == seconds(tp="8", **cells)


def test_gpus_left_over_are_copies() -> None:
    """Two copies on four GPUs each serve half of the batch."""
    assert seconds(tp="4", batch="64") == seconds(gpus="4", tp="4", batch="32")


def test_weights_that_cannot_be_held_are_an_error() -> None:
    row = one(model="llama-3.1-405b", gpus="1")
    assert "do not fit" in row["error"]


def test_every_published_row_can_be_estimated() -> None:
    rows = estimate_rows(csv.DictReader(io.StringIO(MEASURED.read_text("utf-8"))))
    failed = [r for r in rows if r["error"]]
    assert len(rows) > 590
    assert {r["accelerator"] for r in failed} == {"sambanova-sn40l"}


def test_ten_thousand_rows_cost_little_cpu() -> None:
    """CPU time, and ten times the bound, so that a busy machine does not matter."""
    rows = [{**CASE, "batch": str(1 + n % 64), "input_tokens": str(100 + n)} for n in range(10_000)]
    start = time.process_time()
    assert len(estimate_rows(rows)) == 10_000
    assert time.process_time() - start < 10.0


def test_time_to_first_token_rises_with_every_token() -> None:
    """1 and 2,048 prompt tokens must not take the same time (a fault reported of an inference simulator)."""
    times = [seconds(phase="prefill", input_tokens=str(n)) for n in (1, 2, 64, 512, 2048, 2049)]
    assert all(a < b for a, b in itertools.pairwise(times))


def test_no_chip_does_more_than_its_peak() -> None:
    """Llama-70B in BF16 on 8 H100 at 1,450 tokens: 38.6 requests a second would need the whole peak."""
    model, peak = load_model("llama-3.1-70b"), 8 * load_hardware("h100").need("bf16_flops")
    assert model.published_total_b is not None
    most = peak / (2 * 1450 * model.published_total_b * 1e9)
    assert most == pytest.approx(38.6, rel=0.01)
    rate = 64 / seconds(phase="prefill", input_tokens="1450", batch="64", request_overhead_s="0")
    assert 0.3 * most < rate < most


def test_the_split_of_decode_does_not_touch_prefill() -> None:
    """Each row is its own deployment: changing the ranks of one changes nothing in the other."""
    rows = [estimate_rows([{**CASE, "phase": "prefill"}, {**CASE, "gpus": n, "tp": n}]) for n in ("8", "4")]
    assert rows[0][0]["seconds"] == rows[1][0]["seconds"]
    assert rows[0][1]["seconds"] != rows[1][1]["seconds"]


def test_any_model_on_any_accelerator_gives_a_number_or_a_reason() -> None:
    """Whatever ships: a finite time within its interval, or an error that names a figure."""
    cases = [("llama-3.1-8b", chip) for chip in list_profiles("hardware")]
    cases += [(name, "h200") for name in list_profiles("model")]
    for model, chip in cases:
        for phase in ("prefill", "decode"):
            row = one(model=model, accelerator=chip, gpus="8", phase=phase)
            if row["error"]:
                assert ": " in row["error"], (model, chip, row["error"])
            else:
                assert 0.0 < float(row["low_s"]) < float(row["seconds"]) < float(row["high_s"]) < 1e4


WIDE = {"model": "deepseek-v3", "weights_dtype": "fp8", "kv_dtype": "bf16", "tp": "1", "request_overhead_s": "0"}


def wide(chip: str, gpus: int, **cells: str) -> dict[str, str]:
    """Estimate DeepSeek-V3 (or another model) with an attention group and its experts on every GPU."""
    sizes = dict.fromkeys(("gpus", "dp", "ep"), str(gpus))
    return one(**{**WIDE, "accelerator": chip, **sizes, "chunk_tokens": "0", **cells})


def test_the_deepseek_fleet() -> None:
    """608 B input tokens (342 B cached) and 168 B output tokens a day; 226.75 H800 nodes on average were in use.

    73.7k input and 14.8k output tokens a second and node (open-infra-index, day 6) make 95.5 + 131.4 nodes.
    """
    published = 608e9 / 86400 / 73_700, 168e9 / 86400 / 14_800
    assert sum(published) == pytest.approx(226.75, rel=0.002)
    prefill = wide("h800", 32, phase="prefill", batch="128", input_tokens="2187", cached_tokens="2813")
    decode = wide("h800", 144, batch=str(144 * 88), input_tokens="4989")
    prefill_nodes = 266e9 / 86400 / (128 * 2187 / float(prefill["seconds"]) / 4)
    low, middle, high = (168e9 / 86400 / (144 * 88 / float(decode[k]) / 18) for k in ("low_s", "seconds", "high_s"))
    assert low < published[1] < high
    assert prefill_nodes + middle == pytest.approx(226.75, rel=0.1)


@pytest.mark.parametrize(("length", "published"), [(1024, 57_674), (2048, 54_543), (4096, 50_302)])
def test_96_h100_prefill(length: int, published: float) -> None:
    """Input tokens a second and node of DeepSeek-V3 on four nodes, 16,384 tokens a GPU (LMSYS, 2025-05-05)."""
    row = wide("h100", 32, phase="prefill", batch=str(32 * 16384 // length), input_tokens=str(length))
    assert 32 * 16384 / float(row["seconds"]) / 4 == pytest.approx(published, rel=0.1)


def test_kimi_k2_needs_many_more_prefill_than_decode_nodes() -> None:
    """2,000 tokens in and 100 out: 8.6 prefill nodes to one decode node (LMSYS, 2025-07-20: 56k and 24k tokens/s)."""
    kimi = {"model": "kimi-k2"}
    prefill = wide("h200", 32, **kimi, phase="prefill", batch=str(32 * 8), input_tokens="2000")
    decode = wide("h200", 96, **kimi, batch=str(96 * 480 // 2), input_tokens="2050")
    prefill_rate = 32 * 8 * 2000 / float(prefill["seconds"]) / 4
    decode_rate = 96 * 240 / float(decode["seconds"]) / 12
    ratio = (2000 / prefill_rate) / (100 / decode_rate)
    assert ratio == pytest.approx(8.6, rel=0.35)

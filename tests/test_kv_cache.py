"""Cache bytes: against published sizes of 57 models, engine logs and wire measurements."""

from __future__ import annotations

import csv
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prfaas_plan.blocks import (
    Attention,
    CompressedAttention,
    FeedForward,
    GatedDeltaNet,
    KimiDeltaAttention,
    LatentAttention,
    LightningAttention,
    Mamba1,
    Mamba2,
)
from prfaas_plan.catalog import load_model
from prfaas_plan.errors import InputError
from prfaas_plan.kv_cache import (
    KvOptions,
    block_cache,
    describe_options,
    fixed_state_bytes,
    growing_bytes_per_token,
    index_bytes_per_token,
    memory_bytes,
    request_curve,
    window_cap_bytes,
    wire_bytes,
    wire_curve,
)
from prfaas_plan.model import KvPoint, ModelProfile, WeightFormats

SIZES = list(csv.DictReader((Path(__file__).parent / "data/model_sizes.csv").read_text(encoding="utf-8").splitlines()))
BF16, FP8 = KvOptions(kv_dtype="bf16"), KvOptions(kv_dtype="fp8")
MIB = 2.0**20

model = cache(load_model)


@pytest.mark.parametrize("row", SIZES, ids=lambda row: row["profile_id"])
def test_bytes_equal_an_independent_count(row: dict[str, str]) -> None:
    profile = model(row["profile_id"])
    vllm = KvOptions(kv_dtype="bf16", engine="vllm")
    found = {
        "kv_bytes_per_token_bf16": growing_bytes_per_token(profile, BF16),
        "kv_bytes_per_token_fp8": growing_bytes_per_token(profile, FP8),
        "index_bytes_per_token": index_bytes_per_token(profile),
        "window_cap_bytes_bf16": window_cap_bytes(profile, BF16),
        "state_bytes_sglang": fixed_state_bytes(profile, BF16),
        "state_bytes_vllm_auto": fixed_state_bytes(profile, vllm),
        "bytes_at_32k_bf16_sglang": request_curve(profile, BF16)(32768.0),
        "bytes_at_128k_bf16_sglang": request_curve(profile, BF16)(131072.0),
    }
    assert {key: round(value) for key, value in found.items()} == {key: int(row[key]) for key in found}


@pytest.mark.parametrize(
    ("name", "options", "published"),
    [
        pytest.param("llama-3.1-8b", BF16, 131_072, id="engine log in vllm#10517"),
        pytest.param("llama-3.1-70b", BF16, 327_680, id="Mooncake README: 40 GB for 128k tokens"),
        pytest.param("qwen3-8b", BF16, 147_456, id="wire measurement in the Mooncake documentation"),
        pytest.param("qwen3-30b-a3b", FP8, 49_152, id="engine log in vllm#25350"),
        pytest.param("kimi-k2.5", FP8, 35_136, id="aiconfigurator#1396"),
        pytest.param("deepseek-v3", BF16, 70_272, id="published per-token size"),
        pytest.param("glm-5.2", BF16, 92_628, id="llm-d blog: 93 KB/token"),
        pytest.param("kimi-k3", BF16, 27_648, id="24 latent layers"),
        pytest.param("gemma-3-27b", BF16, 80 * 1024, id="full layers only"),
        pytest.param("mimo-v2-flash", BF16, 22.5 * 1024, id="9 full layers of 48"),
        pytest.param("hunyuan-a13b", BF16, 131_072, id="use_cla is false"),
    ],
)
def test_published_bytes_per_token(name: str, options: KvOptions, published: float) -> None:
    assert growing_bytes_per_token(model(name), options) == published


def test_published_sizes_of_the_step3_report() -> None:
    """Step-3 technical report, Table 2: FP8 bytes read at 8K and 32K tokens of context."""
    for name, at_8k, at_32k in (("deepseek-v3", 2.88e8, 1.15e9), ("qwen3-235b-a22b", 7.89e8, 3.15e9)):
        curve = request_curve(model(name), FP8)
        assert curve(8192.0) == pytest.approx(at_8k, rel=2e-3)
        assert curve(32768.0) == pytest.approx(at_32k, rel=2e-3)


def test_linear_layers_of_a_hybrid_keep_state_and_no_growing_cache() -> None:
    k3 = model("kimi-k3")
    assert growing_bytes_per_token(k3, BF16) == 24 * 576 * 2
    recurrent = 69 * 96 * 128 * 128 * 4
    assert fixed_state_bytes(k3) == recurrent + 69 * 3 * 3 * 96 * 128 * 2


def test_measured_sizes_of_the_paper_become_a_line() -> None:
    """Table 5 of arXiv 2604.15039, read with K = 1000: 17,555 B/token above 172.0 MiB."""
    sizes = ((1000, 190.8), (8000, 308.9), (32000, 701.3), (128000, 2316.3))
    profile = ModelProfile("1T", "measured", kv_points=tuple(KvPoint(x, y * MIB) for x, y in sizes))
    assert growing_bytes_per_token(profile) == pytest.approx(17_555, abs=0.5)
    assert fixed_state_bytes(profile) / MIB == pytest.approx(172.0, abs=0.05)
    assert memory_bytes(profile, 8000, 8) == wire_bytes(profile, 8000, 8, deduplicated=False)
    with pytest.raises(InputError, match="measured in bf16"):
        request_curve(profile, FP8)


def test_window_layers_are_logical_or_fully_reserved() -> None:
    """An engine that keeps full blocks on window layers logs 73,728 B/token for gpt-oss-120b."""
    oss = model("gpt-oss-120b")
    logical = memory_bytes(oss, 20_000, 1, BF16) - memory_bytes(oss, 10_000, 1, BF16)
    reserved = memory_bytes(oss, 20_000, 1, BF16, "full") - memory_bytes(oss, 10_000, 1, BF16, "full")
    assert (logical / 10_000, reserved / 10_000) == (36_864, 73_728)
    assert wire_bytes(oss, 20_000, 8, BF16) == memory_bytes(oss, 20_000, 1, BF16)


def test_kv_heads_cross_the_wire_once_a_rank_unless_deduplicated() -> None:
    """Qwen3-235B at TP8, 8,192 tokens: 1.58 GB logical, 3.15 GB measured (Mooncake documentation)."""
    qwen = model("qwen3-235b-a22b")
    assert wire_bytes(qwen, 8192, 8) / 1e9 == pytest.approx(1.58, abs=0.005)
    assert wire_bytes(qwen, 8192, 8, deduplicated=False) / 1e9 == pytest.approx(3.15, abs=0.005)
    assert wire_bytes(qwen, 8192, 4, deduplicated=False) == wire_bytes(qwen, 8192)


def test_a_latent_is_kept_by_every_rank_and_shipped_once() -> None:
    deepseek = model("deepseek-v3")
    assert memory_bytes(deepseek, 1000, 8) == 8 * memory_bytes(deepseek, 1000)
    assert wire_bytes(deepseek, 1000, 8, deduplicated=False) == memory_bytes(deepseek, 1000)


def test_states_are_divided_by_heads_and_groups_replicated() -> None:
    ring, nemotron = model("ring-2.5-1t"), model("nemotron-h-56b")
    assert memory_bytes(ring, 0, 8) == fixed_state_bytes(ring)
    convolution = 54 * 3 * 2 * 8 * 256 * 2
    assert memory_bytes(nemotron, 0, 16) == fixed_state_bytes(nemotron) + convolution


def test_weight_precision_does_not_leak_into_the_cache() -> None:
    """Qwen2.5-7B with 8-bit weights: 57,344 B/token in the engine's log (vllm#22291)."""
    layers = ("full+ffn",) * 28
    blocks = {"full": Attention(28, 4, 128, 128), "ffn": FeedForward(18944)}
    for name in ("bf16", "int8", "fp8", "int4_g128"):
        profile = ModelProfile("Qwen2.5-7B", "config.json", layers=layers, blocks=blocks)
        profile = replace(profile, weights=WeightFormats(name, name, name, name))
        assert growing_bytes_per_token(profile) == 57_344
        assert request_curve(profile)(3072.0) == 3072 * 57_344


def test_the_fp8_record_of_sparse_latent_attention() -> None:
    """656 B a layer in flashmla_sparse.py of vLLM: 48,068 B/token for DeepSeek-V3.2 with its index."""
    assert growing_bytes_per_token(model("deepseek-v3.2"), KvOptions("fp8_ds_mla")) == 61 * (656 + 132)


def test_index_keeps_its_own_data_type() -> None:
    profile = model("deepseek-v3.2")
    assert index_bytes_per_token(profile) == 61 * 132
    plain = growing_bytes_per_token(profile, BF16) - growing_bytes_per_token(profile, FP8)
    assert plain == 61 * 576


def test_mtp_layers_add_cache_only_where_loaded_and_growing() -> None:
    extra = {
        name: growing_bytes_per_token(model(name), KvOptions("bf16", mtp=True))
        - growing_bytes_per_token(model(name), BF16)
        for name in ("deepseek-v3", "glm-4.5", "qwen3-next-80b-a3b", "mimo-v2-flash", "step-3.5-flash")
    }
    expected = {
        "deepseek-v3": 1152,
        "glm-4.5": 4096,
        "qwen3-next-80b-a3b": 2048,
        "mimo-v2-flash": 0,
        "step-3.5-flash": 0,
    }
    assert extra == expected


def test_state_precision_follows_the_engine() -> None:
    ring = model("ring-2.5-1t")
    assert fixed_state_bytes(ring, KvOptions(engine="sglang")) == 293_601_280
    assert fixed_state_bytes(ring, KvOptions(engine="vllm")) == 146_800_640
    assert fixed_state_bytes(ring, KvOptions(engine="vllm", state_dtype="fp32")) == 293_601_280


def test_saving_of_ring_over_its_predecessor_depends_on_the_length() -> None:
    """28.4x a token against Ling-1T, 16.0x at 32K tokens and 1.1x at 1K, where the state dominates."""
    ring, ling = model("ring-2.5-1t"), model("ling-1t")
    assert growing_bytes_per_token(ling) / growing_bytes_per_token(ring) == pytest.approx(28.44, abs=0.01)
    ratio = {length: request_curve(ling)(length) / request_curve(ring)(length) for length in (1024.0, 32768.0)}
    assert ratio[1024.0] == pytest.approx(1.10, abs=0.005)
    assert ratio[32768.0] == pytest.approx(16.0, abs=0.005)


def test_options_are_described() -> None:
    said = " ".join(describe_options(model("kimi-k3"), KvOptions(engine="vllm")))
    assert "bf16 (the profile's default)" in said
    assert "state in fp32 (what vllm uses" in said
    assert "min(length, window)" in " ".join(describe_options(model("gpt-oss-120b")))
    assert "index" in " ".join(describe_options(model("glm-5")))


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        (KvOptions(kv_dtype="fp9"), "fp8"),
        (KvOptions(engine="sglan"), "sglang"),
        (KvOptions(state_dtype="fp33"), "fp32"),
    ],
)
def test_unknown_options_are_refused_with_the_nearest_name(options: KvOptions, hint: str) -> None:
    with pytest.raises(InputError, match=f"did you mean '{hint}'"):
        request_curve(model("qwen3-8b"), options)


def test_no_ranks_are_refused() -> None:
    with pytest.raises(InputError, match="tensor_parallel"):
        memory_bytes(model("qwen3-8b"), 10, 0)


small = st.integers(1, 96)
mixers = st.one_of(
    st.builds(Attention, small, small, small, small, st.none() | st.integers(1, 9000)),
    st.builds(LatentAttention, small, small, small, small, small),
    st.builds(CompressedAttention, small, small, small, small, small, small, st.sampled_from([0, 4, 128]), small),
    st.builds(KimiDeltaAttention, small, small, small),
    st.builds(GatedDeltaNet, small, small, small, small, small),
    st.builds(LightningAttention, small, small),
    st.builds(Mamba2, small, small, small, small, small),
    st.builds(Mamba1, small, small, small, small),
    st.builds(FeedForward, small),
)


def stack(*blocks: object) -> ModelProfile:
    named = {f"b{i}": block for i, block in enumerate(blocks)}
    return ModelProfile("any", "config.json", layers=tuple(named), blocks=named)  # type: ignore[arg-type]


@given(st.lists(mixers, min_size=1, max_size=4), st.floats(0, 1e6), st.floats(0, 1e6))
def test_bytes_never_fall_with_length(blocks: list[object], a: float, b: float) -> None:
    curve = request_curve(stack(*blocks))
    low, high = sorted((a, b))
    assert 0 <= curve(low) <= curve(high) * (1 + 1e-12)


@given(st.lists(mixers, min_size=1, max_size=4), st.integers(0, 200_000))
def test_bytes_are_the_sum_of_the_layers(blocks: list[object], length: int) -> None:
    alone = sum(request_curve(stack(block))(float(length)) for block in blocks)
    assert request_curve(stack(*blocks))(float(length)) == pytest.approx(alone, rel=1e-12)


@given(mixers, st.integers(0, 200_000), st.sampled_from([1, 2, 4, 8, 16]))
def test_more_ranks_never_keep_less_and_the_wire_lies_between(block: object, length: int, ranks: int) -> None:
    profile = stack(block)
    one, kept = memory_bytes(profile, length), memory_bytes(profile, length, ranks)
    shipped = wire_curve(profile, ranks, deduplicated=False)(float(length))
    assert one <= shipped * (1 + 1e-12) <= kept * (1 + 1e-9) + 1e-6


@given(small, small, small, small, st.integers(0, 200_000))
def test_fp8_is_half_of_bf16_for_plain_keys_and_values(q: int, kv: int, dk: int, dv: int, length: int) -> None:
    profile = stack(Attention(q, kv, dk, dv))
    assert 2 * request_curve(profile, FP8)(float(length)) == request_curve(profile, BF16)(float(length))


@given(small, small, st.integers(1, 9000), st.floats(0, 1))
def test_a_window_equals_full_attention_below_its_reach(kv: int, width: int, window: int, part: float) -> None:
    sliding, full = stack(Attention(kv, kv, width, width, window)), stack(Attention(kv, kv, width, width))
    length = part * window
    assert request_curve(sliding)(length) == request_curve(full)(length)
    assert request_curve(sliding)(10.0 * window) == pytest.approx(request_curve(full)(float(window)))


def test_shared_layers_keep_nothing() -> None:
    assert block_cache(Attention(8, 8, 64, 64, cache="shared")).growing == 0

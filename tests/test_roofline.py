"""The roofline: published kernel-level identities, and what must hold for any deployment."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prfaas_plan.blocks import Attention, FeedForward, LightningAttention
from prfaas_plan.catalog import load_hardware, load_model
from prfaas_plan.communication import all_reduces, expert_exchange, prompt_exchange
from prfaas_plan.decode import Speculation, decode_step, decode_work
from prfaas_plan.deployment import Deployment
from prfaas_plan.errors import InputError, ProfileError
from prfaas_plan.formats import stored_weights
from prfaas_plan.mixing import Mixer, window_pairs
from prfaas_plan.model import ModelProfile, WeightFormats
from prfaas_plan.prefill import prefill_curve, prefill_time, prefill_work
from prfaas_plan.roofline import PhaseTime, smooth_maximum

MODELS = [
    *("llama-3.1-70b", "qwen3-235b-a22b", "deepseek-v3", "deepseek-v3.2", "kimi-linear-48b-a3b", "ring-2.5-1t"),
    *("mimo-v2-flash", "gpt-oss-120b", "qwen3.5-397b-a17b", "llama-4-maverick-17b-128e", "deepseek-v4-flash"),
    *("nemotron-h-56b", "jamba-v0.1", "minimax-m1"),
]
CHIPS = ["h200", "h20-96", "b200", "a100", "mi300x", "l40s"]


@cache
def deployment(model: str = "llama-3.1-70b", chip: str = "h200", **sizes: object) -> Deployment:
    return Deployment(load_model(model), load_hardware(chip), **{"gpus": 8, **sizes})  # type: ignore[arg-type]


models, chips = st.sampled_from(MODELS), st.sampled_from(CHIPS)
lengths = st.floats(16.0, 2e5)
batches = st.floats(1.0, 512.0)


def flops_of(works: list, names: tuple[str, ...]) -> float:
    return sum(w.flops for w in works if w.name in names)


# Step-3 technical report, Tables 2 and 3: decode, per token: KV bytes at 8K and 32K, linear FLOP, FFN FLOP.
STEP3 = [
    ("deepseek-v3", "fp8", 2.88e8, 1.15e9, 2.28e10, 4.84e10),
    ("kimi-k2", "fp8", 2.88e8, 1.15e9, 1.23e10, 4.84e10),
    ("qwen3-235b-a22b", "fp8", 7.89e8, 3.15e9, 1.34e10, 2.84e10),
    ("qwen3-32b", "fp8", 1.07e9, 4.29e9, 1.21e10, 5.03e10),
    ("ernie-4.5-300b-a47b", "fp8", 9.06e8, 3.62e9, 1.63e10, 7.61e10),
    ("step-3", "fp8", 2.56e8, 1.02e9, 2.07e10, 5.33e10),
    ("minimax-m1", "bf16", 9.23e8, 1.93e9, 3.75e10, 5.44e10),
]


@pytest.mark.parametrize(("model", "kv", "kv8", "kv32", "linear", "ffn"), STEP3)
def test_published_decode_costs(model: str, kv: str, kv8: float, kv32: float, linear: float, ffn: float) -> None:
    one = deployment(model, gpus=1, kv_dtype=kv)
    for context, published in ((8192, kv8), (32768, kv32)):
        works = decode_work(one, 1, context)
        read = sum(w.bytes for w in works if w.kind in ("attention", "state"))
        assert read == pytest.approx(published, rel=0.01)
    works = decode_work(one, 1, 8192)
    assert flops_of(works, ("attention projections",)) == pytest.approx(linear, rel=0.01)
    assert flops_of(works, ("dense feed-forward", "experts", "shared experts")) == pytest.approx(ffn, rel=0.01)


def test_dense_prefill_flops_are_two_per_parameter() -> None:
    """Llama-3.1-70B: 2 · 68.5e9 FLOP a token in its layers (70.55e9 parameters less two embeddings of 1.05e9)."""
    works = prefill_work(deployment(gpus=1, tp=1), 1000)
    products = flops_of(works, ("attention projections", "dense feed-forward"))
    assert products == pytest.approx(2 * 1000 * (70.55e9 - 2 * 128256 * 8192), rel=2e-3)


def test_causal_attention_flops() -> None:
    """80 layers · 64 heads · 4 · 128 · L²/2 FLOP in Llama-3.1-70B."""
    works = prefill_work(deployment(gpus=1, tp=1), 4096)
    assert flops_of(works, ("attention",)) == pytest.approx(80 * 64 * 4 * 128 * 4096**2 / 2)


def test_prompts_use_the_unabsorbed_latent_form_and_decode_the_absorbed() -> None:
    """DeepSeek-V3: 128 heads, 192 + 128 wide in a prompt; 576 + 512 wide when decoding."""
    one = deployment("deepseek-v3", gpus=1)
    assert flops_of(prefill_work(one, 1024), ("latent attention",)) == pytest.approx(61 * 128 * 2 * 320 * 1024**2 / 2)
    assert flops_of(decode_work(one, 1, 1024), ("latent attention",)) == pytest.approx(61 * 128 * 2 * 1088 * 1024)


def test_experts_touched() -> None:
    """256 experts, 8 a token: 8 for one token, all of them for very many."""
    shard = deployment("deepseek-v3").layout.experts[0]
    assert shard.touched(1.0) == pytest.approx(8.0)
    assert shard.touched(1e6) == pytest.approx(256.0)


@settings(max_examples=60, deadline=None)
@given(models, chips, lengths, batches)
def test_never_faster_than_the_plain_roofline(model: str, chip: str, length: float, batch: float) -> None:
    d = deployment(model, chip)
    for time in (prefill_time(d, length, batch), decode_step(d, batch, length)):
        assert time.seconds >= time.plain_s * (1 - 1e-12)
        assert 0.0 < time.mfu <= 1.0
        assert 0.0 < time.mbu <= 1.0


@settings(max_examples=60, deadline=None)
@given(models, chips, lengths, batches)
def test_results_are_made_of_their_operations(model: str, chip: str, length: float, batch: float) -> None:
    d = deployment(model, chip)
    for time in (prefill_time(d, length, batch), decode_step(d, batch, length)):
        assert sum(o.seconds for o in time.operations) == pytest.approx(time.seconds)
        assert sum(time.shares.values()) == pytest.approx(1.0)
        assert time.bound == max(time.shares, key=lambda name: time.shares[name])
        assert time.low_s < time.seconds < time.high_s
        assert min(min(o[1:5]) for o in time.operations) >= 0.0


@settings(max_examples=60, deadline=None)
@given(models, chips, lengths, batches, st.floats(1.001, 3.0))
def test_monotone(model: str, chip: str, length: float, batch: float, factor: float) -> None:
    d = deployment(model, chip)
    assert prefill_time(d, length * factor, batch).seconds > prefill_time(d, length, batch).seconds
    assert prefill_time(d, length, batch * factor).seconds > prefill_time(d, length, batch).seconds
    assert prefill_time(d, length, batch, length * factor).seconds >= prefill_time(d, length, batch, length).seconds
    assert decode_step(d, batch * factor, length).seconds >= decode_step(d, batch, length).seconds
    assert decode_step(d, batch, length * factor).seconds >= decode_step(d, batch, length).seconds


@settings(max_examples=40, deadline=None)
@given(models, lengths, batches, st.sampled_from(["memory_bandwidth", "scaleup_bandwidth", "bf16_flops", "fp8_flops"]))
def test_a_better_chip_is_never_slower(model: str, length: float, batch: float, key: str) -> None:
    d = deployment(model)
    better = replace(d, hardware=replace(d.hardware, **{key: 2.0 * d.hardware.need(key)}))
    assert prefill_time(better, length, batch).seconds <= prefill_time(d, length, batch).seconds
    assert decode_step(better, batch, length).seconds <= decode_step(d, batch, length).seconds


@pytest.mark.parametrize("model", MODELS)
def test_one_gpu_has_no_communication(model: str) -> None:
    d = deployment(model, gpus=1)
    assert all_reduces(d, 10.0, 1.0) == expert_exchange(d, 10.0, 1.0, hidden_behind=False) == []
    assert prompt_exchange(d, 10.0, 1.0) == []
    assert prefill_time(d, 1000).shares["communication"] == 0.0
    assert decode_step(d, 4, 1000).shares["communication"] == 0.0


def small(mixer: object, **changes: object) -> ModelProfile:
    formats = WeightFormats(attention="bf16", ffn="bf16", experts="bf16", shared_experts="bf16")
    base = {"hidden_size": 1024, "vocab_size": 32000, "layers": ("mix+ffn",) * 4, "weights": formats}
    blocks = {"mix": mixer, "ffn": FeedForward(width=4096)}
    return ModelProfile(name="small", basis="config.json", blocks=blocks, **{**base, **changes})  # type: ignore[arg-type]


def of(mixer: object, **sizes: object) -> Deployment:
    return Deployment(small(mixer), load_hardware("h200"), **{"gpus": 1, "request_overhead_s": 0.0, **sizes})  # type: ignore[arg-type]


FULL = Attention(q_heads=8, kv_heads=2, qk_dim=128, v_dim=128)


@settings(max_examples=40, deadline=None)
@given(st.floats(1.0, 4096.0))
def test_a_window_is_full_attention_below_it(length: float) -> None:
    window = of(replace(FULL, window_tokens=4096))
    assert prefill_time(window, length).seconds == pytest.approx(prefill_time(of(FULL), length).seconds)
    assert decode_step(window, 3, length).seconds == pytest.approx(decode_step(of(FULL), 3, length).seconds)


def test_a_window_stops_growing() -> None:
    window = of(replace(FULL, window_tokens=1024))
    assert decode_step(window, 3, 1e5).seconds == pytest.approx(decode_step(window, 3, 1024).seconds)
    assert prefill_time(window, 1e5).seconds < prefill_time(of(FULL), 1e5).seconds


@settings(max_examples=40, deadline=None)
@given(st.floats(8192.0, 1e5), st.floats(8192.0, 1e5))
def test_linear_attention_is_affine_in_length(one: float, other: float) -> None:
    """Above one pass, where passes are equally full."""
    d = of(LightningAttention(heads=8, head_dim=128))
    middle = prefill_time(d, 0.5 * (one + other)).seconds
    assert middle == pytest.approx(0.5 * (prefill_time(d, one).seconds + prefill_time(d, other).seconds))
    assert decode_step(d, 4, one).seconds == decode_step(d, 4, other).seconds


@pytest.mark.parametrize(("dtype", "bytes_each"), [("bf16", 2.0), ("fp8", 1.0), ("int4", 0.5 + 2.0 / 128)])
def test_weight_bytes_scale_with_the_data_type(dtype: str, bytes_each: float) -> None:
    works = decode_work(of(FULL, weights_dtype=dtype), 1, 1)
    ffn = next(w for w in works if w.name == "dense feed-forward")
    assert ffn.bytes == pytest.approx(4 * 3 * 1024 * 4096 * bytes_each)


def test_cache_bytes_scale_with_the_data_type() -> None:
    full, half = (decode_work(of(FULL, kv_dtype=kv), 1, 1000) for kv in ("bf16", "fp8"))
    read = [next(w.bytes for w in works if w.name == "attention") for works in (full, half)]
    assert read[0] == 2 * read[1] == 4 * 2 * 2 * 128 * 2 * 1000


def test_key_value_heads_are_replicated_beyond_their_number() -> None:
    """Two K/V heads on eight ranks: each rank reads one whole head, as with two ranks."""
    two, eight = (decode_work(of(FULL, gpus=n), 1, 1000) for n in (2, 8))
    assert [w.bytes for w in two if w.name == "attention"] == [w.bytes for w in eight if w.name == "attention"]


def test_several_contexts_cost_their_mean() -> None:
    d = deployment()
    mixed, mean = decode_step(d, 8, [1000.0, 3000.0]), decode_step(d, 8, 2000.0)
    assert mixed.seconds == pytest.approx(mean.seconds)


def test_a_cached_prefix_costs_less_than_computing_it() -> None:
    d = deployment("deepseek-v3")
    fresh, cached, whole = prefill_time(d, 4096), prefill_time(d, 4096, 1, 28672), prefill_time(d, 32768)
    assert fresh.seconds < cached.seconds < whole.seconds


@given(tokens=st.floats(1.0, 2e5), chunk=st.floats(256.0, 65536.0))
def test_every_pass_after_the_first_costs_its_scheduling(tokens: float, chunk: float) -> None:
    d = deployment()
    spent = {o.name: o.seconds for o in prefill_time(d, tokens, 1, 0, chunk).operations}
    each = d.rates.constants.pass_seconds
    assert each > 0.0
    assert spent.get("further passes", 0.0) == pytest.approx(max(0.0, tokens / chunk - 1.0) * each)


@given(tokens=st.floats(1.0, 2e5), chunk=st.floats(256.0, 65536.0), factor=st.floats(1.0, 8.0))
def test_larger_chunks_are_never_slower(tokens: float, chunk: float, factor: float) -> None:
    d = deployment("deepseek-v3")
    large, small = prefill_time(d, tokens, 1, 0, chunk * factor), prefill_time(d, tokens, 1, 0, chunk)
    assert large.seconds <= small.seconds * (1.0 + 1e-9)
    assert prefill_time(d, tokens, 1, 0, None).seconds <= large.seconds * (1.0 + 1e-9)


def test_a_pipeline_fills_and_drains() -> None:
    """(n + pp − 1)/n with n passes: nearly pp times as slow per stage for one pass, nearly 1 for many."""
    flat, piped = (of(FULL, gpus=4, tp=4 // n, pp=n) for n in (1, 4))
    one = flat_ratio = None
    for tokens in (4096, 65536 * 4):
        a, b = prefill_time(of(FULL), tokens).seconds, prefill_time(piped, tokens).seconds
        one, flat_ratio = (b / a, flat_ratio) if one is None else (one, b / a)
    assert flat.pp == 1
    assert one == pytest.approx(1.0, rel=0.02)
    assert flat_ratio is not None
    assert flat_ratio < 0.3


def test_speculation_yields_more_tokens_for_a_longer_step() -> None:
    d = deployment("deepseek-v3")
    plain, drafted = decode_step(d, 8, 4096), decode_step(d, 8, 4096, Speculation(1, 0.85))
    assert drafted.tokens_each == pytest.approx(1.85)
    assert plain.seconds < drafted.seconds < 1.85 * plain.seconds
    assert decode_step(d, 8, 4096, Speculation(3, 0.0)).seconds_per_token > plain.seconds


@pytest.mark.parametrize("wrong", [(0, 0.5), (2, 1.5), (2, -0.1)])
def test_speculation_out_of_range(wrong: tuple[int, float]) -> None:
    with pytest.raises(InputError, match="draft"):
        Speculation(*wrong)


@pytest.mark.parametrize(
    ("sizes", "key"),
    [
        ({"gpus": 8, "tp": 3}, "gpus"),
        ({"gpus": 0}, "gpus"),
        ({"ep": 3}, "ep"),
        ({"request_overhead_s": -1.0}, "request"),
    ],
)
def test_an_impossible_division_is_named(sizes: dict[str, object], key: str) -> None:
    with pytest.raises(InputError, match=key):
        Deployment(load_model("llama-3.1-70b"), load_hardware("h200"), **sizes)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_impossible_sizes_are_named(value: float) -> None:
    with pytest.raises(InputError, match="tokens"):
        prefill_time(deployment(), value)
    with pytest.raises(InputError, match="batch"):
        decode_step(deployment(), value, 100.0)
    with pytest.raises(InputError, match="context_tokens"):
        decode_step(deployment(), 1.0, [100.0, value])


def test_a_type_the_chip_lacks_falls_back_and_says_so() -> None:
    """FP8 weights on an A100: bytes of FP8, arithmetic of bf16."""
    d = deployment("llama-3.1-70b", "a100", weights_dtype="fp8")
    kept = d.stored["ffn"]
    assert (kept.bytes, kept.dtype) == (1.0, "bf16")
    assert any("bf16" in note for note in decode_step(d, 1, 100).notes)


def test_an_unknown_type_is_an_error() -> None:
    with pytest.raises(InputError, match="weights_dtype"):
        stored_weights(load_model("llama-3.1-70b"), "fp7", load_hardware("h200"))


def test_four_bits_leave_attention_of_a_mixture_alone() -> None:
    stored = stored_weights(load_model("deepseek-v3"), "nvfp4", load_hardware("b200"))
    assert (stored["attention"].format, stored["experts"].format) == ("bf16", "nvfp4")
    assert stored["experts"].dtype == "fp4"


def test_a_family_without_a_fit_is_named_in_the_result() -> None:
    assert any("generic" in note for note in decode_step(deployment("llama-3.1-8b", "gaudi-2"), 1, 100).notes)


def test_a_chip_without_a_bandwidth_is_an_error_naming_it() -> None:
    with pytest.raises(ProfileError, match="memory_bandwidth"):
        decode_step(deployment("llama-3.1-8b", "sambanova-sn40l"), 1, 100)


def test_a_model_without_layers_is_an_error() -> None:
    with pytest.raises(ProfileError, match="layers"):
        prefill_time(deployment("kimi-linear-1t-paper"), 100)


def test_the_interval_is_wider_where_the_floor_is_not_known() -> None:
    known = prefill_time(deployment(request_overhead_s=0.028), 1000)
    unknown = prefill_time(deployment(), 1000)
    assert known.seconds == unknown.seconds
    assert unknown.high_s > known.high_s + 0.4


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("sizes", [{}, {"gpus": 16, "tp": 8, "dp": 2, "ep": 16}, {"gpus": 16, "pp": 2}])
def test_the_curve_follows_the_formula(model: str, sizes: dict[str, int]) -> None:
    d = deployment(model, **sizes)
    curve = prefill_curve(d, 64, 131072)
    points = [64 * 1.07**n for n in range(112)]
    assert all(abs(curve(x) / prefill_time(d, x).seconds - 1) <= 2e-3 for x in points)
    assert all(curve(a) < curve(b) for a, b in itertools.pairwise(points))


def test_the_curve_refuses_an_empty_range() -> None:
    with pytest.raises(InputError, match="shortest"):
        prefill_curve(deployment(), 100, 100)


@given(st.floats(0.0, 1e9), st.floats(0.0, 1e9))
def test_smooth_maximum_bounds(a: float, b: float) -> None:
    assert max(a, b) * (1 - 1e-12) <= smooth_maximum(a, b) <= 2**0.25 * max(a, b) * (1 + 1e-12)


@given(st.integers(1, 60), st.integers(0, 60), st.integers(1, 40))
def test_window_pairs_against_a_sum(new: int, cached: int, window: int) -> None:
    """An integral over position, against the sum over positions: they differ by half a key a token at most."""
    exact = sum(min(p, window) for p in range(cached + 1, cached + new + 1))
    assert window_pairs(new, cached, window) == pytest.approx(exact, abs=0.5 * new + 1e-9)


def test_a_chunked_window_sees_its_own_chunk_only() -> None:
    mixer = Mixer("m", pair_flops=1.0, window=8, chunked=True)
    assert mixer.pairs(32.0, 0.0) == 4 * 8 * 8 / 2


def test_to_dict_is_plain() -> None:
    data = decode_step(deployment(), 1, 100).to_dict()
    assert isinstance(data["operations"], list)
    assert set(data["shares"]) == {f"{n}_fraction" for n in ("compute", "memory", "communication", "overhead")}


def test_intensity_against_the_ridge_tells_the_bound() -> None:
    long_prompt: PhaseTime = prefill_time(deployment("llama-3.1-70b"), 32768)
    one_token = decode_step(deployment("llama-3.1-70b"), 1, 1000)
    assert long_prompt.intensity > long_prompt.ridge
    assert one_token.intensity < one_token.ridge

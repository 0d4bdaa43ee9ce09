"""Memory, batches and splits."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prfaas_plan.batching import largest_batch
from prfaas_plan.catalog import load_hardware, load_model
from prfaas_plan.decode import Speculation, decode_step
from prfaas_plan.deployment import Deployment
from prfaas_plan.errors import InputError
from prfaas_plan.footprint import cache_tokens, footprint, sequences_that_fit, smallest_instance
from prfaas_plan.kv_cache import request_curve
from prfaas_plan.parameters import weight_bytes
from prfaas_plan.splits import compare_splits


@cache
def deployment(model: str = "llama-3.1-70b", chip: str = "h200", **sizes: object) -> Deployment:
    return Deployment(load_model(model), load_hardware(chip), **{"gpus": 8, **sizes})  # type: ignore[arg-type]


@pytest.mark.parametrize("model", ["llama-3.1-405b", "qwen3-235b-a22b", "gpt-oss-120b", "jamba-v0.1", "gemma-3-27b"])
def test_one_gpu_holds_the_checkpoint(model: str) -> None:
    held = footprint(deployment(model, gpus=1), 0, 0)
    assert held.weights_bytes == pytest.approx(weight_bytes(load_model(model)), rel=1e-6)


def test_llama_405b_does_not_fit_one_h100() -> None:
    """About 812 GB of BF16 weights against 80 GiB; two servers of eight hold it."""
    found = footprint(deployment("llama-3.1-405b", "h100", gpus=1), 1, 1024)
    assert not found.fits
    assert "812 GB of weights" in found.reason
    assert "TP 8 x PP 2 = 16 GPUs" in found.reason


def test_what_fits_says_nothing() -> None:
    found = footprint(deployment(), 16, 8192)
    assert found.fits
    assert found.reason == ""
    assert found.to_dict()["reason"] is None


def test_the_smallest_instance_fits_and_half_of_it_does_not() -> None:
    found = smallest_instance(deployment("deepseek-v3", "h100"), 4096)
    assert found is not None
    assert footprint(found, 1, 4096).fits
    assert found.gpus == 16
    assert not footprint(deployment("deepseek-v3", "h100", gpus=8), 1, 4096).fits


def test_nothing_small_enough() -> None:
    assert smallest_instance(deployment("kimi-k3", "groq-lpu-v1"), 4096) is None


def test_tokens_that_fit_depend_on_the_context() -> None:
    """Windows and full layers: memory over tokens is the bytes per token at that context, on one GPU without logits."""
    d = deployment("gemma-3-27b", gpus=1)
    curve = request_curve(load_model("gemma-3-27b"), d.options)
    short, long = cache_tokens(d, 512), cache_tokens(d, 65536)
    assert long > 4 * short
    free = sequences_that_fit(d, 65536) * (curve(65536) + 4 * d.model.vocab_size)
    assert free / long == pytest.approx(curve(65536) / 65536 + 4 * d.model.vocab_size / 65536)


def test_arriving_sequences_take_memory() -> None:
    """Kimi-K2.5 with an FP8 cache: 35,136 B a token, 0.30 GiB for a sequence of 9,174 tokens."""
    d = deployment("kimi-k2.5", "b200", gpus=8, tp=1, dp=8, ep=8, kv_dtype="fp8")
    assert request_curve(d.model, d.options)(9174) / 2**30 == pytest.approx(0.300, abs=0.002)
    alone, receiving = largest_batch(d, 9174, 10.0), largest_batch(d, 9174, 10.0, arriving=200)
    assert alone.limit == "memory"
    assert receiving.batch == alone.batch - 200


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(["llama-3.1-70b", "qwen3-235b-a22b", "deepseek-v3", "kimi-linear-48b-a3b"]),
    st.floats(256, 65536),
    st.floats(0.012, 0.2),
)
def test_the_largest_batch_is_the_largest(model: str, context: float, target: float) -> None:
    d = deployment(model)
    found = largest_batch(d, context, target)
    if found.batch == 0:
        assert found.reason
        return
    assert found.step is not None
    assert found.step.seconds <= target
    assert footprint(d, found.batch, context).fits
    more = found.batch + 1
    assert decode_step(d, more, context).seconds > target or not footprint(d, more, context).fits


def test_a_target_below_one_sequence_says_what_one_takes() -> None:
    found = largest_batch(deployment("llama-3.1-405b", gpus=16, pp=2), 1000, 0.005)
    assert found.batch == 0
    assert found.limit == "latency"
    assert "ms a token" in found.reason
    assert found.tokens_per_second == 0.0
    assert found.to_dict()["step"] is None


def test_no_room_is_a_memory_limit() -> None:
    assert largest_batch(deployment("llama-3.1-405b", "h100"), 1000, 1.0).limit == "memory"


def test_a_target_must_be_positive() -> None:
    with pytest.raises(InputError, match="tpot_s"):
        largest_batch(deployment(), 1000, 0.0)


def test_drafts_allow_a_larger_batch() -> None:
    d = deployment("deepseek-v3")
    plain, drafted = largest_batch(d, 4096, 0.025), largest_batch(d, 4096, 0.025, speculation=Speculation(1, 0.85))
    assert drafted.batch > plain.batch


def test_throughput_is_stated_per_instance_and_per_gpu() -> None:
    found = largest_batch(deployment(), 4096, 0.05)
    assert found.tokens_per_second == pytest.approx(8 * found.tokens_per_second_per_gpu)


def test_splits_fit_and_are_sorted() -> None:
    splits = compare_splits(deployment("qwen3-235b-a22b"), 4096, 4096, 0.05)
    assert splits
    assert [s.prefill.seconds for s in splits] == sorted(s.prefill.seconds for s in splits)
    for split in splits:
        d = split.deployment
        assert d.ranks * d.dp * d.pp == d.gpus == 8
        assert footprint(d, float(d.dp), 4096).fits
        assert split.usd_per_million_output_tokens is None or split.usd_per_million_output_tokens > 0
        assert split.to_dict()["gpus"] == 8


def test_no_split_fits_too_small_an_instance() -> None:
    assert compare_splits(deployment("llama-3.1-405b", "h100"), 1000, 1000, 0.1) == ()

"""Parameters and checkpoint bytes: against model cards and an independent count."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prfaas_plan.blocks import Attention, FeedForward, MixtureOfExperts
from prfaas_plan.catalog import load_model
from prfaas_plan.errors import ProfileError
from prfaas_plan.model import KvPoint, ModelProfile
from prfaas_plan.parameters import (
    Parameters,
    active_breakdown,
    active_parameters,
    block_parameters,
    total_breakdown,
    total_parameters,
    weight_bytes,
    weight_bytes_by_component,
)

SIZES = list(csv.DictReader((Path(__file__).parent / "data/model_sizes.csv").read_text(encoding="utf-8").splitlines()))
EXCEPTIONS = {
    "devstral-2-123b": 0.0165,
    "llama-4-scout-17b-16e": -0.0113,
    "kimi-linear-48b-a3b": 0.0234,
    "ring-2.5-1t": 0.0122,
    "deepseek-v4-pro": -0.0169,
}
"""Models whose layers do not sum to the printed total within 1 %; each profile's note says why."""

model = cache(load_model)


@pytest.mark.parametrize("row", SIZES, ids=lambda row: row["profile_id"])
def test_counts_equal_an_independent_count(row: dict[str, str]) -> None:
    profile = model(row["profile_id"])
    found = {
        "total_params_b": f"{total_parameters(profile) / 1e9:.2f}",
        "active_params_excl_input_embedding_b": f"{active_parameters(profile) / 1e9:.2f}",
        "active_params_incl_embeddings_b": f"{active_parameters(profile, include_input_embedding=True) / 1e9:.2f}",
        "weights_gb_native": f"{weight_bytes(profile) / 1e9:.1f}",
    }
    assert found == {key: row[key] for key in found}


@pytest.mark.parametrize("row", SIZES, ids=lambda row: row["profile_id"])
def test_totals_meet_the_model_card(row: dict[str, str]) -> None:
    profile = model(row["profile_id"])
    assert profile.published_total_b is not None
    difference = total_parameters(profile) / 1e9 / profile.published_total_b - 1
    expected = EXCEPTIONS.get(profile.id, 0.0)
    assert difference == pytest.approx(expected, abs=0.0002 if expected else 0.01)


def test_published_checkpoint_sizes_of_gpt_oss() -> None:
    """60.8 and 12.8 GiB on the model card: the experts in 4.25 bits, the rest in bf16."""
    assert weight_bytes(model("gpt-oss-120b")) / 2**30 == pytest.approx(60.8, abs=0.15)
    assert weight_bytes(model("gpt-oss-20b")) / 2**30 == pytest.approx(12.8, abs=0.05)


def test_experts_that_work_in_a_narrower_width() -> None:
    experts = total_breakdown(model("kimi-k3")).experts
    assert experts == 92 * 896 * 3 * 3584 * 3072


def test_experts_without_weights_are_not_active() -> None:
    longcat = active_breakdown(model("longcat-flash"))
    assert longcat.experts == 28 * 8 * 3 * 6144 * 2048


def test_tied_embeddings_are_kept_once_and_read_once() -> None:
    gemma = model("gemma-3-27b")
    assert total_breakdown(gemma).embedding == 262_144 * 5376
    assert active_parameters(gemma) == active_parameters(gemma, include_input_embedding=True)


def test_squared_relu_has_two_matrices() -> None:
    assert total_breakdown(model("nemotron-h-56b")).ffn == 54 * 2 * 8192 * 32768


def test_bytes_by_component_sum_up() -> None:
    kimi = weight_bytes_by_component(model("kimi-k2.5"))
    assert kimi.total == weight_bytes(model("kimi-k2.5"))
    assert kimi.experts == total_breakdown(model("kimi-k2.5")).experts * 0.5625


def test_a_model_without_published_layers_is_refused() -> None:
    profile = ModelProfile("1T", "measured", kv_points=(KvPoint(1, 1.0), KvPoint(2, 2.0)))
    with pytest.raises(ProfileError, match="layers of 1T are not published"):
        total_parameters(profile)


small = st.integers(1, 512)


@given(small, small, small, st.integers(1, 8))
def test_active_weights_are_part_of_all(hidden: int, experts: int, width: int, shared: int) -> None:
    block = MixtureOfExperts(experts=experts, active=max(1.0, experts / 2), width=width, shared_width=shared)
    used, all_of_it = block_parameters(block, hidden, active=True), block_parameters(block, hidden)
    assert 0 < used.total <= all_of_it.total
    assert used.router == all_of_it.router


@given(small, small, small)
def test_parameters_add_by_component(hidden: int, width: int, heads: int) -> None:
    ffn = block_parameters(FeedForward(width), hidden)
    attention = block_parameters(Attention(heads, heads, 8, 8), hidden)
    assert ffn + attention == Parameters(attention=4.0 * hidden * heads * 8, ffn=3.0 * hidden * width)

"""The shipped model profiles: they load, say what they rest on, and are written as they are read."""

from __future__ import annotations

import csv
import itertools
import tomllib
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prfaas_plan.catalog import load_model
from prfaas_plan.errors import ProfileError
from prfaas_plan.model import model_from_mapping
from prfaas_plan.profile_writer import compact_layers, to_toml
from prfaas_plan.profiles import list_profiles

SIZES = csv.DictReader((Path(__file__).parent / "data/model_sizes.csv").read_text(encoding="utf-8").splitlines())
NAMES = [row["profile_id"] for row in SIZES]
REBUILT = {
    "qwen2.5-72b",
    "gemma-3-27b",
    "ernie-4.5-300b-a47b",
    "longcat-flash",
    "kimi-linear-48b-a3b",
    "ring-2.5-1t",
    "ring-flash-linear-2.0",
    "ring-mini-linear-2.0",
    "ring-1t",
    "nemotron-nano-9b-v2",
    "jamba-1.5-large",
    "granite-4.0-h-small",
}
RECALLED = {"ernie-4.5-300b-a47b", "ring-2.5-1t", "ring-1t", "granite-4.0-h-small"}

model = cache(load_model)


@cache
def text(name: str) -> str:
    return list_profiles("model")[name].read_text(encoding="utf-8")


def test_57_published_models_are_shipped() -> None:
    assert len(NAMES) == 57
    assert set(NAMES) <= set(list_profiles("model"))


@pytest.mark.parametrize("name", NAMES)
def test_every_table_has_a_source_with_a_public_place(name: str) -> None:
    profile = model(name)
    cited = dict(profile.cited)
    assert {"", "weights", *(f"blocks.{block}" for block in profile.blocks)} <= set(cited)
    assert set(cited.values()) <= {source.id for source in profile.sources}
    for source in profile.sources:
        assert source.title
        assert source.locator
        assert not source.locator.startswith(("/", ".."))


@pytest.mark.parametrize("name", NAMES)
def test_a_profile_is_written_as_it_was_read(name: str) -> None:
    profile = model(name)
    written = to_toml(profile)
    assert written == text(name)
    assert model_from_mapping(tomllib.loads(written), profile.where, profile.id) == profile


@pytest.mark.parametrize("name", NAMES)
def test_a_rebuilt_model_says_so(name: str) -> None:
    profile = model(name)
    assert (profile.basis == "reconstructed") == (name in REBUILT)
    if name in REBUILT:
        assert "No config.json was found" in profile.note
    kind = next(source.kind for source in profile.sources if source.id == "config")
    assert (kind == "assumed") == (name in RECALLED)


def test_models_are_found_by_their_other_names() -> None:
    found = {
        alias: load_model(alias).id
        for alias in ("deepseek-r1", "glm-4.7", "ling-2.5-1t", "minimax-text-01", "devstral-small-2", "jamba-1.5-mini")
    }
    assert found == {
        "deepseek-r1": "deepseek-v3",
        "glm-4.7": "glm-4.5",
        "ling-2.5-1t": "ring-2.5-1t",
        "minimax-text-01": "minimax-m1",
        "devstral-small-2": "mistral-small-24b",
        "jamba-1.5-mini": "jamba-v0.1",
    }


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("kimi-linear-48b-a3b", {"kda": 20, "mla": 7}),
        ("kimi-k3", {"kda": 69, "mla": 24}),
        ("ring-2.5-1t", {"lightning": 70, "mla": 10}),
        ("nemotron-h-56b", {"mamba2": 54, "ffn": 54, "full": 10}),
        ("step-3.5-flash", {"full": 12, "window": 33}),
        ("mimo-v2-flash", {"full": 9, "window": 39}),
        ("llama-4-scout-17b-16e", {"full": 12, "chunk": 36}),
        ("gemma-3-27b", {"full": 10, "window": 52}),
        ("glm-5.2", {"dsa": 21, "dsa-shared-index": 57}),
        ("longcat-flash", {"mla": 56}),
        ("hunyuan-large", {"full": 32, "reader": 32}),
        ("deepseek-v4-pro", {"ratio4": 30, "ratio128": 31}),
    ],
)
def test_layers_are_of_the_published_kinds(name: str, counts: dict[str, int]) -> None:
    found = model(name).counts
    assert {block: found[block] for block in counts} == counts


def test_the_last_two_layers_of_kimi_k3_are_both_latent() -> None:
    assert [layer.split("+")[0] for layer in model("kimi-k3").layers[-3:]] == ["kda", "mla", "mla"]


def test_a_multi_token_block_must_be_known() -> None:
    data = tomllib.loads(text("deepseek-v3")) | {"mtp_block": "mlaa"}
    with pytest.raises(ProfileError, match=r"mtp_block = 'mlaa'.*did you mean 'mla'"):
        model_from_mapping(data, "x.toml", "x")


@given(st.lists(st.sampled_from(["a", "b+c", "d"]), max_size=30))
def test_runs_of_layers_are_counted(layers: list[str]) -> None:
    compact = compact_layers(layers)
    expanded = [name for run in compact for name in [run.partition("*")[0]] * int(run.partition("*")[2] or 1)]
    assert expanded == layers
    assert all(a.partition("*")[0] != b.partition("*")[0] for a, b in itertools.pairwise(compact))

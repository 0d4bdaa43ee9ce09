"""Configurations as they are found: every spelling, every damaged file, and what cannot be known."""

from __future__ import annotations

import copy
import json
import math
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prfaas_plan.blocks import Attention, LatentAttention, MixtureOfExperts
from prfaas_plan.catalog import load_model
from prfaas_plan.errors import ProfileError
from prfaas_plan.hf.config import import_config, profile_from_config
from prfaas_plan.kv_cache import KvOptions, fixed_state_bytes, growing_bytes_per_token, window_cap_bytes
from prfaas_plan.model import ModelProfile, WeightFormats, model_from_mapping
from prfaas_plan.parameters import total_parameters, weight_bytes
from prfaas_plan.profile_writer import to_toml

FOLDER = Path(__file__).parent / "data/configs"
CONFIGS = sorted(path.stem for path in FOLDER.glob("*.json"))
SHIPPED = [name for name in CONFIGS if name != "gemma-4-26b-a4b"]
BF16 = KvOptions(kv_dtype="bf16")
LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
}


@cache
def written(name: str) -> str:
    return (FOLDER / f"{name}.json").read_text(encoding="utf-8")


def config(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(written(name))
    return loaded


def inner(data: dict[str, Any]) -> dict[str, Any]:
    part: dict[str, Any] = data.get("text_config", data)
    return part


def growing(data: dict[str, Any]) -> float:
    return growing_bytes_per_token(profile_from_config(data), BF16)


def faults(data: dict[str, Any]) -> str:
    with pytest.raises(ProfileError) as raised:
        profile_from_config(data, "config.json")
    return str(raised.value)


def file(tmp_path: Path, content: str | bytes, name: str = "config.json") -> Path:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("name", SHIPPED)
def test_a_configuration_gives_the_layers_of_the_shipped_profile(name: str) -> None:
    found, shipped = profile_from_config(config(name)), load_model(name)
    assert [[found.blocks[b] for b in layer.split("+")] for layer in found.layers] == [
        [shipped.blocks[b] for b in layer.split("+")] for layer in shipped.layers
    ]
    assert growing_bytes_per_token(found) == growing_bytes_per_token(shipped)
    assert fixed_state_bytes(found) == fixed_state_bytes(shipped)


def test_nested_and_flat_facts_give_the_same_answer() -> None:
    nested = config("kimi-k3")
    flat = {**nested["text_config"], "tie_word_embeddings": False}
    assert growing(flat) == growing(nested) == 24 * 576 * 2
    assert total_parameters(profile_from_config(flat)) == total_parameters(profile_from_config(nested))


@pytest.mark.parametrize("wrapper", ["text_config", "llm_config", "language_config"])
def test_the_text_model_is_found_in_every_wrapper(wrapper: str) -> None:
    vision = {"hidden_size": 1408, "num_attention_heads": 16, "num_hidden_layers": 34}
    assert growing({"model_type": "any_vlm", wrapper: LLAMA, "vision_config": vision}) == 131_072


def test_the_text_model_is_found_two_objects_deep() -> None:
    omni = {"model_type": "any_omni", "thinker_config": {"audio_config": {}, "text_config": LLAMA}}
    assert growing(omni) == 131_072


def test_a_file_may_have_a_byte_order_mark_or_be_a_pasted_dictionary(tmp_path: Path) -> None:
    plain = import_config(file(tmp_path, json.dumps(LLAMA), "a.json"))
    marked = import_config(file(tmp_path, b"\xef\xbb\xbf" + json.dumps(LLAMA).encode(), "b.json"))
    pasted = import_config(
        file(tmp_path, repr({**LLAMA, "tie_word_embeddings": False, "sliding_window": None}), "c.json")
    )
    assert plain.blocks == marked.blocks == pasted.blocks
    assert plain.id == "a"


def test_bare_infinity_is_read(tmp_path: Path) -> None:
    text = json.dumps({**config("nemotron-3-super-120b-a12b"), "time_step_limit": [0.0, math.inf]})
    assert "Infinity" in text
    assert growing_bytes_per_token(import_config(file(tmp_path, text))) == 8192


def test_a_file_of_three_megabytes_is_read(tmp_path: Path) -> None:
    layers = {f"model.layers.{i % 60}.mlp.experts.{i}.down_proj": {"quant_algo": "NVFP4"} for i in range(50_000)}
    data = config("minimax-m3") | {
        "quantization_config": {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": layers}
    }
    path = file(tmp_path, json.dumps(data))
    assert path.stat().st_size > 3_000_000
    profile = import_config(path)
    assert profile.weights is not None
    assert (profile.weights.experts, profile.weights.attention) == ("nvfp4", "bf16")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty"),
        ("<!DOCTYPE html><html>Access denied", "is a web page"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 130\n", "is a Git LFS pointer"),
        (json.dumps(LLAMA)[:60], "is not valid JSON (cut short?)"),
        (b"\x80\x81\x82\x83", "is not text in UTF-8"),
        ("[1, 2]", "expected one JSON object"),
        ("[" * 100_000, "is nested too deeply"),
        ("{'a': __import__('os').getcwd()}", "is not valid JSON"),
        ('{"a": ' + "9" * 10_000 + "}", "is not valid JSON"),
    ],
)
def test_what_is_no_configuration_is_named(tmp_path: Path, content: str | bytes, said: str) -> None:
    with pytest.raises(ProfileError) as raised:
        import_config(file(tmp_path, content))
    assert said in str(raised.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"none\.json: No such file"):
        import_config(tmp_path / "none.json")


def test_a_layer_count_that_cannot_be_read_names_the_field() -> None:
    for damaged in ({k: v for k, v in LLAMA.items() if k != "num_hidden_layers"}, LLAMA | {"num_hidden_layers": "32"}):
        assert "num_hidden_layers" in faults(damaged)


def test_every_missing_field_is_named_at_once() -> None:
    said = faults({"model_type": "deepseek_v3", "num_hidden_layers": 4, "kv_lora_rank": 512})
    for key in ("hidden_size", "num_attention_heads", "qk_rope_head_dim", "vocab_size", "n_routed_experts|num_experts"):
        assert any(part in said for part in key.split("|"))


def test_an_unknown_architecture_is_refused_with_the_nearest() -> None:
    assert "unknown architecture" in faults(LLAMA | {"model_type": "lama9", "architectures": ["Lama9ForCausalLM"]})
    assert "nearest known one is 'llama'" in faults(LLAMA | {"model_type": "lama"})


def test_a_configuration_without_a_name_is_read_by_its_keys_and_says_so() -> None:
    nameless = {k: v for k, v in LLAMA.items() if k != "model_type"}
    assert "names no architecture" in profile_from_config(nameless).note


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("kimi-k3", "linear_attn_config"),
        ("deepseek-v3.2", "index_head_dim"),
        ("deepseek-v3.2", "kv_lora_rank"),
        ("deepseek-v3.2", "q_lora_rank"),
        ("deepseek-v3.2", "first_k_dense_replace"),
        ("deepseek-v4-flash", "compress_ratios"),
        ("mimo-v2-flash", "hybrid_layer_pattern"),
        ("minimax-m1", "attn_type_list"),
        ("nemotron-3-super-120b-a12b", "hybrid_override_pattern"),
        ("jamba-v0.1", "attn_layer_period"),
        ("gpt-oss-120b", "sliding_window"),
        ("qwen3-235b-a22b", "num_experts"),
        ("llama-4-scout-17b-16e", "attention_chunk_size"),
    ],
)
def test_a_field_that_decides_what_layers_are_is_never_guessed(name: str, key: str) -> None:
    data = config(name)
    del inner(data)[key]
    assert key in faults(data) or "num_experts" in faults(data)


def test_head_dim_is_its_own_key_or_the_quotient() -> None:
    assert profile_from_config(LLAMA | {"head_dim": 80}).blocks["full"].qk_dim == 80  # type: ignore[union-attr]
    assert "do not divide" in faults(LLAMA | {"hidden_size": 4097})
    nemotron = config("nemotron-3-super-120b-a12b")
    nemotron["attention_head_dim"] = nemotron.pop("head_dim")
    assert growing(nemotron) == 8192


def test_head_dim_and_kv_heads_mean_nothing_with_a_latent() -> None:
    data = config("glm-5.2") | {"head_dim": 1, "num_key_value_heads": 1}
    assert growing(data) == 92_628


def test_missing_or_null_kv_heads_are_as_many_as_query_heads() -> None:
    for value in ({}, {"num_key_value_heads": None}):
        data = {k: v for k, v in LLAMA.items() if k != "num_key_value_heads"} | value
        assert growing(data) == 4 * 131_072


def test_a_window_that_is_switched_off_is_none() -> None:
    qwen = LLAMA | {"model_type": "qwen2", "sliding_window": 131_072, "max_window_layers": 28}
    assert growing(qwen) == growing(qwen | {"use_sliding_window": False}) == 131_072
    assert growing(qwen | {"use_sliding_window": True}) == 131_072 * 28 // 32
    assert growing(LLAMA | {"model_type": "mistral", "sliding_window": None}) == 131_072


def test_a_window_without_a_rule_holds_for_all_layers_of_mistral() -> None:
    profile = profile_from_config(LLAMA | {"model_type": "mistral", "sliding_window": 4096})
    assert growing_bytes_per_token(profile) == 0
    assert window_cap_bytes(profile) == 131_072 * 4096


def test_layers_that_keep_nothing_of_their_own() -> None:
    last = LLAMA | {"model_type": "gemma4_text", "layer_types": ["full_attention"] * 32, "sliding_window": 512}
    assert growing(last | {"num_kv_shared_layers": 8}) == 131_072 * 24 // 32
    cla = LLAMA | {"model_type": "hunyuan", "num_experts": 1, "num_shared_expert": 1, "cla_share_factor": 2}
    assert growing(cla | {"use_cla": True}) == 131_072 // 2
    assert growing(cla | {"use_cla": False}) == 131_072


def test_layers_with_heads_of_their_own() -> None:
    gemma = profile_from_config(config("gemma-4-26b-a4b"))
    full, window = gemma.blocks["full"], gemma.blocks["window"]
    assert isinstance(full, Attention)
    assert isinstance(window, Attention)
    assert (full.kv_heads, full.qk_dim, full.k_is_v) == (2, 512, True)
    assert (window.kv_heads, window.qk_dim, window.window_tokens) == (8, 256, 1024)
    assert growing_bytes_per_token(gemma, BF16) == 5 * 2 * 2 * 512 * 2
    assert gemma.layers[0] == "window+ffn+moe"


def test_blocks_that_are_listed_one_by_one() -> None:
    attention = [{"attention": {"n_heads_in_group": 8}, "ffn": {"intermediate_size": 100}}] * 3
    gone = [{"attention": {"no_op": True}, "ffn": {"ffn_mult": 2.625}}]
    nas = LLAMA | {"model_type": "nemotron-nas", "num_hidden_layers": 4, "block_configs": attention + gone}
    nas |= {"num_key_value_heads": None, "intermediate_size": None}
    profile = profile_from_config(nas)
    assert growing_bytes_per_token(profile) == 3 * 2 * 4 * 128 * 2
    assert profile.blocks["ffn-2"].width == 7168  # type: ignore[union-attr]


def test_lists_longer_than_the_stack_have_entries_of_extra_layers() -> None:
    types = ["full_attention", "sliding_attention"] * 17
    step = LLAMA | {"model_type": "step3p5", "layer_types": types, "sliding_window": 512, "num_nextn_predict_layers": 2}
    step |= {"moe_num_experts": 4, "moe_top_k": 1, "moe_intermediate_size": 8, "share_expert_dim": 8}
    profile = profile_from_config(step)
    assert profile.counts["full"] == 16
    assert profile.mtp_block == "full"
    assert "34 entries for 32 layers" in profile.note
    assert "layer_types" in faults(step | {"layer_types": types[:31]})


def test_layer_numbers_that_start_at_one_must_cover_the_stack() -> None:
    data = config("kimi-k3")
    data["text_config"]["linear_attn_config"]["full_attn_layers"][0] = 0
    assert "full_attn_layers" in faults(data)
    data = config("kimi-k3")
    data["text_config"]["linear_attn_config"]["kda_layers"].pop()
    assert "kda_layers" in faults(data)


@pytest.mark.parametrize(
    ("keys", "sparse"),
    [
        ({}, range(8)),
        ({"first_k_dense_replace": 3}, range(3, 8)),
        ({"moe_layer_freq": [0, 1] * 4}, (1, 3, 5, 7)),
        ({"moe_layer_freq": 2, "first_k_dense_replace": 1}, (2, 4, 6)),
        ({"mlp_layer_types": ["dense"] * 2 + ["sparse"] * 6}, range(2, 8)),
        ({"mlp_only_layers": [0, 7]}, range(1, 7)),
        ({"decoder_sparse_step": 4}, (3, 7)),
        ({"interleave_moe_layer_step": 2}, (1, 3, 5, 7)),
        ({"moe_layers_enum": "2,3"}, (2, 3)),
        ({"expert_layer_period": 2, "expert_layer_offset": 1}, (1, 3, 5, 7)),
        ({"moe_layer_start_index": 2, "moe_layer_end_index": 5}, (2, 3, 4, 5)),
        ({"moe_layer_num_skipped": 1}, range(1, 8)),
    ],
)
def test_dense_layers_in_every_spelling(keys: dict[str, Any], sparse: Any) -> None:
    moe = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "num_hidden_layers": 8}
    profile = profile_from_config(LLAMA | {"model_type": "qwen3_moe"} | moe | keys)
    assert [i for i, layer in enumerate(profile.layers) if "moe" in layer] == list(sparse)


@pytest.mark.parametrize(
    ("keys", "width"),
    [
        ({}, 0),
        ({"n_shared_experts": None}, 0),
        ({"n_shared_experts": 2}, 32),
        ({"num_shared_experts": 1}, 16),
        ({"num_shared_expert": [3] * 32}, 48),
        ({"shared_expert_intermediate_size": 0}, 0),
        ({"shared_expert_intermediate_size": 20}, 20),
        ({"share_expert_dim": 24}, 24),
        ({"n_shared_experts": 1, "moe_shared_expert_intermediate_size": 40}, 40),
        ({"shared_intermediate_size": 28}, 28),
    ],
)
def test_shared_experts_in_every_spelling(keys: dict[str, Any], width: int) -> None:
    moe = {"n_routed_experts": 4, "num_experts_per_token": 2, "moe_intermediate_size": 16}
    block = profile_from_config(LLAMA | {"model_type": "qwen3_moe"} | moe | keys).blocks["moe"]
    assert isinstance(block, MixtureOfExperts)
    assert (block.experts, block.active, block.shared_width) == (4, 2.0, width)


def test_expert_counts_that_disagree_are_refused() -> None:
    both = {"num_experts": 4, "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
    assert "different numbers of experts" in faults(LLAMA | {"model_type": "qwen3_moe"} | both)


def test_null_expert_keys_are_a_dense_model() -> None:
    dense = {"num_experts": None, "moe_intermediate_size": None, "top_k_experts": None}
    assert profile_from_config(LLAMA | dense).counts == {"full": 32, "ffn": 32}


FP8_DICT = {"dynamic": False, "num_bits": 8, "type": "float"}
PACKED = {"quant_method": "compressed-tensors", "format": "pack-quantized", "kv_cache_scheme": None}
INT4 = {"num_bits": 4, "type": "int", "group_size": 32}


@pytest.mark.parametrize(
    ("quantization", "attention", "experts", "kv"),
    [
        ({}, "bf16", "bf16", "bf16"),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8_block128", "fp8_block128", "bf16"),
        ({"quant_method": "fp8", "weight_block_size": None}, "fp8", "fp8", "bf16"),
        ({"quant_method": "mxfp4"}, "bf16", "mxfp4", "bf16"),
        ({"quant_algo": "FP8", "kv_cache_scheme": "FP8"}, "fp8", "fp8", "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_scheme": FP8_DICT}, "nvfp4", "nvfp4", "fp8"),
        (
            {
                "quant_method": "fp8",
                "weight_block_size": [128, 128],
                "quant_algo": "MIXED_PRECISION",
                "moe_quant_algo": "NVFP4",
            },
            "fp8_block128",
            "nvfp4",
            "bf16",
        ),
        (
            {**PACKED, "config_groups": {"group_0": {"weights": INT4}}, "ignore": ["lm_head", "re:.*self_attn.*"]},
            "bf16",
            "int4_g32",
            "bf16",
        ),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False}, "int4_g128", "int4_g128", "bf16"),
        ({"quant_method": "awq", "bits": 4, "group_size": 64, "version": "gemm"}, "int4_g64", "int4_g64", "bf16"),
        ({"quant_method": "gptq", "bits": 8, "group_size": 128}, "int8", "int8", "bf16"),
        ({"load_in_4bit": True}, "nf4", "nf4", "bf16"),
        (
            {
                "quant_method": "fp8",
                "modules_to_not_convert": [f"model.layers.{i}.self_attn.o_proj" for i in range(30)],
            },
            "bf16",
            "fp8",
            "bf16",
        ),
        (
            {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.0.mlp.gate", "lm_head"]},
            "fp8",
            "fp8",
            "bf16",
        ),
    ],
)
def test_quantisation_in_every_shape(quantization: dict[str, Any], attention: str, experts: str, kv: str) -> None:
    moe = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "dtype": "bfloat16"}
    data = LLAMA | {"model_type": "qwen3_moe"} | moe
    at_top = profile_from_config({"model_type": "vlm", "quantization_config": quantization, "text_config": data})
    inside = profile_from_config({"model_type": "vlm", "text_config": data | {"quantization_config": quantization}})
    for profile in (at_top, inside):
        assert isinstance(profile.weights, WeightFormats)
        assert (profile.weights.attention, profile.weights.experts, profile.kv_dtype) == (attention, experts, kv)
        assert (profile.weights.router, profile.weights.embedding) == ("bf16", "bf16")


def test_quantisation_in_a_file_beside(tmp_path: Path) -> None:
    path = file(tmp_path, json.dumps(LLAMA | {"torch_dtype": "torch.bfloat16"}))
    assert import_config(path).kv_dtype == "bf16"
    beside = {
        "producer": {},
        "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]},
    }
    file(tmp_path, json.dumps(beside), "hf_quant_config.json")
    profile = import_config(path)
    assert profile.weights is not None
    assert (profile.kv_dtype, profile.weights.attention) == ("fp8", "fp8")


def test_a_cache_format_stated_only_beside_is_read(tmp_path: Path) -> None:
    quantization = {"quant_method": "modelopt", "quant_algo": "NVFP4"}
    path = file(tmp_path, json.dumps(LLAMA | {"quantization_config": quantization}))
    file(
        tmp_path,
        json.dumps({"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}),
        "hf_quant_config.json",
    )
    assert import_config(path).kv_dtype == "fp8"


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("My-Model/config.json", "My-Model"),
        ("models--meta--Llama-3/snapshots/0123abc/config.json", "Llama-3"),
        ("meta--Llama-3_config.json", "Llama-3"),
    ],
)
def test_a_model_is_named_by_its_place(tmp_path: Path, place: str, name: str) -> None:
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(LLAMA))
    assert import_config(path).name == name


def test_four_bit_experts_under_an_fp8_method() -> None:
    data = config("deepseek-v4-flash")
    weights = profile_from_config(data).weights
    assert weights is not None
    assert (weights.attention, weights.experts) == ("fp8_block128", "mxfp4")
    beside = {"quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": {}}}
    del data["quantization_config"]
    beside["quantization"]["quantized_layers"] = {f"layers.{i}.ffn.experts": {"quant_algo": "NVFP4"} for i in range(43)}
    weights = profile_from_config(data, "config.json", beside).weights
    assert weights is not None
    assert (weights.attention, weights.experts) == ("bf16", "nvfp4")


@pytest.mark.parametrize(
    "quantization",
    [
        {"quant_method": "squeeze"},
        {"quant_algo": "FP3"},
        {"quant_algo": "MIXED_PRECISION"},
        {"quant_method": "fp8", "weight_block_size": [64, 64]},
        {"quant_method": "gptq", "bits": 3, "group_size": 128},
        {"quant_method": "fp8", "kv_cache_scheme": {"num_bits": 6, "type": "float"}},
        {"quant_method": "compressed-tensors", "config_groups": {}},
        "fp8",
    ],
)
def test_a_quantisation_that_is_not_known_is_refused(quantization: object) -> None:
    assert "quantization_config" in faults(LLAMA | {"quantization_config": quantization})


def test_weight_precision_does_not_leak_into_the_cache() -> None:
    gptq = {"quantization_config": {"quant_method": "gptq", "bits": 8, "group_size": 128}}
    assert growing_bytes_per_token(profile_from_config(LLAMA | gptq)) == 131_072
    assert weight_bytes(profile_from_config(LLAMA | gptq)) < 0.6 * weight_bytes(profile_from_config(LLAMA))


def test_state_precision_is_read_where_it_is_stated() -> None:
    qwen = config("qwen3.5-397b-a17b")
    assert profile_from_config(qwen).state_dtype_vllm == "fp32"
    qwen["text_config"]["mamba_ssm_dtype"] = "bfloat16"
    assert profile_from_config(qwen).state_dtype_sglang == "bf16"
    assert profile_from_config(config("jamba-v0.1")).state_dtype_vllm == "bf16"


def test_latent_fields_come_from_the_latent_keys() -> None:
    block = profile_from_config(config("kimi-k2.5")).blocks["mla"]
    assert block == LatentAttention(64, 512, 64, 128, 128, q_rank=1536)


ODD = (None, -1, 0, 1.5, math.nan, math.inf, 1e300, 10**400, "", "8", [], [1], ["x"] * 200, {}, {"a": 1}, True, [[]])


def paths(data: dict[str, Any], prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for key, value in data.items():
        found.append((*prefix, key))
        if isinstance(value, dict):
            found += paths(value, (*prefix, key))
    return found


def attempt(read: Callable[[], ModelProfile], *, write: bool = False) -> None:
    """A profile that holds together, or a `ProfileError`; anything else is a bug."""
    try:
        profile = read()
    except ProfileError as error:
        if error.faults:
            return
        raise
    assert math.isfinite(growing_bytes_per_token(profile))
    assert math.isfinite(fixed_state_bytes(profile))
    assert total_parameters(profile) > 0
    if write:
        again = model_from_mapping(tomllib.loads(to_toml(profile)), profile.where, profile.id)
        assert again == profile


@pytest.mark.parametrize("name", CONFIGS)
def test_any_one_damaged_value_gives_a_profile_or_a_fault(name: str) -> None:
    original = config(name)
    for path in paths(original):
        for odd in (..., *ODD):
            data = copy.copy(original)
            level = data
            for key in path[:-1]:
                level[key] = copy.copy(level[key])
                level = level[key]
            if odd is ...:
                del level[path[-1]]
            else:
                level[path[-1]] = odd
            attempt(lambda data=data: profile_from_config(data))  # type: ignore[misc]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
all_keys = sorted({key for name in CONFIGS for key in inner(config(name))})


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from(all_keys) | st.text(max_size=6), json_values, max_size=12))
def test_any_object_gives_a_profile_or_a_fault(data: dict[str, Any]) -> None:
    attempt(lambda: profile_from_config(data), write=True)


@settings(max_examples=60)
@given(st.sampled_from(CONFIGS), st.dictionaries(st.sampled_from(all_keys), json_values, min_size=1, max_size=5))
def test_any_change_gives_a_profile_or_a_fault(name: str, changes: dict[str, Any]) -> None:
    data = config(name)
    inner(data).update(changes)
    attempt(lambda: profile_from_config(data), write=True)


@settings(max_examples=60)
@given(
    st.binary(max_size=64)
    | st.sampled_from(CONFIGS).flatmap(lambda n: st.integers(0, 400).map(lambda i: written(n)[:i].encode()))
)
def test_any_bytes_give_a_profile_or_a_fault(content: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        attempt(lambda: import_config(file(Path(folder), content)))

"""The formats of a checkpoint's weights and of its cache, in every shape quantisation is written down in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from prfaas_plan.hf.fields import Fields
from prfaas_plan.model import WeightFormats

__all__ = ["cache_format", "plain_format", "weight_formats"]

_PLAIN: Final[Mapping[str, str]] = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32"}
_ALGORITHMS: Final[Mapping[str, str]] = {
    "FP8": "fp8",
    "FP8_PER_CHANNEL_PER_TOKEN": "fp8",
    "FP8_PB_WO": "fp8_block128",
    "FP8_BLOCK": "fp8_block128",
    "NVFP4": "nvfp4",
    "NVFP4_AWQ": "nvfp4",
    "W4A16_NVFP4": "nvfp4",
    "MXFP4": "mxfp4",
    "W4A8_MXFP4_FP8": "mxfp4",
    "INT4_AWQ": "int4_g128",
    "W4A16_AWQ": "int4_g128",
    "W4A8_AWQ": "int4_g128",
    "INT8": "int8",
    "W8A16": "int8",
    "W8A8_SQ_PER_CHANNEL": "int8",
}
_COMPONENTS: Final[Mapping[str, re.Pattern[str]]] = {
    "attention": re.compile(r"self_attn|attention|linear_attn|mixer\.(in_proj|out_proj)|\.attn|q_proj|o_proj"),
    "shared_experts": re.compile(r"shared_?experts?(?!_gate)"),
    "experts": re.compile(r"(?<!shared_)(?<!shared)experts|block_sparse_moe|FusedMoE"),
    "ffn": re.compile(r"\b(?:mlp|ffn|feed_forward)\b(?!\.gate\b)(?!.*(?:router|expert))"),
}
"""Which component the name of a module, or a pattern for names, speaks of."""

_MINOR: Final = re.compile(r"norm|conv1d|in_proj_[ab]\b|[Aa]_log|bias|indexer|compressor|rotary")
"""Small tensors that are left unquantised beside the matrices of their block."""


def plain_format(f: Fields, outer: Mapping[str, Any]) -> str:
    """Read the data type of weights that are not quantised; absent means bf16, which is noted."""
    stated = next((v for d in (f.data, outer) for v in (d.get("dtype"), d.get("torch_dtype")) if v is not None), None)
    if stated is None:
        f.note("The configuration states no data type (dtype); weights that are not quantised are taken as bf16.")
        return "bf16"
    name = stated.removeprefix("torch.") if isinstance(stated, str) else ""
    if name not in _PLAIN:
        f.fault("dtype", "expected one of " + ", ".join(_PLAIN), stated)
    return _PLAIN.get(name, "bf16")


def weight_formats(q: Fields, plain: str, expert_dtype: object, depth: int) -> WeightFormats:
    """Say in which format each component of the weights is stored, from the quantisation object `q`."""
    base = WeightFormats(plain, plain, plain, plain, "fp32" if plain == "fp32" else "bf16", plain)
    if not q.data:
        return _with_expert_dtype(q, base, expert_dtype)
    method, algorithm = q.word("quant_method").lower(), q.word("quant_algo").upper()
    if q.has("config_groups") and method in ("compressed-tensors", "modelopt", ""):
        found = _grouped(q, base)
    elif algorithm and method in ("", "modelopt", "modelopt_fp4", "fp8", "nvfp4"):
        found = _by_algorithm(q, base, algorithm, depth)
    else:
        found = _by_method(q, base, method)
    excluded = _excluded(q, depth)
    return _with_expert_dtype(q, replace(found, **dict.fromkeys(excluded, plain)), expert_dtype)


def _everywhere(base: WeightFormats, name: str) -> WeightFormats:
    return replace(base, attention=name, ffn=name, experts=name, shared_experts=name)


def _by_method(q: Fields, base: WeightFormats, method: str) -> WeightFormats:
    if method in ("fp8", "fbgemm_fp8"):
        return _everywhere(base, _fp8(q))
    if method == "mxfp4":
        return replace(base, experts="mxfp4")
    if method in ("gptq", "awq", "gptq_marlin", "awq_marlin", "auto-round", "intel/auto-round"):
        return _everywhere(
            base, _integer(q, q.optional("bits", "w_bit"), q.data.get("group_size", q.data.get("q_group_size")))
        )
    if method in ("bitsandbytes", "") and (q.flag("load_in_4bit") or q.flag("load_in_8bit")):
        return _everywhere(base, "nf4" if q.flag("load_in_4bit") else "int8")
    known = "fp8, mxfp4, gptq, awq, bitsandbytes, modelopt, compressed-tensors"
    q.fault("quant_method", f"unknown way to quantise; expected one of {known}", method or None)
    return base


def _fp8(q: Fields) -> str:
    block = q.data.get("weight_block_size")
    if block is None:
        return "fp8"
    if block != [128, 128]:
        q.fault("weight_block_size", "expected [128, 128] or null", block)
    return "fp8_block128"


def _integer(q: Fields, bits: int | None, group: object) -> str:
    names: dict[object, str] = {(4, 32): "int4_g32", (4, 64): "int4_g64", (4, 128): "int4_g128"}
    if bits == 8:
        return "int8"
    if isinstance(group, int) and not isinstance(group, bool) and (bits, group) in names:
        return names[bits, group]
    q.fault("group_size", f"expected 4 bits in groups of 32, 64 or 128, or 8 bits; got {bits} bits in groups of", group)
    return "int8"


def _by_algorithm(q: Fields, base: WeightFormats, algorithm: str, depth: int) -> WeightFormats:
    if algorithm != "MIXED_PRECISION":
        return _everywhere(base, _algorithm(q, "quant_algo", algorithm))
    found = base
    if q.word("quant_method").lower() == "fp8":
        found = _everywhere(base, _fp8(q))
    layers = q.data.get("quantized_layers")
    if isinstance(layers, Mapping) and layers:
        found = _majority(q, found, layers, depth)
    if q.has("moe_quant_algo"):
        return replace(found, experts=_algorithm(q, "moe_quant_algo", q.word("moe_quant_algo").upper()))
    if found == base:
        q.fault("quantized_layers", "missing (or moe_quant_algo); MIXED_PRECISION needs to say what is which")
    return found


def _algorithm(q: Fields, key: str, name: str) -> str:
    if name in ("NONE", "NO_QUANT"):
        return "bf16"
    if name not in _ALGORITHMS:
        q.fault(key, "unknown algorithm; expected one of " + ", ".join(_ALGORITHMS), name)
    return _ALGORITHMS.get(name, "fp8")


def _majority(q: Fields, base: WeightFormats, layers: Mapping[Any, Any], depth: int) -> WeightFormats:
    """Take each component in the format most of its listed modules have; one with few of them stays plain."""
    votes: dict[str, dict[str, int]] = {}
    for name, entry in layers.items():
        algorithm = entry.get("quant_algo") if isinstance(entry, Mapping) else entry
        component = _component(str(name))
        if component and isinstance(algorithm, str):
            counted = votes.setdefault(component, {})
            counted[algorithm.upper()] = counted.get(algorithm.upper(), 0) + 1
    chosen = {
        component: _algorithm(q, "quantized_layers", max(sorted(counted), key=counted.__getitem__))
        for component, counted in votes.items()
        if 2 * sum(counted.values()) >= depth // 2
    }
    return replace(base, **chosen)


def _component(name: str) -> str:
    if _MINOR.search(name):
        return ""
    return next((component for component, pattern in _COMPONENTS.items() if pattern.search(name)), "")


def _grouped(q: Fields, base: WeightFormats) -> WeightFormats:
    groups = q.data.get("config_groups")
    found = base
    if not isinstance(groups, Mapping) or not groups:
        q.fault("config_groups", "expected an object of groups", groups)
        return found
    for name, group in groups.items():
        inner = replace(q, data=group if isinstance(group, Mapping) else {}, prefix=f"{q.prefix}config_groups.{name}.")
        weights = inner.inner("weights")
        kind = _group_format(weights, inner.word("format") or q.word("format"))
        listed = inner.data.get("targets")
        targets = [t for t in listed if isinstance(t, str)] if isinstance(listed, list) else []
        parts = {_component(target) for target in targets} - {""}
        if any(re.search(r"\b(?:mlp|ffn)\b\.\*", target) for target in targets):
            parts |= {"experts", "shared_experts"}
        found = replace(found, **dict.fromkeys(parts, kind)) if parts else _everywhere(found, kind)
    return found


def _group_format(weights: Fields, written: str) -> str:
    bits, kind, group = weights.count("num_bits"), weights.word("type"), weights.data.get("group_size")
    if bits == 8 and kind == "float":
        return "fp8_block128" if weights.data.get("strategy") == "block" else "fp8"
    if bits == 8:
        return "int8"
    if bits == 4 and kind == "float":
        return "mxfp4" if written.startswith("mxfp4") or group == 32 else "nvfp4"
    return _integer(weights, bits, group)


def _excluded(q: Fields, depth: int) -> set[str]:
    """Find the components that the list of modules left unquantised names, by a pattern or in most layers."""
    key = q.has("ignore", "modules_to_not_convert", "exclude_modules", "ignored_layers")
    names = q.data[key] if key else []
    if not isinstance(names, Sequence) or isinstance(names, str):
        q.fault(key, "expected a list of module names", names)
        return set()
    return set(_named_often(names, depth))


def _named_often(names: Iterable[object], depth: int) -> Iterable[str]:
    layers: dict[str, set[str]] = {}
    for name in names:
        component = _component(name) if isinstance(name, str) else ""
        if not component:
            continue
        number = re.search(r"\.(\d+)\.", str(name))
        if number is None and (component != "experts" or "gate" not in str(name)):
            yield component
        elif number is not None:
            layers.setdefault(component, set()).add(number[1])
    for component, found in layers.items():
        if 2 * len(found) > depth:
            yield component


def _with_expert_dtype(q: Fields, found: WeightFormats, expert_dtype: object) -> WeightFormats:
    """Apply the key that says what experts are in, unless the quantisation object is more precise about them."""
    if expert_dtype is None or q.has("moe_quant_algo", "quantized_layers", "config_groups"):
        return found
    names = {"fp4": "mxfp4", "mxfp4": "mxfp4", "nvfp4": "nvfp4", "fp8": "fp8_block128", "bf16": "bf16"}
    if not isinstance(expert_dtype, str) or expert_dtype not in names:
        q.fault("expert_dtype", "expected one of " + ", ".join(names), expert_dtype)
        return found
    return replace(found, experts=names[expert_dtype])


def cache_format(q: Fields, default: str) -> str:
    """Read the data type of keys and values from a quantisation object; unspecified leaves the default."""
    scheme = q.data.get("kv_cache_scheme", q.data.get("kv_cache_quant_algo"))
    if scheme is None:
        scheme = q.data.get("kv_cache_quant_algo")
    if isinstance(scheme, Mapping):
        written = f"{scheme.get('num_bits')} {scheme.get('type')}"
        scheme = {"8 float": "FP8", "8 int": "INT8", "4 float": "NVFP4"}.get(written, written)
    names = {"FP8": "fp8", "INT8": "int8", "NVFP4": "nvfp4", "NONE": default, "AUTO": default}
    if scheme is None:
        return default
    if not isinstance(scheme, str) or scheme.upper() not in names:
        q.fault("kv_cache_scheme", "expected null, FP8, INT8, NVFP4, or an object with num_bits and type", scheme)
        return default
    return names[scheme.upper()]

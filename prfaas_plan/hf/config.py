"""Turns a Hugging Face ``config.json`` into a model profile.

Every spelling in use is read; what cannot be read is a `ProfileError` that lists everything missing, never a guess.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from prfaas_plan.blocks import Block, CompressedAttention, FeedForward
from prfaas_plan.errors import Fault, ProfileError
from prfaas_plan.hf.families import Family, family_of
from prfaas_plan.hf.feed_forward import experts_of, feed_forward, matrices, mixture
from prfaas_plan.hf.fields import MOST_LAYERS, Fields
from prfaas_plan.hf.layers import mixers, mtp_mixer
from prfaas_plan.hf.mixers import global_attention, latent, mamba2
from prfaas_plan.hf.quantization import cache_format, plain_format, weight_formats
from prfaas_plan.model import ModelProfile
from prfaas_plan.profiles import Source

__all__ = ["import_config", "profile_from_config", "read_config"]

_MOST_BYTES: Final = 64 * 1024 * 1024
_MOST_REPR_BYTES: Final = 4 * 1024 * 1024
_NESTED: Final = ("text_config", "llm_config", "language_config", "thinker_config", "model_config")
_NEMOTRON: Final = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
_SOURCE: Final = "config"


def import_config(path: str | Path) -> ModelProfile:
    """Read a ``config.json`` and, beside it, an ``hf_quant_config.json`` where there is one.

    The file may have a byte-order mark, be a pasted Python dictionary, or hold bare ``Infinity``.
    Raises `ProfileError` with every fault: a file that is no configuration, an architecture that is not known,
    each field that is missing or malformed.
    """
    path = Path(path)
    config = read_config(path)
    beside = path.parent / "hf_quant_config.json"
    quantization = read_config(beside) if beside.is_file() and beside != path else None
    profile = profile_from_config(config, str(path), quantization)
    name = _name(path)
    return replace(profile, name=name, id=re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-") or "model")


def _name(path: Path) -> str:
    """Name a model by its file: its folder, its repository in a download cache, or the name of the file."""
    cached = next((part for part in reversed(path.parts) if part.startswith("models--")), "")
    stem = cached or (path.parent.name if path.stem == "config" and path.parent.name else path.stem)
    return stem.removesuffix("_config").split("--")[-1] or "model"


def read_config(path: str | Path) -> Mapping[str, Any]:
    """Read the one object a JSON file (or a pasted Python dictionary) holds.

    Raises `ProfileError` that says what the file is instead.
    """
    where = str(path)
    try:
        raw = Path(path).read_bytes()
    except OSError as problem:
        raise ProfileError(Fault(where, "", problem.strerror or "cannot be read")) from None
    if len(raw) > _MOST_BYTES:
        raise ProfileError(Fault(where, "", f"is {len(raw):,} bytes long; a configuration has at most {_MOST_BYTES:,}"))
    try:
        text = raw.decode("utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig").strip()
    except UnicodeDecodeError:
        raise ProfileError(Fault(where, "", "is not text in UTF-8")) from None
    value = _parsed(text, where)
    if not isinstance(value, Mapping):
        raise ProfileError(Fault(where, "", "expected one JSON object", type(value).__name__))
    return value


def _parsed(text: str, where: str) -> object:
    if not text:
        raise ProfileError(Fault(where, "", "is empty"))
    if text.startswith("version https://git-lfs"):
        raise ProfileError(Fault(where, "", "is a Git LFS pointer, not the file; fetch it with `git lfs pull`"))
    if text.startswith("<"):
        raise ProfileError(Fault(where, "", "is a web page, not a configuration; the download failed"))
    try:
        return json.loads(text)
    except RecursionError:
        raise ProfileError(Fault(where, "", "is nested too deeply to be read")) from None
    except ValueError as problem:
        value = _python_literal(text)
        if value is not None:
            return value
        reason = str(problem).replace("Expecting", "expecting")
        raise ProfileError(Fault(where, "", f"is not valid JSON (cut short?): {reason}")) from None


def _python_literal(text: str) -> object:
    if len(text) > _MOST_REPR_BYTES or not text.startswith("{") or "'" not in text:
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return None


def profile_from_config(
    config: Mapping[str, Any], where: str = "config.json", quantization: Mapping[str, Any] | None = None
) -> ModelProfile:
    """Build a model profile from a configuration and, where it is kept apart, its quantisation.

    Raises `ProfileError` with every fault.

    >>> llama = {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    ...          "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256}
    >>> profile = profile_from_config(llama)
    >>> profile.depth, profile.blocks["full"].qk_dim
    (32, 128)
    """
    f = _text_part(config, where)
    family = family_of(f, config)
    if f.faults and not f.has("hidden_size"):
        f.count("hidden_size")
    layers, extra = _stack(f, family)
    profile = _profile(f, family, config, layers, extra)
    profile = _with_formats(f, family, profile, config, quantization)
    f.finish()
    return replace(profile, note=" ".join(f.notes))


def _text_part(config: Mapping[str, Any], where: str) -> Fields:
    """Find the innermost object that describes a text model: it has a width and heads."""
    found, prefix = config, ""
    level, path = config, ""
    for _ in range(4):
        name = next((n for n in _NESTED if isinstance(level.get(n), Mapping)), "")
        if not name:
            break
        level, path = level[name], f"{path}{name}."
        if _describes_text(level) or not _describes_text(found):
            found, prefix = level, path
    return Fields(where, found, prefix)


def _describes_text(level: Mapping[str, Any]) -> bool:
    widths, heads = ("hidden_size", "n_embd", "d_model"), ("num_attention_heads", "n_head", "num_heads")
    return any(level.get(k) is not None for k in widths) and any(level.get(k) is not None for k in heads)


Layer = tuple[Block, ...]


def _stack(f: Fields, family: Family) -> tuple[list[Layer], Block | None]:
    """List the blocks of each layer, and the attention block of a multi-token-prediction layer."""
    if family.blocks == "nemotron":
        return _nemotron(f, family)
    depth = f.count("num_hidden_layers", "num_layers", "n_layer", most=MOST_LAYERS)
    if family.blocks == "longcat":
        return _longcat(f, family, depth)
    mixing = mixers(f, family, depth)
    feeding = feed_forward(f, family, depth)
    layers: list[Layer] = [
        ((block,) if block is not None else ()) + ffn for block, ffn in zip(mixing, feeding, strict=True)
    ]
    return layers, mtp_mixer(f, family, depth, mixing)


def _nemotron(f: Fields, family: Family) -> tuple[list[Layer], Block | None]:
    kinds = _nemotron_kinds(f, "hybrid_override_pattern", "layers_block_type")
    made: dict[str, Block] = {}
    for kind in sorted(set(kinds)):
        if kind == "mamba":
            made[kind] = mamba2(f)
        elif kind == "attention":
            made[kind] = global_attention(f, family)
        elif kind == "mlp":
            made[kind] = FeedForward(width=f.count("intermediate_size"), matrices=2)
        else:
            made[kind] = replace(mixture(f, family), matrices=2)
    extra = f.has("mtp_hybrid_override_pattern", "mtp_layers_block_type")
    mtp = _nemotron_kinds(f, "mtp_hybrid_override_pattern", "mtp_layers_block_type") if extra else []
    return [(made[kind],) for kind in kinds], made.get("attention") if "attention" in mtp else None


def _nemotron_kinds(f: Fields, pattern: str, listed: str) -> list[str]:
    name = f.has(listed, pattern)
    written = f.data.get(name) if name else None
    if written is None:
        f.fault(pattern, f"missing (or {listed}); it says what each layer is")
        return []
    if not isinstance(written, (str, list)) or not 0 < len(written) <= MOST_LAYERS:
        f.fault(name, "expected a letter or a name for each layer", written)
        return []
    kinds = [_NEMOTRON.get(entry, entry) if isinstance(entry, str) else "" for entry in written]
    unknown = next((entry for entry, kind in zip(written, kinds, strict=True) if kind not in _NEMOTRON.values()), None)
    if unknown is not None:
        f.fault(name, "unknown layer; expected M, *, - or E (mamba, attention, mlp or moe)", unknown)
        return []
    if f.has("num_hidden_layers") and not name.startswith("mtp"):
        depth = f.count("num_hidden_layers", most=MOST_LAYERS)
        if depth != len(kinds):
            f.fault(name, f"has {len(kinds)} layers where num_hidden_layers is {depth}")
    return kinds


def _longcat(f: Fields, family: Family, depth: int) -> tuple[list[Layer], Block | None]:
    attention = latent(f)
    dense = FeedForward(width=f.count("ffn_hidden_size", "intermediate_size"), matrices=matrices(f))
    layer: Layer = (attention, dense, attention, dense, mixture(f, family))
    return [layer] * depth, attention


def _profile(
    f: Fields, family: Family, outer: Mapping[str, Any], layers: list[Layer], extra: Block | None
) -> ModelProfile:
    mtp = f.count("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", default=0, least=0)
    names = _names([block for layer in layers for block in layer] + ([extra] if extra is not None and mtp else []))
    tied = next((d["tie_word_embeddings"] for d in (f.data, outer) if d.get("tie_word_embeddings") is not None), None)
    if tied is not None and not isinstance(tied, bool):
        f.fault("tie_word_embeddings", "expected true or false", tied)
    if any(isinstance(block, CompressedAttention) for block in names):
        f.note("The partial states of the compressors, a few kB a layer, are not counted.")
    cited = (("", _SOURCE), *((f"blocks.{name}", _SOURCE) for name in names.values()), ("weights", _SOURCE))
    return ModelProfile(
        name=Path(f.where).stem,
        basis="config.json",
        hidden_size=f.count("hidden_size", "n_embd", "d_model"),
        vocab_size=(f if f.has("vocab_size") else replace(f, data=outer, prefix="")).count("vocab_size"),
        tied_embeddings=family.tied if tied is None else bool(tied),
        max_context_tokens=f.optional(
            "max_position_embeddings", "max_seq_len", "model_max_length", "n_positions", "n_ctx"
        ),
        mtp_layers=mtp,
        mtp_block=names[extra] if extra is not None and mtp else "",
        layers=tuple("+".join(names[block] for block in layer) for layer in layers if layer),
        blocks={name: block for block, name in names.items()},
        where=f.where,
        sources=(Source(_SOURCE, "Hugging Face configuration", f.where, "undated", "config"),),
        cited=tuple(sorted(cited)),
    )


def _names(blocks: list[Block]) -> dict[Block, str]:
    """Name each distinct block by what it is, with a number where a name is taken."""
    names: dict[Block, str] = {}
    for block in blocks:
        if block not in names:
            stem = _stem(block)
            taken = sum(1 for name in names.values() if name == stem or re.fullmatch(rf"{re.escape(stem)}-\d+", name))
            names[block] = stem if not taken else f"{stem}-{taken + 1}"
    return names


def _stem(block: Block) -> str:
    if getattr(block, "cache", "own") == "shared":
        return "reader"
    if getattr(block, "index_shared", "no") == "yes":
        return "dsa-shared-index"
    if getattr(block, "window_kind", "") == "chunked" and getattr(block, "window_tokens", None):
        return "chunk"
    if isinstance(block, CompressedAttention):
        return f"ratio{block.ratio}" if block.ratio else "window"
    if getattr(block, "index", None) is not None:
        return "dsa" if block.kind == "mla" else "sparse"
    if block.kind == "gqa":
        return "window" if getattr(block, "window_tokens", None) else "full"
    return block.kind


def _with_formats(
    f: Fields, family: Family, profile: ModelProfile, outer: Mapping[str, Any], beside: Mapping[str, Any] | None
) -> ModelProfile:
    q = _quantization(f, outer, beside)
    plain = plain_format(f, outer)
    kinds = {block.kind for block in profile.blocks.values()}
    depth = max(1, profile.depth)
    weights = weight_formats(q, plain, outer.get("expert_dtype", f.data.get("expert_dtype")), depth)
    if experts_of(f) <= 1:
        weights = replace(weights, experts=weights.ffn, shared_experts=weights.ffn)
    states = _states(f, family, profile)
    if "compressed" in kinds:
        f.note("Engines keep this cache in FP8 records by default.")
    default = "fp8" if "compressed" in kinds else "fp16" if plain == "fp16" else "bf16"
    return replace(
        profile,
        weights=weights,
        kv_dtype=cache_format(q, cache_format(_beside(f, beside), default)),
        state_dtype_sglang=states[0],
        state_dtype_vllm=states[1],
    )


def _quantization(f: Fields, outer: Mapping[str, Any], beside: Mapping[str, Any] | None) -> Fields:
    for name, data in (("", outer), (f.prefix, f.data)):
        for key in ("quantization_config", "compression_config"):
            if data.get(key) is not None:
                return replace(f, data=data, prefix=name).inner(key)
    return _beside(f, beside)


def _beside(f: Fields, beside: Mapping[str, Any] | None) -> Fields:
    return replace(f, data=beside or {}, prefix="hf_quant_config.json: ").inner("quantization")


def _states(f: Fields, family: Family, profile: ModelProfile) -> tuple[str, str]:
    """Name the data type of recurrent state in SGLang (fp32 unless stated) and in vLLM's automatic choice."""
    kinds = {block.kind for block in profile.blocks.values()}
    recurrent, delta = kinds & {"kda", "gdn", "lightning", "mamba1", "mamba2"}, "kda" in kinds
    stated = f.word("mamba_ssm_dtype", "mamba_ssm_cache_dtype").removeprefix("torch.")
    names = {"float32": "fp32", "bfloat16": "bf16", "": "", "auto": ""}
    if stated not in names:
        f.fault(f.has("mamba_ssm_dtype", "mamba_ssm_cache_dtype"), "expected float32 or bfloat16", stated)
    known = names.get(stated, "")
    if not recurrent:
        return "fp32", "fp32"
    return known or "fp32", known or ("fp32" if delta else family.vllm_state)

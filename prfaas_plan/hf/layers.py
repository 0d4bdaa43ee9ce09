"""Which block mixes tokens in each layer of a Hugging Face configuration, in every spelling in use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from prfaas_plan.blocks import Attention, Block
from prfaas_plan.hf.families import Family
from prfaas_plan.hf.fields import Fields
from prfaas_plan.hf.mixers import (
    attention,
    chunked,
    compressed,
    global_attention,
    latent,
    linear,
    sliding,
    with_block_index,
)

__all__ = ["mixers", "mtp_mixer"]

_KINDS: Final[Mapping[str, str]] = {
    "full_attention": "full",
    "attention": "full",
    "deepseek_sparse_attention": "full",
    "sliding_attention": "window",
    "chunked_attention": "chunk",
    "linear_attention": "linear",
    "mamba": "linear",
}


def mixers(f: Fields, family: Family, depth: int) -> list[Block | None]:
    """List the attention or recurrent block of each layer; ``None`` where a layer has none."""
    if f.has("compress_ratios"):
        return [compressed(f, ratio) for ratio in f.listed("compress_ratios", depth, what="ratio")]
    if f.has("block_configs"):
        return _by_block_configs(f, family, depth)
    kinds = layer_kinds(f, family, depth)
    made = {kind: _block(f, family, kind) for kind in sorted(set(kinds))}
    return _shared_layers(f, _indexed_layers(f, [made[kind] for kind in kinds]))


def _block(f: Fields, family: Family, kind: str) -> Block:
    if kind == "linear":
        return linear(f, family)
    if kind == "window":
        return sliding(f, family)
    if kind == "chunk":
        return chunked(f, family)
    return latent(f) if _is_latent(f) else global_attention(f, family)


def _is_latent(f: Fields) -> bool:
    return bool(f.has("kv_lora_rank")) and f.data.get("use_mla") is not False


def layer_kinds(f: Fields, family: Family, depth: int) -> list[str]:
    """Say of each layer whether it attends fully, in a window or a chunk, or is linear."""
    for key, reader in _SPELLINGS.items():
        if f.has(key):
            return reader(f, depth)
    if family.windows == "chunked" or (f.has("no_rope_layers") and f.has("attention_chunk_size")):
        return _chunks(f, depth)
    return _windows(f, family, depth)


def _named(f: Fields, depth: int) -> list[str]:
    entries = f.listed("layer_types", depth, what="layer type")
    for entry in entries:
        if entry is not None and (not isinstance(entry, str) or entry not in _KINDS):
            f.fault("layer_types", "unknown layer type; expected " + ", ".join(_KINDS), entry)
    return [_KINDS.get(entry, "full") if isinstance(entry, str) else "full" for entry in entries]


def _kimi(f: Fields, depth: int) -> list[str]:
    inner = f.inner("linear_attn_config")
    full = inner.indices("full_attn_layers", depth, first=1)
    if inner.has("kda_layers") and inner.indices("kda_layers", depth, first=1) != set(range(depth)) - full:
        inner.fault("kda_layers", f"together with full_attn_layers it must name layers 1 to {depth} once each")
    return ["full" if i in full else "linear" for i in range(depth)]


def _binary(f: Fields, key: str, depth: int, words: tuple[str, str]) -> list[str]:
    entries = f.listed(key, depth, what="0 or 1")
    if any(entry not in (0, 1) for entry in entries):
        f.fault(key, "expected a list of 0 and 1", f.data.get(key))
    return [words[1] if entry == 1 else words[0] for entry in entries]


def _hybrid_pattern(f: Fields, depth: int) -> list[str]:
    return _binary(f, "hybrid_layer_pattern", depth, ("full", "window"))


def _type_list(f: Fields, depth: int) -> list[str]:
    return _binary(f, "attn_type_list", depth, ("linear", "full"))


def _period(f: Fields, depth: int) -> list[str]:
    period, offset = f.count("attn_layer_period"), f.count("attn_layer_offset", default=0, least=0)
    return ["full" if i % period == offset else "linear" for i in range(depth)]


def _groups(f: Fields, depth: int) -> list[str]:
    size = f.count("layer_group_size")
    whole = depth // size * size
    if whole < depth:
        f.note("Layers after the last whole layer_group_size group are taken as full attention; some runtimes differ.")
    return ["full" if (i + 1) % size == 0 or i >= whole else "linear" for i in range(depth)]


def _interval(f: Fields, depth: int) -> list[str]:
    every = f.count("full_attention_interval")
    return ["full" if (i + 1) % every == 0 else "linear" for i in range(depth)]


_SPELLINGS: Final[Mapping[str, Callable[[Fields, int], list[str]]]] = {
    "linear_attn_config": _kimi,
    "layer_types": _named,
    "hybrid_layer_pattern": _hybrid_pattern,
    "attn_type_list": _type_list,
    "attn_layer_period": _period,
    "layer_group_size": _groups,
    "full_attention_interval": _interval,
}


def _chunks(f: Fields, depth: int) -> list[str]:
    if not f.has("attention_chunk_size"):
        return ["full"] * depth
    if f.data.get("no_rope_layers"):
        return ["full" if rope == "0" else "chunk" for rope in _binary(f, "no_rope_layers", depth, ("0", "1"))]
    every = f.count("no_rope_layer_interval", default=4)
    f.note(f"no_rope_layers is absent; every {every}th layer attends fully, the rule of the modelling code.")
    return ["full" if (i + 1) % every == 0 else "chunk" for i in range(depth)]


def _windows(f: Fields, family: Family, depth: int) -> list[str]:
    if not f.has("sliding_window", "sliding_window_size") or f.data.get("use_sliding_window") is False:
        if f.has("attention_other_setting"):
            f.fault("layer_types", "missing; attention_other_setting needs to know which layers it is for")
            f.fault("sliding_window", "missing; attention_other_setting describes window layers")
        return ["full"] * depth
    if f.has("sliding_window_pattern", "_sliding_window_pattern") or family.windows == "every-sixth-full":
        every = f.count("sliding_window_pattern", "_sliding_window_pattern", default=6)
        return ["full" if (i + 1) % every == 0 else "window" for i in range(depth)]
    if family.windows == "even":
        return ["window" if i % 2 == 0 else "full" for i in range(depth)]
    if family.windows == "upper":
        if not f.flag("use_sliding_window"):
            return ["full"] * depth
        first = f.count("max_window_layers", least=0)
        return ["window" if i >= first else "full" for i in range(depth)]
    if family.windows != "all":
        f.fault("layer_types", "missing; sliding_window is set, and which layers it holds for is not known")
    return ["window"] * depth


def _indexed_layers(f: Fields, blocks: list[Block | None]) -> list[Block | None]:
    if f.has("sparse_attention_config"):
        return with_block_index(f, blocks)
    if not f.has("indexer_types"):
        return blocks
    types = f.listed("indexer_types", len(blocks), what="'full' or 'shared'")
    if any(entry not in ("full", "shared", None) for entry in types):
        f.fault("indexer_types", "expected a list of 'full' and 'shared'", f.data.get("indexer_types"))
    return [
        replace(block, index_shared="yes") if entry == "shared" and hasattr(block, "index_shared") else block  # type: ignore[type-var]
        for block, entry in zip(blocks, types, strict=True)
    ]


def _shared_layers(f: Fields, blocks: list[Block | None]) -> list[Block | None]:
    shared: set[int] = set()
    if f.flag("use_cla"):
        factor = f.count("cla_share_factor")
        shared = {i for i in range(len(blocks)) if i % factor}
    if f.has("num_kv_shared_layers"):
        last = f.count("num_kv_shared_layers", least=0, most=len(blocks))
        shared |= set(range(len(blocks) - last, len(blocks)))
    return [
        replace(block, cache="shared") if i in shared and isinstance(block, Attention) else block
        for i, block in enumerate(blocks)
    ]


def _by_block_configs(f: Fields, family: Family, depth: int) -> list[Block | None]:
    blocks: list[Block | None] = []
    for i, entry in enumerate(f.listed("block_configs", depth, what="block")):
        part = entry.get("attention") if isinstance(entry, Mapping) else None
        if not isinstance(part, Mapping):
            f.fault(f"block_configs.{i}.attention", "expected an object", part)
            blocks.append(None)
        elif part.get("no_op") is True or part.get("replace_with_linear") is True:
            blocks.append(None)
        else:
            inner = replace(f, data=part, prefix=f"{f.prefix}block_configs.{i}.attention.")
            blocks.append(attention(f, family, group=inner.count("n_heads_in_group")))
    return blocks


def mtp_mixer(f: Fields, family: Family, depth: int, blocks: list[Block | None]) -> Block | None:
    """Find the attention block of a multi-token-prediction layer: listed after the stack, else the last growing one."""
    listed = f.data.get("layer_types")
    if isinstance(listed, list) and len(listed) > depth and isinstance(listed[depth], str):
        return _block(f, family, _KINDS.get(listed[depth], "full"))
    ratios = f.data.get("compress_ratios")
    if isinstance(ratios, list) and len(ratios) > depth:
        return compressed(f, ratios[depth])
    grows = (b for b in reversed(blocks) if b is not None and (hasattr(b, "q_heads") or hasattr(b, "kv_rank")))
    return next(grows, None)

"""The feed-forward block of each layer of a Hugging Face configuration: dense, mixture of experts, or both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from prfaas_plan.blocks import FeedForward, MixtureOfExperts
from prfaas_plan.hf.families import Family
from prfaas_plan.hf.fields import Fields

__all__ = ["feed_forward", "mixture"]

FfnBlock = FeedForward | MixtureOfExperts

_EXPERTS: Final = ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts")
_ACTIVE: Final = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "top_k_experts",
    "moe_topk",
    "moe_top_k",
    "moe_k",
)
_SHARED: Final = ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts")
_SHARED_WIDTH: Final = (
    "shared_expert_intermediate_size",
    "moe_shared_expert_intermediate_size",
    "shared_intermediate_size",
    "share_expert_dim",
)
_DENSE_WIDTH: Final = (
    "dense_intermediate_size",
    "intermediate_size_mlp",
    "intermediate_size",
    "ffn_hidden_size",
    "n_inner",
)


def feed_forward(f: Fields, family: Family, depth: int) -> list[tuple[FfnBlock, ...]]:
    """List the feed-forward blocks of each layer: one, or a dense one and a mixture side by side, or none."""
    if f.has("block_configs"):
        return _by_block_configs(f, depth)
    if experts_of(f) <= 1:
        return [(FeedForward(width=f.count(*_DENSE_WIDTH), matrices=matrices(f)),)] * depth
    sparse = _sparse_layers(f, depth)
    mixtures = _mixtures(f, family, depth)
    dense = () if len(sparse) == depth else (FeedForward(width=f.count(*_DENSE_WIDTH), matrices=matrices(f)),)
    if f.flag("enable_moe_block"):
        both = FeedForward(width=f.count(*_DENSE_WIDTH), matrices=matrices(f))
        return [(both, mixtures[i]) for i in range(depth)]
    return [(mixtures[i],) if i in sparse else dense for i in range(depth)]


def experts_of(f: Fields) -> int:
    """Read the number of routed experts, 0 where there are none; two spellings that disagree are a fault."""
    found = {name: f.count(name, least=0) for name in _EXPERTS if f.has(name)}
    if len(set(found.values())) > 1:
        f.fault(" / ".join(found), "different numbers of experts", list(found.values()))
    return next(iter(found.values()), 0)


def matrices(f: Fields) -> int:
    """Say how many matrices a feed-forward block has: 2 with the squared ReLU, else 3 (gated)."""
    return 2 if "relu2" in (f.data.get("mlp_hidden_act"), f.data.get("hidden_act")) else 3


def mixture(f: Fields, family: Family) -> MixtureOfExperts:
    """Read a mixture of experts that is the same in every layer."""
    return _mixtures(f, family, 1)[0]


def _mixtures(f: Fields, family: Family, depth: int) -> list[MixtureOfExperts]:
    experts, hollow = experts_of(f), f.count("zero_expert_num", default=0, least=0)
    if experts < 1:
        f.fault(_EXPERTS[0], f"missing (or {', '.join(_EXPERTS[1:])}); expected the number of routed experts")
        experts = 1
    width_keys: tuple[str, ...] = ("moe_intermediate_size", "expert_ffn_hidden_size")
    if family.expert_width_key != "moe_intermediate_size":
        width_keys = (*width_keys, "intermediate_size")
    widths = f.per_layer(*width_keys, depth=depth)
    active = f.per_layer(*_ACTIVE, depth=depth)
    shared = _shared_widths(f, family, widths, depth)
    base = MixtureOfExperts(
        experts=experts,
        active=1.0,
        width=1,
        matrices=matrices(f),
        latent_dim=f.optional("routed_expert_hidden_size", "moe_latent_size"),
        zero_experts=hollow,
        bias=family.expert_bias,
    )
    if max(active) > experts + hollow:
        f.fault(f.has(*_ACTIVE), f"expected at most the {experts + hollow} experts there are", max(active))
    real = experts / (experts + hollow)
    if hollow:
        f.note("Experts that hold no weights are chosen in proportion to their number, on average.")
    return [
        replace(base, active=float(a * real), width=w, shared_width=s)
        for a, w, s in zip(active, widths, shared, strict=True)
    ]


def _shared_widths(f: Fields, family: Family, widths: list[int], depth: int) -> list[int]:
    stated = f.has(*_SHARED)
    numbers = f.per_layer(*_SHARED, depth=depth, default=0, least=0, most=100)
    if family.shared_expert and not stated:
        return widths
    if f.has(*_SHARED_WIDTH):
        width = f.count(*_SHARED_WIDTH, least=0)
        return [width * (number if stated else 1) for number in numbers]
    return [width * number for width, number in zip(widths, numbers, strict=True)]


def _sparse_layers(f: Fields, depth: int) -> set[int]:
    if f.has("mlp_layer_types"):
        types = f.listed("mlp_layer_types", depth, what="'dense' or 'sparse'")
        if any(entry not in ("dense", "sparse", None) for entry in types):
            f.fault("mlp_layer_types", "expected a list of 'dense' and 'sparse'", f.data.get("mlp_layer_types"))
        return {i for i, entry in enumerate(types) if entry == "sparse"}
    if f.has("moe_layers_enum"):
        return f.indices("moe_layers_enum", depth)
    if isinstance(f.data.get("moe_layers"), list) and f.data["moe_layers"]:
        return f.indices("moe_layers", depth)
    if isinstance(f.data.get("moe_layer_freq"), list):
        flags = f.listed("moe_layer_freq", depth, what="0 or 1")
        if any(entry not in (0, 1, None) for entry in flags):
            f.fault("moe_layer_freq", "expected a number or a list of 0 and 1", f.data.get("moe_layer_freq"))
        return {i for i, entry in enumerate(flags) if entry == 1}
    return {i for i in range(depth) if _is_sparse(f, i, depth)}


def _is_sparse(f: Fields, i: int, depth: int) -> bool:
    if f.has("expert_layer_period"):
        return i % f.count("expert_layer_period") == f.count("expert_layer_offset", default=0, least=0)
    if f.has("interleave_moe_layer_step"):
        return (i + 1) % f.count("interleave_moe_layer_step") == 0
    if f.has("moe_layer_start_index"):
        last = f.count("moe_layer_end_index", default=depth - 1) if f.data.get("moe_layer_end_index") != -1 else depth
        step = f.count("moe_layer_interval", default=1)
        return f.count("moe_layer_start_index", least=0) <= i <= last and (i + 1) % step == 0
    first = f.count("first_k_dense_replace", "moe_layer_num_skipped", default=0, least=0)
    step = f.count("decoder_sparse_step", default=1)
    dense = f.indices("mlp_only_layers", depth) if f.data.get("mlp_only_layers") else set()
    return i >= first and i % f.count("moe_layer_freq", default=1) == 0 and (i + 1) % step == 0 and i not in dense


def _by_block_configs(f: Fields, depth: int) -> list[tuple[FfnBlock, ...]]:
    layers: list[tuple[FfnBlock, ...]] = []
    for i, entry in enumerate(f.listed("block_configs", depth, what="block")):
        part = entry.get("ffn") if isinstance(entry, Mapping) else None
        inner = replace(f, data=part if isinstance(part, Mapping) else {}, prefix=f"{f.prefix}block_configs.{i}.ffn.")
        if inner.data.get("no_op") is True:
            layers.append(())
        elif inner.has("ffn_mult") and not inner.has("intermediate_size"):
            layers.append((FeedForward(width=_multiplied(inner, f.count("hidden_size"))),))
        else:
            width = f.count("hidden_size") if inner.data.get("replace_with_linear") is True else 0
            layers.append((FeedForward(width=width or inner.count("intermediate_size"), matrices=matrices(f)),))
    return layers


def _multiplied(f: Fields, hidden: int) -> int:
    multiple = f.data["ffn_mult"]
    if isinstance(multiple, bool) or not isinstance(multiple, (int, float)) or not 0 < multiple < 1e3:
        f.fault("ffn_mult", "expected a number above 0", multiple)
        return 1
    return -(-int(2 * multiple * hidden / 3) // 256) * 256

"""The sizes of one attention or recurrent block in a Hugging Face configuration."""

from __future__ import annotations

from dataclasses import replace

from prfaas_plan.blocks import (
    Attention,
    Block,
    CompressedAttention,
    GatedDeltaNet,
    Index,
    KimiDeltaAttention,
    LatentAttention,
    LightningAttention,
    Mamba1,
    Mamba2,
)
from prfaas_plan.hf.families import Family
from prfaas_plan.hf.fields import Fields

__all__ = [
    "attention",
    "chunked",
    "compressed",
    "global_attention",
    "latent",
    "linear",
    "mamba2",
    "sliding",
    "with_block_index",
]

_Q_HEADS = ("num_attention_heads", "n_head", "num_heads")
_KV_HEADS = ("num_key_value_heads", "num_attention_groups", "multi_query_group_num")
_HEAD_DIM = ("head_dim", "attention_head_dim", "kv_channels")


def attention(f: Fields, family: Family, *, group: int = 0) -> Attention:
    """Read softmax attention; `group` is the query heads of a key/value head where each layer has its own.

    ``head_dim`` holds where it is given, even if heads times it is not the hidden size.
    """
    q_heads = f.count(*_Q_HEADS)
    kv_heads = q_heads // group if group else f.count(*_KV_HEADS, default=q_heads)
    if (group and q_heads % group) or q_heads % max(1, kv_heads):
        f.fault(f.has(*_KV_HEADS) or "num_key_value_heads", f"must divide the {q_heads} query heads", kv_heads)
    width = head_dim(f, q_heads)
    return Attention(
        q_heads=q_heads,
        kv_heads=max(1, kv_heads),
        qk_dim=width,
        v_dim=f.count("v_head_dim", default=width),
        q_rank=f.optional("share_q_dim"),
        bias=f.flag("attention_bias", default=family.bias),
    )


def head_dim(f: Fields, q_heads: int) -> int:
    """Read the width of a head: its own key, else the hidden size divided by the heads."""
    if f.has(*_HEAD_DIM):
        return f.count(*_HEAD_DIM)
    hidden = f.count("hidden_size", "n_embd", "d_model")
    if hidden % q_heads:
        f.fault("head_dim", f"missing, and {q_heads} heads do not divide the hidden size {hidden}")
    return max(1, hidden // q_heads)


def global_attention(f: Fields, family: Family) -> Attention:
    """Read the attention of layers over the whole context, which may have sizes and a gate of their own."""
    block = attention(f, family)
    if f.has("global_head_dim"):
        width = f.count("global_head_dim")
        block = replace(block, qk_dim=width, v_dim=width)
    if f.has("num_global_key_value_heads"):
        block = replace(block, kv_heads=f.count("num_global_key_value_heads"))
    return replace(block, gate=_gate(f, family), k_is_v=f.flag("attention_k_eq_v"))


def _gate(f: Fields, family: Family) -> str:
    for key, gate in (("attn_output_gate", "element"), ("attention_output_gate", "element")):
        if f.has(key):
            return gate if f.flag(key) else "none"
    if f.has("use_head_wise_attn_gate"):
        return "head" if f.flag("use_head_wise_attn_gate") else "none"
    return family.gate


def sliding(f: Fields, family: Family) -> Attention:
    """Read the attention of sliding-window layers, which may have heads of their own."""
    block = attention(f, family)
    q_heads = f.count("swa_num_attention_heads", default=block.q_heads)
    if f.has("attention_other_setting"):
        other = f.inner("attention_other_setting")
        width = other.count("head_dim", default=block.qk_dim)
        q_heads = other.count("num_attention_heads", default=q_heads)
        kv_heads = other.count("num_attention_groups", default=block.kv_heads)
        block = replace(block, kv_heads=kv_heads, qk_dim=width, v_dim=width)
    return replace(
        block,
        q_heads=q_heads,
        kv_heads=f.count("swa_num_key_value_heads", default=block.kv_heads),
        qk_dim=f.count("swa_head_dim", default=block.qk_dim),
        v_dim=f.count("swa_v_head_dim", default=block.v_dim),
        window_tokens=f.count("sliding_window", "sliding_window_size"),
        gate=_gate(f, family),
    )


def chunked(f: Fields, family: Family) -> Attention:
    """Read the attention of layers that see their own chunk only."""
    tokens = f.count("attention_chunk_size")
    return replace(attention(f, family), window_tokens=tokens, window_kind="chunked", gate=_gate(f, family))


def latent(f: Fields) -> LatentAttention:
    """Read multi-head latent attention; ``head_dim`` and ``num_key_value_heads`` mean nothing here."""
    if "q_lora_rank" not in f.data:
        f.fault("q_lora_rank", "missing; null would say that the query projection has full rank")
    return LatentAttention(
        heads=f.count(*_Q_HEADS),
        kv_rank=f.count("kv_lora_rank"),
        rope_dim=f.count("qk_rope_head_dim"),
        nope_dim=f.count("qk_nope_head_dim"),
        v_dim=f.count("v_head_dim"),
        q_rank=f.optional("q_lora_rank"),
        gate="element" if f.flag("mla_use_output_gate") else "none",
        index=lightning_index(f),
    )


def lightning_index(f: Fields) -> Index | None:
    """Read the indexer of sparse attention: an FP8 key with one fp32 scale for each 128 of its elements."""
    if not f.has("index_head_dim"):
        return None
    width = f.count("index_head_dim")
    return Index(
        heads=f.count("index_n_heads"),
        head_dim=width,
        bytes_per_token=width + 4.0 * width / 128,
        top_k_tokens=f.count("index_topk"),
    )


def compressed(f: Fields, ratio: object) -> CompressedAttention:
    """Read DeepSeek-V4 attention at one compression ratio; only ratio 4 has an indexer.

    The FP8 record is 1 B for each unrotated element, 2 B for each rotated one and a scale for each 64, padded.
    """
    if ratio not in (0, 4, 128) or isinstance(ratio, bool):
        f.fault("compress_ratios", "expected ratios of 0, 4 or 128", ratio)
        ratio = 0
    width, rope = f.count("head_dim"), f.count("qk_rope_head_dim")
    if rope > width:
        f.fault("qk_rope_head_dim", f"must not be above head_dim = {width}", rope)
    nope = max(0, width - rope)
    return CompressedAttention(
        heads=f.count(*_Q_HEADS),
        head_dim=width,
        q_rank=f.count("q_lora_rank"),
        o_rank=f.count("o_lora_rank"),
        o_groups=f.count("o_groups"),
        window_tokens=f.count("sliding_window"),
        ratio=int(ratio),
        fp8_record_bytes=nope + 2 * rope + nope // 64 + 1,
        index=lightning_index(f) if ratio == 4 else None,
    )


def with_block_index(f: Fields, blocks: list[Block | None]) -> list[Block | None]:
    """Add the bf16 index key of block-sparse attention to the layers that have one; they keep all keys and values."""
    inner = f.inner("sparse_attention_config")
    if not inner.flag("use_sparse_attention", default=True):
        return blocks
    width = inner.count("sparse_index_dim")
    top_k = inner.count("sparse_topk_blocks") * inner.count("sparse_block_size")
    index = Index(inner.count("sparse_num_index_heads"), width, 2.0 * width, top_k)
    sparse = inner.listed("sparse_attention_freq", len(blocks), what="0 or 1")
    return [
        replace(block, index=index) if on == 1 and isinstance(block, Attention) else block
        for block, on in zip(blocks, sparse, strict=True)
    ]


def linear(f: Fields, family: Family) -> Block:
    """Read the block of a layer that is not attention, by the keys that describe it."""
    if f.has("linear_attn_config"):
        return _kda(f.inner("linear_attn_config"))
    if family.linear == "gdn" or f.has("linear_num_value_heads"):
        return _gdn(f)
    if family.linear == "mamba1":
        return _mamba1(f)
    if family.linear == "mamba2":
        return mamba2(f)
    if family.linear == "lightning":
        heads = f.count("num_kv_heads_for_linear_attn", *_Q_HEADS)
        return LightningAttention(heads=heads, head_dim=head_dim(f, heads))
    f.fault("linear_attention", "this architecture is not known to have layers of this kind")
    return LightningAttention(heads=1, head_dim=1)


def _kda(f: Fields) -> KimiDeltaAttention:
    return KimiDeltaAttention(
        heads=f.count("num_heads"),
        head_dim=f.count("head_dim"),
        conv_kernel=f.count("short_conv_kernel_size"),
        gate="full" if f.flag("use_full_rank_gate") else "low-rank",
    )


def _gdn(f: Fields) -> GatedDeltaNet:
    return GatedDeltaNet(
        k_heads=f.count("linear_num_key_heads"),
        v_heads=f.count("linear_num_value_heads"),
        k_dim=f.count("linear_key_head_dim"),
        v_dim=f.count("linear_value_head_dim"),
        conv_kernel=f.count("linear_conv_kernel_dim"),
    )


def _mamba1(f: Fields) -> Mamba1:
    hidden = f.count("hidden_size")
    automatic = f.data.get("mamba_dt_rank") == "auto"
    return Mamba1(
        inner_dim=f.count("mamba_expand", most=100) * hidden,
        state_dim=f.count("mamba_d_state"),
        dt_rank=-(-hidden // 16) if automatic else f.count("mamba_dt_rank"),
        conv_kernel=f.count("mamba_d_conv"),
    )


def mamba2(f: Fields) -> Mamba2:
    """Read a Mamba-2 block, in the spelling of Nemotron-H or of Granite."""
    return Mamba2(
        heads=f.count("mamba_num_heads", "mamba_n_heads"),
        head_dim=f.count("mamba_head_dim", "mamba_d_head"),
        state_dim=f.count("ssm_state_size", "mamba_d_state"),
        groups=f.count("n_groups", "mamba_n_groups"),
        conv_kernel=f.count("conv_kernel", "mamba_d_conv"),
    )

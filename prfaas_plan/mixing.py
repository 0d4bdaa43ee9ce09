"""What mixing along the sequence costs one GPU: attention cores, indexers, and the states of recurrent layers.

Projections are matrix products and counted with the weights. Prompts use the un-absorbed form of multi-head latent
attention, decoding and sparse attention the absorbed one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from prfaas_plan.blocks import (
    Attention,
    Block,
    CompressedAttention,
    GatedDeltaNet,
    KimiDeltaAttention,
    LatentAttention,
    LightningAttention,
    Mamba1,
    Mamba2,
)
from prfaas_plan.kv_blocks import BlockCache, block_cache

__all__ = ["SCAN_CHUNK", "Mixer", "mixer_of", "window_pairs"]

SCAN_CHUNK: Final = 64
"""Tokens a linear layer works on at once; within a chunk it is quadratic, between chunks sequential."""

_KERNELS: Final = {"attention": 7, "latent": 8, "index": 8, "linear": 9}
"""Kernels a mixing block launches: normalisation, projections, position, cache write, core, output."""


@dataclass(frozen=True, slots=True)
class Mixer:
    """Cost of one block's sequence mixing on one GPU, per sequence."""

    name: str
    pair_flops: float = 0.0
    """[FLOP] per query and key, in a prompt."""
    absorbed_flops: float = 0.0
    """[FLOP] per query and key, when decoding (MLA: absorbed)."""
    cache_bytes: float = 0.0
    """[B/token] read from the KV cache."""
    window: int = 0
    """[token] reach; 0 for the whole context."""
    chunked: bool = False
    """Whether the window is a fixed chunk of positions and not a sliding one."""
    top_k: int = 0
    """[token] keys a query of sparse attention reads; 0 for all."""
    ratio: float = 1.0
    """Tokens per cached entry beyond the window (compressed attention)."""
    recent: int = 0
    """[token] uncompressed recent tokens read in addition."""
    index_flops: float = 0.0
    """[FLOP] per query and key of the indexer."""
    index_bytes: float = 0.0
    """[B/token] of index read."""
    expand_flops: float = 0.0
    """[FLOP] per cached token to expand a latent into keys and values (MLA, prompt)."""
    state_bytes: float = 0.0
    """[B] recurrent state."""
    token_flops: float = 0.0
    """[FLOP] per token of a linear layer."""
    kernels: int = 0
    """Kernels the block launches, projections included."""

    @property
    def linear(self) -> bool:
        """Whether it is a recurrent block without a growing cache."""
        return self.token_flops > 0.0

    def pairs(self, new: float, cached: float) -> float:
        """Count the query-key pairs of `new` tokens of a prompt after `cached` ones, all keys in reach."""
        if self.window:
            return (_chunked_pairs if self.chunked else window_pairs)(new, cached, float(self.window))
        return window_pairs(new, cached, math.inf)

    def keys(self, context: float) -> float:
        """Count the keys that a token at the end of a context reads [token]."""
        if self.window:
            return min(context, float(self.window))
        reach = min(context / self.ratio, self.top_k or math.inf)
        return reach + min(context, float(self.recent))


def window_pairs(new: float, cached: float, window: float) -> float:
    """Count query-key pairs of `new` causal tokens after `cached` ones, each reading at most `window` keys.

    Σ min(position, window), as an integral over position.

    >>> window_pairs(100.0, 0.0, 1000.0)
    5000.0
    >>> window_pairs(100.0, 1000.0, 10.0)
    1000.0
    """
    return _up_to(cached + new, window) - _up_to(cached, window)


def _up_to(position: float, window: float) -> float:
    if position <= window:
        return 0.5 * position * position
    return 0.5 * window * window + (position - window) * window


def _chunked_pairs(new: float, cached: float, chunk: float) -> float:
    """Count the pairs where positions are cut into chunks that do not see each other, averaged over the last one."""
    return _within(cached + new, chunk) - _within(cached, chunk)


def _within(position: float, chunk: float) -> float:
    return 0.5 * position * min(position, chunk)


def mixer_of(block: Block, kv_dtype: str, state_dtype: str, tensor_parallel: int) -> Mixer | None:
    """Give the cost of a block's sequence mixing on one of `tensor_parallel` ranks; ``None`` for feed-forward."""
    cache = block_cache(block, kv_dtype, state_dtype, tensor_parallel)
    if isinstance(block, Attention):
        return _of_attention(block, cache, tensor_parallel)
    if isinstance(block, LatentAttention):
        return _of_latent(block, cache, tensor_parallel)
    if isinstance(block, CompressedAttention):
        return _of_compressed(block, cache, tensor_parallel)
    return _of_recurrent(block, cache.state / tensor_parallel, tensor_parallel)


def _heads(heads: int, ranks: int) -> float:
    return max(1.0, heads / ranks)


def _of_attention(block: Attention, cache: BlockCache, ranks: int) -> Mixer:
    pair = 2.0 * _heads(block.q_heads, ranks) * (block.qk_dim + block.v_dim)
    per_token = (cache.growing + cache.window) / ranks
    if block.cache == "shared":
        per_token = max(block.kv_heads, ranks) * (block.qk_dim + block.v_dim) * 2.0 / ranks
    index = block.index
    return Mixer(
        name="windowed attention" if block.window_tokens else "attention",
        pair_flops=pair,
        absorbed_flops=pair,
        cache_bytes=per_token,
        window=block.window_tokens or 0,
        chunked=block.window_kind == "chunked",
        top_k=index.top_k_tokens if index else 0,
        index_flops=2.0 * _heads(index.heads, ranks) * index.head_dim if index else 0.0,
        index_bytes=cache.index / ranks,
        kernels=_KERNELS["attention"] + (_KERNELS["index"] if index else 0),
    )


def _of_latent(block: LatentAttention, cache: BlockCache, ranks: int) -> Mixer:
    heads, index = _heads(block.heads, ranks), block.index
    return Mixer(
        name="latent attention",
        pair_flops=2.0 * heads * (block.nope_dim + block.rope_dim + block.v_dim),
        absorbed_flops=2.0 * heads * (2 * block.kv_rank + block.rope_dim),
        cache_bytes=cache.growing / ranks,
        top_k=index.top_k_tokens if index else 0,
        index_flops=2.0 * index.heads * index.head_dim if index and block.index_shared == "no" else 0.0,
        index_bytes=cache.index / ranks,
        expand_flops=2.0 * block.kv_rank * heads * (block.nope_dim + block.v_dim),
        kernels=_KERNELS["latent"] + (_KERNELS["index"] if index and block.index_shared == "no" else 0),
    )


def _of_compressed(block: CompressedAttention, cache: BlockCache, ranks: int) -> Mixer:
    pair, index = 4.0 * _heads(block.heads, ranks) * block.head_dim, block.index
    return Mixer(
        name="compressed attention",
        pair_flops=pair,
        absorbed_flops=pair,
        cache_bytes=cache.window / ranks,
        ratio=float(block.ratio) if block.ratio else math.inf,
        recent=block.window_tokens,
        top_k=index.top_k_tokens if index else 0,
        index_flops=2.0 * index.heads * index.head_dim / block.ratio if index else 0.0,
        index_bytes=cache.index / ranks,
        kernels=_KERNELS["latent"] + (_KERNELS["index"] if index else 0),
    )


def _of_recurrent(block: Block, state: float, ranks: int) -> Mixer | None:
    if isinstance(block, KimiDeltaAttention):
        flops = _delta_flops(block.heads, block.head_dim, block.head_dim)
    elif isinstance(block, GatedDeltaNet):
        flops = _delta_flops(block.v_heads, block.k_dim, block.v_dim)
    elif isinstance(block, LightningAttention):
        flops = block.heads * (4.0 * block.head_dim**2 + 4.0 * SCAN_CHUNK * block.head_dim)
    elif isinstance(block, Mamba2):
        inner = block.heads * block.head_dim
        flops = inner * (4.0 * block.state_dim + 2.0 * SCAN_CHUNK)
    elif isinstance(block, Mamba1):
        flops = 6.0 * block.inner_dim * block.state_dim
    else:
        return None
    return Mixer("linear attention", token_flops=flops / ranks, state_bytes=state, kernels=_KERNELS["linear"])


def _delta_flops(heads: int, k_dim: int, v_dim: int) -> float:
    """State update, read and correction, and the products within a chunk."""
    return heads * (6.0 * k_dim * v_dim + 4.0 * SCAN_CHUNK * (k_dim + v_dim))

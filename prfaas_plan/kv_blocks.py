"""What one block of a model keeps for one request: bytes per token, windows, fixed state.

Data types are parameters here; which of them a model and an engine use is said in `kv_cache`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

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
from prfaas_plan.numerics import Curve

__all__ = ["KV_BYTES", "STATE_BYTES", "BlockCache", "block_cache"]

KV_BYTES: Final[Mapping[str, float]] = {
    "fp32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "fp8_ds_mla": 1.0,
    "int8": 1.0,
    "nvfp4": 0.5 + 1.0 / 16,
}
"""Bytes per cached element. ``fp8_ds_mla`` is the FP8 record of the sparse MLA kernels: one fp32 scale per 128
latent elements, and the rotary key left in bf16 (656 B for a latent of 512 and a key of 64)."""

STATE_BYTES: Final[Mapping[str, float]] = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0}
"""Bytes per element of a recurrent state."""

_CONV_BYTES: Final = 2.0


@dataclass(frozen=True, slots=True)
class BlockCache:
    """What one block keeps for one request."""

    growing: float = 0.0
    """[B/token] proportional to the length, the index left out."""
    index: float = 0.0
    """[B/token] index of sparse attention."""
    window: float = 0.0
    """[B/token] kept for the last `window_tokens` tokens only."""
    window_tokens: int = 0
    """[token] reach of the window; 0 if there is none."""
    state: float = 0.0
    """[B] recurrent state and convolution columns."""

    def curve(self, *, full_window: bool = False) -> Curve:
        """Give the bytes [B] of the block as a function of the length [token]."""
        per_token = self.growing + self.index
        if not self.window_tokens:
            return Curve.polynomial(self.state, per_token)
        if full_window:
            return Curve.polynomial(self.state, per_token + self.window)
        cap = self.window * self.window_tokens
        pieces = ((self.state, per_token + self.window, 0.0), (self.state + cap, per_token, 0.0))
        return Curve(pieces, (float(self.window_tokens),))


def block_cache(
    block: Block, kv_dtype: str = "bf16", state_dtype: str = "fp32", tensor_parallel: int = 1
) -> BlockCache:
    """Say what one block keeps for one request, summed over the tensor-parallel ranks of an instance.

    Key/value heads are replicated where there are fewer of them than ranks, a latent is kept by every rank,
    states are divided by heads. Convolution columns are bf16, and there are (taps - 1) of them.

    >>> block_cache(LatentAttention(heads=64, kv_rank=512, rope_dim=64, nope_dim=128, v_dim=128)).growing
    1152.0
    >>> block_cache(Attention(q_heads=64, kv_heads=4, qk_dim=128, v_dim=128), tensor_parallel=8).growing
    4096.0
    """
    if isinstance(block, Attention):
        return _of_attention(block, KV_BYTES[kv_dtype], tensor_parallel)
    if isinstance(block, LatentAttention):
        owned = _index_bytes(block.index) if block.index_shared == "no" else 0.0
        return BlockCache(growing=_latent_bytes(block, kv_dtype) * tensor_parallel, index=owned * tensor_parallel)
    if isinstance(block, CompressedAttention):
        return _of_compressed(block, kv_dtype, tensor_parallel)
    return BlockCache(state=_state_bytes(block, STATE_BYTES[state_dtype], tensor_parallel))


def _of_attention(block: Attention, element: float, tensor_parallel: int) -> BlockCache:
    if block.cache == "shared":
        return BlockCache()
    per_token = max(block.kv_heads, tensor_parallel) * (block.qk_dim + block.v_dim) * element
    index = _index_bytes(block.index) * tensor_parallel
    if block.window_tokens is None:
        return BlockCache(growing=per_token, index=index)
    return BlockCache(window=per_token, window_tokens=block.window_tokens, index=index)


def _of_compressed(block: CompressedAttention, kv_dtype: str, tensor_parallel: int) -> BlockCache:
    entry = float(block.fp8_record_bytes) if kv_dtype.startswith("fp8") else block.head_dim * KV_BYTES[kv_dtype]
    entries = 1.0 / block.ratio if block.ratio else 0.0
    return BlockCache(
        growing=entry * entries * tensor_parallel,
        index=_index_bytes(block.index) * entries * tensor_parallel,
        window=entry * tensor_parallel,
        window_tokens=block.window_tokens,
    )


def _index_bytes(index: Index | None) -> float:
    return index.bytes_per_token if index is not None else 0.0


def _latent_bytes(block: LatentAttention, kv_dtype: str) -> float:
    if kv_dtype == "fp8_ds_mla":
        return block.kv_rank * (1.0 + 4.0 / 128) + 2.0 * block.rope_dim
    return (block.kv_rank + block.rope_dim) * KV_BYTES[kv_dtype]


def _state_bytes(block: Block, element: float, tensor_parallel: int) -> float:
    if isinstance(block, KimiDeltaAttention):
        heads, matrix, channels = block.heads, block.head_dim**2, 3 * block.heads * block.head_dim
        return _ranks(heads, tensor_parallel) * _state(heads * matrix * element, block.conv_kernel, channels)
    if isinstance(block, GatedDeltaNet):
        matrix = block.k_dim * block.v_dim
        channels = 2 * block.k_heads * block.k_dim + block.v_heads * block.v_dim
        share = _ranks(block.v_heads, tensor_parallel)
        return share * _state(block.v_heads * matrix * element, block.conv_kernel, channels)
    if isinstance(block, LightningAttention):
        return _ranks(block.heads, tensor_parallel) * block.heads * block.head_dim**2 * element
    if isinstance(block, Mamba2):
        inner = block.heads * block.head_dim
        channels = inner + 2 * max(block.groups, tensor_parallel) * block.state_dim
        share = _ranks(block.heads, tensor_parallel)
        return share * inner * block.state_dim * element + _state(0.0, block.conv_kernel, channels)
    if isinstance(block, Mamba1):
        return _state(block.inner_dim * block.state_dim * element, block.conv_kernel, block.inner_dim)
    return 0.0


def _ranks(heads: int, tensor_parallel: int) -> float:
    return max(1.0, tensor_parallel / heads)


def _state(recurrent: float, kernel: int, channels: int) -> float:
    return recurrent + (kernel - 1) * channels * _CONV_BYTES

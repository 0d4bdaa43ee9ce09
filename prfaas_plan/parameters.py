"""How many parameters a model has, how many one token uses, and how many bytes its checkpoint takes.

Sums over blocks of their weight matrices, and of biases where a model has them. Norms and other vectors (below
0.05 % of any model here) are left out, as are vision towers and multi-token-prediction layers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from prfaas_plan.blocks import (
    Attention,
    Block,
    CompressedAttention,
    FeedForward,
    GatedDeltaNet,
    Index,
    KimiDeltaAttention,
    LatentAttention,
    LightningAttention,
    Mamba1,
    Mamba2,
    MixtureOfExperts,
)
from prfaas_plan.errors import Fault, ProfileError
from prfaas_plan.model import WEIGHT_BYTES, ModelProfile

__all__ = [
    "Parameters",
    "active_breakdown",
    "active_parameters",
    "block_parameters",
    "total_breakdown",
    "total_parameters",
    "weight_bytes",
    "weight_bytes_by_component",
]


@dataclass(frozen=True, slots=True)
class Parameters:
    """Weights by component, as counts of parameters (or, from `weight_bytes_by_component`, as bytes)."""

    attention: float = 0.0
    """Attention and recurrent blocks, indexers included."""
    ffn: float = 0.0
    """Dense feed-forward blocks."""
    experts: float = 0.0
    """Routed experts."""
    shared_experts: float = 0.0
    """Shared experts, and the projections into and out of the width latent experts work in."""
    router: float = 0.0
    """Routers."""
    embedding: float = 0.0
    """Token embedding and output head."""

    @property
    def total(self) -> float:
        """Sum of the components."""
        return float(sum(getattr(self, field.name) for field in dataclasses.fields(self)))

    def __add__(self, other: Parameters) -> Parameters:
        return Parameters(*(getattr(self, f.name) + getattr(other, f.name) for f in dataclasses.fields(self)))

    def scaled(self, factor: float) -> Parameters:
        """Multiply every component.

        >>> Parameters(ffn=2.0).scaled(3.0).total
        6.0
        """
        return Parameters(*(getattr(self, f.name) * factor for f in dataclasses.fields(self)))


def block_parameters(block: Block, hidden: int, *, active: bool = False) -> Parameters:
    """Count the weights of one block of a model of width `hidden`; with `active`, those one token uses.

    >>> block_parameters(FeedForward(width=12288), hidden=4096).total
    150994944.0
    """
    if isinstance(block, FeedForward):
        return Parameters(ffn=float(block.matrices * hidden * block.width))
    if isinstance(block, MixtureOfExperts):
        return _of_experts(block, hidden, active=active)
    return Parameters(attention=float(_MIXERS[type(block)](block, hidden)))


def _of_experts(block: MixtureOfExperts, hidden: int, *, active: bool) -> Parameters:
    inner = block.latent_dim or hidden
    used = block.active if active else block.experts
    latent = 2 * hidden * inner if block.latent_dim else 0
    bias = (block.matrices - 1) * block.width + inner if block.bias else 0
    return Parameters(
        experts=float(used * (block.matrices * inner * block.width + bias)),
        shared_experts=float(block.matrices * hidden * block.shared_width + latent),
        router=float(hidden * (block.experts + block.zero_experts)),
    )


def _attention(block: Attention, hidden: int) -> int:
    queries, rank = block.q_heads * block.qk_dim, block.q_rank
    projected = hidden * rank + rank * queries if rank else hidden * queries
    keys, values = hidden * block.kv_heads * block.qk_dim, hidden * block.kv_heads * block.v_dim
    kept = 0 if block.cache == "shared" else keys if block.k_is_v else keys + values
    output = block.q_heads * block.v_dim * hidden
    bias = queries + kept // hidden if block.bias else 0
    gate = _gate(block.gate, block.q_heads, block.v_dim, hidden)
    return projected + kept + bias + output + gate + _key_index(block, hidden)


def _gate(gate: str, heads: int, width: int, hidden: int) -> int:
    return {"none": 0, "head": hidden * heads, "element": hidden * heads * width}[gate]


def _key_index(block: Attention, hidden: int) -> int:
    return hidden * block.index.head_dim * (block.index.heads + 1) if block.index else 0


def _latent(block: LatentAttention, hidden: int) -> int:
    queries = block.heads * (block.nope_dim + block.rope_dim)
    projected = hidden * block.q_rank + block.q_rank * queries if block.q_rank else hidden * queries
    keys = hidden * (block.kv_rank + block.rope_dim) + block.kv_rank * block.heads * (block.nope_dim + block.v_dim)
    output = block.heads * block.v_dim * hidden
    index = 0 if block.index_shared == "yes" else _indexer(block.index, block.q_rank or hidden, hidden)
    return projected + keys + output + _gate(block.gate, block.heads, block.v_dim, hidden) + index


def _indexer(index: Index | None, q_rank: int, hidden: int) -> int:
    if index is None:
        return 0
    return q_rank * index.heads * index.head_dim + hidden * index.head_dim + hidden * index.heads


def _compressed(block: CompressedAttention, hidden: int) -> int:
    width = block.heads * block.head_dim
    queries = hidden * block.q_rank + block.q_rank * width
    output = width * block.o_rank + block.o_groups * block.o_rank * hidden
    return queries + hidden * block.head_dim + output + _compressors(block, hidden)


def _compressors(block: CompressedAttention, hidden: int) -> int:
    if not block.ratio:
        return 0
    overlap = 2 if block.index else 1
    own = 2 * hidden * overlap * block.head_dim
    if block.index is None:
        return own
    index = block.index
    scores = block.q_rank * index.heads * index.head_dim + hidden * index.heads
    return own + scores + 2 * hidden * overlap * index.head_dim


def _kda(block: KimiDeltaAttention, hidden: int) -> int:
    width, low_rank = block.heads * block.head_dim, hidden * block.head_dim + block.head_dim**2 * block.heads
    gate = low_rank if block.gate == "low-rank" else hidden * width
    return 3 * hidden * width + low_rank + gate + hidden * block.heads + width * hidden + 3 * width * block.conv_kernel


def _gdn(block: GatedDeltaNet, hidden: int) -> int:
    keys, values = block.k_heads * block.k_dim, block.v_heads * block.v_dim
    projected = hidden * (2 * keys + 2 * values + 2 * block.v_heads)
    return projected + block.conv_kernel * (2 * keys + values) + values * hidden


def _lightning(block: LightningAttention, hidden: int) -> int:
    return 5 * hidden * block.heads * block.head_dim


def _mamba2(block: Mamba2, hidden: int) -> int:
    inner, shared = block.heads * block.head_dim, 2 * block.groups * block.state_dim
    return hidden * (2 * inner + shared + block.heads) + block.conv_kernel * (inner + shared) + inner * hidden


def _mamba1(block: Mamba1, hidden: int) -> int:
    inner = block.inner_dim
    projected = 3 * hidden * inner + inner * (block.dt_rank + 2 * block.state_dim) + block.dt_rank * inner
    return projected + inner * (block.conv_kernel + block.state_dim)


_MIXERS: Final[dict[type, Callable[[Any, int], int]]] = {
    Attention: _attention,
    LatentAttention: _latent,
    CompressedAttention: _compressed,
    KimiDeltaAttention: _kda,
    GatedDeltaNet: _gdn,
    LightningAttention: _lightning,
    Mamba2: _mamba2,
    Mamba1: _mamba1,
}


def _blocks(model: ModelProfile, *, active: bool) -> Parameters:
    if model.hidden_size is None or model.vocab_size is None or not model.layers:
        problem = f"the layers of {model.name} are not published, so its parameters cannot be counted"
        raise ProfileError(Fault(model.where or model.name, "layers", problem))
    total = Parameters()
    for name, count in model.counts.items():
        total += block_parameters(model.blocks[name], model.hidden_size, active=active).scaled(count)
    return total


def _embedding(model: ModelProfile, matrices: int) -> Parameters:
    return Parameters(embedding=float(matrices * (model.vocab_size or 0) * (model.hidden_size or 0)))


def total_breakdown(model: ModelProfile) -> Parameters:
    """Count all weights of a model by component.

    Raises `ProfileError` for a model whose layers are not published.
    """
    return _blocks(model, active=False) + _embedding(model, 1 if model.tied_embeddings else 2)


def total_parameters(model: ModelProfile) -> float:
    """Count all weights of a model, text part, without multi-token-prediction layers.

    Raises `ProfileError` for a model whose layers are not published.
    """
    return total_breakdown(model).total


def active_breakdown(model: ModelProfile, *, include_input_embedding: bool = False) -> Parameters:
    """Count the weights one token uses by component; the output head counts once.

    Raises `ProfileError` for a model whose layers are not published.
    """
    twice = include_input_embedding and not model.tied_embeddings
    return _blocks(model, active=True) + _embedding(model, 2 if twice else 1)


def active_parameters(model: ModelProfile, *, include_input_embedding: bool = False) -> float:
    """Count the weights one token uses; model cards differ in which embeddings they include.

    Raises `ProfileError` for a model whose layers are not published.
    """
    return active_breakdown(model, include_input_embedding=include_input_embedding).total


def weight_bytes_by_component(model: ModelProfile) -> Parameters:
    """Give the checkpoint bytes [B] of each component in its own format, scales included.

    Raises `ProfileError` for a model whose layers or formats are not published.
    """
    counts, formats = total_breakdown(model), model.weights
    if formats is None:
        raise ProfileError(Fault(model.where or model.name, "weights", "missing; the checkpoint formats are needed"))
    sizes = {
        f.name: getattr(counts, f.name) * WEIGHT_BYTES[getattr(formats, f.name)] for f in dataclasses.fields(counts)
    }
    return Parameters(**sizes)


def weight_bytes(model: ModelProfile) -> float:
    """Give the bytes of the checkpoint [B], each component in its own format, scales included.

    Raises `ProfileError` for a model whose layers or formats are not published.
    """
    return weight_bytes_by_component(model).total

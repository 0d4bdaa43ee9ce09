"""How a model is divided over the GPUs of an instance: what one of them holds and multiplies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from prfaas_plan.blocks import Attention, Block, FeedForward, LatentAttention, MixtureOfExperts
from prfaas_plan.errors import Fault, ProfileError
from prfaas_plan.formats import Stored
from prfaas_plan.mixing import Mixer, mixer_of
from prfaas_plan.model import ModelProfile
from prfaas_plan.parameters import block_parameters

__all__ = ["ExpertShard", "Layout", "Product", "lay_out"]

_KERNELS: Final = {"ffn": 4, "experts": 7, "shared": 3}
"""Kernels a feed-forward block launches; those of mixing blocks are in `mixing`."""


@dataclass(frozen=True, slots=True)
class Product:
    """Weights of one kind that every token of a GPU is multiplied with, summed over the layers."""

    name: str
    dtype: str
    parameters: float
    """On one GPU."""
    bytes: float
    """[B] on one GPU."""
    bits: int


@dataclass(frozen=True, slots=True)
class ExpertShard:
    """The routed experts of `layers` equal blocks."""

    layers: int
    experts: int
    active: float
    """Experts one token visits."""
    parameters: float
    """Of one expert."""
    bytes: float
    """[B] of one expert."""
    dtype: str
    bits: int
    width: int
    """Width of the rows the experts take in."""

    def touched(self, tokens: float) -> float:
        """Count the distinct experts that `tokens` tokens visit: E · (1 − (1 − k/E)^n).

        >>> ExpertShard(1, 256, 8, 1.0, 1.0, "bf16", 16, 1).touched(1.0)
        8.0
        """
        missed = float((1.0 - self.active / self.experts) ** tokens)
        return self.experts * (1.0 - missed)


@dataclass(frozen=True, slots=True)
class Layout:
    """What one GPU holds of a model, all pipeline stages together."""

    hidden: int
    products: tuple[Product, ...]
    head: Product
    experts: tuple[ExpertShard, ...]
    mixers: tuple[tuple[int, Mixer], ...]
    """How many layers have a mixer, and the mixer."""
    blocks: int
    """Mixing and feed-forward blocks in the whole stack."""
    expert_layers: int
    linear_layers: int
    kernels: float
    """Kernels of one pass through the stack."""
    expand_dtype: str
    """Data type latents are expanded in."""
    embedding_bytes: float
    """[B] of input embedding on one GPU."""

    def weight_bytes(self, expert_ranks: int) -> float:
        """Sum the weights on one GPU [B], experts divided over `expert_ranks` GPUs."""
        routed = sum(e.layers * e.experts * e.bytes for e in self.experts) / expert_ranks
        return sum(p.bytes for p in self.products) + self.head.bytes + self.embedding_bytes + routed


def lay_out(
    model: ModelProfile, stored: dict[str, Stored], kv_dtype: str, state_dtype: str, tensor_parallel: int
) -> Layout:
    """Divide a model over `tensor_parallel` ranks.

    Latent down-projections, indexers and routers are on every rank, as are key/value heads beyond their number.
    Raises `ProfileError` for a model whose layers are not published.
    """
    hidden, vocabulary = _widths(model)
    blocks = [(model.blocks[name], count) for name, count in model.counts.items()]
    mixed = [(block, count, mixer_of(block, kv_dtype, state_dtype, tensor_parallel)) for block, count in blocks]
    mixers = tuple((count, mixer) for _, count, mixer in mixed if mixer is not None)
    experts = tuple(
        _expert_shard(block, hidden, count, stored["experts"])
        for block, count in blocks
        if isinstance(block, MixtureOfExperts)
    )
    embedding = stored["embedding"]
    head = hidden * vocabulary / tensor_parallel
    return Layout(
        hidden=hidden,
        products=_products(blocks, hidden, stored, tensor_parallel),
        head=Product("output head", embedding.dtype, head, head * embedding.bytes, embedding.bits),
        experts=experts,
        mixers=mixers,
        blocks=sum(count for _, count in blocks),
        expert_layers=sum(e.layers for e in experts),
        linear_layers=sum(count for count, mixer in mixers if mixer.linear),
        kernels=float(sum(count * _kernels(block, mixer) for block, count, mixer in mixed)),
        expand_dtype=stored["attention"].dtype,
        embedding_bytes=0.0 if model.tied_embeddings else head * embedding.bytes,
    )


def _widths(model: ModelProfile) -> tuple[int, int]:
    if model.hidden_size is None or model.vocab_size is None or not model.layers:
        problem = f"the layers of {model.name} are not published, so no roofline can be drawn; give measured points"
        raise ProfileError(Fault(model.where or model.name, "layers", problem))
    return model.hidden_size, model.vocab_size


def _products(
    blocks: list[tuple[Block, int]], hidden: int, stored: dict[str, Stored], ranks: int
) -> tuple[Product, ...]:
    """Sum the weights of one rank by component."""
    counts = dict.fromkeys(_NAMES, 0.0)
    for block, count in blocks:
        for component, parameters in _on_one_rank(block, hidden, ranks).items():
            counts[component] += count * parameters
    kept = [(stored[component], _NAMES[component], n) for component, n in counts.items() if n]
    return tuple(Product(name, s.dtype, n, n * s.bytes, s.bits) for s, name, n in kept)


_NAMES: Final = {
    "attention": "attention projections",
    "ffn": "dense feed-forward",
    "shared_experts": "shared experts",
    "router": "router",
}


def _on_one_rank(block: Block, hidden: int, ranks: int) -> dict[str, float]:
    counts = block_parameters(block, hidden)
    if isinstance(block, FeedForward):
        return {"ffn": counts.ffn / ranks}
    if isinstance(block, MixtureOfExperts):
        return {"shared_experts": counts.shared_experts / ranks, "router": counts.router}
    whole, repeated = _replicated(block, hidden, ranks)
    return {"attention": whole + (counts.attention - whole) / ranks + repeated}


def _replicated(block: Block, hidden: int, ranks: int) -> tuple[float, float]:
    """Count parameters that every rank holds whole, and those it holds beyond its share."""
    if isinstance(block, LatentAttention):
        index = block.index if block.index_shared == "no" else None
        down = hidden * (block.kv_rank + block.rope_dim + (block.q_rank or 0))
        if index is not None:
            down += index.head_dim * ((block.q_rank or hidden) * index.heads + hidden) + hidden * index.heads
        return float(down), 0.0
    if isinstance(block, Attention) and block.kv_heads < ranks and block.cache == "own":
        share = hidden * (block.qk_dim + block.v_dim) / ranks
        return 0.0, share * (ranks - block.kv_heads)
    return 0.0, 0.0


def _expert_shard(block: MixtureOfExperts, hidden: int, layers: int, stored: Stored) -> ExpertShard:
    width = block.latent_dim or hidden
    parameters = block_parameters(block, hidden).experts / block.experts
    active = min(block.active, float(block.experts))
    return ExpertShard(
        layers, block.experts, active, parameters, parameters * stored.bytes, stored.dtype, stored.bits, width
    )


def _kernels(block: Block, mixer: Mixer | None) -> int:
    if mixer is not None:
        return mixer.kernels
    if isinstance(block, MixtureOfExperts):
        return _KERNELS["experts"] + (_KERNELS["shared"] if block.shared_width else 0)
    return _KERNELS["ffn"]

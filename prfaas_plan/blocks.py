"""The blocks a language model is made of: attention, recurrence, feed-forward, experts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from prfaas_plan.records import flag, part, quantity, text

__all__ = [
    "Attention",
    "Block",
    "CompressedAttention",
    "FeedForward",
    "GatedDeltaNet",
    "Index",
    "KimiDeltaAttention",
    "LatentAttention",
    "LightningAttention",
    "Mamba1",
    "Mamba2",
    "MixtureOfExperts",
    "count_field",
]

_GATES = ("none", "head", "element")


def count_field(doc: str, *, at_least: float = 1, default: Any = ...) -> Any:
    """Declare a whole number of things, at least one unless said otherwise."""
    extra = {} if default is ... else {"default": default}
    return quantity("1", doc, at_least=at_least, at_most=1e9, **extra)


@dataclass(frozen=True, slots=True)
class Index:
    """The lightning indexer of sparse attention: it picks which tokens a query reads, and caches a key of its own."""

    heads: int = count_field("index query heads")
    head_dim: int = count_field("width of the one index key kept per token")
    bytes_per_token: float = quantity("B/token", "index cache of one layer, scales included", above=0)
    top_k_tokens: int = quantity("token", "tokens a query attends to", at_least=1)


@dataclass(frozen=True, slots=True)
class Attention:
    """Softmax attention with key/value heads (MHA, GQA, MQA), over the whole context or a window of it."""

    kind: ClassVar[str] = "gqa"
    q_heads: int = count_field("query heads")
    kv_heads: int = count_field("key/value heads")
    qk_dim: int = count_field("width of a query or key head")
    v_dim: int = count_field("width of a value head")
    window_tokens: int | None = quantity("token", "tokens kept; absent for the whole context", at_least=1, default=None)
    window_kind: str = text("how the window moves", choices=("sliding", "chunked"), default="sliding")
    cache: str = text("'own' keeps K/V, 'shared' reads another layer's", choices=("own", "shared"), default="own")
    gate: str = text("output gate: per query head or per element", choices=_GATES, default="none")
    q_rank: int | None = count_field("rank of a factorised query projection", default=None)
    index: Index | None = part("indexer of block-sparse attention", default=None)
    bias: bool = flag("whether the query, key and value projections have biases", default=False)
    k_is_v: bool = flag("whether the value comes from the key projection; both are cached all the same", default=False)


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention (MLA): one compressed latent and one rotary key per token for all heads."""

    kind: ClassVar[str] = "mla"
    heads: int = count_field("query heads")
    kv_rank: int = count_field("width of the cached latent")
    rope_dim: int = count_field("width of the shared rotary key")
    nope_dim: int = count_field("width of the unrotated part of a query head")
    v_dim: int = count_field("width of a value head")
    q_rank: int | None = count_field("rank of the query projection; absent if it is full", default=None)
    gate: str = text("output gate", choices=_GATES, default="none")
    index: Index | None = part("lightning indexer (DSA)", default=None)
    index_shared: str = text("'yes' where the layer reads another layer's index", choices=("yes", "no"), default="no")


@dataclass(frozen=True, slots=True)
class CompressedAttention:
    """DeepSeek-V4 attention: one shared K=V vector per `ratio` tokens, and a short window of exact ones."""

    kind: ClassVar[str] = "compressed"
    heads: int = count_field("query heads")
    head_dim: int = count_field("width of the one vector that is both K and V")
    q_rank: int = count_field("rank of the query projection")
    o_rank: int = count_field("rank of one group of the output projection")
    o_groups: int = count_field("groups of the output projection")
    window_tokens: int = quantity("token", "recent tokens kept uncompressed", at_least=1)
    ratio: int = count_field("tokens per compressed entry; 0 keeps the window only", at_least=0)
    fp8_record_bytes: int = quantity("B", "bytes of one entry in the engines' FP8 layout", at_least=1)
    index: Index | None = part("indexer over compressed entries", default=None)


@dataclass(frozen=True, slots=True)
class KimiDeltaAttention:
    """Kimi Delta Attention (KDA): a gated delta rule with a matrix state per head."""

    kind: ClassVar[str] = "kda"
    heads: int = count_field("heads")
    head_dim: int = count_field("width of a key, query and value head")
    conv_kernel: int = count_field("taps of the short convolution on q, k and v")
    gate: str = text("rank of the output gate", choices=("low-rank", "full"), default="low-rank")


@dataclass(frozen=True, slots=True)
class GatedDeltaNet:
    """Gated DeltaNet (GDN): a delta rule whose state is sized by the value heads."""

    kind: ClassVar[str] = "gdn"
    k_heads: int = count_field("key and query heads")
    v_heads: int = count_field("value heads")
    k_dim: int = count_field("width of a key head")
    v_dim: int = count_field("width of a value head")
    conv_kernel: int = count_field("taps of the short convolution")


@dataclass(frozen=True, slots=True)
class LightningAttention:
    """Lightning attention: linear attention with a fixed decay and one matrix state per head."""

    kind: ClassVar[str] = "lightning"
    heads: int = count_field("heads")
    head_dim: int = count_field("width of a head")


@dataclass(frozen=True, slots=True)
class Mamba2:
    """Mamba-2 state-space block."""

    kind: ClassVar[str] = "mamba2"
    heads: int = count_field("heads")
    head_dim: int = count_field("channels of a head")
    state_dim: int = count_field("state size of a channel")
    groups: int = count_field("groups that share B and C")
    conv_kernel: int = count_field("taps of the short convolution")


@dataclass(frozen=True, slots=True)
class Mamba1:
    """Mamba-1 selective state-space block."""

    kind: ClassVar[str] = "mamba1"
    inner_dim: int = count_field("channels")
    state_dim: int = count_field("state size of a channel")
    dt_rank: int = count_field("rank of the step-size projection")
    conv_kernel: int = count_field("taps of the short convolution")


@dataclass(frozen=True, slots=True)
class FeedForward:
    """Dense feed-forward block of `matrices` weight matrices (3 where gated, 2 where not)."""

    kind: ClassVar[str] = "ffn"
    width: int = count_field("intermediate width")
    matrices: int = quantity("1", "weight matrices", at_least=2, at_most=3, default=3)


@dataclass(frozen=True, slots=True)
class MixtureOfExperts:
    """Mixture-of-experts feed-forward block."""

    kind: ClassVar[str] = "moe"
    experts: int = count_field("routed experts that hold weights")
    active: float = quantity("1", "routed experts with weights that one token visits, on average", above=0)
    width: int = count_field("intermediate width of an expert")
    shared_width: int = count_field("total width of the shared experts", at_least=0, default=0)
    matrices: int = quantity("1", "weight matrices of an expert", at_least=2, at_most=3, default=3)
    latent_dim: int | None = count_field("width the experts work in, where smaller than the model's", default=None)
    zero_experts: int = count_field("further experts that return their input", at_least=0, default=0)
    bias: bool = flag("whether the routed experts have biases", default=False)


Block = (
    Attention
    | LatentAttention
    | CompressedAttention
    | KimiDeltaAttention
    | GatedDeltaNet
    | LightningAttention
    | Mamba2
    | Mamba1
    | FeedForward
    | MixtureOfExperts
)

"""What a language model is made of: blocks (attention, recurrence, feed-forward) and the order they stand in.

A `ModelProfile` names each distinct block once and lists, layer by layer, which blocks the layer runs.
Sizes are counts of elements; bytes appear only where a data type is chosen (`kv_cache`, `parameters`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from prfaas_plan.errors import Fault, ProfileError, nearest
from prfaas_plan.profiles import Source, read_sources
from prfaas_plan.schema import Reader, flag, part, quantity, read_record, text

__all__ = [
    "WEIGHT_BYTES",
    "Attention",
    "Block",
    "CompressedAttention",
    "FeedForward",
    "GatedDeltaNet",
    "Index",
    "KimiDeltaAttention",
    "KvPoint",
    "LatentAttention",
    "LightningAttention",
    "Mamba1",
    "Mamba2",
    "MixtureOfExperts",
    "ModelProfile",
    "WeightFormats",
    "model_from_mapping",
]

WEIGHT_BYTES: Final[Mapping[str, float]] = {
    "fp32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "fp8_block128": 1.0 + 4.0 / 128**2,
    "int8": 1.0,
    "int4_g32": 0.5 + 2.0 / 32,
    "int4_g64": 0.5 + 2.0 / 64,
    "int4_g128": 0.5 + 2.0 / 128,
    "nf4": 0.5 + 4.0 / 64,
    "mxfp4": 0.5 + 1.0 / 32,
    "nvfp4": 0.5 + 1.0 / 16,
}
"""Bytes per parameter of a checkpoint format, scales included (one scale per block or group)."""

_GATES = ("none", "head", "element")
_KV_DTYPES = ("bf16", "fp16", "fp8", "int8", "nvfp4")


def _count(doc: str, *, at_least: float = 1, default: Any = ...) -> Any:
    extra = {} if default is ... else {"default": default}
    return quantity("1", doc, at_least=at_least, at_most=1e9, **extra)


@dataclass(frozen=True, slots=True)
class Index:
    """The lightning indexer of sparse attention: it picks which tokens a query reads, and caches a key of its own."""

    heads: int = _count("index query heads")
    head_dim: int = _count("width of the one index key kept per token")
    bytes_per_token: float = quantity("B/token", "index cache of one layer, scales included", above=0)
    top_k_tokens: int = quantity("token", "tokens a query attends to", at_least=1)


@dataclass(frozen=True, slots=True)
class Attention:
    """Softmax attention with key/value heads (MHA, GQA, MQA), over the whole context or a window of it."""

    kind: ClassVar[str] = "gqa"
    q_heads: int = _count("query heads")
    kv_heads: int = _count("key/value heads")
    qk_dim: int = _count("width of a query or key head")
    v_dim: int = _count("width of a value head")
    window_tokens: int | None = quantity("token", "tokens kept; absent for the whole context", at_least=1, default=None)
    window_kind: str = text("how the window moves", choices=("sliding", "chunked"), default="sliding")
    cache: str = text("'own' keeps K/V, 'shared' reads another layer's", choices=("own", "shared"), default="own")
    gate: str = text("output gate: per query head or per element", choices=_GATES, default="none")
    q_rank: int | None = _count("rank of a factorised query projection", default=None)
    index: Index | None = part("indexer of block-sparse attention", default=None)
    bias: bool = flag("whether the query, key and value projections have biases", default=False)
    k_is_v: bool = flag("whether the value comes from the key projection; both are cached all the same", default=False)


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention (MLA): one compressed latent and one rotary key per token for all heads."""

    kind: ClassVar[str] = "mla"
    heads: int = _count("query heads")
    kv_rank: int = _count("width of the cached latent")
    rope_dim: int = _count("width of the shared rotary key")
    nope_dim: int = _count("width of the unrotated part of a query head")
    v_dim: int = _count("width of a value head")
    q_rank: int | None = _count("rank of the query projection; absent if it is full", default=None)
    gate: str = text("output gate", choices=_GATES, default="none")
    index: Index | None = part("lightning indexer (DSA)", default=None)
    index_shared: str = text("'yes' where the layer reads another layer's index", choices=("yes", "no"), default="no")


@dataclass(frozen=True, slots=True)
class CompressedAttention:
    """DeepSeek-V4 attention: one shared K=V vector per `ratio` tokens, and a short window of exact ones."""

    kind: ClassVar[str] = "compressed"
    heads: int = _count("query heads")
    head_dim: int = _count("width of the one vector that is both K and V")
    q_rank: int = _count("rank of the query projection")
    o_rank: int = _count("rank of one group of the output projection")
    o_groups: int = _count("groups of the output projection")
    window_tokens: int = quantity("token", "recent tokens kept uncompressed", at_least=1)
    ratio: int = _count("tokens per compressed entry; 0 keeps the window only", at_least=0)
    fp8_record_bytes: int = quantity("B", "bytes of one entry in the engines' FP8 layout", at_least=1)
    index: Index | None = part("indexer over compressed entries", default=None)


@dataclass(frozen=True, slots=True)
class KimiDeltaAttention:
    """Kimi Delta Attention (KDA): a gated delta rule with a matrix state per head."""

    kind: ClassVar[str] = "kda"
    heads: int = _count("heads")
    head_dim: int = _count("width of a key, query and value head")
    conv_kernel: int = _count("taps of the short convolution on q, k and v")
    gate: str = text("rank of the output gate", choices=("low-rank", "full"), default="low-rank")


@dataclass(frozen=True, slots=True)
class GatedDeltaNet:
    """Gated DeltaNet (GDN): a delta rule whose state is sized by the value heads."""

    kind: ClassVar[str] = "gdn"
    k_heads: int = _count("key and query heads")
    v_heads: int = _count("value heads")
    k_dim: int = _count("width of a key head")
    v_dim: int = _count("width of a value head")
    conv_kernel: int = _count("taps of the short convolution")


@dataclass(frozen=True, slots=True)
class LightningAttention:
    """Lightning attention: linear attention with a fixed decay and one matrix state per head."""

    kind: ClassVar[str] = "lightning"
    heads: int = _count("heads")
    head_dim: int = _count("width of a head")


@dataclass(frozen=True, slots=True)
class Mamba2:
    """Mamba-2 state-space block."""

    kind: ClassVar[str] = "mamba2"
    heads: int = _count("heads")
    head_dim: int = _count("channels of a head")
    state_dim: int = _count("state size of a channel")
    groups: int = _count("groups that share B and C")
    conv_kernel: int = _count("taps of the short convolution")


@dataclass(frozen=True, slots=True)
class Mamba1:
    """Mamba-1 selective state-space block."""

    kind: ClassVar[str] = "mamba1"
    inner_dim: int = _count("channels")
    state_dim: int = _count("state size of a channel")
    dt_rank: int = _count("rank of the step-size projection")
    conv_kernel: int = _count("taps of the short convolution")


@dataclass(frozen=True, slots=True)
class FeedForward:
    """Dense feed-forward block of `matrices` weight matrices (3 where gated, 2 where not)."""

    kind: ClassVar[str] = "ffn"
    width: int = _count("intermediate width")
    matrices: int = quantity("1", "weight matrices", at_least=2, at_most=3, default=3)


@dataclass(frozen=True, slots=True)
class MixtureOfExperts:
    """Mixture-of-experts feed-forward block."""

    kind: ClassVar[str] = "moe"
    experts: int = _count("routed experts that hold weights")
    active: float = quantity("1", "routed experts with weights that one token visits, on average", above=0)
    width: int = _count("intermediate width of an expert")
    shared_width: int = _count("total width of the shared experts", at_least=0, default=0)
    matrices: int = quantity("1", "weight matrices of an expert", at_least=2, at_most=3, default=3)
    latent_dim: int | None = _count("width the experts work in, where smaller than the model's", default=None)
    zero_experts: int = _count("further experts that return their input", at_least=0, default=0)
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


@dataclass(frozen=True, slots=True)
class WeightFormats:
    """The checkpoint format of each component of the weights."""

    attention: str = text("attention and recurrent blocks", choices=tuple(WEIGHT_BYTES))
    ffn: str = text("dense feed-forward blocks", choices=tuple(WEIGHT_BYTES))
    experts: str = text("routed experts", choices=tuple(WEIGHT_BYTES))
    shared_experts: str = text("shared experts", choices=tuple(WEIGHT_BYTES))
    router: str = text("router", choices=tuple(WEIGHT_BYTES), default="bf16")
    embedding: str = text("token embedding and output head", choices=tuple(WEIGHT_BYTES), default="bf16")


@dataclass(frozen=True, slots=True)
class KvPoint:
    """A measured cache size at one length, for a model whose layers are not published."""

    length_tokens: int = quantity("token", "request length", at_least=1)
    kv_bytes: float = quantity("B", "KV cache and state of the request", symbol="S_kv", above=0)


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """One model: its layers block by block, or, where they are not published, its measured cache sizes."""

    name: str = text("name as its makers write it")
    basis: str = text(
        "what the numbers rest on",
        choices=("config.json", "partial config.json", "reconstructed", "measured"),
    )
    aliases: tuple[str, ...] = text("other names it is found by", default=())
    note: str = text("what is special or unsure about it", default="")
    hidden_size: int | None = _count("width of the residual stream", default=None)
    vocab_size: int | None = _count("token vocabulary", default=None)
    tied_embeddings: bool = flag("whether input and output embeddings are one matrix", default=False)
    max_context_tokens: int | None = quantity("token", "longest context", at_least=1, default=None)
    mtp_layers: int = _count("multi-token-prediction layers, loaded only when speculating", at_least=0, default=0)
    mtp_block: str = text("attention block of a multi-token-prediction layer", default="")
    layers: tuple[str, ...] = text("blocks of each layer, joined by '+'; '*n' repeats", default=())
    blocks: dict[str, Block] = part("distinct blocks by name", factory=dict)
    weights: WeightFormats | None = part("checkpoint formats", default=None)
    kv_dtype: str = text("KV data type engines use by default", choices=_KV_DTYPES, default="bf16")
    state_dtype_sglang: str = text("recurrent state in SGLang", choices=("fp32", "bf16"), default="fp32")
    state_dtype_vllm: str = text("recurrent state in vLLM (auto)", choices=("fp32", "bf16"), default="fp32")
    published_total_b: float | None = quantity("1", "published total parameters, in billions", above=0, default=None)
    published_active_b: float | None = quantity("1", "published active parameters, in billions", above=0, default=None)
    kv_points: tuple[KvPoint, ...] = part("measured cache sizes", default=())
    id: str = ""
    where: str = ""
    sources: tuple[Source, ...] = ()
    cited: tuple[tuple[str, str], ...] = ()
    """Dotted path of a table or number, and the id of the source it comes from."""

    @property
    def counts(self) -> Mapping[str, int]:
        """How many times each block occurs in the whole stack."""
        return Counter(name for layer in self.layers for name in layer.split("+"))

    @property
    def depth(self) -> int:
        """Layers of the stack."""
        return len(self.layers)


def expand_layers(written: Sequence[str]) -> tuple[str, ...]:
    """Expand ``"kda+moe*3"`` into three layers.

    Raises `ValueError` for a repeat that is not a positive whole number.

    >>> expand_layers(["kda+ffn", "mla+moe*2"])
    ('kda+ffn', 'mla+moe', 'mla+moe')
    """
    layers: list[str] = []
    for entry in written:
        name, _, times = entry.partition("*")
        repeat = int(times) if times.strip().isdigit() else 0 if times else 1
        if not 0 < repeat <= 100_000:
            raise ValueError(f"layer {entry!r}: the repeat after '*' must be a whole number from 1 to 100000")
        layers += [name.strip()] * repeat
    return tuple(layers)


def model_from_mapping(data: Mapping[str, Any], where: str, profile_id: str) -> ModelProfile:
    """Check and build a model profile from the keys of its TOML file.

    Raises `ProfileError` with every fault in it.
    """
    sources = read_sources(data, where)
    reader = Reader(where)
    body = {key: value for key, value in data.items() if key not in ("sources", "id", "schema")}
    if isinstance(body.get("layers"), list) and all(isinstance(x, str) for x in body["layers"]):
        try:
            body["layers"] = list(expand_layers(body["layers"]))
        except ValueError as error:
            reader.fault("layers", str(error))
    profile = read_record(ModelProfile, body, reader)
    if profile is not None:
        _check_structure(profile, reader)
    for path, source in reader.sources.items():
        if source not in sources:
            reader.fault(
                f"{path}.source", "no such source; expected one of [sources.ID]", source, nearest(source, sources)
            )
    reader.finish()
    if profile is None:
        raise ProfileError(Fault(where, "", "cannot be read as a model profile"))
    return replace(
        profile,
        id=profile_id,
        where=where,
        sources=tuple(sources.values()),
        cited=tuple(sorted(reader.sources.items())),
    )


def _check_structure(profile: ModelProfile, reader: Reader) -> None:
    if profile.kv_points and profile.layers:
        reader.fault("kv_points", "a profile has either layers or measured cache sizes, not both")
    if not profile.kv_points:
        for key in ("layers", "blocks", "hidden_size", "vocab_size", "weights"):
            if not getattr(profile, key):
                reader.fault(key, "missing; needed unless kv_points gives measured cache sizes")
    lengths = [point.length_tokens for point in profile.kv_points]
    if lengths and (len(lengths) < 2 or sorted(set(lengths)) != lengths):
        reader.fault("kv_points", "expected two or more points of rising length", lengths)
    sizes = [point.kv_bytes for point in profile.kv_points]
    if sorted(sizes) != sizes:
        reader.fault("kv_points", "cache sizes must not fall as requests get longer", sizes)
    used = set(profile.counts)
    for name in sorted(used - set(profile.blocks)):
        reader.fault("layers", "names a block that is not in [blocks]", name, nearest(name, profile.blocks))
    if profile.mtp_block and profile.mtp_block not in profile.blocks:
        reader.fault("mtp_block", "is not in [blocks]", profile.mtp_block, nearest(profile.mtp_block, profile.blocks))
    for name in sorted(set(profile.blocks) - used - {profile.mtp_block}):
        reader.fault(f"blocks.{name}", "no layer uses this block")


def billions(count: float) -> float:
    """Express a count in billions.

    >>> billions(235_093_634_560)
    235.09
    """
    return round(count / 1e9, 2) if math.isfinite(count) else count

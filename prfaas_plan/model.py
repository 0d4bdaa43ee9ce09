"""What a language model is made of: blocks (attention, recurrence, feed-forward) and the order they stand in.

A `ModelProfile` names each distinct block once and lists, layer by layer, which blocks the layer runs.
Sizes are counts of elements; bytes appear only where a data type is chosen (`kv_cache`, `parameters`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from prfaas_plan.blocks import Block, count_field
from prfaas_plan.errors import Fault, ProfileError, nearest
from prfaas_plan.profiles import Source, read_sources
from prfaas_plan.records import Reader, flag, part, quantity, read_record, text

__all__ = ["WEIGHT_BYTES", "KvPoint", "ModelProfile", "WeightFormats", "model_from_mapping"]

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

_KV_DTYPES = ("bf16", "fp16", "fp8", "int8", "nvfp4")


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
    hidden_size: int | None = count_field("width of the residual stream", default=None)
    vocab_size: int | None = count_field("token vocabulary", default=None)
    tied_embeddings: bool = flag("whether input and output embeddings are one matrix", default=False)
    max_context_tokens: int | None = quantity("token", "longest context", at_least=1, default=None)
    mtp_layers: int = count_field("multi-token-prediction layers, loaded only when speculating", at_least=0, default=0)
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

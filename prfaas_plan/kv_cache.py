"""How many bytes a request keeps and ships: keys and values, compressed latents, indexes, windows, recurrent state.

Every number is a sum over the layers of a model. Three parts are kept apart because they behave differently:

- the *growing* part, proportional to the length (full attention, latents, compressed entries, indexes);
- the *window* part, which grows up to the window and then stays;
- the *fixed state* of recurrent layers, there from the first token.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from prfaas_plan.blocks import Attention
from prfaas_plan.errors import Fault, InputError, nearest
from prfaas_plan.kv_blocks import KV_BYTES, STATE_BYTES, BlockCache, block_cache
from prfaas_plan.model import ModelProfile
from prfaas_plan.numerics import Curve, fit_polynomial

__all__ = [
    "KV_BYTES",
    "STATE_BYTES",
    "BlockCache",
    "KvOptions",
    "block_cache",
    "describe_options",
    "fixed_state_bytes",
    "growing_bytes_per_token",
    "index_bytes_per_token",
    "kv_dtype_of",
    "memory_bytes",
    "memory_curve",
    "request_curve",
    "state_dtype_of",
    "window_cap_bytes",
    "wire_bytes",
    "wire_curve",
]

_SAME_AS: Final = {"fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
_ENGINES: Final = ("sglang", "vllm")


@dataclass(frozen=True, slots=True)
class KvOptions:
    """The data types a cache is held in; what is left out takes the default of the engine and the profile."""

    kv_dtype: str | None = None
    """Data type of keys and values, a key of `KV_BYTES`; ``None`` or ``"auto"`` for the profile's default."""
    engine: str = "sglang"
    """``"sglang"`` or ``"vllm"``: they hold recurrent state in different data types."""
    state_dtype: str | None = None
    """Data type of recurrent state, a key of `STATE_BYTES`; ``None`` for the engine's default."""
    mtp: bool = False
    """Whether the multi-token-prediction layers are loaded and keep a cache too."""


def kv_dtype_of(model: ModelProfile, options: KvOptions | None = None) -> str:
    """Name the data type of keys and values: the one asked for, else the profile's.

    Raises `InputError` for a data type that is not in `KV_BYTES`, or one a measured cache was not measured in.
    """
    asked = (options or KvOptions()).kv_dtype
    if asked is None or asked == "auto":
        return model.kv_dtype
    found = _known(asked, KV_BYTES, "kv_dtype")
    if model.kv_points and found != model.kv_dtype:
        problem = f"the cache sizes of {model.name} were measured in {model.kv_dtype} and cannot be converted"
        raise InputError(Fault("options", "kv_dtype", problem, asked))
    return found


def state_dtype_of(model: ModelProfile, options: KvOptions | None = None) -> str:
    """Name the data type of recurrent state: the one asked for, else what the engine uses for the model.

    Raises `InputError` for an unknown engine or data type.
    """
    options = options or KvOptions()
    if options.engine not in _ENGINES:
        problem = "expected one of " + ", ".join(_ENGINES)
        raise InputError(Fault("options", "engine", problem, options.engine, nearest(options.engine, _ENGINES)))
    if options.state_dtype is not None:
        return _known(options.state_dtype, STATE_BYTES, "state_dtype")
    return model.state_dtype_vllm if options.engine == "vllm" else model.state_dtype_sglang


def _known(name: str, table: Mapping[str, float], key: str) -> str:
    plain = _SAME_AS.get(name.lower(), name.lower())
    if plain not in table:
        problem = "expected one of " + ", ".join(table)
        raise InputError(Fault("options", key, problem, name, nearest(name, table)))
    return plain


def _caches(
    model: ModelProfile, options: KvOptions | None, tensor_parallel: int = 1, *, heads_only: bool = False
) -> list[tuple[int, BlockCache]]:
    """List each distinct block's cache with how often it occurs; `heads_only` replicates nothing but K/V heads."""
    options = options or KvOptions()
    kv_dtype, state_dtype = kv_dtype_of(model, options), state_dtype_of(model, options)
    if tensor_parallel < 1:
        raise InputError(Fault("options", "tensor_parallel", "expected a whole number of at least 1", tensor_parallel))
    found = []
    counts = Counter(model.counts)
    if options.mtp and model.mtp_block:
        counts[model.mtp_block] += model.mtp_layers
    for name, count in counts.items():
        block = model.blocks[name]
        ranks = tensor_parallel if isinstance(block, Attention) or not heads_only else 1
        found.append((count, block_cache(block, kv_dtype, state_dtype, ranks)))
    return found


def growing_bytes_per_token(model: ModelProfile, options: KvOptions | None = None) -> float:
    """Sum the bytes that every further token adds [B/token], indexes included, windows left out.

    GQA: kv_heads · (d_k + d_v) · b per full layer; MLA: (rank + rope) · b; compressed: entry / ratio.
    Measured profiles: the slope of `request_curve`. Raises `InputError` for an unknown data type.
    """
    if model.kv_points:
        return request_curve(model, options).pieces[-1][1]
    return sum(count * (cache.growing + cache.index) for count, cache in _caches(model, options))


def index_bytes_per_token(model: ModelProfile) -> float:
    """Sum the index of sparse attention [B/token]; its data type does not follow the keys and values."""
    return sum(count * cache.index for count, cache in _caches(model, None))


def fixed_state_bytes(model: ModelProfile, options: KvOptions | None = None) -> float:
    """Sum the recurrent state and convolution columns of one request [B], whatever its length.

    Measured profiles: the intercept of `request_curve`. Raises `InputError` for an unknown engine or data type.
    """
    if model.kv_points:
        return request_curve(model, options).pieces[-1][0]
    return sum(count * cache.state for count, cache in _caches(model, options))


def window_cap_bytes(model: ModelProfile, options: KvOptions | None = None) -> float:
    """Sum the bytes of full windows [B]: W tokens of every sliding or chunked layer."""
    return sum(count * cache.window * cache.window_tokens for count, cache in _caches(model, options))


def request_curve(model: ModelProfile, options: KvOptions | None = None) -> Curve:
    """Give the logical bytes of one request, S_kv(l) [B], as a function of its length l [token].

    One copy of everything: fixed state + growing · l + windows of min(l, W). A chunked window is counted as
    min(l, chunk), the most it holds. Measured profiles: the least-squares line through the measured sizes.
    Raises `InputError` for an unknown engine or data type.
    """
    if model.kv_points:
        kv_dtype_of(model, options)
        lengths = [float(point.length_tokens) for point in model.kv_points]
        fixed, slope = fit_polynomial(lengths, [point.kv_bytes for point in model.kv_points], 1)
        return Curve.polynomial(fixed, slope)
    return _total(_caches(model, options))


def _total(caches: list[tuple[int, BlockCache]], *, full_window: bool = False) -> Curve:
    total = Curve.polynomial(0.0)
    for count, cache in caches:
        total += cache.curve(full_window=full_window).scaled(count)
    return total


def memory_curve(
    model: ModelProfile,
    tensor_parallel: int = 1,
    options: KvOptions | None = None,
    window: Literal["logical", "full"] = "logical",
) -> Curve:
    """Give the bytes one request takes over all ranks of an instance [B], as a function of its length [token].

    `tensor_parallel` is the width over which attention is divided (1 where ranks run attention data-parallel).
    ``window="full"`` is an engine that keeps whole blocks on window layers. Pages and spare state copies are not
    counted. A measured profile is taken as it was measured. Raises `InputError` for an unknown data type.
    """
    if model.kv_points:
        return request_curve(model, options)
    return _total(_caches(model, options, tensor_parallel), full_window=window == "full")


def memory_bytes(
    model: ModelProfile,
    length: float,
    tensor_parallel: int = 1,
    options: KvOptions | None = None,
    window: Literal["logical", "full"] = "logical",
) -> float:
    """Evaluate `memory_curve` at one length [token]: the bytes [B] over all ranks of one instance."""
    return memory_curve(model, tensor_parallel, options, window)(length)


def wire_curve(
    model: ModelProfile,
    tensor_parallel: int = 1,
    options: KvOptions | None = None,
    *,
    deduplicated: bool = True,
) -> Curve:
    """Give the bytes that cross the link for one request [B], as a function of its length [token].

    Windows ship what is left of them, a latent and a state cross once. With ``deduplicated=False`` every rank of
    the sender ships the key/value heads it holds, so fewer heads than ranks cross several times (measured:
    Qwen3-235B at TP8 ships 3.15 GB where 1.58 GB is the logical size, Mooncake documentation).
    Raises `InputError` for an unknown data type.
    """
    if model.kv_points or deduplicated:
        return request_curve(model, options)
    return _total(_caches(model, options, tensor_parallel, heads_only=True))


def wire_bytes(
    model: ModelProfile,
    length: float,
    tensor_parallel: int = 1,
    options: KvOptions | None = None,
    *,
    deduplicated: bool = True,
) -> float:
    """Evaluate `wire_curve` at one length [token]: the bytes [B] that cross the link."""
    return wire_curve(model, tensor_parallel, options, deduplicated=deduplicated)(length)


def describe_options(model: ModelProfile, options: KvOptions | None = None) -> list[str]:
    """Say in sentences which data types the sizes of a model assume, for the output."""
    options = options or KvOptions()
    if model.kv_points:
        low, high = model.kv_points[0].length_tokens, model.kv_points[-1].length_tokens
        return [f"Cache sizes are a straight line through those measured from {low:,} to {high:,} tokens."]
    chosen = "as asked" if options.kv_dtype not in (None, "auto") else "the profile's default"
    lines = [f"Keys and values in {kv_dtype_of(model, options)} ({chosen}); the weight format has no part in it."]
    caches = _caches(model, options)
    if any(cache.state for _, cache in caches):
        why = "as asked" if options.state_dtype else f"what {options.engine} uses for this model"
        lines.append(f"Recurrent state in {state_dtype_of(model, options)} ({why}), convolution columns in bf16.")
    if any(cache.index for _, cache in caches):
        lines.append("The index of sparse attention keeps its own data type and is included.")
    if any(cache.window_tokens for _, cache in caches):
        lines.append("Window layers are counted as min(length, window); engines that keep full blocks reserve more.")
    if model.mtp_layers:
        lines.append("Multi-token-prediction layers are " + ("included." if options.mtp else "not loaded."))
    return lines

"""How much of a trace prefix pools of given sizes would hit, for the cache of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prfaas_plan.catalog import load_model
from prfaas_plan.errors import Fault, InputError
from prfaas_plan.kv_cache import fixed_state_bytes, growing_bytes_per_token, window_cap_bytes
from prfaas_plan.prefix_pool import HybridPool, Request, block_reuse, hybrid_reuse
from prfaas_plan.trace.records import Trace

__all__ = ["PoolHits", "pools_of", "read_sizes"]


@dataclass(frozen=True, slots=True)
class PoolHits:
    """What a pool of a size finds; a size of ``None`` is never full."""

    pool_gb: float | None
    hit_fraction: float
    mean_uncached_tokens: float

    def to_dict(self) -> dict[str, Any]:
        """Give the row under the keys of the interface."""
        return {
            "pool_gb": self.pool_gb,
            "hit_fraction": self.hit_fraction,
            "mean_uncached_tokens": self.mean_uncached_tokens,
        }


def pools_of(
    trace: Trace,
    model: str,
    sizes_gb: Sequence[float],
    checkpoint_tokens: int | None = None,
    profiles: Sequence[str | Path] = (),
) -> tuple[PoolHits, ...]:
    """Give the hits [1] of one shared pool by its size [GB] and of one that is never full.

    Blocks of attention KV are reused by prefix; recurrent and window state only at the end of an earlier prompt, or
    also at a checkpoint every so many tokens. The least recently used leaves first. Raises `InputError` for a trace
    without block hashes or an unknown model.

    >>> read_sizes("10, 2.5")
    (10.0, 2.5)
    """
    if not trace.block_tokens:
        raise InputError(Fault(trace.path, "", "has no block hashes, so nothing is known of its prefixes"))
    profile = load_model(model, profiles)
    block_bytes = growing_bytes_per_token(profile) * trace.block_tokens
    state_bytes = fixed_state_bytes(profile) + (0.0 if profile.kv_points else window_cap_bytes(profile))
    if state_bytes > 0.0:
        pool = HybridPool(trace.block_tokens, round(block_bytes), round(state_bytes), checkpoint_tokens)
        curve, per_size = hybrid_reuse(_requests(trace), pool), 1e9
    elif block_bytes > 0.0:
        curve, per_size = block_reuse(_requests(trace), trace.block_tokens), 1e9 / block_bytes
    else:
        raise InputError(Fault("--model", "", "keeps no cache that could be reused", model))
    rows = [
        PoolHits(gb, curve.hit_fraction(gb * per_size), curve.mean_uncached_tokens(gb * per_size)) for gb in sizes_gb
    ]
    return (*rows, PoolHits(None, curve.hit_fraction(), curve.mean_uncached_tokens()))


def _requests(trace: Trace) -> Iterator[Request]:
    start = 0
    for length, end in zip(trace.input_tokens, trace.block_ends, strict=True):
        yield length, trace.block_ids[start:end]
        start = end


def read_sizes(text: str) -> tuple[float, ...]:
    """Read pool sizes in GB, separated by commas.

    Raises `InputError` for a part that is no number above 0.

    >>> read_sizes("100,1000")
    (100.0, 1000.0)
    """
    try:
        sizes = tuple(float(part) for part in text.split(","))
    except ValueError:
        sizes = ()
    if not sizes or not all(0.0 < size < 1e9 for size in sizes):
        raise InputError(Fault("--pools", "", "expected sizes in GB above 0, separated by commas", text))
    return sizes

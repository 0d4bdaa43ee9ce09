"""What a prefix cache would have found: reuse of leading blocks between the requests of a trace."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Any

from prfaas_plan.errors import Fault, TraceError
from prfaas_plan.trace.records import Trace

__all__ = ["PrefixReuse", "infinite_pool"]


@dataclass(frozen=True)
class PrefixReuse:
    """How much of the input a prefix cache without limit holds already."""

    uncached_tokens: array[int]
    """What is left to compute of each request [token], at least 1."""
    hit_tokens: int
    """Input tokens that were found in the cache, over all requests."""
    input_tokens: int
    """Input tokens of all requests."""
    mean_request_hit_fraction: float
    """Mean over requests of the share found; it differs from the share of tokens, which is what saves work."""
    fully_cached_requests: int
    """Requests found as a whole; one token of each is computed all the same."""
    block_tokens: int
    block_references: int
    distinct_blocks: int

    @property
    def hit_fraction(self) -> float:
        """Share of the input tokens that were found."""
        return self.hit_tokens / self.input_tokens

    @property
    def mean_uncached_tokens(self) -> float:
        """Mean of what is left to compute of a request [token]."""
        return sum(self.uncached_tokens) / len(self.uncached_tokens)

    def to_dict(self) -> dict[str, Any]:
        """Give the numbers under the keys of the ``trace`` output."""
        return {
            "hit_fraction": self.hit_fraction,
            "mean_uncached_tokens": self.mean_uncached_tokens,
            "mean_request_hit_fraction": self.mean_request_hit_fraction,
            "fully_cached_requests": self.fully_cached_requests,
            "block_tokens": self.block_tokens,
            "block_references": self.block_references,
            "distinct_blocks": self.distinct_blocks,
        }


def infinite_pool(trace: Trace) -> PrefixReuse:
    """Run a trace through a prefix cache that is instant, shared by all, and never full.

    A request finds the longest run of its leading blocks that any earlier request had. A last, partial block
    counts for the tokens it holds. The cache is empty at the start, as the file is.

    Raises `TraceError` if the trace has no block ids.

    >>> ids, ends = array("q", [1, 2, 1, 3]), array("q", [2, 4])
    >>> lengths, none = array("i", [800, 900]), array("i")
    >>> trace = Trace("made.jsonl", "Mooncake", lengths, none, block_tokens=512, block_ids=ids, block_ends=ends)
    >>> list(infinite_pool(trace).uncached_tokens)
    [800, 388]
    """
    if not trace.block_tokens:
        problem = "has no block ids of known size, so prefix reuse cannot be computed"
        raise TraceError(Fault(trace.path, "", problem))
    seen: set[int] = set()
    uncached = array("i")
    hits = full = start = 0
    ratios = 0.0
    for length, end in zip(trace.input_tokens, trace.block_ends, strict=True):
        blocks = trace.block_ids[start:end]
        run = next((i for i, block in enumerate(blocks) if block not in seen), len(blocks))
        found = min(run * trace.block_tokens, length)
        seen.update(blocks)
        hits += found
        ratios += found / length
        full += found == length
        uncached.append(max(1, length - found))
        start = end
    return PrefixReuse(
        uncached_tokens=uncached,
        hit_tokens=hits,
        input_tokens=sum(trace.input_tokens),
        mean_request_hit_fraction=ratios / trace.requests,
        fully_cached_requests=full,
        block_tokens=trace.block_tokens,
        block_references=len(trace.block_ids),
        distinct_blocks=len(seen),
    )

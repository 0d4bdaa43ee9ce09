"""What a prefix pool of any size saves: reuse by exact stack distances, for attention blocks and recurrent state.

A request is its input length and the ids of its prefix blocks in order; an id stands for its block and all before it
(a chained hash), as in engines and public traces. One pass over the requests gives the hits of every pool size, because
least-recently-used eviction is a stack algorithm (Mattson et al., IBM Systems Journal 9(2), 1970): an item is in a pool
of size C exactly if the sizes of the items used since, and its own, add up to at most C. That stays exact for items of
different sizes, since this sum only grows until the item is used again.

What is exact, and what is agreed:

- A hit is the longest leading run of blocks that are all in the pool when the request arrives; a last, partial block
  counts for the tokens it holds. Blocks behind the run do not count.
- Every request then uses all of its blocks, found or not: they are in the pool when it has been served, computed
  instantly, and no other request comes between. ``order`` says in which order: ``forward`` from the first block to the
  last (plain LRU, the first block of a request is evicted first) or ``backward`` (the last block is evicted first,
  as engines do that free blocks in reverse).
- In a hybrid pool recurrent and window state is kept at checkpoints, and a hit must end at one: all blocks up to it and
  the state itself must be in the pool. The order is ``backward``, so that what lies before a resident checkpoint is
  resident too, and a request uses every checkpoint on its path.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from prfaas_plan.checks import Checks
from prfaas_plan.reuse import LruStack, Recorder, ReuseCurve

__all__ = [
    "CheckpointRow",
    "HybridPool",
    "ReuseCurve",
    "block_reuse",
    "checkpoint_table",
    "hybrid_reuse",
    "joint_hit_fraction",
    "reuse_by_cluster",
]

Request = tuple[int, Sequence[Hashable]]
"""Input length [token] and block ids of a request."""


def _check_request(index: int, length: int, blocks: Sequence[Hashable], block_tokens: int) -> None:
    if length < 1 or len(blocks) > -(-length // block_tokens):
        checks = Checks(f"request {index}")
        checks.at_least("input_tokens", length, 1)
        if len(blocks) > -(-length // block_tokens):
            checks.fault("block_ids", f"more blocks of {block_tokens} tokens than {length} tokens fill", len(blocks))
        checks.finish()


def _leading(stack: LruStack, blocks: Sequence[Hashable]) -> list[float]:
    """Give the pool size that the leading run up to each block needs, as far as the blocks were ever used."""
    needs, most = [], 0.0
    for block in blocks:
        most = max(most, stack.distance(block))
        if most == math.inf:
            break
        needs.append(most)
    return needs


def block_reuse(requests: Iterable[Request], block_tokens: int, order: str = "forward") -> ReuseCurve:
    """Give the reuse of a pool of attention blocks of a number of tokens, for every pool size in blocks.

    ``order`` is ``forward`` or ``backward`` (see the module). Raises `InputError`.

    >>> curve = block_reuse([(8, "ab"), (8, "cd"), (12, "abx")], 4)
    >>> curve.hit_fraction(), curve.hit_fraction(3), curve.size_for(0.2)
    (0.2857142857142857, 0.0, 4.0)
    """
    checks = Checks("block_reuse")
    checks.at_least("block_tokens", block_tokens, 1)
    checks.choice("order", order, ("forward", "backward"))
    checks.finish()
    stack, recorder = LruStack(), Recorder("block")
    for index, (length, blocks) in enumerate(requests):
        _check_request(index, length, blocks, block_tokens)
        needs = _leading(stack, blocks)
        recorder.add(length, [(min(length, (i + 1) * block_tokens), need) for i, need in enumerate(needs)])
        for block in blocks if order == "forward" else reversed(blocks):
            stack.use(block, 1)
    return recorder.curve()


def reuse_by_cluster(
    requests: Iterable[Request], clusters: Iterable[str], block_tokens: int, order: str = "forward"
) -> dict[str, ReuseCurve]:
    """Give the reuse of each cluster's own pool when every request is served by the cluster named beside it.

    Raises `InputError`.

    >>> curves = reuse_by_cluster([(4, "a"), (4, "a"), (4, "a")], ["east", "west", "east"], 4)
    >>> {name: curve.hit_fraction() for name, curve in curves.items()}
    {'east': 0.5, 'west': 0.0}
    """
    served: dict[str, list[Request]] = defaultdict(list)
    for request, cluster in zip(requests, clusters, strict=True):
        served[cluster].append(request)
    return {cluster: block_reuse(own, block_tokens, order) for cluster, own in served.items()}


def joint_hit_fraction(curves: Mapping[str, ReuseCurve], sizes: Mapping[str, float] | None = None) -> float:
    """Give the share of all input tokens that separate pools of given sizes hold; without sizes, never full.

    >>> curves = reuse_by_cluster([(4, "a"), (4, "a"), (4, "a")], ["east", "west", "east"], 4)
    >>> round(joint_hit_fraction(curves), 4)
    0.3333
    """
    found = sum(sum(c.found_tokens((sizes or {}).get(name, math.inf))) for name, c in curves.items())
    total = sum(c.input_tokens for c in curves.values())
    return found / total if total else 0.0


@dataclass(frozen=True, slots=True)
class HybridPool:
    """One byte budget for attention blocks and for checkpoints of recurrent and window state."""

    block_tokens: int
    block_bytes: int
    """Attention KV of one block [B]."""
    state_bytes: int
    """Recurrent and window state of one checkpoint [B]."""
    checkpoint_tokens: int | None = None
    """A checkpoint every so many tokens, a multiple of the block; ``None``: only where a prompt ends."""
    exact_end: bool = True
    """Whether a prompt that ends inside a block leaves a checkpoint there too, which only the same prompt can use."""

    def check(self, where: str) -> Checks:
        """Collect what is wrong with the pool."""
        checks = Checks(where)
        checks.at_least("block_tokens", self.block_tokens, 1)
        checks.at_least("block_bytes", self.block_bytes)
        checks.at_least("state_bytes", self.state_bytes)
        every = self.checkpoint_tokens
        if every is not None and (every < 1 or (self.block_tokens >= 1 and every % self.block_tokens)):
            checks.fault("checkpoint_tokens", f"expected a multiple of the block of {self.block_tokens} tokens", every)
        return checks

    def checkpoints(self, length: int, blocks: int) -> set[int]:
        """Give the blocks behind which a prompt of a length leaves a checkpoint, counted from 0.

        The last full block always, every ``checkpoint_tokens`` where that is set, and the exact end.
        """
        full = min(blocks, length // self.block_tokens)
        kept = {full - 1}
        if self.exact_end:
            kept.add(blocks - 1)
        if self.checkpoint_tokens is not None:
            step = self.checkpoint_tokens // self.block_tokens
            kept.update(range(step - 1, full, step))
        return {i for i in kept if i >= 0}


def hybrid_reuse(requests: Iterable[Request], pool: HybridPool) -> ReuseCurve:
    """Give the reuse of a hybrid pool (arXiv 2604.15039, section 3.2), for every budget in bytes.

    Attention KV is reused block by block, state only at a checkpoint, so a hit ends at the last checkpoint whose state
    and all blocks before it are in the pool. Without state it is `block_reuse` with checkpoints at every block.
    Raises `InputError`.

    >>> chat = [(8, "ab"), (16, "abcd"), (12, "abx")]
    >>> hybrid_reuse(chat, HybridPool(4, 100, 1000)).found_tokens().tolist()
    [0, 8, 8]
    >>> hybrid_reuse([(16, "abcd"), (12, "abx")], HybridPool(4, 100, 1000)).found_tokens().tolist()
    [0, 0]
    >>> hybrid_reuse([(16, "abcd"), (12, "abx")], HybridPool(4, 100, 1000, 4)).found_tokens().tolist()
    [0, 8]
    """
    pool.check("hybrid_reuse").finish()
    stack, recorder = LruStack(), Recorder("byte")
    for index, (length, blocks) in enumerate(requests):
        _check_request(index, length, blocks, pool.block_tokens)
        candidates = []
        for i, need in enumerate(_leading(stack, blocks)):
            state = stack.distance(("state", blocks[i]))
            if state < math.inf:
                candidates.append((min(length, (i + 1) * pool.block_tokens), max(need, state)))
        recorder.add(length, candidates)
        kept = pool.checkpoints(length, len(blocks))
        for i in reversed(range(len(blocks))):
            if i in kept or ("state", blocks[i]) in stack:
                stack.use(("state", blocks[i]), pool.state_bytes)
            stack.use(blocks[i], pool.block_bytes)
    return recorder.curve()


@dataclass(frozen=True, slots=True)
class CheckpointRow:
    """What one distance between checkpoints gives."""

    checkpoint_tokens: int | None
    bytes_per_token: float
    """Pool bytes per token of a long prompt: its blocks and its checkpoints [B/token]."""
    hit_fraction: float
    """Of a pool that is never full."""
    hit_fraction_in_budget: float
    mean_uncached_tokens: float
    """In the budget [token]."""

    def to_dict(self) -> dict[str, float | None]:
        """Give the row under its names."""
        return {name: getattr(self, name) for name in self.__slots__}


def checkpoint_table(
    requests: Sequence[Request], pool: HybridPool, every: Iterable[int | None], budget_bytes: float
) -> list[CheckpointRow]:
    """Say what a checkpoint every so many tokens buys in a budget [B].

    One row for each distance, ``None`` for checkpoints where prompts end only. Raises `InputError`.

    >>> branches = [(16, "abcd"), (16, "abxy"), (16, "abcz")]
    >>> rows = checkpoint_table(branches, HybridPool(4, 100, 1000), [None, 8, 4], 1e6)
    >>> [(row.checkpoint_tokens, round(row.hit_fraction, 3)) for row in rows]
    [(None, 0.0), (8, 0.333), (4, 0.417)]
    """
    rows = []
    for distance in every:
        curve = hybrid_reuse(requests, replace(pool, checkpoint_tokens=distance))
        states = pool.state_bytes / distance if distance else 0.0
        rows.append(
            CheckpointRow(
                distance,
                pool.block_bytes / pool.block_tokens + states,
                curve.hit_fraction(),
                curve.hit_fraction(budget_bytes),
                curve.mean_uncached_tokens(budget_bytes),
            )
        )
    return rows

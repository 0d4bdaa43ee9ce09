"""Stack distances against naive pools that evict item by item, and the hybrid pool against one that is simulated."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prfaas_plan.errors import InfeasibleError, InputError
from prfaas_plan.prefix_pool import (
    HybridPool,
    block_reuse,
    checkpoint_table,
    hybrid_reuse,
    joint_hit_fraction,
    reuse_by_cluster,
)
from prfaas_plan.reuse import LruStack

BLOCK = 4
Request = tuple[int, Sequence[Hashable]]


class NaivePool:
    """Bytes in order of last use; the oldest leave until the rest fits."""

    def __init__(self, budget: float) -> None:
        self.budget = budget
        self.items: OrderedDict[Hashable, int] = OrderedDict()

    def use(self, item: Hashable, size: int) -> None:
        self.items[item] = size
        self.items.move_to_end(item)
        while sum(self.items.values()) > self.budget:
            self.items.popitem(last=False)


def naive_blocks(requests: Sequence[Request], budget: float, order: str) -> list[int]:
    pool, found = NaivePool(budget), []
    for length, blocks in requests:
        run = next((i for i, block in enumerate(blocks) if block not in pool.items), len(blocks))
        found.append(min(length, run * BLOCK))
        for block in blocks if order == "forward" else blocks[::-1]:
            pool.use(block, 1)
    return found


def naive_hybrid(requests: Sequence[Request], budget: float, every: int | None) -> list[int]:
    pool, found, ever = NaivePool(budget), [], set()
    for length, blocks in requests:
        best = 0
        for i, block in enumerate(blocks):
            if block not in pool.items:
                break
            if ("state", block) in pool.items:
                best = min(length, (i + 1) * BLOCK)
        found.append(best)
        full = length // BLOCK
        for i in reversed(range(len(blocks))):
            ends_here = i in (full - 1, len(blocks) - 1)
            if ends_here or (every and i < full and ((i + 1) * BLOCK) % every == 0):
                ever.add(blocks[i])
            if blocks[i] in ever:
                pool.use(("state", blocks[i]), 7)
            pool.use(blocks[i], 3)
    return found


@st.composite
def traces(draw: st.DrawFn) -> list[Request]:
    """Requests that walk down a random tree of blocks, so that an id stands for its whole prefix."""
    requests: list[Request] = []
    for _ in range(draw(st.integers(1, 25))):
        steps = draw(st.lists(st.integers(0, 2), min_size=1, max_size=7))
        rest = draw(st.integers(0, BLOCK - 1))
        blocks: list[Hashable] = [tuple(steps[: i + 1]) for i in range(len(steps))]
        if rest:
            blocks[-1] = (*steps, "partial", rest)
        requests.append((len(steps) * BLOCK - (BLOCK - rest if rest else 0), blocks))
    return requests


@settings(deadline=None)
@given(traces(), st.sampled_from(["forward", "backward"]))
def test_block_reuse_equals_a_naive_pool_of_every_size(requests: list[Request], order: str) -> None:
    curve = block_reuse(requests, BLOCK, order)
    for size in (0, 1, 2, 3, 5, 8, 13, 10**9):
        assert curve.found_tokens(size).tolist() == naive_blocks(requests, size, order)


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=9), max_size=25), st.integers(0, 14))
def test_ids_in_any_order_equal_the_naive_pool_too(blocks: list[list[int]], size: int) -> None:
    requests = [(len(ids) * BLOCK, ids) for ids in blocks]
    assert block_reuse(requests, BLOCK).found_tokens(size).tolist() == naive_blocks(requests, size, "forward")


@settings(deadline=None)
@given(traces(), st.sampled_from([None, BLOCK, 2 * BLOCK, 3 * BLOCK]))
def test_hybrid_reuse_equals_a_naive_pool_of_every_budget(requests: list[Request], every: int | None) -> None:
    curve = hybrid_reuse(requests, HybridPool(BLOCK, 3, 7, every))
    for budget in (0, 5, 10, 17, 30, 55, 100, 10**9):
        assert curve.found_tokens(budget).tolist() == naive_hybrid(requests, budget, every)


@settings(deadline=None)
@given(traces())
def test_state_without_bytes_at_every_block_is_block_reuse(requests: list[Request]) -> None:
    hybrid, plain = hybrid_reuse(requests, HybridPool(BLOCK, 1, 0, BLOCK)), block_reuse(requests, BLOCK, "backward")
    for size in (0, 2, 5, 11, math.inf):
        assert hybrid.found_tokens(size) == plain.found_tokens(size)


@settings(deadline=None)
@given(traces(), st.sampled_from([None, BLOCK, 2 * BLOCK]))
def test_a_larger_pool_never_finds_less(requests: list[Request], every: int | None) -> None:
    for curve in (block_reuse(requests, BLOCK), hybrid_reuse(requests, HybridPool(BLOCK, 3, 7, every))):
        steps = curve.steps()
        assert [f for _, f in steps] == sorted(f for _, f in steps)
        for size, fraction in steps:
            assert curve.hit_fraction(size) == pytest.approx(fraction)
            assert curve.size_for(fraction) <= size
            assert curve.hit_fraction(size * (1 - 1e-12) - 1e-9) < fraction
        if steps:
            assert steps[-1][1] == pytest.approx(curve.hit_fraction())


@settings(deadline=None, max_examples=20)
@given(st.lists(st.tuples(st.integers(0, 400), st.integers(1, 5)), min_size=1, max_size=3000))
def test_stack_distances_survive_renumbering(uses: list[tuple[int, int]]) -> None:
    stack, order = LruStack(), OrderedDict[int, int]()
    for item, size in uses:
        stack.use(item, size)
        order[item] = size
        order.move_to_end(item)
    total = 0
    for item, size in reversed(order.items()):
        total += size
        assert stack.distance(item) == total


def test_long_run_renumbers_many_times() -> None:
    stack = LruStack()
    for n in range(20_000):
        stack.use(n % 700, 1)
    assert [stack.distance(k) for k in (399, 400, 699)] == [1, 700, 401]
    assert stack.distance("never") == math.inf


def test_what_is_left_to_compute() -> None:
    """A request found whole computes one token; the share of tokens counts all of it."""
    curve = block_reuse([(6, "ab"), (6, "ab"), (10, "axy")], BLOCK)
    assert curve.found_tokens().tolist() == [0, 6, 4]
    assert curve.uncached_tokens().tolist() == [6, 1, 6]
    assert curve.hit_fraction() == pytest.approx(10 / 22)
    assert curve.mean_uncached_tokens() == pytest.approx(13 / 3)


def test_blocks_that_are_hashed_only_when_full() -> None:
    assert block_reuse([(6, "a"), (7, "a")], BLOCK).found_tokens().tolist() == [0, 4]


def test_the_order_of_use_decides_what_is_evicted() -> None:
    requests = [(8, "ab"), (4, "c"), (8, "ab")]
    assert block_reuse(requests, BLOCK, "forward").found_tokens(2).tolist() == [0, 0, 0]
    assert block_reuse(requests, BLOCK, "backward").found_tokens(2).tolist() == [0, 0, 4]


def test_separate_pools_find_less_than_a_shared_one() -> None:
    requests: list[Request] = [(8, "ab"), (8, "ab"), (8, "ac"), (8, "ab")]
    shared = block_reuse(requests, BLOCK)
    own = reuse_by_cluster(requests, ["east", "west", "east", "west"], BLOCK)
    assert joint_hit_fraction(own) == pytest.approx((4 + 8) / 32)
    assert shared.hit_fraction() == pytest.approx((8 + 4 + 8) / 32)
    assert joint_hit_fraction(own, {"east": 0.0}) == pytest.approx(8 / 32)


def test_checkpoints_buy_hits_where_prompts_branch() -> None:
    """A shared system prompt of 12 tokens inside longer prompts is reused only where a checkpoint lies in it."""
    requests: list[Request] = [(20, ["s1", "s2", "s3", f"u{n}", f"v{n}"]) for n in range(10)]
    rows = checkpoint_table(requests, HybridPool(BLOCK, 100, 1000), [None, 8, 4], 1e9)
    assert [row.hit_fraction for row in rows] == pytest.approx([0.0, 9 * 8 / 200, 9 * 12 / 200])
    assert [row.bytes_per_token for row in rows] == pytest.approx([25.0, 150.0, 275.0])
    poor = checkpoint_table(requests, HybridPool(BLOCK, 100, 1000), [8, 4], 1500)
    assert poor[0].hit_fraction_in_budget > poor[1].hit_fraction_in_budget


def test_a_follow_up_turn_continues_from_the_end_of_the_last_prompt() -> None:
    pool = HybridPool(BLOCK, 100, 1000)
    assert hybrid_reuse([(10, "abp"), (18, "abcdq")], pool).found_tokens().tolist() == [0, 8]
    assert hybrid_reuse([(10, "abp"), (10, "abp")], pool).found_tokens().tolist() == [0, 10]
    whole_blocks = HybridPool(BLOCK, 100, 1000, exact_end=False)
    assert hybrid_reuse([(10, "abp"), (10, "abp")], whole_blocks).found_tokens().tolist() == [0, 8]


def test_how_big_the_pool_must_be() -> None:
    curve = block_reuse([(8, "ab"), (8, "cd"), (8, "ab")], BLOCK)
    assert curve.size_for(1 / 3) == 4
    with pytest.raises(InfeasibleError, match=r"at most 33\.3%"):
        curve.size_for(0.5)
    shown = curve.to_dict([4.0], bytes_per_unit=0.5e9)
    assert shown["by_pool"] == [{"pool_gb": 2.0, "hit_fraction": 1 / 3, "mean_uncached_tokens": pytest.approx(17 / 3)}]


def test_faults() -> None:
    with pytest.raises(InputError, match="request 1: block_ids"):
        block_reuse([(4, "a"), (4, "ab")], BLOCK)
    with pytest.raises(InputError, match="input_tokens"):
        block_reuse([(0, "")], BLOCK)
    with pytest.raises(InputError, match="multiple of the block of 4 tokens"):
        hybrid_reuse([], HybridPool(BLOCK, 100, 1000, 6))
    with pytest.raises(InputError, match="did you mean 'forward'"):
        block_reuse([], BLOCK, "forwards")


def test_no_requests_have_no_hits() -> None:
    curve = block_reuse([], BLOCK)
    assert (curve.hit_fraction(), curve.mean_uncached_tokens(), curve.requests) == (0.0, 0.0, 0)

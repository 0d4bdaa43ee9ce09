"""Stack distances of a least-recently-used pool, and the curve of hits over pool sizes that they give."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from prfaas_plan.checks import Checks
from prfaas_plan.errors import InfeasibleError

__all__ = ["LruStack", "Recorder", "ReuseCurve"]

_FIRST_SLOTS: Final = 1024


class LruStack:
    """A stack of items by last use, with the sizes on top of any of them, in logarithmic time.

    >>> stack = LruStack()
    >>> for name, size in (("a", 2), ("b", 3), ("a", 2)):
    ...     stack.use(name, size)
    >>> stack.distance("a"), stack.distance("b"), stack.distance("c")
    (2, 5, inf)
    """

    def __init__(self) -> None:
        self._slot: dict[Hashable, int] = {}
        self._size: dict[Hashable, int] = {}
        self._tree = [0] * (_FIRST_SLOTS + 1)
        self._next = 1
        self._total = 0

    def __contains__(self, item: Hashable) -> bool:
        return item in self._slot

    def distance(self, item: Hashable) -> float:
        """Give the sizes of all items used since this one, and its own; infinite if it was never used."""
        slot = self._slot.get(item)
        if slot is None:
            return math.inf
        below, i, tree = 0, slot - 1, self._tree
        while i:
            below += tree[i]
            i &= i - 1
        return self._total - below

    def use(self, item: Hashable, size: int) -> None:
        """Put an item of a size on top of the stack."""
        if self._next == len(self._tree):
            self._compact()
        slot = self._slot.get(item)
        if slot is not None:
            self._add(slot, -self._size[item])
        self._slot[item], self._size[item] = self._next, size
        self._add(self._next, size)
        self._next += 1

    def _add(self, i: int, size: int) -> None:
        self._total += size
        tree, end = self._tree, len(self._tree)
        while i < end:
            tree[i] += size
            i += i & -i

    def _compact(self) -> None:
        """Renumber the items without gaps, in a tree with room for as many again."""
        items = sorted(self._slot, key=self._slot.__getitem__)
        self._slot = {item: i for i, item in enumerate(items, 1)}
        tree = [0] * (2 * max(len(items), _FIRST_SLOTS) + 1)
        for item, i in self._slot.items():
            tree[i] = self._size[item]
        for i in range(1, len(tree)):
            parent = i + (i & -i)
            if parent < len(tree):
                tree[parent] += tree[i]
        self._tree, self._next = tree, len(items) + 1


@dataclass(frozen=True)
class ReuseCurve:
    """The hits of every pool size, from one pass over the requests."""

    unit: str
    """``block`` or ``byte``: what pool sizes count."""
    lengths: array[int]
    """Input tokens of each request."""
    ends: array[int] = field(repr=False)
    """Where the steps of each request end."""
    needs: array[float] = field(repr=False)
    """Pool size that each step needs, rising within a request."""
    tokens: array[int] = field(repr=False)
    """Tokens of the request that are found from that size on, in all."""

    @property
    def requests(self) -> int:
        """Number of requests."""
        return len(self.lengths)

    @property
    def input_tokens(self) -> int:
        """Input tokens of all requests."""
        return sum(self.lengths)

    def found_tokens(self, size: float = math.inf) -> array[int]:
        """Give the tokens of each request that a pool of a size holds."""
        found, start = array("q"), 0
        for end in self.ends:
            step = bisect_right(self.needs, size, start, end)
            found.append(self.tokens[step - 1] if step > start else 0)
            start = end
        return found

    def uncached_tokens(self, size: float = math.inf) -> array[int]:
        """Give the tokens of each request that are left to compute; of a request that is found whole, one."""
        return array("q", (max(1, n - k) for n, k in zip(self.lengths, self.found_tokens(size), strict=True)))

    def hit_fraction(self, size: float = math.inf) -> float:
        """Give the share of all input tokens that a pool of a size holds; without a size, one that is never full."""
        return sum(self.found_tokens(size)) / self.input_tokens if self.lengths else 0.0

    def mean_uncached_tokens(self, size: float = math.inf) -> float:
        """Give the mean of what is left to compute of a request [token]."""
        return sum(self.uncached_tokens(size)) / self.requests if self.lengths else 0.0

    def steps(self) -> list[tuple[float, float]]:
        """Give every pool size at which the hit fraction rises, and the fraction from there on."""
        gained: dict[float, int] = defaultdict(int)
        start = 0
        for end in self.ends:
            before = 0
            for step in range(start, end):
                gained[self.needs[step]] += self.tokens[step] - before
                before = self.tokens[step]
            start = end
        total, found, curve = self.input_tokens, 0, []
        for size in sorted(gained):
            found += gained[size]
            curve.append((size, found / total))
        return curve

    def size_for(self, hit_fraction: float) -> float:
        """Give the smallest pool that reaches a hit fraction.

        Raises `InputError`, and `InfeasibleError` if a pool that is never full does not reach it.
        """
        checks = Checks("size_for")
        checks.fraction("hit_fraction", hit_fraction)
        checks.finish()
        if hit_fraction == 0.0:
            return 0.0
        curve = self.steps()
        for size, fraction in curve:
            if fraction >= hit_fraction * (1.0 - 1e-12):
                return size
        most = curve[-1][1] if curve else 0.0
        raise InfeasibleError(
            f"no pool finds {hit_fraction:.1%} of the input tokens: one that is never full finds {most:.1%}",
            f"ask for at most {most:.1%}, or share the pool between clusters",
        )

    def to_dict(self, sizes: Iterable[float] = (), bytes_per_unit: float = 1.0) -> dict[str, Any]:
        """Give the numbers under the keys of the ``trace`` output, for a pool that is never full and for sizes."""
        return {
            "hit_fraction": self.hit_fraction(),
            "mean_uncached_tokens": self.mean_uncached_tokens(),
            "by_pool": [
                {
                    "pool_gb": size * bytes_per_unit / 1e9,
                    "hit_fraction": self.hit_fraction(size),
                    "mean_uncached_tokens": self.mean_uncached_tokens(size),
                }
                for size in sizes
            ],
        }


class Recorder:
    """Collects the steps of each request into a curve."""

    def __init__(self, unit: str) -> None:
        self.unit = unit
        self.lengths, self.ends, self.tokens = array("q"), array("q"), array("q")
        self.needs = array("d")

    def add(self, length: int, candidates: list[tuple[int, float]]) -> None:
        """Note a request and where its hit may end: tokens (rising) and the pool size each needs."""
        steps: list[tuple[float, int]] = []
        least = math.inf
        for tokens, need in reversed(candidates):
            if need < least:
                steps.append((need, tokens))
                least = need
        for need, tokens in reversed(steps):
            self.needs.append(need)
            self.tokens.append(tokens)
        self.lengths.append(length)
        self.ends.append(len(self.needs))

    def curve(self) -> ReuseCurve:
        """Give the curve of all requests noted so far."""
        return ReuseCurve(self.unit, self.lengths, self.ends, self.needs, self.tokens)

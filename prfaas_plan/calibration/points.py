"""From single readings to the points of a profile: one time a length, one step a batch at one context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from prfaas_plan.calibration.benchmark_records import Run
from prfaas_plan.calibration.rules import Flag, Reading, Refusal, bins
from prfaas_plan.errors import Fault, InputError

__all__ = ["Point", "decode_points", "prefill_points"]

SAME_LENGTH = 1.01
CONTEXT_RANGE = 1.25
"""Contexts that differ by no more than this ratio stand for one decode context."""


@dataclass(frozen=True, slots=True)
class Point:
    """One measured point of a profile: a length [token] or a batch, and its time."""

    x: int
    seconds: float
    requests: int
    basis: str
    runs: tuple[Run, ...]
    law_s: float | None = None
    difference_fraction: float | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """Files the point was read from."""
        return tuple(dict.fromkeys(run.file for run in self.runs))


def prefill_points(readings: Sequence[Reading]) -> tuple[list[Point], list[Refusal]]:
    """Join the prefill readings of one length: those of the smallest batch, by their median.

    One length alone gives no law, so it is refused.
    """
    ordered = sorted((r for r in readings if r.phase == "prefill"), key=lambda r: r.tokens)
    points: list[Point] = []
    refusals: list[Refusal] = []
    for group in bins(ordered, lambda r: round(r.tokens), SAME_LENGTH):
        smallest = min(r.batch for r in group)
        for other in (r for r in group if r.batch > smallest):
            reason = f"a batch of {smallest} was measured at the same length, which is nearer to one request"
            refusals.append(Refusal(other.run.where, "prefill", "larger-batch", reason))
        points.append(_joined([r for r in group if r.batch == smallest], round(median(round(r.tokens) for r in group))))
    if len(points) == 1:
        reason = f"{points[0].x:,} tokens is the only length; a law needs two or more"
        return [], [*refusals, Refusal(points[0].runs[0].where, "prefill", "one-length", reason)]
    return points, refusals


def _joined(group: Sequence[Reading], x: int) -> Point:
    return Point(
        x=x,
        seconds=float(f"{median(r.seconds for r in group):.9g}"),
        requests=sum(r.requests for r in group),
        basis="; ".join(dict.fromkeys(r.basis for r in group)),
        runs=tuple(dict.fromkeys(r.run for r in group)),
    )


def decode_points(readings: Sequence[Reading], context: float | None) -> tuple[list[Point], float | None, list[Flag]]:
    """Join the decode readings of one batch by their median, at one mean context, which is given back [token].

    Without a chosen context it is the only one, or the only one with several batches. Step times that fall as the
    batch grows are averaged, since a larger batch cannot be faster. Raises `InputError` if several contexts have
    several batches and none was chosen, or if none is near the chosen one.
    """
    steps = [r for r in readings if r.phase == "decode"]
    chosen = _at_context(steps, context) if steps else []
    if not chosen:
        doubt = f"decode steps of one batch at each of the contexts {_contexts(steps)} were left out: choose one"
        return [], None, [Flag("--context", doubt)] if steps else []
    by_batch: dict[int, list[Reading]] = {}
    for reading in sorted(chosen, key=lambda r: r.batch):
        by_batch.setdefault(reading.batch, []).append(reading)
    rising, flags = _never_falling([_joined(group, batch) for batch, group in by_batch.items()])
    left_out = len(steps) - len(chosen)
    if left_out:
        flags.append(Flag("--context", f"{left_out} decode times at other contexts were left out"))
    return rising, median(r.tokens for r in chosen), flags


def _at_context(steps: Sequence[Reading], context: float | None) -> list[Reading]:
    ordered = sorted(steps, key=lambda r: r.tokens)
    groups = list(bins(ordered, lambda r: r.tokens, CONTEXT_RANGE))
    if context is None:
        wide = [group for group in groups if len({r.batch for r in group}) > 1]
        if len(wide) > 1:
            problem = f"missing; the files hold decode steps at contexts of {_contexts(steps)} tokens: choose one"
            raise InputError(Fault("--context", "", problem))
        return ordered if len(groups) == 1 else [r for group in wide for r in group]
    near = [r for r in ordered if context / CONTEXT_RANGE <= r.tokens <= context * CONTEXT_RANGE]
    if not near:
        raise InputError(
            Fault("--context", "", f"no decode step is near it; there are {_contexts(steps)} tokens", context)
        )
    return near


def _contexts(steps: Sequence[Reading]) -> str:
    ordered = sorted(steps, key=lambda r: r.tokens)
    return ", ".join(f"{median(r.tokens for r in g):,.0f}" for g in bins(ordered, lambda r: r.tokens, CONTEXT_RANGE))


def _never_falling(points: Sequence[Point]) -> tuple[list[Point], list[Flag]]:
    """Average neighbours whose step times fall (isotonic regression by pooling)."""
    pools: list[list[Point]] = []
    for point in points:
        pools.append([point])
        while len(pools) > 1 and _mean(pools[-1]) < _mean(pools[-2]):
            pools[-2:] = [pools[-2] + pools[-1]]
    flags = [
        Flag(
            ", ".join(dict.fromkeys(file for p in pool for file in p.files)),
            f"steps fell from batch {pool[0].x} to {pool[-1].x} and are averaged",
        )
        for pool in pools
        if len(pool) > 1
    ]
    return [replace(p, seconds=_mean(pool)) for pool in pools for p in pool], flags


def _mean(pool: Sequence[Point]) -> float:
    return sum(p.seconds for p in pool) / len(pool)

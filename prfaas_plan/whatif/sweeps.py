"""What if: sweeps over any path of a scenario, one input at a time, inputs in doubt, and the best trade-offs."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from pathlib import Path
from types import MappingProxyType
from typing import Any

from prfaas_plan.errors import Fault, InfeasibleError, InputError
from prfaas_plan.laws import LogNormal
from prfaas_plan.scenario import Scenario, as_scenario
from prfaas_plan.whatif.cases import METRICS, exact_rows
from prfaas_plan.whatif.inputs import Inputs
from prfaas_plan.whatif.record import MonteCarlo, SweepResult, Tornado, price_hint, smaller_is_better
from prfaas_plan.whatif.vary import Axis, Design, Distribution, read_axes, read_distribution

__all__ = ["MonteCarlo", "SweepResult", "Tornado", "monte_carlo", "pareto", "sweep", "tornado"]

Folders = Sequence[str | Path]
Progress = Callable[[int, int], None]

_CHUNK = 2000
MOST_DRAWS = 1_000_000
MOST_EXACT = 2_000_000
"""Cases that are planned one by one; more would take hours and tens of gigabytes."""


def sweep(
    scenario: Scenario | str | Path,
    vary: Sequence[str],
    *,
    mode: str = "grid",
    fast: bool = False,
    executor: Executor | None = None,
    progress: Progress | None = None,
    profiles: Folders = (),
) -> SweepResult:
    """Plan every combination of varied values: ``PATH=a,b,c``, ``start:stop:count`` or ``start:stop:count:log``.

    Each row equals the plan of its case exactly. With `fast`, NumPy evaluates all cases together; that agrees
    to 1e-12 and is meant for a million cases; more than two million need it. An `executor` takes any
    ``concurrent.futures.Executor`` and gives the same rows. `progress` is called with the cases done and the
    cases in all. A case without a plan has its reason under ``error``. Raises `InputError` for a path, value or
    name that is wrong.

    >>> result = sweep("case-study", ["link.0.bandwidth_gbps=10,100"])
    >>> [round(x, 3) for x in result.column("lambda_max_rps")]
    [3.013, 3.248]
    """
    base = as_scenario(scenario)
    return _run(base, read_axes(vary, mode), fast=fast, executor=executor, progress=progress, profiles=profiles)


def _run(
    base: Scenario,
    design: Design,
    *,
    fast: bool = False,
    executor: Executor | None = None,
    progress: Progress | None = None,
    profiles: Folders = (),
) -> SweepResult:
    cases = len(design)
    if cases > MOST_EXACT and not fast:
        raise InputError(Fault("--vary", "", f"{cases:,} cases are more than {MOST_EXACT:,}: give --fast (fast=True)"))
    inputs = Inputs(base, design, profiles)
    size = max(_CHUNK, 200_000 if fast else 0) if executor is None else _chunk_of(cases, executor)
    spans = [(start, min(cases, start + size)) for start in range(0, cases, size)]
    if executor is None:
        parts = (_columns(inputs, *span, fast=fast) for span in spans)
    else:
        futures = [executor.submit(_remote_columns, base, design, profiles, span, fast) for span in spans]
        parts = (future.result() for future in futures)
    columns: dict[str, list[Any]] = {name: [] for name in METRICS}
    for (_, stop), part in zip(spans, parts, strict=True):
        for name in METRICS:
            columns[name].append(part[name])
        if progress is not None:
            progress(stop, cases)
    varied = {axis.path: _axis_values(design, index, inputs) for index, axis in enumerate(design.axes)}
    joined = {name: _joined(pieces) for name, pieces in columns.items()}
    return SweepResult(base.name, tuple(varied), design.mode, MappingProxyType({**varied, **joined}))


def _chunk_of(cases: int, executor: Executor) -> int:
    workers = getattr(executor, "_max_workers", None) or os.cpu_count() or 1
    return max(50, math.ceil(cases / (4 * workers)))


def _remote_columns(base: Scenario, design: Design, profiles: Folders, span: tuple[int, int], fast: bool) -> Any:
    return _columns(Inputs(base, design, profiles), *span, fast=fast)


def _columns(inputs: Inputs, start: int, stop: int, *, fast: bool) -> dict[str, Any]:
    if fast:
        from prfaas_plan.whatif.fast import fast_columns

        return dict(fast_columns(inputs, start, stop))
    rows = exact_rows(inputs, range(start, stop))
    return dict(zip(METRICS, zip(*rows, strict=True), strict=True))


def _joined(pieces: list[Any]) -> Sequence[Any]:
    if isinstance(pieces[0], tuple):
        return tuple(value for piece in pieces for value in piece)
    import numpy as np

    joined: Any = np.concatenate(pieces)
    return joined  # type: ignore[no-any-return]


def _axis_values(design: Design, index: int, inputs: Inputs) -> tuple[Any, ...]:
    values = inputs.knobs[index].values
    if design.mode == "zip":
        return values
    inner = math.prod(len(axis.values) for axis in design.axes[index + 1 :])
    outer = math.prod(len(axis.values) for axis in design.axes[:index])
    return tuple(v for v in values for _ in range(inner)) * outer


def tornado(
    scenario: Scenario | str | Path,
    vary: Sequence[str] = (),
    *,
    metric: str = METRICS[0],
    profiles: Folders = (),
) -> Tornado:
    """Vary one input at a time and say how far a metric moves; without `vary`, every number by 20 %.

    Raises `InputError` as `sweep` does, and for a metric that is unknown or that the scenario does not have;
    `InfeasibleError` where the scenario itself has no plan.

    >>> tornado("case-study", ["link.0.bandwidth_gbps=50,200", "workload.output_tokens=512,2048"]).bars[0]["input"]
    'workload.output_tokens'
    """
    base = as_scenario(scenario)
    axes = read_axes(vary).axes if vary else tuple(_by_a_fifth(base))
    start = _as_it_is(base, metric, profiles)
    bars, left_out = [], []
    for axis in axes:
        result = _run(base, Design((axis,)), profiles=profiles)
        failures = zip(result.column(axis.path), result.column("error"), strict=True)
        left_out += [f"{axis.path} = {value}: {error}" for value, error in failures if error]
        found = [(v, result.column(axis.path)[i]) for i, v in enumerate(result.column(metric)) if v is not None]
        if found:
            (low, at_low), (high, at_high) = min(found, key=lambda f: f[0]), max(reversed(found), key=lambda f: f[0])
            values = {"input": axis.path, "low": low, "at_low": at_low, "high": high, "at_high": at_high}
            bars.append(MappingProxyType({**values, "swing": high - low}))
    bars.sort(key=lambda bar: -bar["swing"])
    return Tornado(base.name, metric, start, tuple(bars), tuple(left_out))


def _as_it_is(base: Scenario, metric: str, profiles: Folders) -> Any:
    alone = _run(base, Design(()), profiles=profiles)
    value, error = alone.numbers(metric)[0], alone.column("error")[0]
    if error is not None:
        raise InfeasibleError(error.removeprefix("no feasible plan: "))
    if value is None:
        raise InputError(Fault("sweep", metric, "the scenario has no such number" + price_hint(metric)))
    return value


def _by_a_fifth(base: Scenario) -> Iterator[Axis]:
    for index, cluster in enumerate(base.cluster):
        if cluster.max is None:
            step = max(1, round(0.2 * cluster.instances))
            name = cluster.name if cluster.name.isidentifier() else str(index)
            yield Axis(f"cluster.{name}.instances", (max(0, cluster.instances - step), cluster.instances + step))
    for index, link in enumerate(base.link):
        if math.isfinite(link.bandwidth_gbps) and link.bandwidth_gbps > 0.0:
            yield Axis(f"link.{index}.bandwidth_gbps", (0.8 * link.bandwidth_gbps, 1.2 * link.bandwidth_gbps))
    workload = base.workload
    if workload is not None:
        yield Axis("workload.output_tokens", (0.8 * workload.output_tokens, 1.2 * workload.output_tokens))
        if isinstance(workload.law, LogNormal):
            fifth = math.log(1.2)
            yield Axis("workload.input_tokens.mu", (workload.law.mu - fifth, workload.law.mu + fifth))
            yield Axis("workload.input_tokens.sigma", (0.8 * workload.law.sigma, 1.2 * workload.law.sigma))


def monte_carlo(
    scenario: Scenario | str | Path,
    inputs: Sequence[str],
    *,
    samples: int = 1000,
    seed: int = 0,
    fast: bool = False,
    executor: Executor | None = None,
    profiles: Folders = (),
) -> MonteCarlo:
    """Draw inputs from what is believed about them, plan each draw, and give p10, p50 and p90 of rate and cost.

    `inputs` are texts such as ``link.0.bandwidth_gbps=triangular(50, 80, 100)``; see `read_distribution`. One
    seed gives one result. Raises `InputError` for a text that cannot be read, a draw that cannot be, no input or
    one given twice, and more than a million draws.

    >>> found = monte_carlo("case-study", ["workload.output_tokens=uniform(800, 1200)"], samples=50)
    >>> found.percentiles["lambda_max_rps"]["p10"] <= found.percentiles["lambda_max_rps"]["p90"]
    True
    """
    base = as_scenario(scenario)
    beliefs = _beliefs([inputs] if isinstance(inputs, str) else inputs, samples)
    source = random.Random(seed)  # noqa: S311 (a simulation, not a secret)
    draws = [[belief.draw(source) for belief in beliefs] for _ in range(samples)]
    axes = tuple(Axis(b.path, tuple(draw[i] for draw in draws)) for i, b in enumerate(beliefs))
    result = _run(base, Design(axes, "zip"), fast=fast, executor=executor, profiles=profiles)
    percentiles = {}
    for metric in ("lambda_max_rps", "cost_usd_per_hour", "usd_per_million_output_tokens"):
        values = sorted(v for v in result.column(metric) if v is not None)
        if values:
            percentiles[metric] = MappingProxyType({f"p{q}": _percentile(values, q) for q in (10, 50, 90)})
    failed = sum(v is None for v in result.column(METRICS[0]))
    return MonteCarlo(result, seed, MappingProxyType(percentiles), failed)


def _beliefs(inputs: Sequence[str], samples: int) -> list[Distribution]:
    faults = []
    if not 1 <= samples <= MOST_DRAWS:
        faults.append(Fault("--monte-carlo", "", f"expected from 1 to {MOST_DRAWS:,} draws", samples))
    if not inputs:
        faults.append(Fault("--vary", "", "missing; expected an input in doubt: PATH=triangular(low, mode, high)"))
    beliefs = [read_distribution(written) for written in inputs]
    paths = [belief.path for belief in beliefs]
    faults += [Fault("--vary", p, "is varied twice") for p in dict.fromkeys(paths) if paths.count(p) > 1]
    if faults:
        raise InputError(faults)
    return beliefs


def _percentile(values: Sequence[float], q: float) -> float:
    """Interpolate between order statistics, as NumPy does by default."""
    place = q / 100.0 * (len(values) - 1)
    low = math.floor(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def pareto(result: SweepResult, x: str, y: str, *, smaller: Sequence[str] | None = None) -> SweepResult:
    """Keep the cases that no other case beats in both of two results.

    Of prices, times and machines less is better, of all else more; `smaller` names those of the two where less
    is better, where that is not so. Raises `InputError` for a column that is unknown, holds words or is empty.

    >>> result = sweep("case-study", ["cluster.prfaas.instances=1:6:6", "cluster.local.instances=6,8"])
    >>> pareto(result, "gpus", "lambda_max_rps").column("gpus")
    [56, 64, 72, 80, 88, 96, 112]
    """
    signs = [-1.0 if (smaller_is_better(m) if smaller is None else m in smaller) else 1.0 for m in (x, y)]
    pairs = list(zip(result.numbers(x), result.numbers(y), strict=True))
    points = [(signs[0] * a, signs[1] * b, -i) for i, (a, b) in enumerate(pairs) if a is not None and b is not None]
    if not points:
        raise InputError(Fault("--pareto", f"{x},{y}", "no case has both numbers"))
    kept, best = [], -math.inf
    for _, b, i in sorted(points, reverse=True):
        if b > best:
            kept.append(-i)
            best = b
    everything = {name: result.column(name) for name in result.columns}
    kept.sort(key=lambda i: everything[x][i])
    columns = {name: tuple(values[i] for i in kept) for name, values in everything.items()}
    return SweepResult(result.scenario, result.varied, result.mode, MappingProxyType(columns))

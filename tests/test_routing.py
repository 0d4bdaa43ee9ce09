"""The best threshold and split against enumeration of every threshold and every split."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prfaas_plan.laws import Constant, Empirical, Histogram, LengthLaw, LogNormal, Mixture
from prfaas_plan.numerics import Curve
from prfaas_plan.routing import best_split, best_threshold
from prfaas_plan.throughput import DecodePool, PrefillPool, System, operate

LONGEST = 240


def random_law(rng: random.Random) -> LengthLaw:
    kind = rng.choice(["constant", "empirical", "empirical", "lognormal", "histogram", "mixture"])
    if kind == "constant":
        return Constant(rng.randint(2, LONGEST))
    if kind == "empirical":
        return Empirical.of([rng.randint(1, LONGEST) for _ in range(rng.randint(1, 40))])
    if kind == "lognormal":
        return LogNormal(mu=rng.uniform(1.0, 5.0), sigma=rng.uniform(0.2, 2.0), min=2, max=LONGEST)
    if kind == "histogram":
        return Histogram(edges=(1, 20, 60, LONGEST), weights=tuple(rng.uniform(0.05, 1.0) for _ in range(3)))
    return Mixture((0.3, 0.7), (Constant(rng.randint(2, 50)), LogNormal(mu=4.0, sigma=0.7, min=2, max=LONGEST)))


def random_system(rng: random.Random, *, at_mean_length: bool = False) -> System:
    def seconds() -> Curve:
        return Curve.polynomial(rng.uniform(0.0, 1.0), rng.uniform(1e-4, 0.02), rng.choice([0.0, rng.uniform(0, 1e-4)]))

    return System(
        law=random_law(rng),
        output_tokens=rng.uniform(1, 500),
        kv_bytes=Curve.polynomial(rng.uniform(0, 1e8), rng.uniform(1e3, 1e6)),
        link_bytes_per_s=rng.choice([math.inf, 10 ** rng.uniform(6, 11)]),
        remote=PrefillPool("far", "a", 8, rng.randint(1, 5), seconds()),
        local=PrefillPool("near", "b", 8, 0, seconds()),
        decode=DecodePool("near", "b", 8, 0, rng.randint(1, 64), rng.uniform(0.005, 0.1)),
        at_mean_length=at_mean_length,
    )


def enumerate_all(system: System, instances: int) -> float:
    first, last = system.law.support
    best = 0.0
    for prefill in range(instances):
        split = system.split(prefill, instances - prefill)
        for threshold in range(math.ceil(first) - 1, math.ceil(last) + 1):
            best = max(best, operate(split, threshold).max_rate)
    return best


@pytest.mark.parametrize("seed", range(100))
def test_never_worse_than_enumerating_thresholds_and_splits(seed: int) -> None:
    rng = random.Random(seed)
    for at_mean_length in (False, False, False, False, True):
        system = random_system(rng, at_mean_length=at_mean_length)
        instances = rng.randint(1, 3)
        found = best_split(system, instances)[0].max_rate
        expected = enumerate_all(system, instances)
        assert found == pytest.approx(expected, rel=1e-9)


def direct_rate(lengths: np.ndarray, system: System, threshold: int) -> float:
    """Λ_max of a trace by plain sums over its requests, sharing nothing with the package but the coefficients."""
    assert system.remote is not None
    assert system.local is not None

    def total(curve: Curve, chosen: np.ndarray) -> float:
        c0, c1, c2 = curve.pieces[0]
        return float(np.sum(c0 + c1 * chosen + c2 * chosen**2)) / len(lengths)

    long, short = lengths[lengths > threshold], lengths[lengths <= threshold]
    limits = [system.decode.instances * system.decode.batch / (system.decode.step_seconds * system.output_tokens)]
    if len(long):
        limits.append(system.remote.instances / total(system.remote.seconds, long))
        limits.append(system.link_bytes_per_s / total(system.kv_bytes, long))
    if len(short):
        limits.append(system.local.instances / total(system.local.seconds, short))
    return min(limits)


@pytest.mark.parametrize("seed", range(40))
def test_a_trace_against_plain_sums(seed: int) -> None:
    rng = random.Random(1000 + seed)
    lengths = np.array([rng.randint(1, LONGEST) for _ in range(rng.randint(1, 60))], dtype=float)
    from dataclasses import replace

    system = replace(random_system(rng), law=Empirical.of(lengths.astype(int).tolist()))
    instances = rng.randint(1, 4)
    expected = max(
        direct_rate(lengths, system.split(n, instances - n), t) for n in range(instances) for t in range(LONGEST + 1)
    )
    assert best_split(system, instances)[0].max_rate == pytest.approx(expected, rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.floats(1.01, 8.0))
def test_scaling_every_resource_scales_the_rate(seed: int, factor: float) -> None:
    from dataclasses import replace

    system = random_system(random.Random(seed)).split(2, 3)
    assert system.remote is not None
    slower = replace(
        system,
        remote=replace(system.remote, seconds=system.remote.seconds.scaled(1 / factor)),
        local=replace(system.local, seconds=system.local.seconds.scaled(1 / factor)),  # type: ignore[union-attr]
        link_bytes_per_s=system.link_bytes_per_s * factor,
        decode=replace(system.decode, step_seconds=system.decode.step_seconds / factor),
    )
    before = operate(system, best_threshold(system)).max_rate
    after = operate(slower, best_threshold(slower)).max_rate
    assert after == pytest.approx(before * factor, rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000))
def test_more_of_anything_never_hurts(seed: int) -> None:
    from dataclasses import replace

    rng = random.Random(seed)
    system = random_system(rng)
    instances = rng.randint(1, 5)
    rate = best_split(system, instances)[0].max_rate
    assert system.remote is not None
    more_remote = replace(system, remote=replace(system.remote, instances=system.remote.instances + 1))
    more_link = replace(system, link_bytes_per_s=system.link_bytes_per_s * 2)
    for richer, count in ((more_remote, instances), (more_link, instances), (system, instances + 1)):
        assert best_split(richer, count)[0].max_rate >= rate * (1 - 1e-12)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000))
def test_the_rate_is_no_more_than_any_bound_and_uses_no_more_than_there_is(seed: int) -> None:
    rng = random.Random(seed)
    instances = rng.randint(1, 5)
    system = random_system(rng)
    for point in best_split(system, instances):
        own = point.system
        assert own.local is not None
        assert own.local.instances + own.decode.instances == instances
        rate = point.max_rate * (1 - 1e-9)
        assert rate <= point.decode_rate
        if point.prfaas_rate is not None:
            assert rate * point.long_share <= point.prfaas_rate
        if point.local_prefill_rate is not None:
            assert rate * (1 - point.long_share) <= point.local_prefill_rate
        assert point.link_used_bytes_per_s <= system.link_bytes_per_s * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_large_fleets_are_searched_around_the_crossing_and_lose_nothing(seed: int) -> None:
    rng = random.Random(500 + seed)
    system = random_system(rng, at_mean_length=bool(seed % 2))
    instances = rng.randint(40, 70)
    every = max(operate_best(system.split(n, instances - n)) for n in range(instances))
    assert best_split(system, instances)[0].max_rate == pytest.approx(every, rel=1e-9)


def operate_best(system: System) -> float:
    if not system.has_local:
        return operate(system, None).max_rate
    return operate(system, best_threshold(system)).max_rate


def test_a_million_instances_do_not_hang() -> None:
    system = random_system(random.Random(1))
    assert len(best_split(system, 1_000_000)) > 1

"""Time to first token of idle machines against sorting every request of a trace."""

from __future__ import annotations

import random

import numpy as np
import pytest

from prfaas_plan.latency import unloaded_ttft
from prfaas_plan.laws import Constant, Empirical, LogNormal
from prfaas_plan.numerics import Curve
from prfaas_plan.throughput import DecodePool, PrefillPool, System, operate

FAR = PrefillPool("far", "a", 8, 4, Curve.polynomial(0.4, 4e-5, 1e-10))
NEAR = PrefillPool("near", "b", 8, 3, Curve.polynomial(0.5, 13e-5, 3e-10))
DECODE = DecodePool("near", "b", 8, 5, 20, 0.025)
KV = Curve(((1e8, 2e4, 0.0), (1e8 + 2e4 * 4096, 1e4, 0.0)), (4096.0,))


def system(law: Constant | Empirical | LogNormal, link: float = 1.25e9) -> System:
    return System(law, 1024, KV, link, FAR, NEAR, DECODE)


@pytest.mark.parametrize("threshold", [0, 3000, 20_000, 10**6])
def test_percentiles_of_a_trace_are_those_of_its_requests(threshold: int) -> None:
    rng = random.Random(3)
    lengths = [rng.randint(1, 60_000) for _ in range(2001)]
    times = [FAR.seconds(x) + KV(x) / 1.25e9 if x > threshold else NEAR.seconds(x) for x in map(float, lengths)]
    found = unloaded_ttft(operate(system(Empirical.of(lengths)), threshold))
    assert found.mean == pytest.approx(np.mean(times), rel=1e-12)
    for q, value in ((0.5, found.p50), (0.9, found.p90), (0.99, found.p99)):
        assert value == pytest.approx(np.quantile(times, q, method="inverted_cdf"), rel=1e-6)


def test_log_normal_against_a_fine_sample_of_quantiles() -> None:
    law = LogNormal(mu=9.9, sigma=1.0, min=128, max=131072)
    grid = (np.arange(20_000) + 0.5) / 20_000
    lengths = np.array([law.quantile(float(q)) for q in grid[::10]])
    times = np.where(
        lengths > 19_400,
        [FAR.seconds(x) + KV(x) / 1.25e9 for x in lengths],
        [NEAR.seconds(x) for x in lengths],
    )
    found = unloaded_ttft(operate(system(law), 19_400))
    assert found.mean == pytest.approx(times.mean(), rel=2e-3)
    assert found.p90 == pytest.approx(np.quantile(times, 0.9), rel=2e-3)


def test_one_length_has_one_time() -> None:
    found = unloaded_ttft(operate(system(Constant(8000)), None))
    expected = FAR.seconds(8000.0) + KV(8000.0) / 1.25e9
    assert (found.mean, found.p50, found.p99) == pytest.approx((expected, expected, expected))


def test_first_token_comes_later_for_longer_prompts() -> None:
    """1 and 2,048 prompt tokens do not take the same time (inference-sim#489)."""
    times = [unloaded_ttft(operate(system(Constant(length)), None)).mean for length in (1, 64, 512, 2048, 65536)]
    assert times == sorted(set(times))

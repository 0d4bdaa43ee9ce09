"""Transfer times, overlap, the break-even with recomputing, and bursts against a simulation."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prfaas_plan.errors import InfeasibleError, InputError
from prfaas_plan.numerics import Curve
from prfaas_plan.transfer import (
    Bursts,
    buffer_for_overflow,
    cold_start_seconds,
    overlapped_transfer,
    pull_or_recompute,
    rate_for_overflow,
    transfer_seconds,
)
from prfaas_plan.units import GBPS

times = st.floats(0.0, 100.0)


def test_transfer_time_of_one_gigabyte() -> None:
    """1 GB takes 80.8 ms at MTU 9000 with timestamps on 100 Gbit/s, plus half the round trip."""
    assert transfer_seconds(1e9, 0.99 * 100 * GBPS, 0.03) == pytest.approx(0.0808 + 0.015, abs=1e-4)
    assert transfer_seconds(1e9, math.inf, 0.03) == 0.015


@pytest.mark.parametrize(("mss", "round_trips"), [(1460, 14.6), (8960, 12.0)])
def test_cold_connection_costs_log2_of_the_pipe(mss: int, round_trips: float) -> None:
    assert cold_start_seconds(1e10, 100 * GBPS, 0.03, mss) / 0.03 == pytest.approx(round_trips, abs=0.06)


@settings(deadline=None)
@given(st.floats(1.0, 1e10), st.floats(1e5, 1e11), st.floats(1e-4, 0.3), st.integers(1, 100))
def test_cold_start_grows_with_the_transfer_and_shrinks_with_connections(
    size: float, rate: float, rtt: float, connections: int
) -> None:
    extra = cold_start_seconds(size, rate, rtt, 1460)
    assert extra >= rtt * (1 - 1e-9)
    assert cold_start_seconds(2 * size, rate, rtt, 1460) >= extra * (1 - 1e-9)
    assert cold_start_seconds(size, rate, rtt, 1460, connections) <= extra * (1 + 1e-9)


def pipeline(prefill: float, sending: float, layers: int) -> float:
    """Send layer by layer, one after the other, as a loop: the independent computation."""
    free = 0.0
    for layer in range(layers):
        free = max(free, prefill * (layer + 1) / layers) + sending / layers
    return free


@settings(deadline=None)
@given(times, times, st.integers(1, 100))
def test_overlap_equals_the_pipeline_and_the_hidden_part(prefill: float, sending: float, layers: int) -> None:
    result = overlapped_transfer(prefill, sending, 0.02, layers)
    assert result.overlapped_s == pytest.approx(pipeline(prefill, sending, layers) + 0.01)
    assert result.serial_s - result.overlapped_s == pytest.approx(result.hidden_s, abs=1e-9)
    assert result.hidden_s <= min(prefill, sending)


def test_one_layer_hides_nothing() -> None:
    assert overlapped_transfer(2.0, 1.0, 0.0, 1).hidden_s == 0.0


def test_pull_or_recompute_of_32k_tokens() -> None:
    """MLA with 35,136 B a token against a quadratic prefill: both times and both crossings by hand."""
    kv, prefill = Curve.polynomial(0.0, 35136.0), Curve.polynomial(0.01, 5e-5, 1e-9)
    result = pull_or_recompute(32768, kv, prefill, 4 * GBPS, 0.08)
    assert result.transfer_s == pytest.approx(0.04 + 35136 * 32768 / 0.5e9)
    assert result.recompute_s == pytest.approx(0.01 + 5e-5 * 32768 + 1e-9 * 32768**2)
    (crossing,) = result.break_even_tokens
    assert transfer_seconds(kv(crossing), 0.5e9, 0.08) == pytest.approx(prefill(crossing))
    assert transfer_seconds(kv(32768), result.break_even_bytes_per_s, 0.08) == pytest.approx(result.recompute_s)


@settings(deadline=None)
@given(
    st.floats(0.0, 1e8),
    st.floats(1.0, 1e6),
    st.floats(0.0, 1.0),
    st.floats(1e-6, 1e-3),
    st.floats(0.0, 1e-7),
    st.floats(1e6, 1e11),
)
def test_the_faster_way_changes_at_every_crossing(
    fixed: float, per_token: float, start: float, linear: float, quadratic: float, rate: float
) -> None:
    kv, prefill = Curve.polynomial(fixed, per_token), Curve.polynomial(start, linear, quadratic)
    crossings = pull_or_recompute(1000.0, kv, prefill, rate, 0.05).break_even_tokens
    ends = [0.0, *crossings, 1e7]
    ways = [
        pull_or_recompute(math.sqrt(max(a, 1e-3) * b), kv, prefill, rate, 0.05).faster
        for a, b in pairwise(ends)
        if b > a * 1.001 and b > 1.0
    ]
    assert len(ways) < len(ends) - 1 or all(x != y for x, y in pairwise(ways))


def test_recomputing_below_half_a_round_trip_never_breaks_even() -> None:
    result = pull_or_recompute(10.0, Curve.polynomial(0.0, 1.0), Curve.polynomial(0.001), 1e9, 0.1)
    assert result.faster == "recompute"
    assert result.to_dict()["break_even_gbps"] is None


def backlog_share_above(bursts: Bursts, rate: float, buffer: float, arrivals: int) -> float:
    """Simulate the backlog that transfers find, by Lindley's recursion in closed form."""
    rng = np.random.default_rng(7)
    weights = np.array(bursts.weights) / sum(bursts.weights)
    sizes = rng.choice(np.array(bursts.sizes_bytes), arrivals, p=weights)
    shape = 1.0 / bursts.arrival_cv**2
    gaps = rng.gamma(shape, 1.0 / (shape * bursts.arrivals_per_s), arrivals)
    walk = np.concatenate([[0.0], np.cumsum(sizes - rate * gaps)])
    backlog = walk - np.minimum.accumulate(walk)
    return float(np.mean(backlog > buffer))


@pytest.mark.parametrize("cv", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("probability", [0.05, 0.005])
def test_rate_for_overflow_holds_in_a_simulation(cv: float, probability: float) -> None:
    bursts = Bursts(10.0, (50e6, 200e6, 900e6), (0.7, 0.2, 0.1), cv)
    rate = rate_for_overflow(bursts, 2e9, probability)
    share = backlog_share_above(bursts, rate, 2e9, 1_000_000)
    assert 0.25 * probability < share < 1.05 * probability


def test_poisson_exponential_sizes_match_the_exact_tail() -> None:
    """M/M/1: P(W > x) = rho·exp(-(mu - lambda)x); the bound drops the factor rho."""
    sizes = -np.log(1.0 - (np.arange(4000) + 0.5) / 4000)
    bursts = Bursts(0.8, tuple(sizes), (1.0,) * 4000)
    assert buffer_for_overflow(bursts, 1.0, 1e-3) == pytest.approx(math.log(1e3) / 0.2, rel=0.01)


@settings(deadline=None)
@given(st.floats(0.1, 50.0), st.floats(0.3, 3.0), st.floats(1e-6, 0.5), st.floats(1e6, 1e10))
def test_buffer_and_rate_are_inverses(arrivals: float, cv: float, probability: float, buffer: float) -> None:
    bursts = Bursts(arrivals, (1e7, 3e8), (0.9, 0.1), cv)
    rate = rate_for_overflow(bursts, buffer, probability)
    assert rate >= bursts.mean_rate
    if math.isfinite(rate) and rate > bursts.mean_rate * 1.001:
        assert buffer_for_overflow(bursts, rate, probability) == pytest.approx(buffer, rel=1e-6)


def test_a_link_below_the_mean_has_no_buffer() -> None:
    with pytest.raises(InfeasibleError, match="fills without end"):
        buffer_for_overflow(Bursts(10.0, (1e8,), (1.0,)), 1e9, 0.01)


def test_faults() -> None:
    with pytest.raises(InputError, match="probability"):
        rate_for_overflow(Bursts(-1.0, (1e8,), (1.0, 2.0)), 0.0, 1.5)
    with pytest.raises(InputError, match="rtt_s"):
        transfer_seconds(1.0, 1.0, -1.0)
    with pytest.raises(InputError, match="layers"):
        overlapped_transfer(1.0, 1.0, 0.0, 0)

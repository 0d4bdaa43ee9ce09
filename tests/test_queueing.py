"""Waiting against closed forms and against a small event simulation of its own."""

from __future__ import annotations

import heapq
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prfaas_plan.arrivals import GAP_LAWS, Parallel, delay_probability, gap_phases
from prfaas_plan.decode_slots import DecodeSlots, decode_admission, decode_at_load
from prfaas_plan.erlang import (
    closed_loop,
    erlang_b,
    erlang_c,
    mean_wait_md1,
    mean_wait_mg1,
    mean_wait_mmc,
)
from prfaas_plan.errors import InfeasibleError, InputError
from prfaas_plan.laws import Constant, LogNormal
from prfaas_plan.numerics import Curve
from prfaas_plan.pool_wait import allen_cunneen
from prfaas_plan.queueing import (
    Arrivals,
    ServiceTimes,
    largest_rate,
    mixed_response,
    response,
    wait_in_pool,
)

# --- closed forms -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("servers", "offered", "published"),
    # Erlang B tables of any teletraffic text: offered traffic at which the blocking is 1 %.
    [(1, 0.0101, 0.01), (5, 1.36, 0.01), (10, 4.46, 0.01), (20, 12.03, 0.01), (100, 84.1, 0.01)],
)
def test_erlang_b_table(servers: int, offered: float, published: float) -> None:
    assert erlang_b(servers, offered) == pytest.approx(published, rel=0.01)


def test_erlang_b_equals_the_definition() -> None:
    for servers, offered in [(1, 0.5), (7, 6.0), (30, 25.0)]:
        terms = [offered**n / math.factorial(n) for n in range(servers + 1)]
        assert erlang_b(servers, offered) == pytest.approx(terms[-1] / sum(terms), rel=1e-12)


def test_erlang_c_of_ten_thousand_servers() -> None:
    """In the square-root regime P(wait) -> 1 / (1 + β·Φ(β)/φ(β)) (Halfin and Whitt 1981)."""
    servers, beta = 10_000, 1.0
    density, below = math.exp(-0.5 * beta**2) / math.sqrt(2 * math.pi), 0.5 * math.erfc(-beta / math.sqrt(2))
    expected = 1.0 / (1.0 + beta * below / density)
    assert erlang_c(servers, servers - beta * math.sqrt(servers)) == pytest.approx(expected, rel=0.01)


def test_waits_of_textbook_queues() -> None:
    assert mean_wait_mmc(0.9, 1.0, 1) == pytest.approx(9.0)
    assert mean_wait_mg1(0.9, 1.0, 2.0) == pytest.approx(0.9 * 5.0 / 0.2)
    assert mean_wait_md1(0.9, 1.0) == pytest.approx(4.5)


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 200), st.floats(0.01, 0.99))
def test_poisson_phases_give_erlang_c(servers: int, load: float) -> None:
    found, _ = delay_probability(Parallel((1.0,), (load * servers,)), 1.0, servers)
    assert found == pytest.approx(erlang_c(servers, load * servers), rel=1e-6, abs=1e-12)


@settings(deadline=None, max_examples=50)
@given(st.floats(0.05, 0.97), st.floats(0.01, 2.0))
def test_one_server_with_poisson_arrivals_is_pollaczek_khinchine(load: float, cv: float) -> None:
    times = ServiceTimes.lognormal(2.0, cv)
    wait = wait_in_pool(Arrivals(load / 2.0), times, 1)
    assert wait.mean_s == pytest.approx(mean_wait_mg1(load / 2.0, 2.0, times.cv), rel=1e-9)
    assert wait.probability == pytest.approx(load, rel=1e-6)


def exponential_times() -> ServiceTimes:
    edges = np.array([-math.log1p(-x) for x in np.linspace(0.0, 1.0, 401)[:-1]] + [math.inf])
    partial = [0.0 if math.isinf(e) else (1.0 + e) * math.exp(-e) for e in edges]
    weights = [0.0025] * 400
    points = [(a - b) / 0.0025 for a, b in pairwise(partial)]
    return ServiceTimes(tuple(points), tuple(weights), tuple(edges))


@pytest.mark.parametrize("servers", [1, 3, 16, 64])
@pytest.mark.parametrize("load", [0.5, 0.9])
def test_exponential_service_is_m_m_c(servers: int, load: float) -> None:
    wait = wait_in_pool(Arrivals(load * servers), exponential_times(), servers)
    assert wait.mean_s == pytest.approx(mean_wait_mmc(load * servers, 1.0, servers), rel=0.02)
    exact = -math.log(0.01 / wait.probability) / (servers * (1.0 - load)) if wait.probability > 0.01 else 0.0
    assert wait.quantile(0.99) == pytest.approx(exact, rel=0.02, abs=1e-12)


@pytest.mark.parametrize("cv", [1.5, 3.0])
def test_gi_m_1_has_an_exponential_wait(cv: float) -> None:
    """GI/M/1: P(wait) = σ with σ = A*(μ(1 - σ)) of gamma gaps, mean wait σ / (μ(1 - σ))."""
    shape, sigma = 1.0 / cv**2, 0.5
    for _ in range(100_000):
        sigma = (1.0 + (1.0 - sigma) / (0.8 * shape)) ** -shape
    wait = wait_in_pool(Arrivals(0.8, cv), exponential_times(), 1)
    assert wait.probability == pytest.approx(sigma, rel=1e-3)
    assert wait.mean_s == pytest.approx(sigma / (1.0 - sigma), rel=0.01)


@pytest.mark.parametrize("law", GAP_LAWS)
@pytest.mark.parametrize("cv", [0.0, 0.3, 0.8, 1.0, 1.01, 2.0, 4.0])
def test_phases_keep_mean_and_variation_of_the_gaps(law: str, cv: float) -> None:
    phases = gap_phases(Arrivals(2.5, cv, law), 3.0)
    slopes = [phases.transform(s) for s in (0.0, 1e-4, 2e-4)]
    mean = -(slopes[1] - slopes[0]) / 1e-4 - (slopes[0] - 2 * slopes[1] + slopes[2]) / -2e-4
    assert mean == pytest.approx(0.4, rel=1e-3)
    if isinstance(phases, Parallel):
        first, second, _ = phases.moments()
        assert second / first**2 - 1.0 == pytest.approx(cv**2, rel=1e-6)


def test_transforms_of_gaps_against_integrals() -> None:
    from scipy import integrate, stats

    weibull = stats.weibull_min(0.5, scale=0.5)  # mean 1, CV sqrt(5)
    lognormal = stats.lognorm(math.sqrt(math.log(5.0)), scale=1.0 / math.sqrt(5.0))  # mean 1, CV 2
    gamma = stats.gamma(0.25, scale=4.0)  # mean 1, CV 2
    for law, cv, oracle in (("weibull", 5**0.5, weibull), ("lognormal", 2.0, lognormal), ("gamma", 2.0, gamma)):
        for s in (0.01, 0.3, 5.0):
            exact, _ = integrate.quad(lambda u, s=s, o=oracle: math.exp(-s * o.ppf(u)), 0.0, 1.0, limit=500)
            assert Arrivals(1.0, cv, law).transform(s) == pytest.approx(exact, rel=1e-5)


def test_heavy_traffic_of_one_server() -> None:
    """G/G/1 near saturation: mean wait -> (ca² + cs²)/2 · S/(1 - ρ) (Kingman 1961)."""
    times = ServiceTimes.lognormal(1.0, 1.5)
    wait = wait_in_pool(Arrivals(0.995, 2.0), times, 1)
    assert wait.mean_s == pytest.approx(0.5 * (4.0 + times.cv**2) / 0.005, rel=0.02)


# --- an independent event simulation ----------------------------------------------------------------------------


def simulate(case: tuple[int, float, float, float], requests: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Simulate a first-come-first-served pool request by request: waits and services after a warm-up."""
    servers, load, arrival_cv, service_cv = case
    rng = np.random.default_rng(seed)
    gaps = rng.gamma(1.0 / arrival_cv**2, arrival_cv**2 / (load * servers), requests)
    sigma = math.sqrt(math.log1p(service_cv**2))
    services = rng.lognormal(-0.5 * sigma**2, sigma, requests) if service_cv else np.ones(requests)
    if servers == 1:
        walk = np.concatenate([[0.0], np.cumsum(services[:-1] - gaps[1:])])
        waits = walk - np.minimum.accumulate(walk)
    else:
        free, now, waits = [0.0] * servers, 0.0, np.empty(requests)
        for n, (gap, service) in enumerate(zip(gaps.tolist(), services.tolist(), strict=True)):
            now += gap
            start = max(now, free[0])
            heapq.heapreplace(free, start + service)
            waits[n] = start - now
    kept = slice(requests // 10, None)
    return waits[kept], services[kept]


CASES = [
    # servers, load, arrival CV, service CV
    (1, 0.3, 3.0, 1.0),
    (1, 0.6, 0.5, 1.0),
    (1, 0.9, 1.0, 0.0),
    (1, 0.9, 2.0, 1.0),
    (2, 0.6, 3.0, 2.0),
    (4, 0.8, 2.0, 1.0),
    (4, 0.6, 0.5, 2.0),
    (16, 0.6, 3.0, 0.0),
    (16, 0.9, 1.0, 2.0),
    (64, 0.9, 2.0, 1.0),
    (64, 0.8, 3.0, 2.0),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_loaded_response_against_simulation(case: tuple[int, float, float, float]) -> None:
    """Mean within 10 % and p90 within 15 %; benchmarks/queueing_accuracy.py has the whole grid."""
    servers, load, arrival_cv, service_cv = case
    waits, services = simulate(case, 2_000_000 if servers == 1 else 400_000, seed=3)
    times = ServiceTimes.lognormal(1.0, service_cv)
    found = response(wait_in_pool(Arrivals(load * servers, arrival_cv), times, servers), times)
    assert found.limits == ()
    assert found.mean == pytest.approx((waits + services).mean(), rel=0.10)
    assert found.p90 == pytest.approx(np.percentile(waits + services, 90), rel=0.15)


def test_the_textbook_formula_would_not_do() -> None:
    waits, _ = simulate((1, 0.3, 3.0, 1.0), 1_000_000, seed=4)
    assert allen_cunneen(Arrivals(0.3, 3.0), ServiceTimes.lognormal(1.0, 1.0), 1) < 0.6 * waits.mean()


@pytest.mark.parametrize(
    ("case", "exact"),
    [
        ((1, 0.8, 1.0, 0.0), mean_wait_md1(0.8, 1.0)),
        ((1, 0.7, 1.0, 1.5), mean_wait_mg1(0.7, 1.0, 1.5)),
        ((1, 0.6, 1.0, 0.5), mean_wait_mg1(0.6, 1.0, 0.5)),
    ],
)
def test_closed_forms_lie_in_the_interval_of_the_simulation(
    case: tuple[int, float, float, float], exact: float
) -> None:
    means = np.array([simulate(case, 200_000, seed)[0].mean() for seed in range(12)])
    assert abs(means.mean() - exact) < 3.0 * means.std(ddof=1) / math.sqrt(12)


def points_of(sample: np.ndarray) -> ServiceTimes:
    chunks = np.array_split(np.sort(sample), 200)
    weights = tuple(len(chunk) / len(sample) for chunk in chunks)
    return ServiceTimes(tuple(float(chunk.mean()) for chunk in chunks), weights)


@pytest.mark.parametrize(("servers", "law"), [(8, "gamma"), (8, "lognormal"), (32, "weibull")])
def test_other_laws_of_gaps_with_gamma_service_of_a_cv_of_two(servers: int, law: str) -> None:
    rng = np.random.default_rng(6)
    gaps = {
        "gamma": lambda: rng.gamma(1 / 9, 9.0, 500_000),
        "lognormal": lambda: rng.lognormal(-0.5 * math.log(10.0), math.sqrt(math.log(10.0)), 500_000),
        "weibull": lambda: rng.weibull(0.5, 500_000) / 2.0,
    }[law]() / (0.6 * servers)
    services = rng.gamma(0.25, 4.0, 500_000)
    free, now, total = [0.0] * servers, 0.0, np.empty(500_000)
    for n, (gap, service) in enumerate(zip(gaps.tolist(), services.tolist(), strict=True)):
        now += gap
        start = max(now, free[0])
        heapq.heapreplace(free, start + service)
        total[n] = start + service - now
    times = points_of(services)
    cv = math.sqrt(5.0) if law == "weibull" else 3.0
    found = response(wait_in_pool(Arrivals(0.6 * servers, cv, law), times, servers), times)
    assert found.mean == pytest.approx(total.mean(), rel=0.10)
    assert found.p90 == pytest.approx(np.percentile(total, 90), rel=0.15)


def test_a_random_share_of_a_bursty_stream() -> None:
    """Every gap of the picked requests is a geometric number of gaps."""
    rng = np.random.default_rng(4)
    times = np.cumsum(rng.gamma(1 / 9, 9.0, 4_000_000))
    picked = np.diff(times[rng.random(len(times)) < 0.3])
    stream = Arrivals(1.0, 3.0).thinned(0.3)
    assert 1.0 / stream.rate_per_s == pytest.approx(picked.mean(), rel=0.01)
    assert stream.square == pytest.approx((picked.std() / picked.mean()) ** 2, rel=0.02)
    assert stream.transform(0.5) == pytest.approx(np.exp(-0.5 * picked).mean(), rel=0.01)


def test_the_length_law_of_the_case_study() -> None:
    """Truncated log-normal lengths through a quadratic prefill time, three servers at a load of 0.9."""
    law, seconds = LogNormal(9.9, 1.0, 128, 131072), Curve.polynomial(0.35, 5.6e-5, 1.1e-9)
    times = ServiceTimes.of(law, seconds, low=19400.0)
    rng = np.random.default_rng(8)
    lengths = np.exp(rng.normal(9.9, 1.0, 1_400_000))
    lengths = lengths[(lengths > 19400.0) & (lengths <= 131072.0)][:400_000]
    services = 0.35 + 5.6e-5 * lengths + 1.1e-9 * lengths**2
    assert times.mean == pytest.approx(services.mean(), rel=0.005)
    free, now, waits = [0.0] * 3, 0.0, []
    gaps = rng.exponential(times.mean / (3 * 0.9), len(services))
    for gap, service in zip(gaps.tolist(), services.tolist(), strict=True):
        now += gap
        start = max(now, free[0])
        heapq.heapreplace(free, start + service)
        waits.append(start - now)
    total = np.array(waits) + services
    found = response(wait_in_pool(Arrivals(3 * 0.9 / times.mean), times, 3), times)
    assert found.mean == pytest.approx(total.mean(), rel=0.05)
    assert [found.p50, found.p90, found.p99] == pytest.approx(np.percentile(total, [50, 90, 99]), rel=0.08)


def simulate_users(users: int, think: float, servers: int, requests: int) -> tuple[float, float]:
    """Simulate the closed loop with uniform think times: throughput and mean response."""
    rng = np.random.default_rng(11)
    asks = [(t, n) for n, t in enumerate(rng.uniform(0.0, 2.0 * think, users).tolist())]
    heapq.heapify(asks)
    thinks, works = rng.uniform(0.0, 2.0 * think, requests).tolist(), rng.exponential(1.0, requests).tolist()
    free, total = [0.0] * servers, 0.0
    for n in range(requests):
        now, user = asks[0]
        start = max(now, free[0])
        end = start + works[n]
        heapq.heapreplace(free, end)
        total += end - now
        heapq.heapreplace(asks, (end + thinks[n], user))
    return requests / max(free), total / requests


@pytest.mark.parametrize(("users", "think", "servers"), [(5, 4.0, 1), (20, 10.0, 2), (60, 8.0, 6)])
def test_closed_loop_against_simulation(users: int, think: float, servers: int) -> None:
    found = closed_loop(users, think, 1.0, servers)
    rate, seconds = simulate_users(users, think, servers, 300_000)
    assert found.throughput_rps == pytest.approx(rate, rel=0.01)
    assert found.response_s == pytest.approx(seconds, rel=0.02)


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 300), st.floats(0.0, 50.0), st.floats(0.01, 10.0), st.integers(1, 64))
def test_closed_loop_obeys_the_laws(users: int, think: float, service: float, servers: int) -> None:
    found = closed_loop(users, think, service, servers)
    assert found.throughput_rps * (found.response_s + think) == pytest.approx(users)
    assert found.throughput_rps <= min(users / (think + service), servers / service) * (1.0 + 1e-9)
    assert found.response_s >= service * (1.0 - 1e-9)


# --- properties of the response ---------------------------------------------------------------------------------

loads, cvs = st.floats(0.05, 0.95), st.floats(0.0, 3.0)


@settings(deadline=None, max_examples=50)
@given(loads, cvs, st.floats(0.0, 2.0), st.integers(1, 100))
def test_quantiles_are_in_order_and_above_the_service(load: float, cv: float, service_cv: float, servers: int) -> None:
    times = ServiceTimes.lognormal(1.0, service_cv)
    wait = wait_in_pool(Arrivals(load * servers, cv), times, servers)
    found = response(wait, times)
    assert 0.0 <= wait.probability <= 1.0
    assert found.p50 <= found.p90 <= found.p99
    assert found.mean >= times.mean
    steps = [wait.survival(x * max(wait.mean_s, 0.01) / 4.0) for x in range(60)]
    assert all(a >= b - 1e-12 and 0.0 <= b <= 1.0 for a, b in pairwise(steps))


@settings(deadline=None, max_examples=50)
@given(loads, st.floats(1.0, 3.0), st.floats(0.2, 2.0), st.integers(1, 32))
def test_more_load_waits_longer(load: float, cv: float, service_cv: float, servers: int) -> None:
    times = ServiceTimes.lognormal(1.0, service_cv)
    calm = wait_in_pool(Arrivals(0.9 * load * servers, cv), times, servers)
    busy = wait_in_pool(Arrivals(load * servers, cv), times, servers)
    assert busy.mean_s >= calm.mean_s * (1.0 - 1e-6)


def test_the_wait_vanishes_with_the_load() -> None:
    times = ServiceTimes.of(LogNormal(9.9, 1.0, 128, 131072), Curve.polynomial(0.3, 6e-5, 1e-9))
    found = response(wait_in_pool(Arrivals(1e-9), times, 4), times)
    assert found.mean == pytest.approx(times.mean)
    law = LogNormal(9.9, 1.0, 128, 131072)
    for q, value in ((0.5, found.p50), (0.9, found.p90), (0.99, found.p99)):
        length = law.quantile(q)
        assert value == pytest.approx(0.3 + 6e-5 * length + 1e-9 * length**2, rel=0.02)


def test_service_times_of_a_law() -> None:
    law, seconds = LogNormal(9.9, 1.0, 128, 131072), Curve.polynomial(0.3, 6e-5, 1e-9)
    times = ServiceTimes.of(law, seconds)
    assert times.mean == pytest.approx(law.expect(seconds), rel=1e-12)
    long = ServiceTimes.of(law, seconds, low=19400.0)
    assert long.mean == pytest.approx(law.expect(seconds, 19400.0) / law.share(19400.0), rel=1e-9)
    assert ServiceTimes.of(Constant(8000.0), seconds).seconds == pytest.approx((seconds(8000.0),))


def test_first_residual_against_numbers() -> None:
    """The least of c residual services, by sampling a random point of a random service weighted with its length."""
    rng = np.random.default_rng(5)
    seconds, weights = np.array([1.0, 2.0, 8.0]), np.array([0.5, 0.3, 0.2])
    share = seconds * weights / (seconds * weights).sum()
    least = (rng.choice(seconds, (200_000, 3), p=share) * rng.random((200_000, 3))).min(axis=1)
    first, second = ServiceTimes(tuple(seconds), tuple(weights)).first_residual(3)
    assert first == pytest.approx(least.mean(), rel=0.01)
    assert second == pytest.approx((least**2).mean(), rel=0.02)


def test_two_pools_mix_by_share() -> None:
    slow, fast = ServiceTimes.lognormal(4.0, 0.5), ServiceTimes.lognormal(1.0, 0.5)
    one, two = wait_in_pool(Arrivals(1.5), slow, 8), wait_in_pool(Arrivals(4.0), fast, 8)
    found = mixed_response([(0.3, one, slow), (0.7, two, fast)])
    assert found.mean == pytest.approx(0.3 * response(one, slow).mean + 0.7 * response(two, fast).mean)
    rng = np.random.default_rng(2)
    picks = [rng.choice(t.seconds, 300_000, p=np.array(t.weights) / sum(t.weights)) for t in (slow, fast)]
    late = [
        (rng.random(300_000) < w.probability) * rng.exponential(w.mean_s / w.probability, 300_000) for w in (one, two)
    ]
    mixed = np.where(rng.random(300_000) < 0.3, picks[0] + late[0], picks[1] + late[1])
    assert found.p90 == pytest.approx(np.percentile(mixed, 90), rel=0.03)


# --- targets ----------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 32), st.floats(1.3, 10.0), st.sampled_from([None, 0.5, 0.9]))
def test_largest_rate_sits_on_the_target(servers: int, factor: float, quantile: float | None) -> None:
    times = ServiceTimes.lognormal(2.0, 0.8)
    alone = response(wait_in_pool(Arrivals(1e-9), times, servers), times)
    target = factor * {None: alone.mean, 0.5: alone.p50, 0.9: alone.p90}[quantile]
    found = largest_rate(Arrivals(1.0, 1.5), times, servers, target, quantile)
    if found.load_fraction < 0.9998:
        assert found.value_s == pytest.approx(target, rel=1e-3)
    assert found.value_s <= target * 1.001


@pytest.mark.parametrize("servers", [1, 8, 10_000])
def test_a_target_below_the_service_time_is_infeasible_for_any_fleet(servers: int) -> None:
    with pytest.raises(InfeasibleError) as caught:
        largest_rate(Arrivals(1.0), ServiceTimes.constant(3.0), servers, target_s=2.9)
    assert "no number of servers" in caught.value.binding
    assert "tensor parallelism" in caught.value.relaxation
    assert "at least 3 s" in caught.value.relaxation


def test_time_to_first_token_includes_the_transfer_but_the_server_does_not() -> None:
    prefill, first_token = ServiceTimes.constant(2.0), ServiceTimes.constant(2.5)
    found = largest_rate(Arrivals(1.0), prefill, 4, 3.0, None, first_token)
    assert found.rate_rps == pytest.approx(largest_rate(Arrivals(1.0), prefill, 4, 2.5, None).rate_rps)


def test_an_overloaded_pool_is_infeasible_and_says_what_would_do() -> None:
    with pytest.raises(InfeasibleError, match="at least 6 servers, or less than 2 req/s"):
        wait_in_pool(Arrivals(2.5), ServiceTimes.constant(2.0), 4)


def test_outside_the_checked_range_there_is_a_warning() -> None:
    wait = wait_in_pool(Arrivals(95.0, 4.0), ServiceTimes.lognormal(1.0, 2.5), 100)
    assert len(wait.limits) == 4
    assert all("not checked" in note for note in wait.limits)
    assert wait.to_dict()["limits"] == list(wait.limits)


def test_every_fault_is_told_at_once() -> None:
    with pytest.raises(InputError) as caught:
        wait_in_pool(Arrivals(-1.0, -2.0, "gama"), ServiceTimes((2.0, 1.0), (0.5, 0.5)), 0)
    text = str(caught.value)
    for key in ("rate_per_s", "arrival_cv", "did you mean 'gamma'", "service", "servers"):
        assert key in text
    with pytest.raises(InputError, match="users"):
        closed_loop(0, 1.0, 1.0, 1)


# --- decode admission -------------------------------------------------------------------------------------------


def test_arriving_transfers_take_decode_memory() -> None:
    """Kimi-K2.5 with FP8 KV: 35,136 B a token, sequences up to 9,174 tokens, 286 MB a hand-over of 8,150 tokens."""
    per_sequence = 35136.0 * 9174
    hand_over = 35136.0 * 8150
    assert hand_over == pytest.approx(286e6, rel=0.002)
    assert per_sequence / 2**30 == pytest.approx(0.30, abs=0.005)
    alone = DecodeSlots(4, 512, 100e9, per_sequence, decode_s=20.0)
    shared = DecodeSlots(4, 512, 100e9, per_sequence, decode_s=20.0, transfer_s=1.0)
    without, with_arrivals = decode_admission(alone, 10.0), decode_admission(shared, 10.0)
    assert without.batch == math.floor(100e9 / per_sequence)
    assert with_arrivals.batch == math.floor(without.batch * 20.0 / 21.0)
    assert with_arrivals.limited_by == "memory"
    assert with_arrivals.arriving_bytes == pytest.approx(10.0 * per_sequence)


def test_slots_wait_and_lose_as_erlang() -> None:
    found = decode_admission(DecodeSlots(2, 8, 1e12, 1e9, decode_s=10.0), 1.4)
    assert (found.slots, found.limited_by) == (16, "batch")
    assert found.wait_probability == pytest.approx(erlang_c(16, 14.0))
    assert found.loss_probability == pytest.approx(erlang_b(16, 14.0))
    assert found.wait_s == pytest.approx(mean_wait_mmc(1.4, 10.0, 16))


def test_sequences_of_varying_size_leave_room() -> None:
    rng = np.random.default_rng(1)
    slots = DecodeSlots(1, 1000, 100e9, 1e9, 10.0, kv_cv=0.5, overflow_probability=0.05)
    batch = decode_admission(slots, 0.1).batch
    sizes = rng.gamma(4.0, 0.25e9, (20_000, batch)).sum(axis=1)
    assert np.mean(sizes > 100e9) == pytest.approx(0.04, abs=0.015)


def test_decode_that_does_not_fit_or_keep_up() -> None:
    with pytest.raises(InfeasibleError, match="holds no sequence"):
        decode_admission(DecodeSlots(1, 8, 1e9, 2e9, 10.0), 0.1)
    with pytest.raises(InfeasibleError, match="decode slots"):
        decode_admission(DecodeSlots(1, 8, 1e12, 1e9, 10.0), 1.0)


@settings(deadline=None)
@given(st.floats(0.0, 0.999), st.floats(10.0, 4000.0), st.floats(1e-3, 0.1), st.floats(0.0, 1e-3), st.integers(1, 512))
def test_decode_at_load_obeys_littles_law(
    share: float, output: float, fixed: float, slope: float, batch_max: int
) -> None:
    def step(batch: float) -> float:
        return fixed + slope * batch

    rate = share * batch_max / (output * step(batch_max))
    found = decode_at_load(rate, output, step, batch_max)
    assert found.batch == pytest.approx(rate * output * found.step_s, rel=1e-9, abs=1e-9)
    assert found.batch <= batch_max


def test_decode_that_a_full_batch_cannot_keep_up_with() -> None:
    with pytest.raises(InfeasibleError, match="at least 2 instances"):
        decode_at_load(10.0, 1000.0, lambda batch: 0.01 + 1e-4 * batch, 100)

"""The simulation engine against queueing theory: closed forms computed here lie in the confidence intervals."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable

import numpy as np
import pytest

from prfaas_plan.laws import LogNormal
from prfaas_plan.numerics import Curve
from prfaas_plan.simulation.engine import Deployment, Engine, Requests
from prfaas_plan.simulation.policies import Fixed
from prfaas_plan.simulation.sampling import evaluate, gaps, lengths_at
from prfaas_plan.simulation.statistics import Estimate, estimate

REPLICATIONS = 10
REQUESTS = 30_000
WARM = 3_000
CONFIDENCE = 0.99


def single_pool(times: np.ndarray, seconds: np.ndarray, servers: int) -> np.ndarray:
    """Waits of requests in one pool, with nothing before and no time after it."""
    zero = [0.0] * len(times)
    requests = Requests(array("d", times.tolist()), zero, list(zero), seconds.tolist(), list(zero), list(zero))
    engine = Engine(Deployment(local=servers, decode=1), requests)
    engine.run(Fixed(engine.places, math.inf))
    return np.frombuffer(engine.local.started) - times


def mean_wait(
    gap: Callable[[np.random.Generator, int], np.ndarray],
    service: Callable[[np.random.Generator, int], np.ndarray],
    servers: int,
    requests: int = REQUESTS,
) -> tuple[Estimate, Estimate]:
    """Mean wait and probability of waiting over replications."""
    means, delayed = [], []
    for seed in range(REPLICATIONS):
        random = np.random.default_rng([7, seed])
        waits = single_pool(np.cumsum(gap(random, requests)), service(random, requests), servers)[WARM:]
        means.append(float(waits.mean()))
        delayed.append(float((waits > 1e-9).mean()))
    return estimate(means, CONFIDENCE), estimate(delayed, CONFIDENCE)


def poisson(rate: float) -> Callable[[np.random.Generator, int], np.ndarray]:
    return lambda random, n: gaps("poisson", 1.0 / rate, 1.0, n, random)


def exponential(random: np.random.Generator, n: int) -> np.ndarray:
    return random.exponential(1.0, n)


def erlang_c(servers: int, offered: float) -> float:
    terms = [offered**k / math.factorial(k) for k in range(servers)]
    last = offered**servers / math.factorial(servers) * servers / (servers - offered)
    return last / (sum(terms) + last)


@pytest.mark.parametrize(("servers", "load"), [(1, 0.5), (1, 0.8), (4, 0.9), (16, 0.8)])
def test_mmc(servers: int, load: float) -> None:
    wait, delayed = mean_wait(poisson(load * servers), exponential, servers)
    probability = erlang_c(servers, load * servers)
    assert delayed.covers(probability)
    assert wait.covers(probability / (servers * (1.0 - load)))


@pytest.mark.parametrize("load", [0.5, 0.8, 0.9])
def test_md1(load: float) -> None:
    wait, delayed = mean_wait(poisson(load), lambda _, n: np.ones(n), 1)
    assert wait.covers(load / (2.0 * (1.0 - load)))
    assert delayed.covers(load)


@pytest.mark.parametrize("load", [0.6, 0.85])
def test_mg1_pollaczek_khinchine_with_the_lengths_of_the_case_study(load: float) -> None:
    law = LogNormal(mu=9.90, sigma=1.00, min=128, max=131072)
    seconds = Curve.polynomial(0.38912, 4.2055e-5, 9.9365e-11)
    first = law.expect(seconds)
    grid = lengths_at(law, (np.arange(200_000) + 0.5) / 200_000)
    second = float(np.mean(evaluate(seconds, grid) ** 2))
    wait, _ = mean_wait(
        poisson(load / first), lambda random, n: evaluate(seconds, lengths_at(law, random.random(n))), 1
    )
    assert wait.covers(load / first * second / (2.0 * (1.0 - load)))


@pytest.mark.parametrize("kind", ["gamma", "hyperexponential"])
def test_gg1_heavy_traffic(kind: str) -> None:
    """Kingman (1962): the mean wait tends to (ca² + cs²)/2 · ρ/(1 - ρ) · S; the correction is of the order of S."""
    load, cv, cs = 0.95, 1.5, 0.5
    wait, delayed = mean_wait(
        lambda random, n: gaps(kind, 1.0 / load, cv, n, random),
        lambda random, n: random.gamma(1.0 / cs**2, cs**2, n),
        1,
        requests=80_000,
    )
    limit = (cv**2 + cs**2) / 2.0 * load / (1.0 - load)
    assert wait.covers(limit, slack=0.03)
    assert delayed.value > 0.9


def test_deterministic_gaps_and_times_never_wait() -> None:
    wait, delayed = mean_wait(lambda _, n: np.full(n, 1.0), lambda _, n: np.full(n, 0.999), 1, requests=4_000)
    assert (wait.value, delayed.value) == (0.0, 0.0)


def machine_repair(users: int, think: float, servers: int) -> float:
    """Throughput of M/M/c//N with a mean service time of 1."""
    weights = [1.0]
    for n in range(1, users + 1):
        weights.append(weights[-1] * (users - n + 1) / (think * min(n, servers)))
    return sum(min(n, servers) * w for n, w in enumerate(weights)) / sum(weights)


@pytest.mark.parametrize(("users", "think", "servers"), [(10, 9.0, 1), (20, 10.0, 2), (40, 5.0, 8)])
def test_closed_loop_is_machine_repair(users: int, think: float, servers: int) -> None:
    rates, responses = [], []
    for seed in range(REPLICATIONS):
        random = np.random.default_rng([11, seed])
        n = 20_000
        zero = [0.0] * n
        seconds, thought = random.exponential(1.0, n).tolist(), random.exponential(think, n).tolist()
        requests = Requests(array("d", zero), zero, list(zero), seconds, list(zero), list(zero), users, thought)
        engine = Engine(Deployment(local=servers, decode=1, decode_width=users), requests)
        engine.run(Fixed(engine.places, math.inf))
        asked, done = np.frombuffer(requests.times), np.frombuffer(engine.decode.finished)
        start, end = np.sort(asked)[[2_000, n - 1]]
        rates.append(float(np.sum((done > start) & (done <= end)) / (end - start)))
        responses.append(float((done - asked)[asked >= start].mean()))
    rate = machine_repair(users, think, servers)
    assert estimate(rates, CONFIDENCE).covers(rate)
    assert estimate(responses, CONFIDENCE).covers(users / rate - think)

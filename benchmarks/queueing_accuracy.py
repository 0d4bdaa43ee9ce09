"""Print how far the formulas for waiting in a pool are from simulation: the tables of docs/latency.md.

    python benchmarks/queueing_accuracy.py            # four minutes on one core
    python benchmarks/queueing_accuracy.py --quick    # one minute, with more noise

The simulation is the recursion of Kiefer and Wolfowitz in many independent replications at once. Its standard error
over replications is printed beside the differences.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from prfaas_plan.pool_wait import allen_cunneen
from prfaas_plan.queueing import Arrivals, ServiceTimes, response, wait_in_pool

Array = NDArray[np.float64]
REPLICATIONS = 128
SERVERS = (1, 2, 4, 16, 64)
LOADS = (0.3, 0.6, 0.8, 0.9)
ARRIVAL_CVS = (0.5, 1.0, 2.0, 3.0)
SERVICE_CVS = (0.0, 0.5, 1.0, 2.0)


def gaps(rng: np.random.Generator, size: tuple[int, int], mean: float, cv: float, law: str) -> Array:
    if law == "weibull":
        shape = 1.0 / stats_root(cv)
        values = rng.weibull(shape, size)
        return values * mean / stats.weibull_min.mean(shape)
    if law == "hyperexponential":
        more = 0.5 * (1.0 + np.sqrt((cv**2 - 1.0) / (cv**2 + 1.0)))
        rate = np.where(rng.random(size) < more, 2.0 * more, 2.0 * (1.0 - more))
        return rng.exponential(1.0, size) / rate * mean
    if law == "lognormal":
        sigma = np.sqrt(np.log1p(cv**2))
        return rng.lognormal(np.log(mean) - sigma**2 / 2.0, sigma, size)
    return rng.gamma(1.0 / cv**2, cv**2 * mean, size)


def stats_root(cv: float) -> float:
    from scipy.optimize import brentq
    from scipy.special import gammaln

    return float(brentq(lambda u: gammaln(1 + 2 * u) - 2 * gammaln(1 + u) - np.log1p(cv**2), 1e-3, 50.0))


def services(rng: np.random.Generator, size: tuple[int, int], cv: float, law: str) -> Array:
    if cv == 0.0:
        return np.ones(size)
    if law == "gamma":
        return rng.gamma(1.0 / cv**2, cv**2, size)
    sigma = np.sqrt(np.log1p(cv**2))
    return rng.lognormal(-(sigma**2) / 2.0, sigma, size)


def simulate(arriving: Array, serving: Array, servers: int, warm_up: int) -> tuple[Array, Array]:
    """Give wait and wait plus service of the requests after the warm-up; one column a replication."""
    columns = arriving.shape[1]
    row = np.arange(columns)
    free, now = np.zeros((columns, servers)), np.zeros(columns)
    waits = np.empty_like(arriving)
    for n in range(len(arriving)):
        now += arriving[n]
        first = free.argmin(axis=1)
        start = np.maximum(free[row, first], now)
        free[row, first] = start + serving[n]
        waits[n] = start - now
    return waits[warm_up:], waits[warm_up:] + serving[warm_up:]


def gamma_times(cv: float) -> ServiceTimes:
    """Make gamma service times of mean 1 as points, in the bins that the planner uses."""
    levels = stats.norm.cdf(np.linspace(-4.0, 4.0, 65))
    levels[0], levels[-1] = 0.0, 1.0
    law, sized = stats.gamma(1.0 / cv**2, scale=cv**2), stats.gamma(1.0 / cv**2 + 1.0, scale=cv**2)
    edges = law.ppf(levels)
    weights = np.diff(levels)
    return ServiceTimes(tuple(np.diff(sized.cdf(edges)) / weights), tuple(weights), tuple(edges))


Case = tuple[int, float, float, float]


def difference(case: Case, requests: int, gap_law: str, service_law: str, assumed: str) -> dict[str, float]:
    """Give formula over simulation less 1 for one case, in per cent."""
    servers, load, arrival_cv, service_cv = case
    rng = np.random.default_rng(abs(hash(case)) % 2**32)
    size = (requests, REPLICATIONS)
    arriving = gaps(rng, size, 1.0 / (load * servers), arrival_cv, gap_law)
    waits, responses = simulate(arriving, services(rng, size, service_cv, service_law), servers, requests // 3)
    times = gamma_times(service_cv) if service_law == "gamma" else ServiceTimes.lognormal(1.0, service_cv)
    arrivals = Arrivals(load * servers, arrival_cv, assumed)
    wait = wait_in_pool(arrivals, times, servers)
    formula = response(wait, times)
    p50, p90, p99 = np.percentile(responses, (50, 90, 99))
    mean = float(responses.mean())
    return {
        "mean": 100.0 * (formula.mean / mean - 1.0),
        "p50": 100.0 * (formula.p50 / p50 - 1.0),
        "p90": 100.0 * (formula.p90 / p90 - 1.0),
        "p99": 100.0 * (formula.p99 / p99 - 1.0),
        "textbook mean": 100.0 * ((1.0 + allen_cunneen(arrivals, times, servers)) / mean - 1.0),
        "noise of mean": 100.0 * float(waits.mean(axis=0).std()) / np.sqrt(REPLICATIONS) / mean,
    }


COLUMNS = ("mean", "p50", "p90", "p99", "textbook mean", "noise of mean")


def print_table(title: str, rows: dict[str, list[dict[str, float]]]) -> None:
    print(f"\n{title}\n\n| cases | number | " + " | ".join(COLUMNS) + " |")
    print("| --- |" + " ---: |" * (len(COLUMNS) + 1))
    for name, found in rows.items():
        largest = (max((row[c] for row in found), key=abs) for c in COLUMNS)
        print(f"| {name} | {len(found)} | " + " | ".join(f"{x:+.1f} %" for x in largest) + " |")


def by_property(cases: Iterable[Case], run: Callable[[Case], dict[str, float]]) -> dict[str, list[dict[str, float]]]:
    rows: dict[str, list[dict[str, float]]] = defaultdict(list)
    for case in cases:
        found = run(case)
        rows["all"].append(found)
        for label, value in zip(("servers", "load", "arrival CV", "service CV"), case, strict=True):
            rows[f"{label} {value:g}"].append(found)
    return dict(sorted(rows.items(), key=lambda item: (item[0] != "all", item[0].rsplit(" ", 1)[0])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of the requests")
    requests = 9000 if parser.parse_args().quick else 36000
    grid = list(product(SERVERS, LOADS, ARRIVAL_CVS, SERVICE_CVS))
    rows = by_property(grid, lambda case: difference(case, requests, "gamma", "lognormal", "gamma"))
    print_table("Largest difference of formula from simulation, gamma gaps, log-normal service", rows)
    laws = {
        "hyperexponential gaps": ("hyperexponential", "lognormal", "hyperexponential", 1.0),
        "Weibull gaps": ("weibull", "lognormal", "weibull", 1.0),
        "log-normal gaps": ("lognormal", "lognormal", "lognormal", 1.0),
        "gamma gaps, gamma service": ("gamma", "gamma", "gamma", 1.0),
        "gamma gaps, gamma service of CV 2": ("gamma", "gamma", "gamma", 2.0),
        "Weibull gaps taken as gamma": ("weibull", "lognormal", "gamma", 1.0),
        "log-normal gaps taken as gamma": ("lognormal", "lognormal", "gamma", 1.0),
    }
    other = {}
    for name, (*law, service_cv) in laws.items():
        bursty = product((1, 8, 32), (0.5, 0.7, 0.9), (2.0, 3.0), (service_cv,))
        other[name] = [difference(case, requests, *law) for case in bursty]
    print_table(
        "The same with other laws (1, 8, 32 servers, load 0.5 to 0.9, arrival CV 2 and 3, service CV 1 unless said)",
        other,
    )


if __name__ == "__main__":
    main()

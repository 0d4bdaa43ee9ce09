"""Print the simulated case study beside what the plan says of it: the tables of docs/simulation.md.

python benchmarks/simulate_case_study.py      # a minute on one core
"""

from __future__ import annotations

import argparse

from prfaas_plan.latency import unloaded_ttft
from prfaas_plan.queueing import Arrivals, Response, ServiceTimes, mixed_response, wait_in_pool
from prfaas_plan.scenario import load_scenario
from prfaas_plan.simulation.result import SimulationResult
from prfaas_plan.simulation.settings import Failure, Settings
from prfaas_plan.simulation.simulate import planned_point, simulate_point
from prfaas_plan.simulation.statistics import Estimate

POINT = planned_point(load_scenario("case-study", ["service_time=mean"]))
LOADS = (0.05, 0.5, 0.7, 0.9, 1.1, 1.3)
POLICIES = ("static", "bandwidth-aware", "earliest-finish", "least-loaded", "all-remote", "all-local")
FAILURE = Failure("prfaas", "prefill", 1, 1800.0, 2400.0)


def predicted(rate: float) -> Response | None:
    system, cut, share = POINT.system, float(POINT.threshold or 0), POINT.long_share
    if rate >= POINT.max_rate or system.remote is None or system.local is None:
        return None
    sending = system.kv_bytes.scaled(1.0 / system.link_bytes_per_s)
    far = ServiceTimes.of(system.law, system.remote.seconds, low=cut)
    near = ServiceTimes.of(system.law, system.local.seconds, high=cut)
    far_wait = wait_in_pool(Arrivals(rate * share), far, system.remote.instances)
    near_wait = wait_in_pool(Arrivals(rate * (1.0 - share)), near, system.local.instances)
    first_token = ServiceTimes.of(system.law, system.remote.seconds + sending, low=cut)
    return mixed_response([(share, far_wait, first_token), (1.0 - share, near_wait, near)])


def shown(found: Estimate, digits: int = 2) -> str:
    half = "" if found.high is None else f" ± {found.high - found.value:.{digits}f}"
    return f"{found.value:.{digits}f}{half}"


def simulated(load: float, requests: int, replications: int, **changes: object) -> SimulationResult:
    chosen = Settings(requests=requests, replications=replications, **changes)  # type: ignore[arg-type]
    return simulate_point(POINT, load * POINT.max_rate, chosen)


def by_load(requests: int, replications: int) -> None:
    idle = unloaded_ttft(POINT)
    print(
        f"Without load the plan says mean {idle.mean:.3f} s, p50 {idle.p50:.3f}, p90 {idle.p90:.3f}, p99 {idle.p99:.3f}"
    )
    print("| load | stable | served, 1/s | mean s | p90 s | p99 s | approximated: mean, p90, p99 s |")
    print("| --- " * 7 + "|")
    for load in LOADS:
        found = simulated(load, requests, replications)
        says = predicted(load * POINT.max_rate)
        formula = "" if says is None else f"{says.mean:.2f}, {says.p90:.2f}, {says.p99:.2f}"
        delays = [shown(found.ttft_s[key], 2 if found.stable else 0) for key in ("mean", "p90", "p99")]
        cells = [f"{load:.0%}", "yes" if found.stable else "no", shown(found.served_rps, 3), *delays, formula]
        print("| " + " | ".join(cells) + " |", flush=True)


def by_policy(requests: int, replications: int) -> None:
    print("\n| load | policy | offloaded | stable | mean s | p90 s | p99 s | with a failure: mean s during it |")
    print("| --- " * 8 + "|")
    for load in (0.5, 0.9):
        for policy in POLICIES:
            found = simulated(load, requests, replications, policy=policy)
            count = int(load * POINT.max_rate * 6000)
            failed = simulated(load, count, 2 * replications, policy=policy, failures=(FAILURE,)).affected_ttft_s or {}
            delays = [shown(found.ttft_s[key], 2 if found.stable else 0) for key in ("mean", "p90", "p99")]
            cells = [f"{load:.0%}", policy, f"{found.offloaded_fraction.value:.3f}", "yes" if found.stable else "no"]
            print("| " + " | ".join([*cells, *delays, shown(failed["mean"], 1)]) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--replications", type=int, default=10)
    asked = parser.parse_args()
    print(f"Largest rate {POINT.max_rate:.3f} 1/s at a threshold of {POINT.threshold} tokens\n")
    by_load(asked.requests, asked.replications)
    by_policy(asked.requests // 2, asked.replications)


if __name__ == "__main__":
    main()

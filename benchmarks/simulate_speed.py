"""Print how long simulations of the case study take, and that the time is linear in the number of requests.

    python benchmarks/simulate_speed.py            # about a minute on one core
    python benchmarks/simulate_speed.py --most 100000

Seconds of processor time for one replication: drawing the requests, the events, and the measures.
"""

from __future__ import annotations

import argparse
import math
import resource
import time
from typing import Any

from prfaas_plan.scenario import load_scenario
from prfaas_plan.simulation.settings import LinkEpisode, PrefixHits, Settings
from prfaas_plan.simulation.simulate import planned_point, simulate_point

POINT = planned_point(load_scenario("case-study", ["service_time=mean"]))
CASES: dict[str, tuple[float, dict[str, Any]]] = {
    "static, 90 % of the largest rate": (0.9, {}),
    "static, 110 %": (1.1, {}),
    "bandwidth-aware, 90 %": (0.9, {"policy": "bandwidth-aware"}),
    "earliest-finish, 90 %": (0.9, {"policy": "earliest-finish"}),
    "shared link that is down to 20 Gbit/s, 80 %": (0.8, {"sharing": "fair", "episodes": (LinkEpisode(0, 1e9, 20),)}),
    "gamma gaps of CV 3, geometric outputs, 80 %": (
        0.8,
        {"arrivals": "gamma", "arrival_cv": 3.0, "output": "geometric"},
    ),
    "bandwidth-aware, prefix hits, 90 %": (0.9, {"policy": "bandwidth-aware", "prefix": PrefixHits(0.3, 0.2)}),
    "layer by layer in 15 parts, 90 %": (0.9, {"transfer": "overlapped", "layers": 15}),
}


def seconds(load: float, requests: int, changes: dict[str, Any]) -> float:
    start = time.process_time()
    simulate_point(POINT, load * POINT.max_rate, Settings(requests=requests, replications=1, **changes))
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=int, default=1_000_000, help="requests of the largest run")
    most = parser.parse_args().most
    sizes = [most // 100, most // 10, most]
    print("| case | " + " | ".join(f"{n:,}" for n in sizes) + " | µs a request | time ∝ requests^ |")
    print("| --- |" + " --- |" * (len(sizes) + 2))
    for name, (load, changes) in CASES.items():
        times = [seconds(load, n, changes) for n in sizes]
        power = math.log(times[-1] / times[-2]) / math.log(sizes[-1] / sizes[-2])
        cells = " | ".join(f"{t:.2f} s" for t in times)
        print(f"| {name} | {cells} | {1e6 * times[-1] / sizes[-1]:.1f} | {power:.2f} |", flush=True)
    print(f"\nLargest memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()

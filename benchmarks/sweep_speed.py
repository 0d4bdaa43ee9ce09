"""CPU time of sweeps of the case study: ten thousand exact cases, and a million with NumPy.

Run ``python benchmarks/sweep_speed.py``. Targets: 3 s and 30 s.
"""

from __future__ import annotations

import time

import prfaas_plan as pp

BASE = ["cluster.local.instances=4:13:10", "cluster.prfaas.instances=1:10:10"]


def measure(name: str, vary: list[str], *, fast: bool) -> None:
    started = time.process_time()
    result = pp.sweep("case-study", vary, fast=fast)
    print(f"{name}: {len(result):,} cases in {time.process_time() - started:.2f} s of CPU")


def main() -> None:
    few = ["link.0.bandwidth_gbps=1:100:10:log", "workload.output_tokens=512:4096:10"]
    many = ["link.0.bandwidth_gbps=1:100:100:log", "workload.output_tokens=100:10000:100:log"]
    measure("instances, bandwidth, output", [*few, *BASE], fast=False)
    lengths = ["workload.input_tokens.mu=8.5:10.5:100", "workload.input_tokens.sigma=0.5:1.5:100"]
    measure("lengths", lengths, fast=False)
    measure("instances, bandwidth, output", [*many, *BASE], fast=True)


if __name__ == "__main__":
    main()

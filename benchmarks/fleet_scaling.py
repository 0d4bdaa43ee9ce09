"""How the time to plan a fleet grows with sites, bins and periods.

    python benchmarks/fleet_scaling.py            # the whole table, a few minutes
    python benchmarks/fleet_scaling.py 12x4x30x1  # sites x accelerators x bins x periods

The fleets are synthetic: four to six accelerators with quadratic prefill times, inventories of 4 to 40 instances, three
regions whose requests must be decoded at home, links between neighbouring sites.
"""

from __future__ import annotations

import math
import random
import resource
import sys
import time

from prfaas_plan.fleet.case import FleetCase, Limits, State, Station, Traffic, Wire, connect
from prfaas_plan.fleet.search import Settings
from prfaas_plan.fleet.solve import solve_fleet
from prfaas_plan.laws import LogNormal
from prfaas_plan.numerics import Curve
from prfaas_plan.solver import available_solver

REGIONS = 3
SIZES = [
    "3x2x20x1",
    "4x3x20x1",
    "8x4x20x1",
    "12x4x10x1",
    "12x4x30x1",
    "12x4x60x1",
    "6x3x20x4",
    "6x3x20x12",
    "6x3x20x24",
    "100x6x20x1",
]


def neighbours(site: int, sites: int) -> list[int]:
    """Up to eight sites around a site on a ring."""
    reach = [d for d in (-4, -3, -2, -1, 1, 2, 3, 4) if abs(d) < sites]
    return sorted({(site + d) % sites for d in reach} - {site})


def fleet(sites: int, accelerators: int, periods: int, seed: int = 1) -> FleetCase:
    """Make a synthetic fleet."""
    rng = random.Random(seed)
    curves = [Curve.polynomial(0.3 + 0.1 * a, 3e-5 * 1.6**a, 8e-11 * 1.5**a) for a in range(accelerators)]
    decode = [1.0 + 0.25 * a for a in range(accelerators)]
    stations = tuple(
        Station(f"s{s}a{a}", f"s{s}", f"a{a}", 8, True, True, n, n, curves[a], 30.0 / 1.3**a, 9e3)
        for s in range(sites)
        for a in range(accelerators)
        for n in [rng.randint(4, 40)]
    )
    wires = tuple(
        Wire(f"s{a}-s{b}", f"s{a}", f"s{b}", rate, rate, 0.87, 0.02)
        for a in range(sites)
        for b in neighbours(a, sites)
        for rate in [rng.choice([10.0, 40.0, 100.0])]
    )
    docks, routes = connect(stations, wires)
    traffic = tuple(
        Traffic(
            f"region{r}", (f"region{r}",), LogNormal(mu=9.4 + 0.3 * r, sigma=1.0, min=128, max=131072), 1024.0,
            Curve.polynomial(1.4, 1.4e-4),
            tuple(decode[int(s.accelerator[1:])] if int(s.place[1:]) % REGIONS == r else None for s in stations),
            (math.inf,) * len(stations),
        )
        for r in range(REGIONS)
    )  # fmt: skip
    tables = [
        [1.0 + 0.6 * math.cos(2.0 * math.pi * (p / periods - r / REGIONS)) for r in range(REGIONS)]
        for p in range(periods)
    ]
    busiest = max(sum(t) for t in tables)
    states = tuple(State(f"p{p}", 24.0 / periods, tuple(x / busiest for x in t), p) for p, t in enumerate(tables))
    return FleetCase("scaling", stations, wires, traffic, docks, routes, states, Limits())


def run(size: str, gap: float, limit: float) -> str:
    """Plan one fleet and give its row of the table."""
    sites, accelerators, bins, periods = (int(x) for x in size.split("x"))
    case = fleet(sites, accelerators, periods)
    started = time.monotonic()
    steps: list[str] = []
    found = solve_fleet(
        case,
        None,
        Settings(gap, limit, bins, lambda p: steps.append(f"{p.step} {p.elapsed_s:.1f}s {p.best} {p.bound}")),
    )
    seconds = time.monotonic() - started
    memory = sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 2**20
    if "-v" in sys.argv:
        print("\n".join(steps))
    if found is None:
        return f"| {size} | infeasible |"
    whole = len(found.model.program.integers)
    return (
        f"| {sites} | {accelerators} | {bins} | {periods} | {len(found.model.program.variables):,} | {whole} | "
        f"{seconds:.1f} | {memory:.2f} | {found.value:.2f} | {found.gap_fraction:.1e} |"
    )


def main() -> None:
    sizes = [a for a in sys.argv[1:] if a[0].isdigit()] or list(SIZES)
    print(f"solver: {available_solver()}; gap asked: 1e-3\n")
    print("| sites | accelerators | bins | periods | variables | integers | seconds | GiB | req/s | gap |")
    print("| --- " * 10 + "|")
    for size in sizes:
        print(run(size, 1e-3, 60.0 if size.startswith("100x") else 20.0), flush=True)


if __name__ == "__main__":
    main()

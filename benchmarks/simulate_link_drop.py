"""Print what a bandwidth-aware router saves while the link of the case study drops to 5 Gbit/s for ten minutes.

    python benchmarks/simulate_link_drop.py                                      # three minutes on one core
    python benchmarks/simulate_link_drop.py --svg docs/simulation_link_drop.svg  # and draw it

Prints the table of docs/simulation.md. All policies serve the same requests, so differences are paired.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np

from prfaas_plan.scenario import load_scenario
from prfaas_plan.simulation.result import PolicyComparison, SimulationResult
from prfaas_plan.simulation.settings import LinkEpisode, Settings
from prfaas_plan.simulation.simulate import planned_point, simulate_point

POINT = planned_point(load_scenario("case-study", ["service_time=mean"]))
DROP = LinkEpisode(1800.0, 2400.0, 5.0)
LENGTH = 6000.0
LOADS = (0.4, 0.6, 0.75, 0.9)
DRAWN = (0.4, 0.6, 0.75)
POLICIES: dict[str, dict[str, Any]] = {
    "static": {},
    "bandwidth-aware": {"policy": "bandwidth-aware"},
    "bandwidth-aware, no local limit": {"policy": "bandwidth-aware", "local_limit": math.inf},
    "earliest-finish": {"policy": "earliest-finish"},
    "least-loaded": {"policy": "least-loaded"},
}
COLOURS = {"static": "#c0392b", "bandwidth-aware": "#1f6fb2", "bandwidth-aware, no local limit": "#7fb3d9"}
BIN = 30.0
FROM, UNTIL = 1500.0, 3000.0
WIDTH, HEIGHT, LEFT, TOP, GAP = 300, 220, 56, 46, 50


def run(load: float, changes: dict[str, Any], replications: int) -> SimulationResult:
    rate = load * POINT.max_rate
    chosen = Settings(requests=int(rate * LENGTH), replications=replications, episodes=(DROP,), keep_times=True)
    return simulate_point(POINT, rate, Settings(**{**_fields(chosen), **changes}))


def _fields(settings: Settings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in settings.__dataclass_fields__}


def row(load: float, name: str, found: SimulationResult, first: SimulationResult) -> str:
    during = found.affected_ttft_s or {}
    cells = [f"{load:.0%}", name, *(f"{during[key].value:.1f}" for key in ("mean", "p50", "p90", "p99"))]
    cells.append(f"{found.ttft_s['mean'].value:.2f}")
    saved = PolicyComparison((first, found)).savings[0]
    mean = saved.affected_ttft_mean_s
    if name == "static" or mean is None or mean.low is None or mean.high is None:
        return "| " + " | ".join([*cells, "", ""]) + " |"
    share = mean.value / (first.affected_ttft_s or {})["mean"].value
    half = mean.high - mean.value
    return "| " + " | ".join([*cells, f"{mean.value:+.1f} ± {half:.1f}", f"{share:+.0%}"]) + " |"


def curve(found: SimulationResult) -> list[tuple[float, float]]:
    """Mean time to first token of the requests that arrive in each bin, over all replications."""
    arrived = np.concatenate([a for a, _ in found.times])
    waits = np.concatenate([first - a for a, first in found.times])
    points = []
    for start in np.arange(FROM, UNTIL, BIN):
        inside = (arrived >= start) & (arrived < start + BIN)
        points.append((float(start + 0.5 * BIN), float(waits[inside].mean())))
    return points


def text(x: float, y: float, words: str, anchor: str = "middle", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{words}</text>'


def panel(number: int, load: float, curves: dict[str, list[tuple[float, float]]]) -> list[str]:
    left = LEFT + number * (WIDTH + GAP)
    top_value = max(value for points in curves.values() for _, value in points)
    step = next(s for s in (2, 5, 10, 20, 50, 100, 200) if top_value / s <= 6)
    most = step * math.ceil(top_value / step)

    def x(time: float) -> float:
        return left + WIDTH * (time - FROM) / (UNTIL - FROM)

    def y(value: float) -> float:
        return TOP + HEIGHT * (1.0 - value / most)

    box = f'x="{x(DROP.start_s):.1f}" y="{TOP}" width="{x(DROP.end_s) - x(DROP.start_s):.1f}" height="{HEIGHT}"'
    parts = [f'<rect {box} fill="#f3ead7"/>', text(left + WIDTH / 2, TOP - 10, f"load {load:.0%} of the largest rate")]
    for value in range(0, most + 1, step):
        parts.append(f'<path d="M{left} {y(value):.1f}h{WIDTH}" stroke="#ddd"/>')
        parts.append(text(left - 6, y(value) + 4, str(value), "end"))
    minutes = range(int(FROM // 60), int(UNTIL // 60) + 1, 5)
    parts += [text(x(m * 60.0), TOP + HEIGHT + 16, str(m - int(DROP.start_s // 60))) for m in minutes]
    for name, points in curves.items():
        line = " ".join(f"{x(t):.1f},{y(v):.1f}" for t, v in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{COLOURS[name]}" stroke-width="2"/>')
    return parts


def draw(curves: dict[float, dict[str, list[tuple[float, float]]]]) -> str:
    width = LEFT + len(curves) * (WIDTH + GAP)
    height = TOP + HEIGHT + 74
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">',
        "<title>Mean time to first token while the link drops to 5 Gbit/s</title>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        text(LEFT, 16, "Mean time to first token [s] by arrival; shaded: the link carries 5 of 100 Gbit/s", "start"),
    ]
    for number, (load, lines) in enumerate(curves.items()):
        parts += panel(number, load, lines)
    parts.append(text(LEFT + (width - LEFT - GAP) / 2, TOP + HEIGHT + 34, "minutes since the drop"))
    for number, (name, colour) in enumerate(COLOURS.items()):
        at = LEFT + 230 * number
        parts.append(f'<path d="M{at} {height - 16}h24" stroke="{colour}" stroke-width="2"/>')
        parts.append(text(at + 30, height - 12, name, "start"))
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--svg", type=Path, help="file to draw the curves into")
    parser.add_argument("--replications", type=int, default=40)
    asked = parser.parse_args()
    print("| load | policy | mean s | p50 s | p90 s | p99 s | mean of the run s | saved s | |")
    print("| --- " * 9 + "|")
    curves: dict[float, dict[str, list[tuple[float, float]]]] = {}
    for load in LOADS:
        first = run(load, {}, asked.replications)
        for name, changes in POLICIES.items():
            found = run(load, changes, asked.replications) if changes else first
            print(row(load, name, found, first), flush=True)
            if load in DRAWN and name in COLOURS:
                curves.setdefault(load, {})[name] = curve(found)
    if asked.svg is not None:
        asked.svg.write_text(draw(curves), encoding="utf-8")


if __name__ == "__main__":
    main()

"""The shipped constants against the shipped measurements: a guard, not the accuracy (docs/accuracy.md has that)."""

from __future__ import annotations

import csv
import statistics
from functools import cache
from pathlib import Path

import pytest

from prfaas_plan.catalog import load_hardware, load_model
from prfaas_plan.deployment import Deployment
from prfaas_plan.estimates import estimate_rows
from prfaas_plan.kv_cache import request_curve
from prfaas_plan.prefill import prefill_time

MEASURED = Path(__file__).resolve().parent.parent / "benchmarks" / "data" / "single_phase.csv"
FLOOR = 0.354
"""[s] fixed time of a request in the deployment of arXiv 2604.15039, Table 3, as fitted."""
SERVERS = {"hopper", "h20", "blackwell"}

# arXiv 2604.15039, Table 3: KV rate [Gbit/s] at 8K, 32K and 128K tokens.
RATES = {
    "kimi-linear-48b-a3b": (2.29, 3.87, 4.88),
    "mimo-v2-flash": (2.85, 4.66, 4.71),
    "qwen3.5-397b-a17b": (6.28, 8.25, 7.47),
    "ring-2.5-1t": (4.47, 2.59, 1.46),
    "minimax-m2.5": (32.87, 59.93, 47.82),
    "qwen3-235b-a22b": (22.42, 33.35, 21.50),
}


@cache
def estimates() -> tuple[dict[str, str], ...]:
    with MEASURED.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    floors = {"prfaas": str(FLOOR)}
    return tuple(estimate_rows([{**row, "request_overhead_s": floors.get(row["set"], "0")} for row in rows]))


def errors(rows: list[dict[str, str]]) -> list[float]:
    return [float(row["seconds"]) / float(row["measured_s"]) - 1.0 for row in rows if row["seconds"]]


def p90(values: list[float]) -> float:
    return statistics.quantiles([abs(v) for v in values], n=10, method="inclusive")[8]


def decode_rows() -> list[dict[str, str]]:
    return [
        row
        for row in estimates()
        if row["phase"] == "decode"
        and load_hardware(row["accelerator"]).family in SERVERS
        and row["weights_dtype"] != "int4"
    ]


def test_decode_on_nvidia_servers() -> None:
    found = errors(decode_rows())
    assert len(found) > 300
    assert statistics.median(abs(e) for e in found) < 0.11
    assert p90(found) < 0.28
    assert abs(statistics.median(found)) < 0.05


def test_the_paper_with_one_floor() -> None:
    found = errors([row for row in estimates() if row["set"] == "prfaas"])
    assert len(found) == 24
    assert statistics.median(abs(e) for e in found) < 0.10
    assert statistics.fmean(abs(e) for e in found) < 0.13
    assert p90(found) < 0.27


def test_intervals_hold_about_80_percent() -> None:
    rows = decode_rows()
    held = [float(r["low_s"]) <= float(r["measured_s"]) <= float(r["high_s"]) for r in rows]
    assert 0.75 < sum(held) / len(held) < 0.93


@pytest.mark.parametrize(("place", "length"), [(0, 8192), (1, 32768), (2, 131072)])
def test_the_order_of_models_by_kv_rate(place: int, length: int) -> None:
    """Wherever two published rates differ by more than 10 %."""
    h200 = load_hardware("h200")
    dtypes = {row["model"]: row["weights_dtype"] for row in estimates() if row["set"] == "prfaas"}
    ours = {}
    for name in RATES:
        model = load_model(name)
        d = Deployment(model, h200, weights_dtype=dtypes[name], request_overhead_s=FLOOR)
        ours[name] = request_curve(model)(length) / prefill_time(d, length).seconds
    for one, rates in RATES.items():
        for other, others in RATES.items():
            if rates[place] > 1.1 * others[place]:
                assert ours[one] > ours[other], (one, other)

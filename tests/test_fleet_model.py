"""The algebra of each family of constraints, against LP texts that were checked by hand.

The fleet is small enough to do so: prompts of 1,000 tokens (three in four) and of 5,000; prefill takes 1 s + 1 ms a
token, a cache has 1 Mbit a token, decode takes 2 s of an instance at `near` and 4 s at `slow`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from prfaas_plan.fleet.bins import cut
from prfaas_plan.fleet.case import FleetCase, Limits, State, Station, Traffic, Wire, connect
from prfaas_plan.fleet.model import FAMILIES, build_model
from prfaas_plan.laws import Constant, Mixture
from prfaas_plan.numerics import Curve
from prfaas_plan.solver import Program, to_lp_text

GOLDEN = Path(__file__).parent / "golden"
LAW = Mixture(weights=(3.0, 1.0), laws=(Constant(1000.0), Constant(5000.0)))
SECONDS = Curve.polynomial(1.0, 1e-3)


def small_fleet(limits: Limits | None = None) -> FleetCase:
    stations = (
        Station("far", "F", "a", 8, True, False, 1, 3, SECONDS, 10.0, 2000.0),
        Station("near", "N", "b", 8, True, True, 0, 4, SECONDS, 6.0, 1000.0),
        Station("slow", "N", "c", 4, False, True, 2, 2, None, 1.0, 500.0),
    )
    wires = (Wire("F-N", "F", "N", 0.0, 10.0, 0.5, 0.0, 0.2, 3.0, 0.02),)
    docks, routes = connect(stations, wires)
    traffic = (
        Traffic("all", ("all",), LAW, 100.0, Curve.polynomial(0.0, 1e-3), (None, 2.0, 4.0), (1e9, 1e9, 0.0), 4.0, 0.1),
    )
    states = (State("day", 16.0, (1.0,), 0), State("night", 8.0, (0.5,), 1))
    return FleetCase("small", stations, wires, traffic, docks, routes, states, limits or Limits(), "cost")


ALL_LIMITS = Limits(100.0, 30_000.0, 24.0, 0.25, 1)


def family_text(name: str) -> str:
    case = small_fleet(ALL_LIMITS)
    model = build_model(case, [cut(LAW, [1000.0])], 2.0)
    alone = build_model(case, [cut(LAW, [1000.0])], 2.0)
    alone.sheet.rows.clear()
    next(f for f in FAMILIES if f.__name__ == name)(alone)
    rows = tuple(row for key, row in model.sheet.rows.items() if key in alone.sheet.rows)
    kept = {v for row in rows for v in row.terms}
    place = {v: i for i, v in enumerate(sorted(kept))}
    shown = [type(r)(r.name, {place[v]: c for v, c in r.terms.items()}, r.sense, r.right) for r in rows]
    variables = tuple(model.program.variables[v] for v in sorted(kept))
    return to_lp_text(Program(variables, tuple(shown), {})) + "\n"


@pytest.mark.parametrize("name", [f.__name__ for f in FAMILIES])
def test_family_says_what_the_golden_text_says(name: str) -> None:
    path = GOLDEN / f"{name}.lp"
    text = family_text(name)
    if "PRFAAS_WRITE_GOLDEN" in os.environ:
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_objective_is_the_price_of_the_fleet() -> None:
    model = build_model(small_fleet(), [cut(LAW, [1000.0])], 2.0)
    named = {model.program.variables[v].name: c for v, c in model.program.objective.items()}
    assert named.pop("owned(far)") == 10.0
    assert named.pop("owned(near)") == 6.0
    assert named.pop("owned(slow)") == 1.0
    assert named.pop("gbps(F-N)".replace("-", "_")) == 0.2
    assert named.pop("port(F_N)") == 3.0
    carried = {
        "rps(day,all,0,far,N)": 1.0 * 0.125 * 3600 * 0.02 * 16 / 24,
        "rps(night,all,0,far,N)": 1.0 * 0.125 * 3600 * 0.02 * 8 / 24,
        "rps(day,all,1,far,N)": 5.0 * 0.125 * 3600 * 0.02 * 16 / 24,
        "rps(night,all,1,far,N)": 5.0 * 0.125 * 3600 * 0.02 * 8 / 24,
    }
    assert named == pytest.approx(carried)

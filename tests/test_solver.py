"""The adapter to PuLP against SciPy's HiGHS, its shadow prices, its statuses and its text."""

from __future__ import annotations

import math
import random
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from prfaas_plan.solver import Options, Program, Row, Variable, available_solver, solve, to_lp_text

X, Y = Variable("x", high=10.0), Variable("y", high=10.0)


def random_program(seed: int, *, integers: bool) -> Program:
    rng = random.Random(seed)
    n, m = rng.randint(2, 6), rng.randint(1, 5)
    variables = tuple(Variable(f"v{i}", 0.0, rng.randint(1, 9), integers and rng.random() < 0.6) for i in range(n))
    rows = tuple(
        Row(f"row{i}", {j: rng.uniform(0.2, 3.0) for j in range(n)}, "<=", rng.uniform(3.0, 20.0)) for i in range(m)
    )
    return Program(variables, rows, {j: rng.uniform(0.1, 5.0) for j in range(n)}, maximise=True)


def oracle(program: Program) -> float:
    a = np.zeros((len(program.rows), len(program.variables)))
    for i, row in enumerate(program.rows):
        for j, c in row.terms.items():
            a[i, j] = c
    found = milp(
        [-program.objective[j] for j in range(len(program.variables))],
        constraints=LinearConstraint(a, -np.inf, [row.right for row in program.rows]),
        integrality=[int(v.integer) for v in program.variables],
        bounds=Bounds([v.low for v in program.variables], [v.high for v in program.variables]),
    )
    return float(-found.fun)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), integers=st.booleans())
def test_objective_is_that_of_another_solver(seed: int, integers: bool) -> None:
    program = random_program(seed, integers=integers)
    found = solve(program)
    assert found.status == "optimal"
    assert found.objective == pytest.approx(oracle(program), rel=1e-6)
    for row in program.rows:
        assert sum(c * found.values[j] for j, c in row.terms.items()) <= row.right * (1 + 1e-6)


@pytest.mark.parametrize("maximise", [True, False])
def test_dual_is_the_change_of_the_objective_per_unit_of_the_right_side(maximise: bool) -> None:
    sense = "<=" if maximise else ">="
    rows = (Row("sum", {0: 1.0, 1: 2.0}, sense, 8.0), Row("x_alone", {0: 1.0}, sense, 3.0))
    program = Program((X, Y), rows, {0: 3.0, 1: 4.0}, maximise)
    found = solve(program)
    for i, row in enumerate(rows):
        wider = tuple(Row(r.name, r.terms, r.sense, r.right + (0.01 if j == i else 0.0)) for j, r in enumerate(rows))
        change = solve(Program((X, Y), wider, {0: 3.0, 1: 4.0}, maximise)).objective - found.objective
        assert found.duals[row.name] == pytest.approx(change / 0.01, rel=1e-4, abs=1e-6)


def test_infeasible_and_unbounded_are_told_apart() -> None:
    impossible = Program((X,), (Row("too_much", {0: 1.0}, ">=", 11.0),), {0: 1.0})
    assert solve(impossible).status == "infeasible"
    assert not solve(impossible).found
    free = Program((Variable("x"),), (Row("some", {0: 1.0}, ">=", 1.0),), {0: 1.0}, maximise=True)
    assert solve(free).status == "unbounded"


def test_integers_can_be_relaxed_and_held() -> None:
    n = Variable("n", high=9.0, integer=True)
    program = Program((n,), (Row("half", {0: 2.0}, "<=", 7.0),), {0: 1.0}, maximise=True)
    assert solve(program).objective == 3.0
    assert solve(program.relaxed()).objective == pytest.approx(3.5)
    assert solve(program.fixed({0: 2.0})).objective == 2.0
    assert program.fixed({0: 2.0}).integers == ()


def test_nothing_to_decide_is_decided() -> None:
    assert solve(Program((), (), {})).objective == 0.0
    held = Program((Variable("x", 2.0, 2.0),), (), {})
    assert solve(held).values == (2.0,)


def test_same_programme_same_solution_and_nothing_printed(capfd: pytest.CaptureFixture[str]) -> None:
    program = random_program(7, integers=True)
    assert solve(program, Options(gap=1e-3)) == solve(program, Options(gap=1e-3))
    assert capfd.readouterr() == ("", "")
    assert available_solver() == "PULP_CBC_CMD"


@pytest.mark.parametrize("maximise", [True, False])
def test_highs_gives_the_same_values_and_duals_and_prints_nothing(
    maximise: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("highspy")
    sense = "<=" if maximise else ">="
    rows = (Row("sum", {0: 1.0, 1: 2.0}, sense, 8.0), Row("x_alone", {0: 1.0}, sense, 3.0))
    program = Program((X, Y), rows, {0: 3.0, 1: 4.0}, maximise)
    highs, cbc = solve(program, solver="HiGHS"), solve(program, solver="PULP_CBC_CMD")
    assert highs.values == pytest.approx(cbc.values)
    assert highs.duals == pytest.approx(cbc.duals)
    assert capfd.readouterr() == ("", "")


def test_text_has_bounds_integers_and_signs() -> None:
    variables = (Variable("a", 1.0), Variable("b", -2.0, 5.0), Variable("c", 3.0, 3.0, integer=True))
    text = to_lp_text(Program(variables, (Row("r", {0: -1.0, 2: 2.5}, "=", 4.0),), {}))
    assert text.splitlines() == [
        "Minimize", " objective: 0", "Subject To", " r: - 1 a + 2.5 c = 4", "Bounds", " a >= 1", " -2 <= b <= 5",
        " c = 3", "General", " c", "End",
    ]  # fmt: skip


def test_pulp_is_imported_only_to_solve() -> None:
    code = "import sys, prfaas_plan.fleet.planner; print('pulp' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False False"


def test_linear_solution_agrees_with_another_solver_on_equalities() -> None:
    rows = (Row("total", {0: 1.0, 1: 1.0}, "=", 7.0), Row("least", {0: 1.0, 1: -1.0}, ">=", 1.0))
    found = solve(Program((X, Y), rows, {0: 2.0, 1: 1.0}))
    other = linprog([2.0, 1.0], [[-1.0, 1.0]], [-1.0], [[1.0, 1.0]], [7.0], bounds=[(0, 10), (0, 10)])
    assert found.objective == pytest.approx(float(other.fun))
    assert math.isclose(sum(found.values), 7.0)

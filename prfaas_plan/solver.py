"""Linear programmes with integers: rows go in, values and shadow prices come out.

This is the only module that knows PuLP, and PuLP is imported only when something is solved. The programme itself is
plain data with a text form of its own, so that what is solved can be read, compared and kept without a solver.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from prfaas_plan.errors import SolverError

__all__ = ["Options", "Program", "Row", "Solution", "Variable", "available_solver", "solve", "to_lp_text"]

Sense = Literal["<=", ">=", "="]

_SOLVERS = ("PULP_CBC_CMD", "COIN_CMD", "HiGHS")
_INFINITE = 1e20
_LARGE = 80_000
"""Variables from which CBC begins with its barrier method where asked to (at 110,000 variables 3 s for 40 s)."""


@dataclass(frozen=True, slots=True)
class Variable:
    """An unknown with its bounds."""

    name: str
    low: float = 0.0
    high: float = math.inf
    integer: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A constraint: the sum of coefficients times variables (by index) against a constant."""

    name: str
    terms: Mapping[int, float]
    sense: Sense
    right: float


@dataclass(frozen=True, slots=True)
class Program:
    """Variables, constraints and a linear objective."""

    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]
    objective: Mapping[int, float]
    maximise: bool = False

    @property
    def integers(self) -> tuple[int, ...]:
        """Indexes of the integer variables."""
        return tuple(i for i, v in enumerate(self.variables) if v.integer)

    def relaxed(self) -> Program:
        """Give the same programme with every variable continuous."""
        return replace(self, variables=tuple(replace(v, integer=False) if v.integer else v for v in self.variables))

    def fixed(self, values: Mapping[int, float]) -> Program:
        """Give the same programme with some variables held at a value, and these continuous."""
        variables = list(self.variables)
        for index, value in values.items():
            variables[index] = Variable(variables[index].name, value, value)
        return replace(self, variables=tuple(variables))


@dataclass(frozen=True, slots=True)
class Options:
    """How long and how exactly to solve."""

    time_limit_s: float | None = None
    gap: float = 0.0
    """Largest relative distance [1] between a plan with integers and what could still be found."""
    barrier: bool = False
    """Whether a large programme is better begun with the barrier method than with the simplex method."""


@dataclass(frozen=True, slots=True)
class Solution:
    """What a solver found.

    `duals` is the change of the objective per unit of a row's right side, whichever way it is optimised; it is
    given where no variable is an integer.
    """

    status: Literal["optimal", "feasible", "infeasible", "unbounded"]
    objective: float
    values: tuple[float, ...]
    duals: Mapping[str, float]
    solver: str

    @property
    def found(self) -> bool:
        """Whether there are values that satisfy every row."""
        return self.status in ("optimal", "feasible")


def available_solver() -> str:
    """Name the solver that is used: the bundled CBC, another CBC, or HiGHS.

    Raises `SolverError` if none is installed.
    """
    pulp = _pulp()
    for name in _SOLVERS:
        try:
            if pulp.getSolver(name, msg=False).available():
                return name
        except pulp.PulpError:
            continue
    raise SolverError("no linear solver is installed; 'pip install \"pulp>=3.3.1,<4\"' brings CBC, or install highspy")


def solve(program: Program, options: Options | None = None, solver: str = "") -> Solution:
    """Solve a programme; the same programme gives the same solution, except where a time limit strikes.

    Raises `SolverError` if no solver is installed, or it fails, or time runs out before anything is found.

    >>> x, n = Variable("x", high=10), Variable("n", high=3, integer=True)
    >>> row = Row("x_needs_n", {0: 1.0, 1: -1.5}, "<=", 0.25)
    >>> solve(Program((x, n), (row,), {0: 1.0}, maximise=True)).values
    (4.75, 3.0)
    """
    options = options or Options()
    if not program.variables:
        return Solution("optimal", 0.0, (), {}, "none")
    name = solver or available_solver()
    problem, unknowns = _problem(program)
    _run(problem, name, options)
    return _solution(program, problem, unknowns, name)


def _pulp() -> Any:
    import pulp

    if hasattr(pulp, "set_v4_migration_warnings"):
        pulp.set_v4_migration_warnings(False)
    return pulp


def _problem(program: Program) -> tuple[Any, list[Any]]:
    pulp = _pulp()
    problem = pulp.LpProblem("fleet", pulp.LpMaximize if program.maximise else pulp.LpMinimize)
    unknowns = [
        problem.add_variable(f"v{i}", *_bounds(v), cat="Integer" if v.integer else "Continuous")
        for i, v in enumerate(program.variables)
    ]
    unused = program.variables[0].low == program.variables[0].high and not program.objective
    objective = program.objective or {0: 0.0 if unused else 1e-300}
    problem += pulp.LpAffineExpression([(unknowns[i], c) for i, c in objective.items()])
    for number, row in enumerate(program.rows):
        left = pulp.LpAffineExpression([(unknowns[i], c) for i, c in row.terms.items()])
        senses = {"<=": pulp.LpConstraintLE, ">=": pulp.LpConstraintGE, "=": pulp.LpConstraintEQ}
        problem += pulp.LpConstraint(left, senses[row.sense], f"r{number}", row.right)
    return problem, unknowns


def _bounds(variable: Variable) -> tuple[float | None, float | None]:
    low = None if variable.low <= -_INFINITE else variable.low
    return low, None if variable.high >= _INFINITE else variable.high


def _run(problem: Any, name: str, options: Options) -> None:
    pulp = _pulp()
    settings: dict[str, Any] = {"msg": False, "threads": 1}
    if options.time_limit_s is not None:
        settings["timeLimit"] = max(options.time_limit_s, 0.1)
    settings["gapRel"] = max(options.gap, 1e-9)
    if options.barrier and len(problem.variables()) > _LARGE and name in ("PULP_CBC_CMD", "COIN_CMD"):
        settings["options"] = ["barrier"]
    try:
        with _silence() if name.startswith("HiGHS") else contextlib.nullcontext():
            problem.solve(pulp.getSolver(name, **settings))
    except pulp.PulpError as error:
        raise SolverError(f"{name} failed: {error}") from error


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Send what a library writes to file descriptor 1 nowhere: highspy 1.16 greets before it can be told not to."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 (a device)
            os.dup2(nowhere.fileno(), 1)
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def _solution(program: Program, problem: Any, unknowns: Sequence[Any], name: str) -> Solution:
    status = int(problem.status)
    has_values = int(problem.sol_status) in (1, 2)
    if not has_values:
        if status == -1:
            return Solution("infeasible", math.nan, (), {}, name)
        if status in (-2, -3):
            return Solution("unbounded", math.nan, (), {}, name)
        raise SolverError(f"{name} stopped without a solution; a longer time limit may help")
    values = tuple(_value(u.varValue, v) for u, v in zip(unknowns, program.variables, strict=True))
    duals = {}
    if not program.integers:
        found = problem.constraints
        sign = -1.0 if name == "HiGHS" and program.maximise else 1.0  # PuLP hands HiGHS the negated objective
        duals = {row.name: sign * float(found[f"r{i}"].pi or 0.0) for i, row in enumerate(program.rows)}
    objective = math.fsum(c * values[i] for i, c in program.objective.items())
    return Solution("optimal" if int(problem.sol_status) == 1 else "feasible", objective, values, duals, name)


def _value(found: float | None, variable: Variable) -> float:
    value = 0.0 if found is None else float(found)
    if variable.integer:
        value = float(round(value))
    return min(max(value, variable.low), variable.high)


def to_lp_text(program: Program) -> str:
    """Write a programme in the CPLEX LP format, names as they are, in the order of its rows.

    >>> print(to_lp_text(Program((Variable("x"), Variable("n", high=3, integer=True)),
    ...     (Row("x_needs_n", {0: 1.0, 1: -1.5}, "<=", 0.25),), {0: 1.0}, maximise=True)))
    Maximize
     objective: 1 x
    Subject To
     x_needs_n: 1 x - 1.5 n <= 0.25
    Bounds
     0 <= n <= 3
    General
     n
    End
    """
    names = [v.name for v in program.variables]
    lines = ["Maximize" if program.maximise else "Minimize", f" objective: {_sum(program.objective, names)}"]
    lines.append("Subject To")
    lines += [f" {row.name}: {_sum(row.terms, names)} {row.sense} {row.right:.12g}" for row in program.rows]
    bounds = [text for v in program.variables if (text := _bound_text(v))]
    if bounds:
        lines += ["Bounds", *bounds]
    if program.integers:
        lines += ["General", *(f" {names[i]}" for i in program.integers)]
    return "\n".join([*lines, "End"])


def _bound_text(v: Variable) -> str:
    if v.low == v.high:
        return f" {v.name} = {v.low:.12g}"
    if v.high < math.inf:
        return f" {v.low:.12g} <= {v.name} <= {v.high:.12g}"
    return f" {v.name} >= {v.low:.12g}" if v.low else ""


def _sum(terms: Mapping[int, float], names: Sequence[str]) -> str:
    parts = []
    for index, coefficient in terms.items():
        sign = "-" if coefficient < 0 else "+"
        parts.append(f"{sign} {abs(coefficient):.12g} {names[index]}")
    return " ".join(parts).removeprefix("+ ") or "0"

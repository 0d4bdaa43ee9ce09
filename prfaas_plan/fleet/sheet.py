"""A sheet on which a linear programme is written down, variable by variable and row by row."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from prfaas_plan.solver import Program, Row, Sense, Variable

__all__ = ["Sheet", "label"]


def label(family: str, *parts: object) -> str:
    """Name a variable or a row after its family and what it is about, in letters the LP format allows.

    >>> label("prefill_within_instances", "day", "eu west")
    'prefill_within_instances(day,eu_west)'
    """
    inner = ",".join(re.sub(r"[^\w.]", "_", str(part)) for part in parts if part != "")
    return f"{family}({inner})" if inner else family


class Sheet:
    """Collects variables and rows; a row whose terms are all zero is kept only if it cannot hold."""

    def __init__(self) -> None:
        self.variables: list[Variable] = []
        self.rows: dict[str, Row] = {}

    def variable(self, name: str, low: float = 0.0, high: float = math.inf, *, integer: bool = False) -> int:
        """Add a variable and give its index."""
        self.variables.append(Variable(name, low, high, integer))
        return len(self.variables) - 1

    def row(self, name: str, terms: Mapping[int, float], sense: Sense, right: float) -> None:
        """Add a constraint."""
        if not terms and ((sense == "<=" and right >= 0.0) or (sense == "=" and right == 0.0)):
            return
        self.rows[name] = Row(name, dict(terms), sense, right)

    def program(self, objective: Mapping[int, float], *, maximise: bool) -> Program:
        """Give the finished programme."""
        return Program(tuple(self.variables), tuple(self.rows.values()), dict(objective), maximise)

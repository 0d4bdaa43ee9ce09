"""The errors this package raises on purpose, each with the exit code of the program.

::

    PlanError
    ├── InputError          2   a file, option or name is wrong; lists every fault
    │   ├── ProfileNotFoundError
    │   ├── ProfileError
    │   ├── ScenarioError
    │   ├── TraceError
    │   └── UnitError
    ├── InfeasibleError     3   no plan meets the scenario; names the binding constraint
    └── SolverError         4   the solver failed or ran out of time without a plan

Other exceptions are defects of the program and are not caught.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = [
    "Fault",
    "InfeasibleError",
    "InputError",
    "PlanError",
    "ProfileError",
    "ProfileNotFoundError",
    "ScenarioError",
    "SolverError",
    "TraceError",
    "UnitError",
    "nearest",
]

_VALUE_WIDTH = 160


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong in the input, with what was expected instead."""

    where: str
    """The file, option or command the value came from."""
    key: str
    """The dotted path of the key, or an empty string for the file as a whole."""
    problem: str
    """What is wrong and what is expected, in words."""
    value: object = None
    """The offending value; ``None`` where there is none to show."""
    suggestion: str = ""
    """The nearest valid name, where there is one."""

    def __str__(self) -> str:
        place = f"{self.where}: {self.key}" if self.key else self.where
        shown = "" if self.value is None else f" = {_shortened(self.value)}"
        hint = f" (did you mean {self.suggestion!r}?)" if self.suggestion else ""
        return f"{place}{shown}: {self.problem}{hint}"


def _shortened(value: object) -> str:
    text = value if isinstance(value, (int, float)) and not isinstance(value, bool) else repr(value)
    shown = str(text)
    return shown if len(shown) <= _VALUE_WIDTH else shown[: _VALUE_WIDTH - 1] + "…"


def nearest(name: str, names: Iterable[str]) -> str:
    """Return the valid name closest to a misspelt one, or an empty string.

    >>> nearest("h20-96", ["h20-96gb-sxm", "h200-sxm"])
    'h20-96gb-sxm'
    >>> nearest("zzz", ["h200-sxm"])
    ''
    """
    import difflib

    wanted = name.lower()
    candidates = list(names)
    starting = [c for c in candidates if c.lower().startswith(wanted)]
    if len(starting) == 1 and wanted:
        return starting[0]
    by_lower = {c.lower(): c for c in candidates}
    close = difflib.get_close_matches(wanted, list(by_lower), n=1, cutoff=0.5)
    return by_lower[close[0]] if close else ""


class PlanError(Exception):
    """Base of every error raised on purpose."""

    exit_code = 1


class InputError(PlanError):
    """The input is wrong; `faults` has every fault that was found."""

    exit_code = 2

    def __init__(self, faults: Fault | Sequence[Fault]) -> None:
        self.faults: tuple[Fault, ...] = (faults,) if isinstance(faults, Fault) else tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


class ProfileNotFoundError(InputError):
    """No hardware, model or measured profile has this name."""


class ProfileError(InputError):
    """A hardware, model or measured profile is malformed."""


class ScenarioError(InputError):
    """A scenario is malformed or contradicts itself."""


class TraceError(InputError):
    """A request trace cannot be read."""


class UnitError(InputError):
    """A value has a unit of the wrong dimension, or one that is not known."""


class InfeasibleError(PlanError):
    """No plan satisfies the scenario.

    `binding` names the constraint in words, `relaxation` the smallest change that would help.
    """

    exit_code = 3

    def __init__(self, binding: str, relaxation: str = "") -> None:
        self.binding = binding
        self.relaxation = relaxation
        super().__init__(f"no feasible plan: {binding}" + (f"; {relaxation}" if relaxation else ""))


class SolverError(PlanError):
    """The solver stopped without a plan that can be trusted."""

    exit_code = 4

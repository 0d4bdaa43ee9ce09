"""Checks of the arguments of public functions: every fault is collected, then raised once."""

from __future__ import annotations

import math

from prfaas_plan.errors import Fault, InputError, nearest

__all__ = ["Checks"]


class Checks:
    """The faults found so far in the arguments of one function.

    >>> checks = Checks("usable_rate")
    >>> checks.above("rtt_s", -1.0)
    >>> checks.fraction("loss_fraction", 2.0)
    >>> checks.finish()
    Traceback (most recent call last):
    prfaas_plan.errors.InputError: usable_rate: rtt_s = -1.0: expected a finite number above 0
    usable_rate: loss_fraction = 2.0: expected a number from 0 to 1
    """

    def __init__(self, where: str) -> None:
        self.where = where
        self.faults: list[Fault] = []

    def fault(self, key: str, problem: str, value: object = None, suggestion: str = "") -> None:
        """Note a fault."""
        self.faults.append(Fault(self.where, key, problem, value, suggestion))

    def above(self, key: str, value: float, low: float = 0.0, *, infinite: bool = False) -> None:
        """Expect a number above `low`, finite unless `infinite` is allowed."""
        if not (value > low and (infinite or math.isfinite(value))):
            self.fault(key, f"expected a {'' if infinite else 'finite '}number above {low:g}", value)

    def at_least(self, key: str, value: float, low: float = 0.0) -> None:
        """Expect a finite number of at least `low`."""
        if not (value >= low and math.isfinite(value)):
            self.fault(key, f"expected a finite number of at least {low:g}", value)

    def whole(self, key: str, value: float, low: int, high: float = math.inf) -> None:
        """Expect a whole number from `low` to `high`."""
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            most = "" if math.isinf(high) else f", at most {high:,.0f}"
            self.fault(key, f"expected a whole number of at least {low}{most}", value)

    def number(self, key: str, value: float) -> bool:
        """Expect a number at all, so that it can be compared."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.fault(key, "expected a number", value)
            return False
        return True

    def fraction(self, key: str, value: float) -> None:
        """Expect a number from 0 to 1."""
        if not 0.0 <= value <= 1.0:
            self.fault(key, "expected a number from 0 to 1", value)

    def inside(self, key: str, value: float) -> None:
        """Expect a number strictly between 0 and 1."""
        if not 0.0 < value < 1.0:
            self.fault(key, "expected a number between 0 and 1, both excluded", value)

    def choice(self, key: str, value: str, choices: tuple[str, ...]) -> None:
        """Expect one of a few names."""
        if value not in choices:
            self.fault(key, "expected one of " + ", ".join(choices), value, nearest(str(value), choices))

    def finish(self) -> None:
        """Raise `InputError` with all faults, if there are any."""
        if self.faults:
            raise InputError(self.faults)

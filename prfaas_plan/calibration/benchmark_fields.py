"""Reads the keys of benchmark outputs: numbers with bounds, nested tables, times whose unit a name states."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from prfaas_plan.errors import Fault

__all__ = ["Fields", "engine_name", "first_text", "parse_date", "time_factor", "unit_of_name"]

LARGEST = 1e12
"""No count, rate or time of a benchmark is larger (in the unit of the file)."""
SHORTEST_S = 1e-9
"""A shorter time [s] is no measurement: tools write 0 where there is none."""

_UNIT_IN_NAME = re.compile(r"(?:\(([^()]*)\)|_(s|sec|secs|seconds|ms|us|ns))$", re.I)
_SECONDS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("us", "µs", "usec", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), 1e-9),
}
_DATE = re.compile(r"(20\d\d)[-/.]?(0[1-9]|1[0-2])[-/.]?(0[1-9]|[12]\d|3[01])(?!\d)")


def time_factor(unit: str) -> float | None:
    """Give the seconds in a unit of time as benchmark tools spell it, ``None`` if it is none.

    >>> time_factor("ms"), time_factor("sec"), time_factor("tokens")
    (0.001, 1.0, None)
    """
    return _SECONDS.get(unit.strip().lower())


def unit_of_name(name: str) -> str:
    """Find the unit that a column's or metric's name ends with; empty if it states none.

    >>> [unit_of_name(name) for name in ("Time To First Token (ms)", "latency_s", "seconds", "time")]
    ['ms', 's', 's', '']
    """
    stripped = name.strip()
    if stripped.lower() in ("s", "sec", "seconds", "milliseconds", "ms"):
        return "ms" if stripped.lower().startswith("m") else "s"
    match = _UNIT_IN_NAME.search(stripped)
    return (match[1] or match[2] or "").strip() if match else ""


def parse_date(text: str) -> str:
    """Find a calendar date in text such as ``20260216-160148``; empty if there is none.

    >>> parse_date("20260216-160148"), parse_date("2026-02-16T16:01:48Z"), parse_date("soon")
    ('2026-02-16', '2026-02-16', '')
    """
    match = _DATE.search(text)
    return "-".join(match.groups()) if match else ""


def engine_name(*parts: str) -> str:
    """Join the parts of an engine's name that are known.

    >>> engine_name("sglang", "0.5.3", "")
    'sglang 0.5.3'
    """
    return " ".join(part for part in parts if part)


def first_text(values: Sequence[Any]) -> str:
    """Give the first text of a list, or an empty one.

    >>> first_text([None, "Qwen3-8B"])
    'Qwen3-8B'
    """
    return next((value for value in values if isinstance(value, str)), "")


class Fields:
    """The keys of one object of a benchmark file; values that are not what a key promises become faults.

    A key that is absent or null gives ``None``; it is for the caller to ask for it.

    >>> faults = []
    >>> fields = Fields({"duration": -1, "ttft": {"avg": 5}}, "bench.json", faults)
    >>> fields.number("duration"), fields.table("ttft").number("avg"), fields.number("completed")
    (None, 5.0, None)
    >>> print(faults[0])
    bench.json: duration = -1: expected a number from 0 to 1e+12
    """

    def __init__(self, data: Mapping[Any, Any], where: str, faults: list[Fault], path: str = "") -> None:
        self.data = data
        self.where = where
        self.faults = faults
        self.path = path

    def __contains__(self, key: str) -> bool:
        return self.data.get(key) is not None

    def fault(self, key: str, problem: str, value: object = None) -> None:
        """Note a fault at a key."""
        self.faults.append(Fault(self.where, f"{self.path}{key}", problem, value))

    def number(self, *keys: str, infinite: bool = False, largest: float = LARGEST) -> float | None:
        """Read the first of these keys that is present, as a number of at least 0."""
        key = next((k for k in keys if k in self), None)
        if key is None:
            return None
        value = self.data[key]
        if infinite and isinstance(value, str) and value.strip().lower() in ("inf", "infinity"):
            return math.inf
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            if 0 <= value <= largest:
                return float(value)
            if infinite and value == math.inf:
                return math.inf
        self.fault(key, f"expected a number from 0 to {largest:g}", value)
        return None

    def stated(self, key: str) -> float | None:
        """Read a number that a user may have written as text; other text says nothing.

        >>> Fields({"tp": "8", "ep": "none"}, "", []).stated("tp")
        8.0
        """
        value = self.data.get(key)
        if isinstance(value, str):
            return float(value) if value.isascii() and value.isdigit() and len(value) < 10 else None
        return None if isinstance(value, bool) else self.number(key)

    def count(self, *keys: str) -> int | None:
        """Read a whole number."""
        number = self.number(*keys)
        if number is not None and number != round(number):
            self.fault(next(k for k in keys if k in self), "expected a whole number", number)
            return None
        return None if number is None else round(number)

    def seconds(self, *keys: str, factor: float = 1.0) -> float | None:
        """Read a time as seconds, `factor` being the seconds in its unit; 0 means that none was measured."""
        number = self.number(*keys)
        return None if number is None or number * factor < SHORTEST_S else number * factor

    def text(self, *keys: str) -> str:
        """Read the first of these keys that is present, as text; empty if there is none."""
        key = next((k for k in keys if k in self), None)
        if key is None:
            return ""
        value = self.data[key]
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            return str(value)
        self.fault(key, "expected text", value)
        return ""

    def table(self, key: str) -> Fields:
        """Read a nested table; an absent or null one is empty."""
        value = self.data.get(key)
        if value is not None and not isinstance(value, Mapping):
            self.fault(key, "expected an object", value)
        inner = value if isinstance(value, Mapping) else {}
        return Fields(inner, self.where, self.faults, f"{self.path}{key}.")

    def list(self, key: str) -> Sequence[Any]:
        """Read a list; an absent or null one is empty."""
        value = self.data.get(key)
        if value is not None and not isinstance(value, list):
            self.fault(key, "expected a list", value)
        return value if isinstance(value, list) else ()

"""What a what-if varies: paths of a scenario with lists, ranges or distributions of values."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from prfaas_plan.errors import Fault, InputError, UnitError, nearest
from prfaas_plan.overrides import parse_value
from prfaas_plan.units import parse_tokens

__all__ = ["Axis", "Design", "Distribution", "read_axes", "read_axis", "read_distribution"]

MOST_CASES = 20_000_000
_DISTRIBUTION = re.compile(r"(uniform|normal|lognormal|triangular|choice)\((.*)\)", re.DOTALL)
_ARGUMENTS = {"uniform": "low, high", "normal": "mean, deviation", "lognormal": "median, sigma",
              "triangular": "low, mode, high"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Axis:
    """A path of the scenario and the values it takes, as they would be written in its file."""

    path: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Design:
    """Which combinations of the axes are cases: every one (``grid``), or one value of each at a time (``zip``)."""

    axes: tuple[Axis, ...]
    mode: str = "grid"

    def __len__(self) -> int:
        if not self.axes:
            return 1
        sizes = [len(axis.values) for axis in self.axes]
        return math.prod(sizes) if self.mode == "grid" else sizes[0]

    def positions(self, case: int) -> tuple[int, ...]:
        """Give the place of a case on each axis; the last axis turns fastest.

        >>> Design((Axis("a", (1, 2)), Axis("b", (1, 2, 3)))).positions(4)
        (1, 1)
        """
        if self.mode == "zip":
            return (case,) * len(self.axes)
        places = []
        for axis in reversed(self.axes):
            case, place = divmod(case, len(axis.values))
            places.append(place)
        return tuple(reversed(places))


def read_axes(vary: Sequence[str], mode: str = "grid") -> Design:
    """Read ``PATH=SPEC`` texts, SPEC being ``a,b,c``, ``start:stop:count`` or ``start:stop:count:log``.

    Raises `InputError` with every text that cannot be read, for two of one path, for a zip of unequal lengths,
    and for more than 20 million cases.

    >>> len(read_axes(["link.0.bandwidth_gbps=1:100:3:log", "cluster.local.instances=6,8"]))
    6
    """
    axes: list[Axis] = []
    faults: list[Fault] = []
    for written in [vary] if isinstance(vary, str) else vary:
        try:
            axes.append(read_axis(written))
        except InputError as error:
            faults.extend(error.faults)
    paths = [axis.path for axis in axes]
    faults += [Fault("--vary", p, "is varied twice") for p in dict.fromkeys(paths) if paths.count(p) > 1]
    if mode not in ("grid", "zip"):
        faults.append(Fault("--mode", "", "expected grid or zip", mode, nearest(mode, ("grid", "zip"))))
    sizes = {len(axis.values) for axis in axes}
    if mode == "zip" and len(sizes) > 1:
        lengths = ", ".join(f"{a.path} has {len(a.values)}" for a in axes)
        faults.append(Fault("--vary", "", f"a zip needs as many values of each: {lengths}"))
    if not faults and len(Design(tuple(axes), mode)) > MOST_CASES:
        count = len(Design(tuple(axes), mode))
        faults.append(Fault("--vary", "", f"{count:,} cases are more than {MOST_CASES:,}"))
    if faults:
        raise InputError(faults)
    return Design(tuple(axes), mode)


def read_axis(written: str) -> Axis:
    """Read one ``PATH=SPEC``.

    Raises `InputError` if it cannot be read.

    >>> read_axis("cluster.prfaas.accelerator=h200-sxm,b200-sxm").values
    ('h200-sxm', 'b200-sxm')
    >>> read_axis("link.0.bandwidth_gbps=1:100:3:log").values
    (1.0, 10.0, 100.0)
    """
    path, equals, spec = written.partition("=")
    path, spec = path.strip(), spec.strip()
    if not equals or not path or not spec:
        raise InputError(Fault("--vary", "", "expected PATH=a,b,c or PATH=start:stop:count[:log]", written))
    parts = spec.split(":")
    if len(parts) in (3, 4) and _number(parts[0]) is not None and _number(parts[1]) is not None:
        return Axis(path, _range(path, spec, parts))
    values = [value.strip() for value in _split(spec)]
    if any(not value for value in values):
        raise InputError(Fault("--vary", path, "has an empty value", spec))
    return Axis(path, tuple(parse_value(value) for value in values))


def _range(path: str, spec: str, parts: list[str]) -> tuple[Any, ...]:
    start, stop, count = _number(parts[0]), _number(parts[1]), parts[2].strip()
    logarithmic = len(parts) == 4
    if start is None or stop is None or not math.isfinite(start) or not math.isfinite(stop):
        raise InputError(Fault("--vary", path, "expected start:stop:count with a finite start and stop", spec))
    if not count.isdecimal() or not 1 <= int(count) <= MOST_CASES:
        limits = f"a count of at least 1 and of at most {MOST_CASES:,}"
        raise InputError(Fault("--vary", path, f"expected start:stop:count with {limits}", spec))
    if logarithmic and (parts[3].strip() != "log" or start <= 0.0 or stop <= 0.0):
        raise InputError(Fault("--vary", path, "expected start:stop:count:log with start and stop above 0", spec))
    n = int(count)
    if n == 1:
        return (start,)
    shares = [i / (n - 1) for i in range(n)]
    if logarithmic:
        inner = [start * (stop / start) ** share for share in shares[1:-1]]
    else:
        inner = [start + (stop - start) * share for share in shares[1:-1]]
    return (start, *(float(f"{x:.12g}") for x in inner), stop)


def _number(written: str) -> float | None:
    try:
        return float(written)
    except ValueError:
        pass
    try:
        return float(parse_tokens(written))
    except UnitError:
        return None


def _split(spec: str) -> list[str]:
    """Split at commas outside of brackets and quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for i, character in enumerate(spec):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "[{(":
            depth += 1
        elif character in "]})":
            depth -= 1
        elif character == "," and depth <= 0:
            parts.append(spec[start:i])
            start = i + 1
    return [*parts, spec[start:]]


@dataclass(frozen=True, slots=True)
class Distribution:
    """What is believed about one input: a law and its arguments, or a choice of values."""

    path: str
    law: str
    arguments: tuple[Any, ...]

    def draw(self, source: random.Random) -> Any:
        """Draw one value."""
        a = self.arguments
        if self.law == "uniform":
            return source.uniform(a[0], a[1])
        if self.law == "normal":
            return source.gauss(a[0], a[1])
        if self.law == "lognormal":
            return a[0] * math.exp(a[1] * source.gauss(0.0, 1.0))
        if self.law == "triangular":
            return source.triangular(a[0], a[2], a[1])
        return source.choice(a)


def read_distribution(written: str) -> Distribution:
    """Read ``PATH=uniform(low, high)``, ``normal(mean, deviation)``, ``lognormal(median, sigma)``,
    ``triangular(low, mode, high)`` or ``choice(a, b, c)``.

    Raises `InputError` if it cannot be read.

    >>> read_distribution("link.0.bandwidth_gbps=triangular(50, 80, 100)").arguments
    (50.0, 80.0, 100.0)
    """  # noqa: D205
    path, _, spec = written.partition("=")
    match = _DISTRIBUTION.fullmatch(spec.strip())
    if not path.strip() or match is None:
        known = ", ".join(f"{name}({arguments})" for name, arguments in _ARGUMENTS.items())
        raise InputError(Fault("--vary", path.strip(), f"expected PATH=one of {known}, choice(a, b, ...)", spec))
    law, inside = match[1], [part.strip() for part in _split(match[2])]
    if law == "choice":
        if not all(inside):
            raise InputError(Fault("--vary", path.strip(), "has an empty value", spec))
        return Distribution(path.strip(), law, tuple(parse_value(part) for part in inside))
    numbers = [_number(part) for part in inside]
    wanted = _ARGUMENTS[law]
    if len(numbers) != wanted.count(",") + 1 or any(n is None or not math.isfinite(n) for n in numbers):
        raise InputError(Fault("--vary", path.strip(), f"expected {law}({wanted})", spec))
    arguments = tuple(n for n in numbers if n is not None)
    rising = law not in ("uniform", "triangular") or sorted(arguments) == list(arguments)
    if not rising or (law in ("normal", "lognormal") and arguments[1] < 0.0):
        raise InputError(Fault("--vary", path.strip(), f"expected {law}({wanted}) with rising bounds", spec))
    return Distribution(path.strip(), law, arguments)

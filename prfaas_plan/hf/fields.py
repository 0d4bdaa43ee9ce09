"""Typed access to the keys of a Hugging Face ``config.json``, which collects every fault instead of stopping at one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from prfaas_plan.errors import Fault, ProfileError

__all__ = ["MOST_LAYERS", "Fields"]

MOST_LAYERS = 10_000
"""A stack deeper than this is taken for a fault."""

_MOST = 1e7


@dataclass(slots=True)
class Fields:
    """The keys of one object of a configuration; ``null`` counts as absent.

    A faulty or missing value is noted in `faults` and read as a harmless placeholder, so that reading goes on;
    `finish` then raises everything at once.
    """

    where: str
    data: Mapping[str, Any]
    prefix: str = ""
    faults: list[Fault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def fault(self, key: str, problem: str, value: object = None) -> None:
        """Note a fault of a key and read on; of several faults of one key the first is kept."""
        path = self.prefix + key
        if all(path != known.key for known in self.faults):
            self.faults.append(Fault(self.where, path, problem, value))

    def note(self, remark: str) -> None:
        """Note what a reader of the profile should know."""
        if remark not in self.notes:
            self.notes.append(remark)

    def finish(self) -> None:
        """Raise `ProfileError` with every fault noted so far, if there is any."""
        if self.faults:
            raise ProfileError(self.faults)

    def has(self, *names: str) -> str:
        """Return the first of several keys that is present and not null, or an empty string."""
        return next((name for name in names if self.data.get(name) is not None), "")

    def inner(self, name: str) -> Fields:
        """Open a nested object; a value that is no object is a fault and reads as an empty one."""
        value = self.data.get(name)
        if value is not None and not isinstance(value, Mapping):
            self.fault(name, "expected an object", value)
        data = value if isinstance(value, Mapping) else {}
        return replace(self, data=data, prefix=f"{self.prefix}{name}.")

    def count(self, *names: str, default: int | None = None, least: int = 1, most: float = _MOST) -> int:
        """Read a whole number under the first of several spellings; without a default it must be there."""
        name = self.has(*names)
        if name:
            return self._whole(name, self.data[name], least, most)
        if default is not None:
            return default
        also = f" (or {', '.join(names[1:])})" if names[1:] else ""
        self.fault(names[0], f"missing{also}; expected a whole number of at least {least}")
        return max(1, least)

    def optional(self, *names: str, least: int = 1) -> int | None:
        """Read a whole number that may be absent."""
        name = self.has(*names)
        return self._whole(name, self.data[name], least, 1e9) if name else None

    def _whole(self, key: str, value: object, least: int, most: float) -> int:
        number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else -1.0
        if least <= number <= most and number == int(number):
            return int(number)
        self.fault(key, f"expected a whole number of at least {least} and at most {most:g}", value)
        return max(1, least)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Read a key that is true or false."""
        value = self.data.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.fault(name, "expected true or false", value)
            return default
        return value

    def word(self, *names: str, default: str = "") -> str:
        """Read a text under the first of several spellings."""
        name = self.has(*names)
        if not name:
            return default
        value = self.data[name]
        if not isinstance(value, str):
            self.fault(name, "expected text", value)
            return default
        return value

    def listed(self, name: str, depth: int, *, what: str = "entry") -> list[Any]:
        """Read a list with one entry a layer; a longer one has entries of extra layers, a shorter one is a fault."""
        value = self.data.get(name)
        if not isinstance(value, Sequence) or isinstance(value, (bytes, str)) or len(value) < depth:
            self.fault(name, f"expected a list with one {what} for each of {depth} layers", value)
            return [None] * depth
        if len(value) > depth:
            self.note(f"{name} has {len(value)} entries for {depth} layers; the first {depth} are the stack")
        return list(value[:depth])

    def per_layer(
        self, *names: str, depth: int, default: int | None = None, least: int = 1, most: float = _MOST
    ) -> list[int]:
        """Read a whole number that holds for all layers, or a list with one for each."""
        name = self.has(*names)
        if name and isinstance(self.data[name], list):
            return [self._whole(name, value, least, most) for value in self.listed(name, depth, what="number")]
        return [self.count(*names, default=default, least=least, most=most)] * depth

    def indices(self, name: str, depth: int, *, first: int = 0) -> set[int]:
        """Read layer numbers, a list or comma-separated text counted from `first`, as numbers counted from 0."""
        value = self.data.get(name)
        entries = value.split(",") if isinstance(value, str) else value
        if not isinstance(entries, list):
            self.fault(name, "expected a list of layer numbers", value)
            return set()
        found: set[int] = set()
        for entry in entries:
            number = int(entry) if isinstance(entry, str) and entry.strip().isdecimal() and len(entry) < 9 else entry
            if isinstance(number, bool) or not isinstance(number, int) or not first <= number < depth + first:
                self.fault(name, f"expected layer numbers from {first} to {depth - 1 + first}", entry)
            else:
                found.add(number - first)
        return found

"""One declaration per field: unit, symbol, bounds and description, and a reader that reports every fault at once.

A record is a frozen dataclass whose fields are declared with `quantity`, `text`, `flag` or `part`.
`read_record` turns a mapping from a TOML or JSON file into the record. A number may be written plainly
(in the unit of its key), as text with a unit (``"100 Gbit/s"``), or as a table
``{ value = 4800, unit = "GB/s", source = "id" }`` whose source is remembered.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from prfaas_plan.errors import Fault, InputError, ProfileError, UnitError, nearest
from prfaas_plan.units import is_token_unit, parse

__all__ = ["Reader", "Spec", "flag", "part", "quantity", "read_field", "read_record", "specs", "text"]

R = TypeVar("R")
_HUGE = 1e21
MOST_TOKENS = 1e9
"""Longest length, in tokens, that is taken seriously."""
_SPECS: dict[type[Any], dict[str, tuple[dataclasses.Field[Any], Spec, Any]]] = {}


@dataclass(frozen=True, slots=True)
class Spec:
    """What is declared about one field."""

    kind: Literal["number", "text", "flag", "part"]
    doc: str
    unit: str = ""
    symbol: str = ""
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    choices: tuple[str, ...] = ()
    key: str = ""
    """Name in the file, where it differs from the field's (``from`` is a Python keyword)."""
    may_be_infinite: bool = False

    def expectation(self) -> str:
        """Say in words what a value must be.

        >>> Spec("number", "bandwidth", unit="Gbit/s", above=0, at_most=9).expectation()
        'a number above 0 and of at most 9 [Gbit/s]'
        """
        if self.kind == "flag":
            return "true or false"
        if self.kind == "text":
            return "one of " + ", ".join(self.choices) if self.choices else "text"
        bounds = [
            f"{word} {bound:g}"
            for word, bound in (("of at least", self.at_least), ("above", self.above), ("of at most", self.at_most))
            if bound is not None
        ]
        if not bounds or self.at_most is None:
            bounds.append(f"below {MOST_TOKENS if is_token_unit(self.unit) else _HUGE:g}")
        return f"a number {' and '.join(bounds)} [{self.unit}]"

    def allows(self, number: float) -> bool:
        """Say whether a number is finite (where it must be) and within the bounds."""
        huge = MOST_TOKENS if is_token_unit(self.unit) else _HUGE
        size_is_fine = abs(number) <= huge or (self.may_be_infinite and number == math.inf)
        return (
            size_is_fine
            and (self.at_least is None or number >= self.at_least)
            and (self.above is None or number > self.above)
            and (self.at_most is None or number <= self.at_most)
        )


def quantity(  # noqa: PLR0913 (keyword-only declarations)
    unit: str,
    doc: str,
    *,
    symbol: str = "",
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    default: Any = dataclasses.MISSING,
    may_be_infinite: bool = False,
) -> Any:
    """Declare a number (or a tuple of numbers) with its unit and bounds."""
    spec = Spec("number", doc, unit, symbol, at_least, above, at_most, may_be_infinite=may_be_infinite)
    return field(default=default, metadata={"spec": spec})


def text(doc: str, *, choices: Sequence[str] = (), default: Any = dataclasses.MISSING, key: str = "") -> Any:
    """Declare a text (or a tuple of texts), with the values it may take and its key in the file."""
    return field(default=default, metadata={"spec": Spec("text", doc, choices=tuple(choices), key=key)})


def flag(doc: str, *, default: Any = dataclasses.MISSING) -> Any:
    """Declare a field that is true or false."""
    return field(default=default, metadata={"spec": Spec("flag", doc)})


def part(doc: str, *, default: Any = dataclasses.MISSING, factory: Callable[[], Any] | None = None) -> Any:
    """Declare a nested record, a tuple of records, or a dict of records by name."""
    metadata = {"spec": Spec("part", doc)}
    if factory is not None:
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)


def specs(record: type[Any]) -> dict[str, tuple[dataclasses.Field[Any], Spec, Any]]:
    """List the declared fields of a record by their key: dataclass field, declaration and resolved type."""
    if record not in _SPECS:
        hints = typing.get_type_hints(record)
        _SPECS[record] = {
            f.metadata["spec"].key or f.name: (f, f.metadata["spec"], hints[f.name])
            for f in dataclasses.fields(record)
            if "spec" in f.metadata
        }
    return _SPECS[record]


@dataclass(slots=True)
class Reader:
    """Collects faults and sources while one file is read."""

    where: str
    faults: list[Fault] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    """Dotted path of a number to the id of its source, where the file states one."""

    def fault(self, key: str, problem: str, value: object = None, suggestion: str = "") -> None:
        """Note one fault and read on."""
        self.faults.append(Fault(self.where, key, problem, value, suggestion))

    def finish(self, error: type[InputError] = ProfileError) -> None:
        """Raise every fault noted so far as one error, if there is any."""
        if self.faults:
            raise error(self.faults)


def read_record(record: type[R], data: object, reader: Reader, path: str = "") -> R | None:
    """Read a mapping into a record; faults go to the reader, and a faulty record comes back as ``None``."""
    if not isinstance(data, Mapping):
        reader.fault(path, "expected a table of keys", data)
        return None
    declared = specs(record)
    before = len(reader.faults)
    _note_unknown_keys(record, data, reader, path)
    values: dict[str, Any] = {}
    for name, (declaration, spec, hint) in declared.items():
        key = f"{path}.{name}" if path else name
        if name in data:
            values[declaration.name] = _read_value(hint, spec, data[name], reader, key)
        elif declaration.default is dataclasses.MISSING and declaration.default_factory is dataclasses.MISSING:
            reader.fault(key, f"missing; expected {_expected(spec, hint)}: {spec.doc}")
    if len(reader.faults) > before:
        return None
    default_source = data.get("source")
    if isinstance(default_source, str):
        reader.sources[path] = default_source
    try:
        return record(**values)
    except ValueError as error:
        reader.fault(path, str(error))
        return None


def read_field(record: type, name: str, value: object, reader: Reader, path: str) -> Any:
    """Check the value of one field of a record as its file would be; faults go to the reader."""
    _, spec, hint = specs(record)[name]
    return _read_value(hint, spec, value, reader, path)


def _note_unknown_keys(record: type, data: Mapping[Any, Any], reader: Reader, path: str) -> None:
    known = [*specs(record), "source"]
    if hasattr(record, "kind"):
        known.append("kind")
    for name in data:
        if name not in known:
            key = f"{path}.{name}" if path else str(name)
            reader.fault(key, "unknown key", suggestion=nearest(str(name), known))


def _expected(spec: Spec, hint: Any) -> str:
    if spec.kind != "part":
        return spec.expectation()
    return "a list of tables" if get_origin(_without_none(hint)[0]) is tuple else "a table"


def _without_none(hint: Any) -> tuple[Any, ...]:
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(a for a in get_args(hint) if a is not type(None))
    return (hint,)


def _read_value(hint: Any, spec: Spec, value: object, reader: Reader, key: str) -> Any:
    kinds = _without_none(hint)
    if spec.kind == "part":
        return _read_part(kinds, value, reader, key)
    if get_origin(kinds[0]) is tuple:
        item = get_args(kinds[0])[0]
        if not isinstance(value, (list, tuple)):
            reader.fault(key, "expected a list", value)
            return None
        return tuple(_read_scalar(item, spec, v, reader, f"{key}.{i}") for i, v in enumerate(value))
    return _read_scalar(kinds[0], spec, value, reader, key)


def _read_part(kinds: tuple[Any, ...], value: object, reader: Reader, key: str) -> Any:
    origin = get_origin(kinds[0])
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            reader.fault(key, "expected a list of tables", value)
            return None
        inner = _without_none(get_args(kinds[0])[0])
        return tuple(_read_part(inner, v, reader, f"{key}.{i}") for i, v in enumerate(value))
    if origin is dict:
        if not isinstance(value, Mapping):
            reader.fault(key, "expected a table of tables", value)
            return None
        inner = _without_none(get_args(kinds[0])[1])
        return {str(n): _read_part(inner, v, reader, f"{key}.{n}") for n, v in value.items()}
    if len(kinds) == 1:
        return read_record(kinds[0], value, reader, key)
    return _read_tagged(kinds, value, reader, key)


def _read_tagged(kinds: tuple[Any, ...], value: object, reader: Reader, key: str) -> Any:
    by_kind = {k.kind: k for k in kinds}
    tag = value.get("kind") if isinstance(value, Mapping) else None
    if not isinstance(tag, str) or tag not in by_kind:
        problem = "expected one of " + ", ".join(by_kind)
        reader.fault(f"{key}.kind", problem, tag, nearest(str(tag), by_kind) if tag else "")
        return None
    return read_record(by_kind[tag], value, reader, key)


def _read_scalar(hint: Any, spec: Spec, value: object, reader: Reader, key: str) -> Any:
    if spec.kind == "flag":
        if isinstance(value, bool):
            return value
        reader.fault(key, "expected true or false", value)
        return None
    if spec.kind == "text":
        return _read_text(spec, value, reader, key)
    try:
        number = _number(spec, value, reader, key)
    except UnitError as error:
        reader.faults.extend(dataclasses.replace(fault, value=value) for fault in error.faults)
        return None
    if number is None or not spec.allows(number):
        reader.fault(key, f"expected {spec.expectation()}", value)
        return None
    if hint is int:
        if number != round(number):
            reader.fault(key, f"expected a whole number [{spec.unit}]", value)
            return None
        return round(number)
    return number


def _read_text(spec: Spec, value: object, reader: Reader, key: str) -> str | None:
    if not isinstance(value, str):
        reader.fault(key, f"expected {spec.expectation()}", value)
    elif spec.choices and value not in spec.choices:
        reader.fault(key, f"expected {spec.expectation()}", value, nearest(value, spec.choices))
    else:
        return value
    return None


def _number(spec: Spec, value: object, reader: Reader, key: str) -> float | None:
    if isinstance(value, Mapping):
        return _number_with_source(spec, value, reader, key)
    if isinstance(value, str):
        return parse(value, spec.unit, where=reader.where, key=key)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return math.copysign(math.inf, value) if isinstance(value, int) and abs(value) > _HUGE else float(value)


def _number_with_source(spec: Spec, value: Mapping[Any, Any], reader: Reader, key: str) -> float | None:
    extra = [k for k in value if k not in ("value", "unit", "source", "note")]
    if extra or "value" not in value:
        problem = "expected { value, unit, source }"
        reader.fault(key, problem, dict(value))
        return None
    source = value.get("source")
    if source is not None:
        reader.sources[key] = str(source)
    inner = value["value"]
    unit = value.get("unit", spec.unit)
    if isinstance(inner, (int, float)) and not isinstance(inner, bool) and unit != spec.unit:
        return parse(f"{inner} {unit}", spec.unit, where=reader.where, key=key)
    return _number(spec, inner, reader, key) if not isinstance(inner, Mapping) else None

"""Writes a model or measured profile as the TOML file it could have been read from."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prfaas_plan.measured import MeasuredProfile
from prfaas_plan.model import ModelProfile
from prfaas_plan.records import specs

__all__ = ["compact_layers", "to_toml"]


def to_toml(profile: ModelProfile | MeasuredProfile) -> str:
    """Write a model or measured profile as TOML that reads back equal, but for the file it comes from.

    Values that equal their default are left out; runs of equal layers are written once with a count.

    >>> from prfaas_plan.model import KvPoint
    >>> points = (KvPoint(1000, 2e6), KvPoint(8000, 9e6))
    >>> print(to_toml(ModelProfile("Tiny", "measured", kv_points=points)))
    name = "Tiny"
    basis = "measured"
    <BLANKLINE>
    [[kv_points]]
    length_tokens = 1000
    kv_bytes = 2000000
    <BLANKLINE>
    [[kv_points]]
    length_tokens = 8000
    kv_bytes = 9000000
    <BLANKLINE>
    """
    lines = list(_table(profile, "", dict(profile.cited)))
    for source in profile.sources:
        lines += ["", f"[sources.{_key(source.id)}]"]
        lines += [f"{name} = {_text(getattr(source, name))}" for name in ("title", "locator", "date", "kind")]
    return "\n".join(lines) + "\n"


def compact_layers(layers: Sequence[str]) -> list[str]:
    """Write runs of equal layers as one entry with a count.

    >>> compact_layers(["a", "b", "b", "b"])
    ['a', 'b*3']
    """
    runs = [(name, len(list(run))) for name, run in itertools.groupby(layers)]
    return [name if count == 1 else f"{name}*{count}" for name, count in runs]


def _table(record: Any, path: str, cited: Mapping[str, str]) -> Iterator[str]:
    nested: list[tuple[str, Any]] = []
    if hasattr(record, "kind"):
        yield f"kind = {_text(record.kind)}"
    kind: Any = type(record)
    for name, (declared, spec, _) in specs(kind).items():
        value = getattr(record, name)
        if _is_default(declared, value):
            continue
        if spec.kind == "part":
            nested.append((name, value))
        else:
            shown = compact_layers(value) if path == "" and name == "layers" else value
            yield f"{name} = {_with_source(_value(shown), cited.get(f'{path}{name}'))}"
    if path.rstrip(".") in cited:
        yield f"source = {_text(cited[path.rstrip('.')])}"
    for name, value in nested:
        yield from _nested(name, value, path, cited)


def _is_default(declared: dataclasses.Field[Any], value: object) -> bool:
    if declared.default_factory is not dataclasses.MISSING:
        return bool(value == declared.default_factory())
    return bool(value == declared.default)


def _nested(name: str, value: Any, path: str, cited: Mapping[str, str]) -> Iterator[str]:
    header = ".".join(_key(step) for step in f"{path}{name}".split("."))
    if isinstance(value, Mapping):
        for key, entry in value.items():
            yield from ("", f"[{header}.{_key(key)}]")
            yield from _table(entry, f"{path}{name}.{key}.", cited)
    elif isinstance(value, tuple):
        for i, entry in enumerate(value):
            yield from ("", f"[[{header}]]")
            yield from _table(entry, f"{path}{name}.{i}.", cited)
    else:
        yield from ("", f"[{header}]")
        yield from _table(value, f"{path}{name}.", cited)


def _with_source(written: str, source: str | None) -> str:
    return written if source is None else f"{{ value = {written}, source = {_text(source)} }}"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
    if isinstance(value, (list, tuple)):
        return _list([_value(entry) for entry in value])
    return str(value) if isinstance(value, int) else _text(str(value))


def _list(entries: list[str]) -> str:
    line = f"[{', '.join(entries)}]"
    if len(line) <= 100:
        return line
    rows: list[str] = []
    row = ""
    for entry in entries:
        if len(row) + len(entry) > 100:
            rows, row = [*rows, row], ""
        row += f" {entry}," if row else f"{entry},"
    return "[\n" + "".join(f"  {r}\n" for r in [*rows, row]) + "]"


def _key(name: str) -> str:
    plain = name and all(c.isascii() and (c.isalnum() or c in "-_") for c in name)
    return name if plain else _text(name)


def _text(text: str) -> str:
    safe = text.encode("utf-8", "replace").decode("utf-8")
    return json.dumps(safe, ensure_ascii=False).replace("\x7f", "\\u007f")

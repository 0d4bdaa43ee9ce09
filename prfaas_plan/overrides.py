"""Changes to the raw keys of a scenario: dotted paths and the values written for them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from prfaas_plan.errors import Fault, ScenarioError, nearest

__all__ = ["apply_overrides", "parse_value", "set_path"]


def apply_overrides(data: dict[str, Any], overrides: Sequence[str]) -> list[str]:
    """Apply ``PATH=VALUE`` overrides to the raw keys of a scenario, and list the dotted paths they set.

    A list element is named by its index or, where it has one, its ``name``. A value is read as TOML, or else
    as text. Raises `ScenarioError` with every override that cannot be applied.

    >>> data = {"cluster": [{"name": "local", "instances": 8}]}
    >>> apply_overrides(data, ["cluster.local.instances=12"]), data["cluster"][0]["instances"]
    (['cluster.0.instances'], 12)
    """
    faults: list[Fault] = []
    paths: list[str] = []
    for override in overrides:
        path, equals, value = override.partition("=")
        if not equals or not path.strip():
            faults.append(Fault("--set", "", "expected PATH=VALUE", override))
            continue
        try:
            paths.append(set_path(data, path.strip(), parse_value(value.strip())))
        except KeyError as error:
            faults.append(Fault("--set", path, str(error.args[0]), suggestion=error.args[1]))
    if faults:
        raise ScenarioError(faults)
    return paths


def parse_value(written: str) -> Any:
    """Read a value as TOML, or as plain text where it is not TOML.

    >>> parse_value("10"), parse_value("h200-sxm"), parse_value("32Ki")
    (10, 'h200-sxm', '32Ki')
    """
    try:
        return tomllib.loads(f"value = {written}")["value"]
    except (ValueError, RecursionError, KeyError):
        return written


def set_path(data: dict[str, Any], path: str, value: Any) -> str:
    """Set one dotted path in nested tables and lists, and return it with list names turned into indexes.

    Raises `KeyError` with a problem and a suggestion where a list has no such element.
    """
    here: Any = data
    steps = path.split(".")
    taken: list[str] = []
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        key: Any = step
        if isinstance(here, list):
            key = _element(here, step)
        elif not isinstance(here, dict):
            raise KeyError(f"{'.'.join(taken)} is not a table: it has no key {step!r}", "")
        taken.append(str(key))
        if following is None:
            here[key] = value
        elif isinstance(here, dict) and key not in here:
            here[key] = {}
            here = here[key]
        else:
            here = here[key]
    return ".".join(taken)


def _element(items: list[Any], step: str) -> int:
    if step.isascii() and step.isdecimal() and int(step) < len(items):
        return int(step)
    names = [str(item["name"]) for item in items if isinstance(item, Mapping) and "name" in item]
    if step in names:
        return next(i for i, item in enumerate(items) if isinstance(item, Mapping) and item.get("name") == step)
    known = names or [str(i) for i in range(len(items))]
    raise KeyError(f"no element {step!r}; there is {', '.join(known) or 'none'}", nearest(step, known))

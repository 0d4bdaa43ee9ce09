"""Where profiles are found, by id, alias or path, and how their files are read.

Search order: folders given by the caller (``--profiles``), the folders of the environment variable
``PRFAAS_PLAN_PROFILES``, then the profiles shipped with the package. A folder may hold
``hardware_profiles/`` and ``model_profiles/``, or the TOML files themselves.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from prfaas_plan.errors import Fault, InputError, ProfileError, ProfileNotFoundError, nearest

__all__ = ["Source", "find_profile", "list_profiles", "load_toml", "read_sources", "shipped_folder"]

Kind = Literal["hardware", "model", "measured"]
_FOLDERS: dict[Kind, str] = {
    "hardware": "hardware_profiles",
    "model": "model_profiles",
    "measured": "model_profiles/measured",
}
_ALIASES = re.compile(r"^aliases\s*=\s*\[([^\]]*)\]", re.MULTILINE)
_ENVIRONMENT = "PRFAAS_PLAN_PROFILES"
MOST_BYTES = 16 * 2**20
"""Largest TOML file that is read."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a number comes from."""

    id: str
    title: str
    locator: str
    date: str
    kind: str


SOURCE_KINDS = ("datasheet", "measured", "paper", "config", "fitted", "derived", "assumed", "secondary")


def shipped_folder(name: str) -> Path:
    """Find a folder shipped with the package, in a wheel or in a checkout.

    Raises `FileNotFoundError` naming both places if the installation is broken.
    """
    here = Path(__file__).resolve().parent
    places = (here / name, here.parent / name)
    for place in places:
        if place.is_dir():
            return place
    raise FileNotFoundError(f"neither {places[0]} nor {places[1]} exists: the installation is incomplete")


def search_folders(kind: Kind, extra: Sequence[str | Path] = ()) -> list[Path]:
    """List the folders that hold profiles of a kind, first match first."""
    from_environment = [p for p in os.environ.get(_ENVIRONMENT, "").split(os.pathsep) if p]
    folders: list[Path] = []
    for root in (*map(Path, extra), *map(Path, from_environment)):
        folders += [root / _FOLDERS[kind], root]
    return [f for f in [*folders, shipped_folder(_FOLDERS[kind].split("/")[0]) / _inner(kind)] if f.is_dir()]


def _inner(kind: Kind) -> str:
    return "measured" if kind == "measured" else "."


def list_profiles(kind: Kind, extra: Sequence[str | Path] = ()) -> dict[str, Path]:
    """List every profile of a kind by id; an earlier folder hides a later one."""
    found: dict[str, Path] = {}
    for folder in search_folders(kind, extra):
        found = list_toml(folder) | found
    return dict(sorted(found.items()))


def list_toml(folder: Path) -> dict[str, Path]:
    """List the TOML files of a folder by their name without the ending."""
    return {path.stem: path for path in sorted(folder.glob("*.toml")) if is_file(path)}


def find_profile(
    kind: Kind, name: str, extra: Sequence[str | Path] = (), where: str = "profile", key: str = ""
) -> Path:
    """Find the file of a profile by path, id or alias.

    Raises `ProfileNotFoundError`, with the nearest known name, if there is none.
    """
    if name.endswith((".toml", ".json")) or os.sep in name:
        path = Path(name)
        if is_file(path):
            return path
        problem = "is a folder" if path.is_dir() else f"no such {kind} profile file"
        raise ProfileNotFoundError(Fault(where, key, problem, name))
    for folder in search_folders(kind, extra):
        path = folder / f"{name.lower()}.toml"
        if is_file(path) and path.parent.samefile(folder):
            return path
    known = list_profiles(kind, extra)
    aliases = dict(_aliases(known))
    if name.lower() in aliases:
        return known[aliases[name.lower()]]
    suggestion = nearest(name, [*known, *aliases])
    problem = f"no {kind} profile has this name" + ("" if suggestion else " (`prfaas-plan profiles list` has them)")
    raise ProfileNotFoundError(Fault(where, key, problem, name, suggestion))


def _aliases(known: Mapping[str, Path]) -> Iterator[tuple[str, str]]:
    for profile_id, path in known.items():
        match = _ALIASES.search(path.read_text(encoding="utf-8", errors="replace"))
        for alias in re.findall(r'"([^"]+)"', match[1]) if match else ():
            yield alias.lower(), profile_id


def is_file(path: str | Path) -> bool:
    """Say whether a path is a regular file; a name that cannot be one is not."""
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


def read_bytes(path: str | Path, error: type[InputError] = InputError, most: int = MOST_BYTES) -> bytes:
    """Read a regular file of at most `most` bytes.

    Raises `error` naming the file if it is missing, a folder, a pipe, too large or unreadable.
    """
    try:
        status = Path(path).stat()
        if not stat.S_ISREG(status.st_mode):
            what = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
            raise error(Fault(str(path), "", f"is {what}"))
        if status.st_size > most:
            raise error(Fault(str(path), "", f"is too large: {status.st_size:,} bytes, at most {most:,} are read"))
        return Path(path).read_bytes()
    except ValueError:
        raise error(Fault(str(path), "", "is no file name")) from None
    except OSError as problem:
        raise error(Fault(str(path), "", problem.strerror or "cannot be read")) from None


def load_toml(path: str | Path, error: type[InputError] = ProfileError) -> dict[str, Any]:
    """Read a TOML file; a file that is missing, unreadable or malformed raises `error` naming it."""
    raw = read_bytes(path, error)
    try:
        return tomllib.loads(raw.removeprefix(b"\xef\xbb\xbf").decode("utf-8"))
    except UnicodeDecodeError as problem:
        raise error(Fault(str(path), "", f"is not UTF-8 text (byte {problem.start})")) from None
    except ValueError as problem:  # also a number of thousands of digits
        raise error(Fault(str(path), "", f"is not valid TOML: {problem}")) from None
    except RecursionError:
        raise error(Fault(str(path), "", "is nested too deeply to be read")) from None


def read_sources(data: Mapping[str, Any], where: str) -> dict[str, Source]:
    """Read the ``[sources.ID]`` tables of a profile; a source lacking title, locator, date or kind is a fault."""
    faults: list[Fault] = []
    found: dict[str, Source] = {}
    tables = data.get("sources", {})
    if not isinstance(tables, Mapping):
        raise ProfileError(Fault(where, "sources", "expected tables [sources.ID]", tables))
    for source_id, table in tables.items():
        key = f"sources.{source_id}"
        if not isinstance(table, Mapping):
            faults.append(Fault(where, key, "expected a table with title, locator, date and kind", table))
            continue
        values = {name: table.get(name) for name in ("title", "locator", "date", "kind")}
        faults += [
            Fault(where, f"{key}.{name}", "expected text", value)
            for name, value in values.items()
            if not isinstance(value, str)
        ]
        if isinstance(values["kind"], str) and values["kind"] not in SOURCE_KINDS:
            problem = "expected one of " + ", ".join(SOURCE_KINDS)
            faults.append(Fault(where, f"{key}.kind", problem, values["kind"], nearest(values["kind"], SOURCE_KINDS)))
        found[source_id] = Source(source_id, **{name: str(value) for name, value in values.items()})
    if faults:
        raise ProfileError(faults)
    return found
